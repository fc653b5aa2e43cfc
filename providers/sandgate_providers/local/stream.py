"""The line into a local sandbox: one end of a socket pair, the other is the sandbox's standard input and output.

A socket rather than two pipes: other processes of the same user cannot open it again through /proc, and it is a little
faster both ways.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import cast

READ_AHEAD_BYTES = 1 << 20
"""What may wait here unread before reading stops; the kernel's buffer fills next, then the runner waits."""

WRITE_AHEAD_BYTES = 256 << 10
"""What may be queued before `drain` waits."""

CLOSE_SECONDS = 1.0
"""How long queued bytes may take to leave when the line is closed."""


class SocketStream(asyncio.Protocol):
    """A `channel.transport.ByteStream` over a connected socket; one reader at a time."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._paused = False
        self._transport: asyncio.Transport | None = None
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()

    @classmethod
    async def over(cls, end: socket.socket) -> SocketStream:
        """Make it over a socket, which belongs to it from now on."""
        loop = asyncio.get_running_loop()
        _, stream = await loop.connect_accepted_socket(cls, end)
        return stream

    @property
    def waiting_bytes(self) -> int:
        """What was received and not read yet."""
        return self._waiting_bytes

    async def read(self) -> bytes:
        """Wait for some bytes; empty once the other end is gone."""
        while not self._chunks:
            if self._lost.is_set():
                return b""
            self._readable.clear()
            await self._readable.wait()
        data = self._chunks.popleft()
        self._waiting_bytes -= len(data)
        if self._paused and self._waiting_bytes <= READ_AHEAD_BYTES // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    def write(self, data: bytes) -> None:
        """Queue bytes. Ignored once the other end is gone."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the queue is short enough for more."""
        await self._writable.wait()

    async def close(self) -> None:
        """Close both directions. Idempotent."""
        transport = self._transport
        if transport is None or self._lost.is_set():
            return
        transport.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._lost.wait()
        except TimeoutError:
            transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; called by the event loop, as all below."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_AHEAD_BYTES)

    def data_received(self, data: bytes) -> None:
        """Keep bytes until they are read."""
        self._chunks.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= READ_AHEAD_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._readable.set()

    def pause_writing(self) -> None:
        """Hold up `drain`."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let `drain` go on."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a broken line is an ended line
        """Wake everybody: what was received stays readable."""
        self._lost.set()
        self._readable.set()
        self._writable.set()
