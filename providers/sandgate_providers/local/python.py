"""Find an interpreter for the runner: the runner is Python, and what is inside must be able to run it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandgate_providers.errors import ProviderMisconfigured
from sandgate_providers.local.jail import PYTHON_PREFIX
from sandgate_providers.local.reach import blocked_at

OLDEST = (3, 9)
"""What the runner's source is written for."""

_USUAL = (Path("/usr/bin/python3"), Path("/usr/local/bin/python3"))
_SYSTEM = Path("/usr")
_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python, and what must be shown for it."""

    program: str
    """Its path as seen by the sandbox."""
    prefix: Path | None = None
    """The folder on the host to show at `jail.PYTHON_PREFIX`; None for one of the system's."""


def python_arguments(interpreter: Interpreter) -> tuple[str, ...]:
    """Give the interpreter, isolated from environment and folder and without site packages; the code is to follow."""
    return (interpreter.program, "-I", "-S")


def find_python(configured: Path | None, uid: int | None, *, jailed: bool) -> Interpreter:
    """Find the first interpreter that is new enough and can be reached. Blocks while it asks them for their version.

    Args:
        configured: The only one to consider; None: the system's, then the one that runs this.
        uid: The user that will run it; None: the gateway's own.
        jailed: Whether it runs in a jail, where only /usr is shown by itself.

    Raises:
        ProviderMisconfigured: there is none; says what is wrong with each.
    """
    problems: list[str] = []
    for path in [configured] if configured is not None else _candidates():
        try:
            return _check(path, uid, jailed=jailed)
        except _Unfit as unfit:
            problems.append(f"{path} {unfit}")
    message = (
        f"python: no interpreter for the runner: {'; '.join(problems)}. Install the system's python3, "
        f"{OLDEST[0]}.{OLDEST[1]} or newer, or set python to one that every user can reach"
    )
    raise ProviderMisconfigured(message)


class _Unfit(Exception):
    """Says why an interpreter cannot be used."""


def _candidates() -> Iterator[Path]:
    yield from _USUAL
    # In a virtual environment sys.executable is a link into it; the installation itself is what must be shown.
    yield Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def _check(path: Path, uid: int | None, *, jailed: bool) -> Interpreter:
    try:
        program = path.resolve(strict=True)
        blocked = blocked_at(program, uid)
    except OSError as error:
        problem = f"cannot be used ({error.strerror})"
        raise _Unfit(problem) from error
    if blocked is not None:
        problem = f"cannot be reached by sandboxes, which run as users of their own and are stopped at {blocked}"
        raise _Unfit(problem)
    version = _version(program)
    if version < OLDEST:
        problem = f"is Python {version[0]}.{version[1]}, which is too old"
        raise _Unfit(problem)
    if not jailed or program.is_relative_to(_SYSTEM):
        return Interpreter(program=str(program))
    prefix = program.parent.parent
    # Only what is an installation and nothing else is shown: the same steps up from /opt/python3 would end at the root.
    if program.parent.name != "bin" or not (prefix / "lib" / f"python{version[0]}.{version[1]}").is_dir():
        problem = "is not in the folder bin of an installation"
        raise _Unfit(problem)
    return Interpreter(program=f"{PYTHON_PREFIX}/bin/{program.name}", prefix=prefix)


def _version(program: Path) -> tuple[int, int]:
    command = [str(program), "-I", "-S", "-c", "import sys; print(sys.version_info[0], sys.version_info[1])"]
    try:
        answer = subprocess.run(  # noqa: S603 - an interpreter that the operator or the system put there
            command, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=True
        )
        major, minor = map(int, answer.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        problem = f"did not tell its version ({error})"
        raise _Unfit(problem) from error
    return major, minor
