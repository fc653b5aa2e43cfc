"""A scripted provider for fast tests: sandboxes without a process, whose calls do what a function says.

It keeps the same contract as the real ones and passes the same conformance suite where that applies. It isolates
nothing, so no configuration can name it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from sandgate_providers.channel.types import Chunk, Command, End, FileOperation, ProcessEnd, Stream
from sandgate_providers.errors import ChannelClosed, SandboxLost
from sandgate_providers.types import Capabilities, FactSource, IsolationFact, SandboxSpec, SandboxStatus

WINDOW_BYTES = 1024 * 1024

Work = Command | FileOperation
Script = Callable[[Work, "FakeCall"], Awaitable[End]]
"""Plays one call: may emit output, read input, wait for `cancelled`, and gives the end."""


def exited(code: int = 0) -> End:
    """Make the end of a process that exited by itself."""
    return End(reason=ProcessEnd.EXITED, exit_code=code)


async def succeed(_work: Work, _call: FakeCall) -> End:
    """Play a call that says nothing and exits with 0."""
    return exited()


class FakeCall:
    """Implements `contract.Call`, and is what a script plays with."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        """Set when the caller wants the call to end; a script that ignores it is like a command that ignores TERM."""
        self._chunks: deque[Chunk] = deque()
        self._held = 0
        self._discard = False
        self._input: deque[bytes] = deque()
        self._input_open = True
        self._end: End | None = None
        self._condition = asyncio.Condition()

    async def emit(self, data: bytes, stream: Stream = Stream.STDOUT) -> None:
        """Write output; waits while the window is full."""
        async with self._condition:
            await self._condition.wait_for(lambda: self._discard or self._held < WINDOW_BYTES)
            if not self._discard:
                self._chunks.append(Chunk(stream, data))
                self._held += len(data)
            self._condition.notify_all()

    async def read_input(self) -> bytes:
        """Wait for input; empty at its end."""
        async with self._condition:
            await self._condition.wait_for(lambda: bool(self._input) or not self._input_open)
            data = self._input.popleft() if self._input else b""
            self._condition.notify_all()
            return data

    async def finish(self, end: End) -> None:
        """End the call, unless it has ended."""
        async with self._condition:
            self._end = self._end or end
            self._condition.notify_all()

    async def chunks(self) -> AsyncIterator[Chunk]:
        """Yield output until the end."""
        while True:
            async with self._condition:
                await self._condition.wait_for(lambda: bool(self._chunks) or self._end is not None)
                if not self._chunks:
                    return
                chunk = self._chunks.popleft()
            yield chunk
            async with self._condition:
                self._held -= len(chunk.data)
                self._condition.notify_all()

    async def send(self, data: bytes) -> None:
        """Send input."""
        async with self._condition:
            await self._condition.wait_for(lambda: sum(map(len, self._input)) < WINDOW_BYTES or self._end is not None)
            self._input.append(data)
            self._condition.notify_all()

    async def close_input(self) -> None:
        """End the input."""
        async with self._condition:
            self._input_open = False
            self._condition.notify_all()

    async def end(self) -> End:
        """Wait for the end; unread output is discarded."""
        async with self._condition:
            self._discard = True
            self._chunks.clear()
            self._condition.notify_all()
            await self._condition.wait_for(lambda: self._end is not None)
            assert self._end is not None
            return self._end

    async def cancel(self) -> None:
        """Ask for the end."""
        self.cancelled.set()


class FakeChannel:
    """Implements `contract.Channel`: each call is a task that plays the script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._closed = asyncio.Event()
        self._lost = False
        self._calls: set[FakeCall] = set()

    @contextlib.asynccontextmanager
    async def open(self, work: Work) -> AsyncIterator[FakeCall]:
        """Play a call."""
        self._check()
        call = FakeCall()
        self._calls.add(call)
        player = asyncio.create_task(self._play(work, call), name="fake call")
        try:
            yield call
        finally:
            await call.cancel()
            try:
                await asyncio.shield(call.end())
            finally:
                self._calls.discard(call)
                player.cancel()
                await asyncio.wait([player])

    async def ping(self) -> float:
        """Answer at once."""
        self._check()
        return 0.0

    async def wait_closed(self) -> None:
        """Wait until the line is closed."""
        await self._closed.wait()

    async def close(self) -> None:
        """Close the line; calls that run are lost."""
        self._closed.set()
        for call in list(self._calls):
            await call.finish(End(reason=ProcessEnd.SANDBOX_LOST))

    async def lose(self) -> None:
        """Die, as a sandbox does whose process was killed."""
        self._lost = True
        await self.close()

    def _check(self) -> None:
        if self._lost:
            raise SandboxLost("the sandbox was gone before the call; nothing ran")
        if self._closed.is_set():
            raise ChannelClosed("the channel was closed")

    async def _play(self, work: Work, call: FakeCall) -> None:
        try:
            async with asyncio.timeout(work.timeout_seconds):
                end = await self.script(work, call)
        except TimeoutError:
            end = End(reason=ProcessEnd.TIMEOUT)
        await call.finish(end)


class FakeSandbox:
    """Implements `contract.Sandbox`."""

    def __init__(self, spec: SandboxSpec, script: Script) -> None:
        self.spec = spec
        self.channel = FakeChannel(script)
        self.out_of_memory_kills = 0
        """What `status` says; a script may raise it."""

    @property
    def isolation(self) -> Sequence[IsolationFact]:
        """Nothing is isolated, and it says so."""
        return (IsolationFact(name="none", enforced=False, detail="a fake", source=FactSource.PROVIDER),)

    async def status(self) -> SandboxStatus:
        """Say how it fares."""
        return SandboxStatus(
            alive=not self.channel._closed.is_set(),  # noqa: SLF001 - one fake in two classes
            out_of_memory_kills=self.out_of_memory_kills,
        )

    async def destroy(self) -> None:
        """End it."""
        await self.channel.close()


class FakeProvider:
    """Implements `contract.SandboxProvider`; keeps every sandbox that it made for the test to look at."""

    name = "fake"
    capabilities = Capabilities(thread_folder_mounted=False, reattach=False)

    def __init__(self, script: Script = succeed) -> None:
        self.script = script
        self.made: list[FakeSandbox] = []
        self.fail_with: Exception | None = None
        """Raised by the next `acquire`, once."""

    async def start(self) -> None:
        """Need nothing."""

    async def acquire(self, spec: SandboxSpec) -> FakeSandbox:
        """Make a sandbox."""
        if self.fail_with is not None:
            error, self.fail_with = self.fail_with, None
            raise error
        sandbox = FakeSandbox(spec, self.script)
        self.made.append(sandbox)
        return sandbox

    async def stop(self) -> None:
        """End every sandbox."""
        for sandbox in self.made:
            await sandbox.destroy()
