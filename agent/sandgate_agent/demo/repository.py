"""Which files of a repository the demo sends into the sandbox."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

MAX_FILES = 10_000
MAX_FILE_BYTES = 1024 * 1024
"""Larger files are data, not source; they are left out and named."""

GIT_SECONDS = 30.0

NOT_SOURCE = frozenset({"__pycache__", "node_modules", "venv", "dist", "build", "target"})
"""Folders that are not walked where there is no git to say what is tracked; those with a dot neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to send."""

    files: tuple[str, ...]
    too_large: tuple[str, ...]


async def select(folder: Path) -> Selection:
    """List what git tracks, or, without git, the files that look like source.

    Raises:
        ValueError: there are none, or too many.
    """
    names = await _tracked(folder)
    if names is None:
        names = await asyncio.to_thread(_walked, folder)
    sizes = await asyncio.to_thread(_sizes, folder, names)
    files = tuple(name for name in names if sizes.get(name, 0) <= MAX_FILE_BYTES)
    if not files:
        raise ValueError(f"there are no files in {folder}")
    if len(files) > MAX_FILES:
        raise ValueError(f"{folder} has {len(files)} files; the demo takes {MAX_FILES} at most")
    return Selection(files=files, too_large=tuple(name for name in names if name not in set(files)))


async def revision(folder: Path) -> str:
    """Name the revision that is checked out; `unknown` without git."""
    found = await _git(folder, "rev-parse", "--short=12", "HEAD")
    return "unknown" if found is None else found.decode().strip()


async def _tracked(folder: Path) -> list[str] | None:
    listed = await _git(folder, "ls-files", "-z")
    return [os.fsdecode(name) for name in listed.split(b"\0") if name] if listed else None


async def _git(folder: Path, *arguments: str) -> bytes | None:
    """Run git and return what it prints; None when it is not there or says no."""
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            *arguments,
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except FileNotFoundError:
        return None
    try:
        async with asyncio.timeout(GIT_SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return output if process.returncode == 0 else None


def _walked(folder: Path) -> list[str]:
    names: list[str] = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in NOT_SOURCE and not name.startswith("."))
        names += [str((Path(place) / name).relative_to(folder)) for name in files if not name.startswith(".")]
        if len(names) > MAX_FILES:
            break
    return sorted(names)


def _sizes(folder: Path, names: list[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name in names:
        try:
            sizes[name] = os.lstat(folder / name).st_size
        except FileNotFoundError:
            # Tracked but deleted; the upload leaves it out as well.
            continue
    return sizes
