"""Bubblewrap's arguments, as a whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sandgate_providers.local import host
from sandgate_providers.local.host import HostView
from sandgate_providers.local.jail import FILES, HIDDEN, RUNNER, JailDescriptors, JailSpec, jail_arguments

GOLDEN = Path(__file__).parent / "golden"

PATHS = (*FILES, RUNNER, *HIDDEN)
SPEC = JailSpec(
    host=HostView(
        links=(("/bin", "usr/bin"), ("/lib64", "usr/lib64")),
        etc=("/etc/ld.so.cache", "/etc/ssl/certs"),
    ),
    thread_folder=Path("/data/threads/sg-1"),
    temporary_bytes=1000,
    descriptors=JailDescriptors(
        files=tuple((path, 10 + number) for number, path in enumerate(PATHS)), seccomp=30, information=31, gate=32
    ),
)
FULL = replace(
    SPEC,
    host=HostView(folders=("/bin", "/lib")),
    read_only_mounts=(Path("/srv/models"),),
    python_prefix=Path("/usr/local/python"),
)


def lines(arguments: list[str]) -> str:
    """Write arguments one option a line, so that a change is easy to read."""
    return " ".join(arguments).replace(" --", "\n--") + "\n"


@pytest.mark.parametrize(("name", "spec"), [("plain", SPEC), ("full", FULL)])
def test_the_arguments_are_these(name: str, spec: JailSpec) -> None:
    """Whoever changes the jail sees the whole of it change, and says so."""
    assert lines(jail_arguments(spec)) == (GOLDEN / f"{name}_jail.txt").read_text()


def test_nothing_of_the_host_is_writable_but_the_thread_folder() -> None:
    """There is one `--bind`, and it is the thread's."""
    arguments = jail_arguments(FULL)
    writable = [arguments[place + 1] for place, word in enumerate(arguments) if word in ("--bind", "--dev-bind")]
    assert writable == ["/data/threads/sg-1"]


def test_the_root_is_made_read_only_after_all_mounts() -> None:
    """A later mount would not be possible, an earlier remount would leave a gap."""
    arguments = jail_arguments(FULL)
    last_mount = max(
        place for place, word in enumerate(arguments) if word in ("--bind", "--ro-bind", "--tmpfs", "--dir")
    )
    root = [
        place for place, word in enumerate(arguments[:-1]) if word == "--remount-ro" and arguments[place + 1] == "/"
    ]
    assert len(root) == 1
    assert root[0] > last_mount


def test_a_merged_system_is_shown_as_links(tmp_path: Path) -> None:
    """On a merged system /bin is a link; on an older one it is a folder of its own."""
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "lib").mkdir()
    assert host.look(tmp_path) == HostView(links=(("/bin", "usr/bin"),), folders=("/lib",))


def test_only_the_harmless_part_of_etc_is_shown(tmp_path: Path) -> None:
    """Accounts, keys and whatever a program put there stay outside, even what is named like a shown one."""
    etc = tmp_path / "etc"
    (etc / "ssl/certs").mkdir(parents=True)
    (etc / "ssl/private").mkdir()
    for name in ("shadow", "passwd", "ld.so.cache", "ld.so.cache~", "mime.types", "hosts", "secret.conf"):
        (etc / name).touch()
    (etc / "python3.12").mkdir()
    (etc / "localtime").symlink_to("/no/such/zone")
    assert host.look(tmp_path).etc == ("/etc/ld.so.cache", "/etc/mime.types", "/etc/ssl/certs", "/etc/python3.12")
