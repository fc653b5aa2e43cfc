"""The line over a socket pair, against a plain socket at the other end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from sandgate_providers.local.stream import READ_AHEAD_BYTES, WRITE_AHEAD_BYTES, SocketStream

Line = tuple[SocketStream, socket.socket]


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    """Give a stream and the other end, which does not block."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)  # noqa: FBT003 - the standard library takes it by place
    stream = await SocketStream.over(ours)
    yield stream, theirs
    await stream.close()
    theirs.close()


async def receive(theirs: socket.socket, size: int) -> bytes:
    """Receive so many bytes at the other end."""
    data = bytearray()
    while len(data) < size:
        data += await asyncio.get_running_loop().sock_recv(theirs, 1 << 16)
    return bytes(data)


async def test_bytes_go_both_ways_in_order(line: Line) -> None:
    """What is sent is what arrives."""
    stream, theirs = line
    stream.write(b"one")
    stream.write(b"two")
    assert await receive(theirs, 6) == b"onetwo"
    await asyncio.get_running_loop().sock_sendall(theirs, b"three")
    assert await stream.read() == b"three"


async def test_what_was_sent_before_the_end_is_read(line: Line) -> None:
    """The other end's last words come before the empty answer, which then stays."""
    stream, theirs = line
    await asyncio.get_running_loop().sock_sendall(theirs, b"last words")
    theirs.close()
    assert await stream.read() == b"last words"
    assert await stream.read() == b""
    assert await stream.read() == b""


async def test_writing_to_a_dead_line_is_ignored(line: Line) -> None:
    """Nothing is raised and nothing hangs: the reader hears of the end."""
    stream, theirs = line
    theirs.close()
    assert await stream.read() == b""
    stream.write(b"x" * (2 * WRITE_AHEAD_BYTES))
    async with asyncio.timeout(5):
        await stream.drain()


async def test_a_slow_reader_holds_the_other_end_up(line: Line) -> None:
    """No more than the window and the kernel's buffer waits here, and all of it arrives in the end."""
    stream, theirs = line
    size = 8 * READ_AHEAD_BYTES
    sender = asyncio.create_task(asyncio.get_running_loop().sock_sendall(theirs, b"x" * size))
    received = 0
    async with asyncio.timeout(20):
        while received < size:
            data = await stream.read()
            received += len(data)
            assert stream.waiting_bytes <= 2 * READ_AHEAD_BYTES
    await sender
    assert received == size


async def test_a_slow_other_end_holds_drain_up(line: Line) -> None:
    """Who writes much waits until it was taken."""
    stream, theirs = line
    stream.write(b"x" * (4 * WRITE_AHEAD_BYTES))
    waiting = asyncio.create_task(stream.drain())
    await asyncio.sleep(0)
    assert not waiting.done()
    await receive(theirs, 4 * WRITE_AHEAD_BYTES)
    async with asyncio.timeout(5):
        await waiting


async def test_closing_does_not_wait_for_an_end_that_takes_nothing(line: Line) -> None:
    """Bytes that nobody takes are given up; closing twice is closing once; a reader is woken."""
    stream, _ = line
    reader = asyncio.create_task(stream.read())
    stream.write(b"x" * (4 * WRITE_AHEAD_BYTES))
    async with asyncio.timeout(5):
        await stream.close()
        await stream.close()
        assert await reader == b""
