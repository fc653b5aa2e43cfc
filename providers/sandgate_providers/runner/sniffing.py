"""Telling text from other files."""

from __future__ import annotations

SNIFFED_BYTES = 8192
"""How much of a file decides; git looks at about as much."""


def is_binary(data: bytes) -> bool:
    """Tell whether a file that begins like this is not text: a NUL byte in its first 8,192."""
    return b"\0" in data[:SNIFFED_BYTES]
