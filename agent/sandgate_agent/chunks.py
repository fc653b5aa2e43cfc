"""The parts in which a file is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

UPLOAD_CHUNK_BYTES = 256 * 1024
"""A quarter of what the contract allows for one part, so that other calls on the line are not held up."""


def chunks_of(source: bytes | Path) -> Iterator[bytes]:
    """Cut bytes, or the content of a file, into parts. A file is read while it is sent, and blocks."""
    if isinstance(source, bytes):
        for start in range(0, len(source), UPLOAD_CHUNK_BYTES):
            yield source[start : start + UPLOAD_CHUNK_BYTES]
        return
    with source.open("rb") as file:
        while chunk := file.read(UPLOAD_CHUNK_BYTES):
            yield chunk
