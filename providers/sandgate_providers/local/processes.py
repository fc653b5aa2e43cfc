"""The processes of this machine, read from /proc."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process, as it was when it was looked at."""

    pid: int
    parent: int
    uid: int
    gone: bool
    """Ended, and only waits for its parent to notice."""


def processes() -> Iterator[Process]:
    """List all that can be seen; those that end meanwhile are left out. Blocks for some milliseconds."""
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            lines = (folder / "status").read_text(encoding="utf-8", errors="replace").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
        yield Process(
            pid=int(folder.name),
            parent=int(fields["PPid"][0]),
            uid=int(fields["Uid"][0]),
            # A process whose first thread has ended while others go on looks like one that has ended.
            gone=fields["State"][0] in ("Z", "X") and int(fields.get("Threads", ["0"])[0]) <= 1,
        )
