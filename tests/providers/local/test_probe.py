"""A provider that cannot isolate refuses to start, and says what to do."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sandgate_providers.errors import ProviderMisconfigured
from sandgate_providers.local import runtime
from sandgate_providers.local.provider import LocalProvider
from sandgate_providers.local.runtime import find_bubblewrap
from sandgate_providers.local.settings import LocalOptions

SYSTEM_PYTHON = Path("/usr/bin/python3")


UNSAFE = """
import os, sys
words = sys.argv
value = {words[place]: words[place + 1] for place in range(len(words) - 1)}
code = next(words[place + 1] for place in range(len(words)) if words[place:][2:3] == ["/run/sandgate/runner"])
os.write(int(value["--info-fd"]), b'{"child-pid": %d}' % os.getpid())
exec(os.read(int(code), 1 << 20))
"""
"""Runs the code as bubblewrap would, without any jail."""


def pretender(place: Path, text: str, interpreter: str = "/bin/sh") -> Path:
    """Make a program that stands in for a bubblewrap of another machine."""
    program = place / "bwrap"
    program.write_text(f"#!{interpreter}\n{text}\n")
    program.chmod(0o755)
    return program


async def refusal(options: LocalOptions) -> str:
    """Start a provider that must not start, twice, for a refusal changes nothing; give what it says."""
    provider = LocalProvider(options)
    with pytest.raises(ProviderMisconfigured) as refused:
        await provider.start()
    with pytest.raises(ProviderMisconfigured):
        await provider.start()
    return str(refused.value)


async def test_no_bubblewrap_no_start(options: LocalOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without bubblewrap nothing is started, unless the configuration says `isolation: none` in so many words."""
    monkeypatch.setattr(runtime, "WHEEL", "no_such_wheel")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "isolation: none" in await refusal(options)
    unconfined = LocalProvider(replace(options, isolation="none"))
    await unconfined.start()
    await unconfined.stop()


async def test_giving_up_isolation_is_loud(options: LocalOptions, caplog: pytest.LogCaptureFixture) -> None:
    """It stands in the log of every start."""
    with caplog.at_level(logging.WARNING, logger="sandgate_providers"):
        provider = LocalProvider(replace(options, isolation="none"))
        await provider.start()
        await provider.stop()
    assert [record.levelname for record in caplog.records if "isolation is none" in record.message] == ["WARNING"]


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("bwrap: No permissions to create new namespace, likely because ...", "user.max_user_namespaces"),
        ("bwrap: setting up uid map: Permission denied", "apparmor_restrict_unprivileged_userns"),
        ("bwrap: Unknown option --disable-userns", "too old"),
        ("bwrap: something that nobody thought of", "isolation: none"),
    ],
)
async def test_what_bubblewrap_says_becomes_advice(options: LocalOptions, place: Path, words: str, advice: str) -> None:
    """The operator reads its words, and what can be done about them."""
    program = pretender(place, f"echo '{words}' >&2; exit 1")
    said = await refusal(replace(options, bubblewrap=program))
    assert words in said
    assert advice in said


async def test_a_bubblewrap_that_does_not_isolate_is_found_out(options: LocalOptions, place: Path) -> None:
    """Whatever it calls itself: what counts is what is seen from inside."""
    program = pretender(place, UNSAFE, str(SYSTEM_PYTHON))
    assert "not isolated" in await refusal(replace(options, bubblewrap=program))


@pytest.mark.usefixtures("as_root")
async def test_a_closed_data_folder_is_named(place: Path) -> None:
    """A gateway that is root finds out at its start that its sandboxes could not reach their folders."""
    (place / "closed").mkdir(mode=0o700)
    assert str(place / "closed") in await refusal(LocalOptions(data_dir=place / "closed/data"))


async def test_a_mount_that_is_missing_is_named(options: LocalOptions, place: Path) -> None:
    """A typing error in a path is not found at the first tool call."""
    said = await refusal(replace(options, read_only_mounts=(place / "missing",)))
    assert re.search(rf"read_only_mounts: {place}/missing", said)


@pytest.mark.usefixtures("as_root")
async def test_a_mount_that_sandboxes_cannot_reach_is_named(options: LocalOptions, place: Path) -> None:
    """A folder of root's alone is not quietly left out."""
    (place / "closed").mkdir(mode=0o700)
    assert "read_only_mounts" in await refusal(replace(options, read_only_mounts=(place / "closed",)))


async def test_a_link_does_not_lead_a_mount_into_the_data_folder(options: LocalOptions, place: Path) -> None:
    """What counts is where the mount ends up."""
    (place / "innocent").symlink_to(place / "data")
    (place / "data").mkdir(mode=0o755)
    assert "read_only_mounts" in await refusal(replace(options, read_only_mounts=(place / "innocent",)))


@pytest.mark.local
def test_a_kernel_without_user_namespaces_is_told(place: Path) -> None:
    """For real: where the kernel refuses them, the message says which switches to look at."""
    if not SYSTEM_PYTHON.exists() or sys.version_info < (3, 11):
        pytest.skip("needs a Python that other users can reach")
    (place / "data").mkdir()
    (place / "data").chmod(0o711)
    root = os.geteuid() == 0
    if root:
        os.chown(place / "data", 58000, 58000)
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from sandgate_providers.local.provider import LocalProvider\n"
        "from sandgate_providers.local.settings import LocalOptions\n"
        "options = LocalOptions(data_dir=Path(sys.argv[1]), bubblewrap=Path(sys.argv[2]))\n"
        "asyncio.run(LocalProvider(options).start())\n"
    )
    bubblewrap = str(find_bubblewrap(None))
    jail = ["--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-user", "--disable-userns"]
    answer = subprocess.run(
        [bubblewrap, *jail, "--", str(SYSTEM_PYTHON), "-c", code, str(place / "data"), bubblewrap],
        env={"PYTHONPATH": str(Path(runtime.__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"},
        user=58000 if root else None,
        group=58000 if root else None,
        extra_groups=[] if root else None,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "ProviderMisconfigured" in answer.stderr
    assert "user.max_user_namespaces" in answer.stderr
