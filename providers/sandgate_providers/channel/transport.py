"""The duplex byte stream that a provider offers: all that a channel needs of it."""

from __future__ import annotations

from typing import Protocol


class ByteStream(Protocol):
    """Bytes in order, both ways. Nothing relies on half-close or on message borders."""

    async def read(self) -> bytes:
        """Wait for some bytes; empty once the other end is gone. Never raises for a broken line."""
        ...

    def write(self, data: bytes) -> None:
        """Queue bytes. Ignored once the other end is gone."""
        ...

    async def drain(self) -> None:
        """Wait until the queue is short enough for more (256 KiB)."""
        ...

    async def close(self) -> None:
        """Close both directions. Idempotent."""
        ...
