"""Calls that the memory limit ended say so."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from sandgate_providers.channel.types import Command, End, ProcessEnd
from sandgate_providers.contract import Channel
from sandgate_providers.errors import CallRefused, ProviderUnavailable
from sandgate_providers.fake import FakeCall, Work, exited
from sandgate_providers.types import SandboxKey, SandboxStatus

World = Any  # the conftest's; test modules do not import each other
Key = Callable[..., SandboxKey]
Deadline = Callable[..., float]

KILLED = End(reason=ProcessEnd.SIGNALED, signal=9, stdout_bytes=7)
COMMAND = Command(argv=("x",), timeout_seconds=5)


async def ended(channel: Channel) -> End:
    """Run one call to its end."""
    async with channel.open(COMMAND) as call:
        return await call.end()
    raise AssertionError("leaving a call swallows nothing")


@pytest.mark.parametrize("end", [KILLED, exited(137)])
async def test_a_kill_by_the_limit_is_called_by_its_name(world: World, key: Key, deadline: Deadline, end: End) -> None:
    """A command, or a child of its shell, that the limit killed ends as OOM, with its output counted as before."""

    async def script(_work: Work, _call: FakeCall) -> End:
        world.provider.made[0].out_of_memory_kills += 1
        return end

    world.provider.script = script
    channel = await world.manager().bind(key(), "").open(deadline=deadline())
    told = await ended(channel)
    assert told.reason is ProcessEnd.OOM
    assert told.exit_code is None
    assert told.signal is None
    assert told.stdout_bytes == end.stdout_bytes


@pytest.mark.parametrize(
    "end", [KILLED, exited(137), exited(0), End(reason=ProcessEnd.SIGNALED, signal=11), End(reason=ProcessEnd.TIMEOUT)]
)
async def test_other_ends_stay_what_they_are(world: World, key: Key, deadline: Deadline, end: End) -> None:
    """A KILL of one's own, and every other end, is passed on as it came."""

    async def script(_work: Work, _call: FakeCall) -> End:
        return end

    world.provider.script = script
    channel = await world.manager().bind(key(), "").open(deadline=deadline())
    assert await ended(channel) == end


async def test_an_old_kill_is_not_charged_twice(world: World, key: Key, deadline: Deadline) -> None:
    """Each kill explains the calls of its moment, and none later."""

    async def script(_work: Work, _call: FakeCall) -> End:
        return KILLED

    world.provider.script = script
    channel = await world.manager().bind(key(), "").open(deadline=deadline())
    world.provider.made[0].out_of_memory_kills = 1
    assert (await ended(channel)).reason is ProcessEnd.OOM
    assert (await ended(channel)).reason is ProcessEnd.OOM  # the kernel may have killed a whole group
    world.now += 2
    assert (await ended(channel)).reason is ProcessEnd.SIGNALED


async def test_a_sandbox_that_died_of_memory_says_so(world: World, key: Key, deadline: Deadline) -> None:
    """When the limit takes the whole sandbox, its calls end as OOM, and the record of the loss says so."""

    async def script(_work: Work, _call: FakeCall) -> End:
        world.provider.made[0].out_of_memory_kills += 1
        await world.provider.made[0].channel.lose()
        return exited()

    world.provider.script = script
    channel = await world.manager().bind(key(), "").open(deadline=deadline())
    assert (await ended(channel)).reason is ProcessEnd.OOM
    await world.until(lambda: len(world.events) == 2)
    assert world.events[-1].reason == "out-of-memory"


async def test_a_provider_that_cannot_tell_hides_nothing(
    world: World, key: Key, deadline: Deadline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the status cannot be had, the end is passed on as it came."""

    async def script(_work: Work, _call: FakeCall) -> End:
        return KILLED

    async def fail() -> SandboxStatus:
        raise ProviderUnavailable("gone")

    world.provider.script = script
    channel = await world.manager().bind(key(), "").open(deadline=deadline())
    monkeypatch.setattr(world.provider.made[0], "status", fail)
    assert await ended(channel) == KILLED


@pytest.mark.parametrize("moment", ["early", "late"])
async def test_a_refused_call_never_ran(world: World, key: Key, deadline: Deadline, moment: str) -> None:
    """A refusal, before the call was sent or after, leaves no mark that something ran; a call that was taken does."""

    @contextlib.asynccontextmanager
    async def refuse(_work: Work) -> AsyncIterator[FakeCall]:
        if moment == "late":
            call = FakeCall()
            await call.finish(End(reason=ProcessEnd.START_FAILED))
            yield call
        raise CallRefused("no-room", "full")

    lease = world.manager().bind(key(), "")
    channel = await lease.open(deadline=deadline())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.provider.made[0].channel, "open", refuse)
        with pytest.raises(CallRefused):
            await ended(channel)
    assert not lease.anything_ran
    await ended(channel)
    assert lease.anything_ran
