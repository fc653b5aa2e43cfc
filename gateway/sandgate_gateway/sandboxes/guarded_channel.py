"""The channel as tools get it: the provider's own, with the manager looking on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol

from sandgate_gateway.sandboxes.memory_kills import MemoryKills
from sandgate_providers.channel.types import Chunk, Command, End, FileOperation, ProcessEnd
from sandgate_providers.contract import Call, Channel
from sandgate_providers.errors import CallRefused, ChannelClosed, SandboxLost


class Watcher(Protocol):
    """Who wants to know what happens on a channel."""

    def began(self) -> None:
        """Note that something may run from now on."""
        ...

    def never_ran(self) -> None:
        """Take the last `began` back: the sandbox did not take the call."""
        ...

    def lost(self) -> None:
        """Note that the sandbox is dead."""
        ...


class GuardedCall:
    """A call that explains its end."""

    def __init__(self, call: Call, watcher: Watcher, kills: MemoryKills) -> None:
        self._call = call
        self._watcher = watcher
        self._kills = kills
        self._end: End | None = None

    def chunks(self) -> AsyncIterator[Chunk]:
        """See `Call.chunks`."""
        return self._call.chunks()

    async def send(self, data: bytes) -> None:
        """See `Call.send`."""
        await self._call.send(data)

    async def close_input(self) -> None:
        """See `Call.close_input`."""
        await self._call.close_input()

    async def end(self) -> End:
        """See `Call.end`. A kill by the memory limit is called by its name; a loss is passed on before this returns."""
        if self._end is None:
            end = await self._call.end()
            if end.reason is ProcessEnd.SANDBOX_LOST:
                self._watcher.lost()
            self._end = await self._kills.explain(end)
        return self._end

    async def cancel(self) -> None:
        """See `Call.cancel`."""
        await self._call.cancel()


class _Opening:
    """Enters and leaves one call."""

    def __init__(self, opening: AbstractAsyncContextManager[Call], watcher: Watcher, kills: MemoryKills) -> None:
        self._opening = opening
        self._watcher = watcher
        self._kills = kills

    async def __aenter__(self) -> Call:
        self._watcher.began()
        try:
            call = await self._opening.__aenter__()
        except (CallRefused, ChannelClosed):
            self._watcher.never_ran()
            raise
        except SandboxLost:
            self._watcher.never_ran()
            self._watcher.lost()
            raise
        return GuardedCall(call, self._watcher, self._kills)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return await self._opening.__aexit__(kind, error, trace)
        except CallRefused:  # the refusal may come after the call was sent
            self._watcher.never_ran()
            raise


class GuardedChannel:
    """The channel of one use of a sandbox."""

    def __init__(self, channel: Channel, watcher: Watcher, kills: MemoryKills) -> None:
        self._channel = channel
        self._watcher = watcher
        self._kills = kills

    def open(self, work: Command | FileOperation) -> AbstractAsyncContextManager[Call]:
        """See `Channel.open`."""
        return _Opening(self._channel.open(work), self._watcher, self._kills)

    async def ping(self) -> float:
        """See `Channel.ping`."""
        return await self._channel.ping()

    async def wait_closed(self) -> None:
        """See `Channel.wait_closed`."""
        await self._channel.wait_closed()

    async def close(self) -> None:
        """Refuse: only the manager ends a sandbox."""
        raise AssertionError("a tool must not close the channel; leaving its call is enough")
