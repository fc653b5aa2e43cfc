"""Tells whether the memory limit ended a call: the runner sees a KILL or nothing, only the provider knows why."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import time
from collections.abc import Callable

from sandgate_providers.channel.types import End, ProcessEnd
from sandgate_providers.contract import Sandbox
from sandgate_providers.errors import ProviderError

STATUS_SECONDS = 2.0
"""How long a provider may take to say how a sandbox fares; the call's answer waits for it."""

BURST_SECONDS = 1.0
"""Calls that are killed so soon after each other may be victims of one kill: the kernel can end a whole group."""

SHELL_KILLED = 128 + signal.SIGKILL
"""What a shell exits with when the command that it waited for was killed."""


class MemoryKills:
    """Watches one sandbox's count of kills by the memory limit.

    The count is read only when a call ended as if it had been killed, so a kill that nobody was told of (of a
    background process) is charged to the next call that ends that way.
    """

    def __init__(self, sandbox: Sandbox, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._sandbox = sandbox
        self._clock = clock
        self._seen = 0
        self._rose_at = float("-inf")
        self._asking = asyncio.Lock()

    async def start(self) -> None:
        """Read the count before the first call; an adopted sandbox may have a past."""
        await self._rose()
        self._rose_at = float("-inf")

    async def explain(self, end: End) -> End:
        """Give the end with its true reason."""
        if not _looks_killed(end) or not await self.happened():
            return end
        return dataclasses.replace(end, reason=ProcessEnd.OOM, exit_code=None, signal=None)

    async def happened(self) -> bool:
        """Tell whether the memory limit killed something since this was last asked, or a moment ago."""
        async with self._asking:
            return await self._rose() or self._clock() - self._rose_at < BURST_SECONDS

    async def _rose(self) -> bool:
        try:
            async with asyncio.timeout(STATUS_SECONDS):
                status = await self._sandbox.status()
        except (ProviderError, TimeoutError):
            return False  # a provider that cannot tell must not hide how the call ended
        if status.out_of_memory_kills <= self._seen:
            return False
        self._seen = status.out_of_memory_kills
        self._rose_at = self._clock()
        return True


def _looks_killed(end: End) -> bool:
    match end.reason:
        case ProcessEnd.SIGNALED:
            return end.signal == signal.SIGKILL
        case ProcessEnd.EXITED:
            return end.exit_code == SHELL_KILLED
        case ProcessEnd.SANDBOX_LOST:
            return True
        case _:
            return False
