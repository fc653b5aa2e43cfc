"""Following the log: new records as they come, and an honest count of those that were left out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from sandgate_gateway.audit.event import AuditEvent
from sandgate_gateway.audit.following import FOLLOWER_EVENTS, Skipped
from sandgate_gateway.audit.log import AuditLog
from sandgate_gateway.audit.reader import AuditReader
from sandgate_gateway.audit.stored import EventFilter, StoredEvent

MakeEvent = Callable[..., AuditEvent]
OpenLog = Callable[[], Awaitable[AuditLog]]


def reading(log: AuditLog) -> AuditReader:
    """Give a reader beside the writer."""
    return AuditReader(log.path, page_key=bytes(32), log=log)


async def test_new_records_are_followed(open_log: OpenLog, make_event: MakeEvent) -> None:
    """A follower gets what fits its filter, in order, from the moment it begins."""
    log = await open_log()
    await log.write(make_event(thread="mine"))
    async with aclosing(reading(log).tail(EventFilter(thread="mine"))) as items, asyncio.timeout(5):
        first = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)  # it begins to follow
        events = [make_event(thread="mine"), make_event(thread="other"), make_event(thread="mine")]
        for event in events:
            await log.write(event)
        got = [await first, await anext(items)]
        assert [item.event_id for item in got if isinstance(item, StoredEvent)] == [
            events[0].event_id,
            events[2].event_id,
        ]


async def test_a_slow_follower_learns_what_it_missed(open_log: OpenLog, make_event: MakeEvent) -> None:
    """A thousand records wait for it; for what came on top it gets the number, in the right place, and then goes on."""
    log = await open_log()
    async with aclosing(reading(log).tail(EventFilter())) as items, asyncio.timeout(10):
        first = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)  # it begins to follow
        await log.write(make_event())
        await first
        for _ in range(FOLLOWER_EVENTS + 50):
            await log.write(make_event())
        kept = [await anext(items) for _ in range(FOLLOWER_EVENTS)]
        assert all(isinstance(item, StoredEvent) for item in kept)
        assert await anext(items) == Skipped(50)
        event = make_event()
        await log.write(event)
        last = await anext(items)
        assert isinstance(last, StoredEvent)
        assert last.event_id == event.event_id


async def test_following_ends_with_the_log(open_log: OpenLog, make_event: MakeEvent) -> None:
    """What waits is still delivered when the log stops; then the iteration ends, also for one that begins later."""
    log = await open_log()
    got: list[StoredEvent | Skipped] = []

    async def follow() -> None:
        async with aclosing(reading(log).tail(EventFilter())) as items:
            got.extend([item async for item in items])

    task = asyncio.ensure_future(follow())
    await asyncio.sleep(0)  # it begins to follow
    await log.write(make_event())
    await log.stop()
    async with asyncio.timeout(5):
        await task
        await follow()
    assert len(got) == 1


async def test_a_follower_that_goes_away_is_forgotten(open_log: OpenLog, make_event: MakeEvent) -> None:
    """A cancelled follower leaves nothing behind that costs later writes."""
    log = await open_log()

    async def follow() -> None:
        async with aclosing(reading(log).tail(EventFilter())) as items:
            async for _ in items:
                pass

    task = asyncio.ensure_future(follow())
    await asyncio.sleep(0)  # it begins to follow
    assert len(log.followers) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(log.followers) == 0
    await log.write(make_event())


async def test_a_reader_without_a_writer_cannot_follow(audit_file: Path) -> None:
    """Following is for the gateway that writes the file."""
    with pytest.raises(RuntimeError, match="only the gateway"):
        await anext(AuditReader(audit_file, page_key=bytes(32)).tail(EventFilter()))
