"""Lines of a file from its end to its start, in bounded memory. Blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

CHUNK_BYTES = 1 << 18
LONGEST_LINE_BYTES = 4 << 20
"""Far above any record (a request is below 4 MiB, and only its digests are stored); what is longer is no record."""


@dataclass(frozen=True, slots=True)
class Place:
    """One whole line."""

    start: int
    end: int
    """Behind its line feed."""
    data: bytes
    """With its line feed; empty for a line of more than 4 MiB, so that a broken file cannot fill the memory."""


def lines_backwards(descriptor: int, end: int | None = None) -> Iterator[Place]:
    """Yield each whole line, the last one first. What follows the last line feed is half a line and left out.

    Args:
        descriptor: open for reading; its position does not matter.
        end: begin before this offset; None: at the end of the file.
    """
    size = os.fstat(descriptor).st_size
    position = size if end is None else min(end, size)
    line_end = -1  # behind the line feed of the line whose start is looked for; below zero before the first line feed
    rest = b""  # what was read of that line
    too_long = False
    while position > 0:
        start = max(0, position - CHUNK_BYTES)
        chunk = os.pread(descriptor, position - start, start)
        if len(chunk) < position - start:
            return  # the file was cut while it was read
        block = chunk + rest
        limit = len(block)
        while (feed := block.rfind(b"\n", 0, limit - 1 if line_end >= 0 else limit)) >= 0:
            if line_end >= 0:
                yield Place(start + feed + 1, line_end, b"" if too_long else block[feed + 1 : limit])
            limit, line_end, too_long = feed + 1, start + feed + 1, False
        rest = block[:limit] if line_end >= 0 else b""
        if len(rest) > LONGEST_LINE_BYTES:
            rest, too_long = b"\n", True
        position = start
    if line_end > 0:
        yield Place(0, line_end, b"" if too_long else rest)
