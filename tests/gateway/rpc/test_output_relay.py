"""Output on its way to a stream."""

from __future__ import annotations

import asyncio

from sandgate_gateway.domain.call import Notice
from sandgate_gateway.domain.result import OutputChunk, OutputStream
from sandgate_gateway.rpc.output_relay import MAX_CHUNK_BYTES, MAX_ITEMS, OutputRelay


def chunk(data: bytes = b"x") -> OutputChunk:
    """Make a chunk."""
    return OutputChunk(OutputStream.STDOUT, data)


async def read(relay: OutputRelay) -> list[OutputChunk | Notice]:
    """Read to the end."""
    return [item async for item in relay.items()]


async def test_everything_comes_in_order_and_then_ends() -> None:
    """Chunks and notices keep their order; what came before the end is still read after it."""
    relay = OutputRelay()
    items: list[OutputChunk | Notice] = [chunk(b"1"), Notice(code="c", message="m"), chunk(b"2")]
    for item in items:
        await relay.put(item)
    relay.end()
    assert await read(relay) == items


async def test_a_slow_reader_holds_up_the_writer() -> None:
    """At most eight items wait; the writer goes on as the reader reads."""
    relay = OutputRelay()
    put = 0

    async def write() -> None:
        nonlocal put
        for _ in range(MAX_ITEMS * 4):
            await relay.put(chunk())
            put += 1
        relay.end()

    writer = asyncio.create_task(write())
    for _ in range(100):
        await asyncio.sleep(0)
    assert put == MAX_ITEMS
    assert len(await read(relay)) == MAX_ITEMS * 4
    await writer


async def test_a_reader_that_leaves_frees_the_writer() -> None:
    """After that everything is discarded, so the tool can go on for others who wait for its end."""
    relay = OutputRelay()
    for _ in range(MAX_ITEMS):
        await relay.put(chunk())
    blocked = asyncio.create_task(relay.put(chunk()))
    await asyncio.sleep(0)
    assert not blocked.done()
    relay.leave()
    async with asyncio.timeout(5):
        await blocked
        for _ in range(MAX_ITEMS * 4):
            await relay.put(chunk())


async def test_large_chunks_are_split() -> None:
    """No message is larger than the contract says, and no byte is lost."""
    relay = OutputRelay()
    data = bytes(range(256)) * 4096
    await relay.put(chunk(data))
    relay.end()
    parts = [item.data for item in await read(relay) if isinstance(item, OutputChunk)]
    assert b"".join(parts) == data
    assert max(map(len, parts)) == MAX_CHUNK_BYTES
