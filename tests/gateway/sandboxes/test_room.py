"""Who gets the next place when every one is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from sandgate_gateway.sandboxes.events import SandboxChange
from sandgate_providers.fake import FakeSandbox
from sandgate_providers.types import SandboxKey

World = Any  # the conftest's; test modules do not import each other
Key = Callable[..., SandboxKey]
Deadline = Callable[..., float]


async def test_a_sandbox_that_nobody_waited_for_makes_room(world: World, key: Key, deadline: Deadline) -> None:
    """When its only caller leaves during the start, the new sandbox is parked, and goes to who waits for a place."""
    manager = world.manager(max_sandboxes=1, queue_seconds=2)
    world.provider.gate.clear()
    left = asyncio.create_task(manager.acquire(key("left"), "", deadline=deadline()))
    await world.until(lambda: world.provider.acquires == 1)
    waiting = asyncio.create_task(manager.acquire(key("waits"), "", deadline=deadline()))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.wait([left])
    world.provider.gate.set()
    assert (await waiting).thread == "waits"


async def test_a_sandbox_goes_to_its_own_caller_first(world: World, key: Key, deadline: Deadline) -> None:
    """What was just made is not taken away before the call that waited for it has it."""
    manager = world.manager(max_sandboxes=1, queue_seconds=2)
    world.provider.gate.clear()
    own = asyncio.create_task(manager.acquire(key("own"), "lease", deadline=deadline()))
    await world.until(lambda: world.provider.acquires == 1)
    waiting = asyncio.create_task(manager.acquire(key("waits"), "", deadline=deadline()))
    await asyncio.sleep(0)
    world.provider.gate.set()
    assert (await own).lease_count == 1
    assert world.changes() == [SandboxChange.CREATED]
    manager.release(key("own"), "lease")
    assert (await waiting).thread == "waits"


async def test_a_lease_that_runs_out_makes_room(world: World, key: Key, deadline: Deadline) -> None:
    """Who waits gets the place of a sandbox whose last lease runs out meanwhile, though nobody says so."""
    manager = world.manager(max_sandboxes=1, queue_seconds=3, lease_seconds=100)
    await manager.acquire(key("one"), "lease", deadline=deadline())
    waiting = asyncio.create_task(manager.acquire(key("two"), "", deadline=deadline()))
    await asyncio.sleep(0)
    world.now += 101
    assert (await waiting).thread == "two"


async def test_as_many_make_room_as_wait(world: World, key: Key, deadline: Deadline) -> None:
    """Two that wait do not queue up behind one slow end: two parked sandboxes are ended at once."""
    manager = world.manager(max_sandboxes=2, queue_seconds=3)
    for thread in ("one", "two"):
        await manager.acquire(key(thread), "", deadline=deadline())
    world.provider.destroy_gate.clear()
    waiting = [asyncio.create_task(manager.acquire(key(thread), "", deadline=deadline())) for thread in ("a", "b")]
    try:
        await world.until(lambda: len(world.provider.ending) == 2)
    finally:
        world.provider.destroy_gate.set()
    assert [view.thread for view in await asyncio.gather(*waiting)] == ["a", "b"]
    assert all(isinstance(sandbox, FakeSandbox) for sandbox in world.provider.ending)
