"""A runner as a plain process of this machine, so that its line can be spoken to, cut and forged."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from sandgate_providers.runner.bundle import runner_source

SOURCE = runner_source()


class ProcessStream:
    """Implements `transport.ByteStream` over the pipes of a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._in = process.stdin
        self._out = process.stdout

    async def read(self) -> bytes:
        """Read some bytes."""
        return await self._out.read(256 * 1024)

    def write(self, data: bytes) -> None:
        """Queue bytes."""
        self._in.write(data)

    async def drain(self) -> None:
        """Wait for the queue."""
        with contextlib.suppress(ConnectionError):
            await self._in.drain()

    async def close(self) -> None:
        """Close the line and wait for the runner's own end, which shows that it notices."""
        self._in.close()
        async with asyncio.timeout(10):
            await self.process.wait()


@pytest.fixture
async def start_runner() -> AsyncIterator[Callable[[], object]]:
    """Give a function that starts a runner, by another program if words of one are given, and gives its line."""
    streams: list[ProcessStream] = []

    async def start(*prefix: str) -> ProcessStream:
        argv = (*prefix, "/usr/bin/python3", "-I", "-S", "-c", SOURCE)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe)
        stream = ProcessStream(process)
        streams.append(stream)
        return stream

    yield start
    for stream in streams:
        if stream.process.returncode is None:
            await stream.close()
        stream.process._transport.close()  # type: ignore[attr-defined]  # asyncio leaves it to the collector
