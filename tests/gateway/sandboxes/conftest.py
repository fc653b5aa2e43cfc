"""What the tests of the manager share: a scripted provider, a clock, and a list of what was told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from sandgate_gateway.errors import GatewayError
from sandgate_gateway.sandboxes.events import SandboxChange, SandboxEvent
from sandgate_gateway.sandboxes.manager import SandboxManager
from sandgate_gateway.sandboxes.policy import SandboxPolicy
from sandgate_providers.fake import FakeProvider, FakeSandbox, Script
from sandgate_providers.types import SandboxKey, SandboxSpec


class SlowSandbox(FakeSandbox):
    """A fake that can be held up while it ends."""

    def __init__(self, spec: SandboxSpec, script: Script, provider: SlowProvider) -> None:
        super().__init__(spec, script)
        self._provider = provider

    async def destroy(self) -> None:
        """End it once the gate is open."""
        self._provider.ending.append(self)
        await self._provider.destroy_gate.wait()
        await super().destroy()


class SlowProvider(FakeProvider):
    """A fake that can be held up while it makes or ends sandboxes, and counts how many it makes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.destroy_gate = asyncio.Event()
        self.destroy_gate.set()
        self.acquires = 0
        self.ending: list[FakeSandbox] = []
        """Those that were to end, in that order."""

    async def acquire(self, spec: SandboxSpec) -> FakeSandbox:
        """Make one once the gate is open."""
        self.acquires += 1
        await self.gate.wait()
        if self.fail_with is not None:
            return await super().acquire(spec)
        sandbox = SlowSandbox(spec, self.script, self)
        self.made.append(sandbox)
        return sandbox


@dataclass
class World:
    """A manager and everything around it."""

    provider: SlowProvider = field(default_factory=SlowProvider)
    events: list[SandboxEvent] = field(default_factory=list)
    now: float = 1000.0
    refuse_records: GatewayError | None = None
    hold_records: asyncio.Event | None = None
    """While it is set and not released, whoever recorded something waits, and cannot tell that it is stored."""
    managers: list[SandboxManager] = field(default_factory=list)

    def manager(self, **policy: object) -> SandboxManager:
        """Make a manager with these choices."""
        chosen = SandboxPolicy(**{"installation": "test", "queue_seconds": 0.2, **policy})  # type: ignore[arg-type]  # a test writes what it means
        manager = SandboxManager(self.provider, chosen, self._emit, clock=lambda: self.now)
        self.managers.append(manager)
        return manager

    def changes(self) -> list[SandboxChange]:
        """List what was told."""
        return [event.change for event in self.events]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the tasks go on until something is the case."""
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110 - tasks of the manager need turns of the loop, not time
                await asyncio.sleep(0)

    async def _emit(self, event: SandboxEvent) -> None:
        if self.refuse_records is not None:
            raise self.refuse_records
        self.events.append(event)
        if self.hold_records is not None:
            await self.hold_records.wait()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Give a world; its managers are closed at the end."""
    made = World()
    yield made
    for manager in made.managers:
        await manager.close()


@pytest.fixture
def key() -> Callable[..., SandboxKey]:
    """Make keys."""

    def make(thread: str = "thread", tenant: str = "tenant") -> SandboxKey:
        return SandboxKey(tenant=tenant, thread=thread)

    return make


@pytest.fixture
def deadline() -> Callable[[float], float]:
    """Give a time so many seconds ahead, by the loop's clock."""

    def make(seconds: float = 5.0) -> float:
        return asyncio.get_running_loop().time() + seconds

    return make
