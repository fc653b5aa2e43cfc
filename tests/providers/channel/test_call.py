"""A call at the gateway, fed with frames by hand."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from sandgate_providers.channel.call import RunnerCall
from sandgate_providers.channel.types import Stream
from sandgate_providers.runner import frames


@pytest.mark.parametrize("streams", [(frames.STDOUT,), (frames.STDOUT, frames.STDERR)])
def test_tiny_pieces_of_output_take_little_room(streams: tuple[int, ...]) -> None:
    """A command that writes byte by byte while nobody reads fills the window, not the gateway's memory."""
    call = RunnerCall(bytes(16), lambda *_: None, operation=False, with_input=False)
    pieces = [n.to_bytes(3, "big") for n in range(frames.WINDOW_BYTES // 3)]
    tracemalloc.start()
    try:
        for n, piece in enumerate(pieces):
            call.take(streams[n % len(streams)], piece)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 * frames.WINDOW_BYTES
    call.lose()
    got = dict.fromkeys(Stream, b"")

    async def read() -> None:
        async for chunk in call.chunks():
            assert len(chunk.data) <= frames.CHUNK_BYTES
            got[chunk.stream] += chunk.data

    asyncio.run(read())
    assert got[Stream.STDOUT] == b"".join(pieces[:: len(streams)])
    assert got[Stream.STDERR] == (b"".join(pieces[1::2]) if len(streams) > 1 else b"")


async def test_waiting_with_a_time_limit_leaves_nothing_behind() -> None:
    """Whoever asks a silent call for its end again and again does not make it grow."""
    call = RunnerCall(bytes(16), lambda *_: None, operation=False, with_input=False)
    for _ in range(20):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await call.end()
    assert not call._changed


async def test_input_for_a_call_without_is_a_mistake() -> None:
    """Input is refused here: the runner would take it for a forgery and end the line."""
    sent: list[int] = []
    call = RunnerCall(bytes(16), lambda kind, *_: sent.append(kind), operation=False, with_input=False)
    with pytest.raises(ValueError, match="without input"):
        await call.send(b"x")
    await call.close_input()
    assert sent == []
