"""How sandboxes are made, found, kept and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sandgate_gateway.errors import CapacityExhausted, ErrorReason, NotFound, Unavailable
from sandgate_gateway.sandboxes.events import SandboxChange
from sandgate_gateway.sandboxes.place import SandboxState
from sandgate_providers import errors as provider_errors
from sandgate_providers.channel.types import Command
from sandgate_providers.types import SandboxKey

World = Any  # the conftest's; test modules do not import each other
Key = Callable[..., SandboxKey]
Deadline = Callable[..., float]

TRUE = Command(argv=("true",), timeout_seconds=5)


async def test_nothing_is_made_until_first_use(world: World, key: Key, deadline: Deadline) -> None:
    """A bound lease costs nothing; opening it makes the sandbox, once."""
    manager = world.manager()
    lease = manager.bind(key(), "")
    assert world.provider.acquires == 0
    assert not lease.ready
    await lease.open(deadline=deadline())
    await lease.open(deadline=deadline())
    assert world.provider.acquires == 1
    assert world.provider.made[0].spec.name == lease.sandbox
    lease.close()
    lease.close()
    assert manager.get("tenant", lease.sandbox).call_count == 0


async def test_callers_at_once_share_one_sandbox(world: World, key: Key, deadline: Deadline) -> None:
    """Ten first calls of one thread make one sandbox; another thread's call makes another."""
    manager = world.manager()
    world.provider.gate.clear()
    holds = [asyncio.create_task(manager.hold(key(), "", deadline=deadline())) for _ in range(10)]
    other = asyncio.create_task(manager.hold(key("other"), "", deadline=deadline()))
    await world.until(lambda: world.provider.acquires == 2)
    world.provider.gate.set()
    places = await asyncio.gather(*holds)
    assert len({id(place) for place in places}) == 1
    assert (await other) is not places[0]
    assert world.provider.acquires == 2
    assert places[0].calls == 10


async def test_a_caller_that_leaves_takes_nothing_along(world: World, key: Key, deadline: Deadline) -> None:
    """The sandbox is made by the manager: cancelling the first caller does not fail the second."""
    manager = world.manager()
    world.provider.gate.clear()
    first = asyncio.create_task(manager.hold(key(), "", deadline=deadline()))
    second = asyncio.create_task(manager.hold(key(), "", deadline=deadline()))
    await world.until(lambda: world.provider.acquires == 1)
    first.cancel()
    await asyncio.wait([first])
    world.provider.gate.set()
    assert (await second).usable
    assert world.provider.acquires == 1


async def test_release_ends_only_its_own_lease(world: World, key: Key, deadline: Deadline) -> None:
    """Of two leases of one thread the end of one leaves the other; the end of both parks, and destroys nothing."""
    manager = world.manager()
    view = await manager.acquire(key(), "one", deadline=deadline())
    await manager.acquire(key(), "two", deadline=deadline())
    assert manager.get("tenant", view.name).lease_count == 2
    assert manager.release(key(), "one")
    assert not manager.release(key(), "one")
    assert not manager.release(key(), "unknown")
    assert manager.get("tenant", view.name).state is SandboxState.ACTIVE
    assert manager.release(key(), "two")
    assert manager.get("tenant", view.name).state is SandboxState.PARKED
    assert world.provider.acquires == 1
    assert (await manager.acquire(key(), "", deadline=deadline())).name == view.name
    assert world.provider.acquires == 1


async def test_leases_run_out_unless_calls_renew_them(world: World, key: Key, deadline: Deadline) -> None:
    """A lease lasts from the last call under it."""
    manager = world.manager(lease_seconds=100, idle_seconds=50)
    name = (await manager.acquire(key(), "lease", deadline=deadline())).name
    world.now += 90
    await manager.acquire(key(), "lease", deadline=deadline())
    world.now += 90
    assert manager.get("tenant", name).state is SandboxState.ACTIVE
    world.now += 11
    assert manager.get("tenant", name).state is SandboxState.PARKED
    manager.reap()
    assert manager.get("tenant", name).state is SandboxState.PARKED  # idle since the lease ran out, a second ago
    world.now += 50
    manager.reap()
    assert manager.get("tenant", name).state is SandboxState.DELETING


async def test_a_lease_released_during_a_call_stays_released(world: World, key: Key, deadline: Deadline) -> None:
    """The end of a call does not bring back a lease that was ended meanwhile."""
    manager = world.manager()
    lease = manager.bind(key(), "lease")
    await lease.open(deadline=deadline())
    assert manager.release(key(), "lease")
    lease.close()
    assert manager.get("tenant", lease.sandbox).lease_count == 0


async def test_a_lease_does_not_run_out_under_its_own_call(world: World, key: Key, deadline: Deadline) -> None:
    """A call that takes longer than a lease lasts keeps the lease, which then lasts on from the call's end."""
    manager = world.manager(lease_seconds=100, idle_seconds=10_000)
    lease = manager.bind(key(), "lease")
    await lease.open(deadline=deadline())
    world.now += 150
    assert manager.get("tenant", lease.sandbox).lease_count == 1
    lease.close()
    assert manager.get("tenant", lease.sandbox).state is SandboxState.ACTIVE
    world.now += 101
    assert manager.get("tenant", lease.sandbox).state is SandboxState.PARKED


async def test_a_lease_can_be_released_under_a_long_call(world: World, key: Key, deadline: Deadline) -> None:
    """It counts as held for as long as its call runs, however long ago it was begun, and then it is gone."""
    manager = world.manager(lease_seconds=100)
    lease = manager.bind(key(), "lease")
    await lease.open(deadline=deadline())
    world.now += 150
    assert manager.release(key(), "lease")
    lease.close()
    assert manager.get("tenant", lease.sandbox).lease_count == 0


async def test_leases_are_bounded(world: World, key: Key, deadline: Deadline) -> None:
    """An agent that mints leases without end is refused, not served until memory runs out."""
    manager = world.manager()
    for number in range(1024):
        await manager.acquire(key(), f"lease-{number}", deadline=deadline())
    with pytest.raises(CapacityExhausted):
        await manager.acquire(key(), "one-more", deadline=deadline())
    assert (await manager.acquire(key(), "lease-0", deadline=deadline())).call_count == 0


async def test_only_idle_sandboxes_are_reaped(world: World, key: Key, deadline: Deadline) -> None:
    """A call or a lease keeps a sandbox however long; without them it ends after its idle time, and is told of."""
    manager = world.manager(idle_seconds=60, lease_seconds=10_000)
    busy = manager.bind(key("busy"), "")
    await busy.open(deadline=deadline())
    await manager.acquire(key("leased"), "lease", deadline=deadline())
    idle = await manager.acquire(key("idle"), "", deadline=deadline())
    world.now += 60
    manager.reap()
    await world.until(lambda: len(manager.list("tenant")) == 2)
    assert {view.thread for view in manager.list("tenant")} == {"busy", "leased"}
    ended = world.events[-1]
    assert (ended.change, ended.reason, ended.name) == (SandboxChange.ENDED, "idle", idle.name)
    busy.close()


async def test_a_dead_sandbox_is_replaced(world: World, key: Key, deadline: Deadline) -> None:
    """When the line closes by itself the sandbox is dropped; the next call gets a new one."""
    manager = world.manager()
    await manager.acquire(key(), "", deadline=deadline())
    await world.provider.made[0].channel.lose()
    await world.until(lambda: not manager.list("tenant"))
    assert (world.events[-1].change, world.events[-1].reason) == (SandboxChange.LOST, "died")
    await manager.acquire(key(), "", deadline=deadline())
    assert world.provider.acquires == 2


async def test_a_loss_counts_before_the_line_is_seen_closed(world: World, key: Key, deadline: Deadline) -> None:
    """A lease whose call found the sandbox dead gets a new one at once."""
    manager = world.manager()
    lease = manager.bind(key(), "")
    channel = await lease.open(deadline=deadline())
    await world.provider.made[0].channel.lose()
    with pytest.raises(provider_errors.SandboxLost):
        async with channel.open(TRUE):
            pass
    assert not lease.anything_ran
    channel = await lease.open(deadline=deadline())
    async with channel.open(TRUE) as call:
        assert (await call.end()).exit_code == 0
    assert lease.anything_ran
    assert world.provider.acquires == 2
    lease.close()


async def test_a_full_gateway_waits_and_then_says_so(world: World, key: Key, deadline: Deadline) -> None:
    """With every place held, a call waits briefly and is then told when to come again."""
    manager = world.manager(max_sandboxes=1, queue_seconds=0.05)
    await manager.acquire(key("one"), "lease", deadline=deadline())
    with pytest.raises(CapacityExhausted) as caught:
        await manager.acquire(key("two"), "", deadline=deadline())
    assert caught.value.retry_after_seconds >= 1


async def test_a_place_that_gets_free_goes_to_who_waits(world: World, key: Key, deadline: Deadline) -> None:
    """A waiting call goes on as soon as a sandbox is parked: that one makes room."""
    manager = world.manager(max_sandboxes=1, queue_seconds=5)
    await manager.acquire(key("one"), "lease", deadline=deadline())
    waiting = asyncio.create_task(manager.acquire(key("two"), "", deadline=deadline()))
    await asyncio.sleep(0)
    assert not waiting.done()
    manager.release(key("one"), "lease")
    assert (await waiting).thread == "two"
    assert [event.reason for event in world.events if event.change is SandboxChange.ENDED] == ["evicted"]


async def test_the_longest_parked_makes_room_first(world: World, key: Key, deadline: Deadline) -> None:
    """Of two parked sandboxes the older one goes."""
    manager = world.manager(max_sandboxes=2)
    for thread in ("old", "new"):
        await manager.acquire(key(thread), "", deadline=deadline())
        world.now += 1
    await manager.acquire(key("third"), "", deadline=deadline())
    assert {view.thread for view in manager.list("tenant")} == {"new", "third"}


async def test_one_tenant_cannot_take_all_places(world: World, key: Key, deadline: Deadline) -> None:
    """The cap of a tenant holds, is no one else's problem, and never costs another tenant a sandbox."""
    manager = world.manager(max_sandboxes=10, max_sandboxes_per_tenant=1, queue_seconds=0.05)
    await manager.acquire(key("one", "a"), "lease", deadline=deadline())
    await manager.acquire(key("parked", "b"), "", deadline=deadline())
    with pytest.raises(CapacityExhausted):
        await manager.acquire(key("two", "a"), "", deadline=deadline())
    assert [view.thread for view in manager.list("b")] == ["parked"]


@pytest.mark.parametrize(
    "error",
    [
        provider_errors.ProviderUnavailable("/srv"),
        provider_errors.ProviderMisconfigured("/srv"),
        provider_errors.SandboxLost("/srv"),
    ],
)
async def test_an_outage_of_the_provider_is_told_without_its_paths(
    world: World, key: Key, deadline: Deadline, error: Exception
) -> None:
    """A caller gets one of our errors, free of host paths; health shows the outage until the next success."""
    manager = world.manager()
    world.provider.fail_with = error
    with pytest.raises(Unavailable) as caught:
        await manager.acquire(key(), "", deadline=deadline())
    assert caught.value.reason is ErrorReason.PROVIDER_UNAVAILABLE
    assert "/srv" not in str(caught.value)
    assert not manager.provider_answers
    assert world.changes() == [SandboxChange.CREATE_FAILED]
    await manager.acquire(key(), "", deadline=deadline())
    assert manager.provider_answers


async def test_a_full_provider_is_no_outage(world: World, key: Key, deadline: Deadline) -> None:
    """That the provider has no room is passed on with its own advice on when to come again."""
    manager = world.manager()
    world.provider.fail_with = provider_errors.CapacityExhausted("no room on /srv", retry_after_seconds=7)
    with pytest.raises(CapacityExhausted) as caught:
        await manager.acquire(key(), "", deadline=deadline())
    assert caught.value.retry_after_seconds == 7
    assert "/srv" not in str(caught.value)
    assert manager.provider_answers


async def test_a_sandbox_that_is_late_is_given_up(world: World, key: Key, deadline: Deadline) -> None:
    """Neither a provider that hangs nor a short deadline lets a call wait for ever."""
    manager = world.manager(start_seconds=0.05)
    world.provider.gate.clear()
    for wait in (0.01, 5.0):
        with pytest.raises(Unavailable) as caught:
            await manager.acquire(key(), "", deadline=deadline(wait))
        assert caught.value.reason is ErrorReason.PROVIDER_UNAVAILABLE
    assert not manager.list("tenant")


async def test_what_cannot_be_recorded_is_not_kept(world: World, key: Key, deadline: Deadline) -> None:
    """A sandbox whose creation cannot be recorded is ended again, and the call is refused."""
    manager = world.manager()
    world.refuse_records = Unavailable(ErrorReason.AUDIT_UNAVAILABLE, "no audit", retry_after_seconds=1)
    with pytest.raises(Unavailable) as caught:
        await manager.acquire(key(), "", deadline=deadline())
    assert caught.value.reason is ErrorReason.AUDIT_UNAVAILABLE
    assert not (await world.provider.made[0].status()).alive
    assert not manager.list("tenant")


async def test_delete_waits_for_the_end(world: World, key: Key, deadline: Deadline) -> None:
    """After a delete the sandbox is gone, whatever held it, and the next call gets a new one."""
    manager = world.manager()
    lease = manager.bind(key(), "lease")
    await lease.open(deadline=deadline())
    await manager.delete("tenant", lease.sandbox)
    assert not (await world.provider.made[0].status()).alive
    assert not manager.list("tenant")
    assert (world.events[-1].change, world.events[-1].reason) == (SandboxChange.ENDED, "deleted")
    lease.close()


async def test_delete_while_its_creation_is_recorded(world: World, key: Key, deadline: Deadline) -> None:
    """A sandbox whose creation is on record has its end on record too, even if it is ended in that very moment."""
    manager = world.manager()
    world.hold_records = asyncio.Event()
    waiting = asyncio.create_task(manager.acquire(key(), "", deadline=deadline()))
    await world.until(lambda: world.changes() == [SandboxChange.CREATED])
    waiting.cancel()
    deleting = asyncio.create_task(manager.delete("tenant", manager.name_of(key())))
    await asyncio.wait([waiting])
    await world.until(lambda: bool(world.provider.ending))
    world.hold_records.set()
    await deleting
    assert world.changes() == [SandboxChange.CREATED, SandboxChange.ENDED]
    assert not (await world.provider.made[0].status()).alive


async def test_delete_while_it_is_made(world: World, key: Key, deadline: Deadline) -> None:
    """A delete during the start ends the start; the call that waited for it makes a new one and is not cancelled."""
    manager = world.manager()
    world.provider.gate.clear()
    waiting = asyncio.create_task(manager.acquire(key(), "", deadline=deadline()))
    await world.until(lambda: world.provider.acquires == 1)
    await manager.delete("tenant", manager.name_of(key()))
    await world.until(lambda: world.provider.acquires == 2)
    world.provider.gate.set()
    assert (await waiting).state is SandboxState.PARKED
    assert len(world.provider.made) == 1


async def test_another_tenants_sandbox_does_not_exist(world: World, key: Key, deadline: Deadline) -> None:
    """What belongs to somebody else looks the same as what is not there, to get, list and delete."""
    manager = world.manager()
    name = (await manager.acquire(key(), "", deadline=deadline())).name
    texts = set()
    for tenant, wanted in (("other", name), ("tenant", "sg-unknown")):
        with pytest.raises(NotFound) as got:
            manager.get(tenant, wanted)
        with pytest.raises(NotFound) as deleted:
            await manager.delete(tenant, wanted)
        texts |= {(str(error.value), error.value.reason, *error.value.metadata) for error in (got, deleted)}
    assert len(texts) == 1
    assert manager.list("other") == []


async def test_two_tenants_may_name_their_threads_alike(world: World, key: Key, deadline: Deadline) -> None:
    """The tenant is part of the key: equal thread ids never share a sandbox."""
    manager = world.manager()
    first = await manager.acquire(key("same", "a"), "", deadline=deadline())
    second = await manager.acquire(key("same", "b"), "", deadline=deadline())
    assert first.name != second.name


async def test_isolation_is_shown_by_get_only(world: World, key: Key, deadline: Deadline) -> None:
    """A list stays small; get has the report."""
    manager = world.manager()
    view = await manager.acquire(key(), "", deadline=deadline())
    assert manager.get("tenant", view.name).isolation
    assert not manager.list("tenant")[0].isolation


async def test_closing_ends_everything(world: World, key: Key, deadline: Deadline) -> None:
    """At shutdown every sandbox ends, one that is being made too, and new ones are refused."""
    manager = world.manager()
    manager.start()
    await manager.acquire(key("one"), "lease", deadline=deadline())
    world.provider.gate.clear()
    starting = asyncio.create_task(manager.acquire(key("two"), "", deadline=deadline()))
    await world.until(lambda: world.provider.acquires == 2)
    await manager.close()
    assert not (await world.provider.made[0].status()).alive
    assert not manager.list("tenant")
    for wait in (starting, asyncio.create_task(manager.acquire(key("three"), "", deadline=deadline()))):
        with pytest.raises(Unavailable) as caught:
            await wait
        assert caught.value.reason is ErrorReason.SHUTTING_DOWN
    await manager.close()
