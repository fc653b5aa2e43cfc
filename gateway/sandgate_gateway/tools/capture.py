"""Keeps the head and the tail of an output, however long it is."""

from __future__ import annotations

from sandgate_gateway.domain.result import Capture

HEAD_BYTES = 128 * 1024
"""Kept of the beginning. With the tail, and for two outputs, a reply stays at 512 KiB."""
TAIL_BYTES = 128 * 1024
"""Kept of the end."""


class OutputCapture:
    """Takes bytes as they come, in memory of at most the head and twice the tail."""

    def __init__(self, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self._total += len(data)
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) > self._tail_bytes:
            data = data[len(data) - self._tail_bytes :]
        self._tail += data
        if len(self._tail) > 2 * self._tail_bytes:
            del self._tail[: len(self._tail) - self._tail_bytes]

    def result(self) -> Capture:
        """Give what was kept, with exact counts."""
        tail = self._tail[max(0, len(self._tail) - self._tail_bytes) :]
        data = bytes(self._head + tail)
        gap = len(self._head) if len(data) < self._total else 0
        return Capture(data=data, total_bytes=self._total, gap_bytes=gap)
