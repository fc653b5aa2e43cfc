"""One local sandbox that lives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sandgate_providers.channel.client import RunnerChannel
from sandgate_providers.contract import Channel
from sandgate_providers.errors import ProviderUnavailable
from sandgate_providers.local.cgroup import Cgroups, SandboxCgroup
from sandgate_providers.local.process import SandboxProcess
from sandgate_providers.types import IsolationFact, SandboxSpec, SandboxStatus

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a sandbox is made of."""

    spec: SandboxSpec
    process: SandboxProcess
    line: RunnerChannel
    channel: Channel
    """What callers use: the line itself, or something over it."""
    isolation: tuple[IsolationFact, ...]
    cgroups: Cgroups
    cgroup: SandboxCgroup
    end_strays: Callable[[bool], None] | None = None
    """Ends what the runner started, before the runner itself ends; told whether that still runs. Blocks. None in a
    jail, where the kernel does it."""


class LocalSandbox:
    """Implements `contract.Sandbox` on this machine."""

    def __init__(self, parts: Parts, forget: Callable[[LocalSandbox], None]) -> None:
        """Take the parts; `forget` is called once, when all of it is gone."""
        self._parts = parts
        self._forget = forget
        self._kills = 0
        self._ending: asyncio.Task[None] | None = None

    @property
    def spec(self) -> SandboxSpec:
        """What it was made from."""
        return self._parts.spec

    @property
    def channel(self) -> Channel:
        """The line into it."""
        return self._parts.channel

    @property
    def isolation(self) -> Sequence[IsolationFact]:
        """What is in force."""
        return self._parts.isolation

    @property
    def pid(self) -> int:
        """The process on the host that stands for it: bubblewrap, or the runner itself without a jail."""
        return self._parts.process.pid

    @property
    def usable(self) -> bool:
        """Whether it takes calls: it runs, its line stands, and nobody has begun to destroy it."""
        return self._ending is None and self._parts.process.running and self._parts.line.alive

    async def status(self) -> SandboxStatus:
        """See how it fares. After its end the last known count of kills stays."""
        if self._ending is None:
            self._kills = await asyncio.to_thread(self._parts.cgroup.out_of_memory_kills)
        return SandboxStatus(alive=self.usable, out_of_memory_kills=self._kills)

    async def destroy(self) -> None:
        """End it and every process in it, and wait for that. The thread's files stay. Idempotent.

        A caller that gives up waiting does not stop it: it goes on to the end.

        Raises:
            ProviderUnavailable: the kernel did not end its processes in time. Calling again tries again.
        """
        if self._ending is None or (self._ending.done() and self._failed(self._ending)):
            self._ending = asyncio.create_task(self._end(), name=f"end {self.spec.name}")
        await asyncio.shield(self._ending)

    @staticmethod
    def _failed(task: asyncio.Task[None]) -> bool:
        return task.cancelled() or task.exception() is not None

    async def _end(self) -> None:
        parts = self._parts
        if parts.end_strays is not None:
            await asyncio.to_thread(parts.end_strays, parts.process.running)
        await parts.line.close()
        gone = await parts.process.end()
        self._kills = await asyncio.to_thread(parts.cgroup.out_of_memory_kills)
        cleared = await asyncio.to_thread(parts.cgroups.remove, parts.spec.name)
        if not gone or not cleared:
            message = f"sandbox {parts.spec.name} was killed, but the kernel has not ended all of it yet"
            raise ProviderUnavailable(message)
        self._forget(self)
