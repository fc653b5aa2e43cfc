"""Sending a folder into a sandbox, file by file."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sandgate_agent.client import GatewayClient
from sandgate_agent.errors import Misconfigured

CONCURRENCY = 8
"""Files under way at once; more gain nothing on one connection and take the gateway's places from others."""

MAX_FOLDER_BYTES = 64 * 1024 * 1024
"""A folder above this is refused before anything is sent, unless the caller allows more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """What was sent."""

    files: int
    size_bytes: int
    skipped: tuple[str, ...]
    """Names of what is no ordinary file: links, sockets, folders of other repositories."""


async def upload_folder(
    client: GatewayClient,
    *,
    thread: str,
    folder: Path,
    files: Iterable[str],
    target: str,
    max_bytes: int = MAX_FOLDER_BYTES,
) -> Upload:
    """Send these files of a folder into a thread's sandbox, keeping their places below `target`.

    The first file that cannot be sent cancels the others; what was sent stays.

    Args:
        client: how to reach the gateway.
        thread: whose sandbox gets them.
        folder: a folder of this machine.
        files: paths relative to it, with `/` between their parts. Symbolic links are not followed but skipped.
        target: absolute path of a folder inside the sandbox.
        max_bytes: how much they may be in all.

    Raises:
        Misconfigured: a path leaves the folder, or they are larger than allowed; nothing was sent.
        SandgateError: a file could not be sent.
        OSError: a file could not be read.
    """
    chosen, skipped = await asyncio.to_thread(_choose, folder, list(files))
    total = sum(item.size_bytes for item in chosen)
    if total > max_bytes:
        raise Misconfigured(f"the files of {folder} have {total} bytes, more than the {max_bytes} that are allowed")
    places = asyncio.Semaphore(CONCURRENCY)

    async def send(item: _Item) -> None:
        async with places:
            await client.upload(
                thread=thread,
                path=str(PurePosixPath(target) / item.name),
                source=folder / item.name,
                executable=item.executable,
            )

    try:
        async with asyncio.TaskGroup() as group:
            for item in chosen:
                group.create_task(send(item))
    except ExceptionGroup as failures:
        # The first one cancelled the others; it is the one that tells what is wrong.
        raise failures.exceptions[0] from None
    return Upload(files=len(chosen), size_bytes=total, skipped=tuple(skipped))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    name: str
    size_bytes: int
    executable: bool


def _choose(folder: Path, names: list[str]) -> tuple[list[_Item], list[str]]:
    chosen: list[_Item] = []
    skipped: list[str] = []
    root = folder.resolve()
    for name in sorted(set(names)):
        parts = PurePosixPath(name).parts
        if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
            raise Misconfigured(f"the path {name!r} leaves the folder")
        try:
            facts = os.lstat(folder / name)
        except FileNotFoundError:
            # Listed (by git, say) but deleted since.
            skipped.append(name)
            continue
        # A folder on the way may be a link as well.
        if stat.S_ISREG(facts.st_mode) and (root / name).resolve() == root / name:
            chosen.append(_Item(name=name, size_bytes=facts.st_size, executable=bool(facts.st_mode & stat.S_IXUSR)))
        else:
            skipped.append(name)
    return chosen, skipped
