"""Requests that run once, whoever asks how often."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.errors import CapacityExhausted, ErrorReason, RequestRejected, Unavailable
from sandgate_gateway.ledger.answer import CallAnswer
from sandgate_gateway.ledger.memory import MemoryLedger
from sandgate_gateway.ledger.request import RequestKey
from sandgate_gateway.ledger.table import RequestTable

DIGEST = b"d" * 32


class Work:
    """Work that waits for the test, and counts its runs."""

    def __init__(self, answer: CallAnswer, *, when_cancelled: CallAnswer | None = None) -> None:
        self.runs = 0
        self.running = asyncio.Event()
        self.go_on = asyncio.Event()
        self.error: Exception | None = None
        self._answer = answer
        self._when_cancelled = when_cancelled

    async def __call__(self) -> CallAnswer:
        """Run once."""
        self.runs += 1
        self.running.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            if self._when_cancelled is None:
                raise
            return self._when_cancelled
        if self.error is not None:
            raise self.error
        return self._answer


async def ask(table: RequestTable, key: RequestKey, work: Work, digest: bytes = DIGEST) -> object:
    """Be one caller."""
    with table.attach(key, digest, "audit", work) as attachment:
        return await attachment.answer()


async def test_callers_at_once_share_one_run(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """Ten callers of one request make it run once, and all get the same answer; so does one who comes later."""
    table = RequestTable(MemoryLedger())
    work = Work(answer())
    callers = [asyncio.create_task(ask(table, key("1"), work)) for _ in range(10)]
    await work.running.wait()
    work.go_on.set()
    answers = await asyncio.gather(*callers)
    assert work.runs == 1
    assert all(one is answers[0] for one in answers)
    assert await ask(table, key("1"), work) is answers[0]
    assert work.runs == 1


async def test_a_joiner_with_other_content_is_refused(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """Joining checks the content while the first still runs."""
    table = RequestTable(MemoryLedger())
    work = Work(answer())
    first = asyncio.create_task(ask(table, key("1"), work))
    await work.running.wait()
    with pytest.raises(RequestRejected) as caught:
        await ask(table, key("1"), work, b"e" * 32)
    assert caught.value.reason is ErrorReason.REQUEST_ID_REUSED
    work.go_on.set()
    await first


async def test_one_caller_may_leave_without_harm(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """A call goes on as long as one caller waits, whichever that is."""
    table = RequestTable(MemoryLedger())
    work = Work(answer())
    first = asyncio.create_task(ask(table, key("1"), work))
    await work.running.wait()
    second = asyncio.create_task(ask(table, key("1"), work))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    work.go_on.set()
    assert await second == answer_of(work)


async def test_the_last_caller_takes_the_call_along(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """When the last caller leaves, the call is cancelled; its outcome is kept, and a repeat gets it."""
    table = RequestTable(MemoryLedger())
    cancelled = answer("cancelled")
    work = Work(answer(), when_cancelled=cancelled)
    caller = asyncio.create_task(ask(table, key("1"), work))
    await work.running.wait()
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled()
    assert await ask(table, key("1"), work) is cancelled
    assert work.runs == 1


async def test_a_caller_joins_a_call_that_is_being_cancelled(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """Who comes while a cancelled call still ends its processes gets the outcome of that call."""
    table = RequestTable(MemoryLedger())
    cancelled = answer("cancelled")
    ending = asyncio.Event()
    ended = asyncio.Event()

    async def work() -> CallAnswer:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ending.set()
            await ended.wait()
        return cancelled

    with table.attach(key("1"), DIGEST, "audit", work) as attachment:
        await attachment.taken()
    await ending.wait()

    async def join() -> object:
        with table.attach(key("1"), DIGEST, "audit-2", work) as joined:
            ended.set()
            assert await joined.taken() == ("audit", True)
            return await joined.answer()

    assert await join() is cancelled


async def test_a_caller_starts_a_call_again_that_was_cancelled_before_it_ran(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """Who comes while a call ends of which nothing ran gets a run of their own, streamed or not."""
    for streamed in (False, True):
        table = RequestTable(MemoryLedger())
        ending, go_on = asyncio.Event(), asyncio.Event()

        async def leave_nothing(ending: asyncio.Event = ending, go_on: asyncio.Event = go_on) -> CallAnswer:
            try:
                await asyncio.Event().wait()
            finally:
                ending.set()
                await go_on.wait()
            raise AssertionError("it is cancelled")

        with table.attach(key("1"), DIGEST, "one", leave_nothing) as first:
            await first.taken()
        await ending.wait()
        work = Work(answer())
        work.go_on.set()
        with table.attach(key("1"), DIGEST, "two", work) as second:
            go_on.set()
            if streamed:
                assert await second.taken() == ("two", False)
            assert await second.answer() is answer_of(work)


async def test_a_failure_of_the_gateway_is_no_answer(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """When nothing ran, every caller gets the error, and a repeat runs."""
    table = RequestTable(MemoryLedger())
    work = Work(answer())
    work.error = CapacityExhausted("full")
    work.go_on.set()
    with pytest.raises(CapacityExhausted):
        await ask(table, key("1"), work)
    work.error = None
    assert await ask(table, key("1"), work) == answer_of(work)
    assert work.runs == 2


async def test_pending_is_looked_at_again(key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]) -> None:
    """A pending outcome is passed on and not kept: a repeat runs the work again."""
    table = RequestTable(MemoryLedger())
    pending = Work(answer("wait", Outcome.PENDING))
    pending.go_on.set()
    assert await ask(table, key("1"), pending) == answer_of(pending)
    done = Work(answer())
    done.go_on.set()
    assert await ask(table, key("1"), done) == answer_of(done)


async def test_a_request_of_another_replica_is_waited_for(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """Two tables over one ledger are two replicas: the second waits until the first has answered."""
    ledger = MemoryLedger()
    here, there = RequestTable(ledger), RequestTable(ledger)
    work, never = Work(answer()), Work(answer("twice"))
    first = asyncio.create_task(ask(there, key("1"), work))
    await work.running.wait()
    second = asyncio.create_task(ask(here, key("1"), never))
    await asyncio.sleep(0)
    work.go_on.set()
    async with asyncio.timeout(5):
        assert await second is await first
    assert never.runs == 0


async def test_a_stream_learns_whether_it_joined(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """`taken` tells the first caller, one who joins, and one who comes after the end apart."""
    table = RequestTable(MemoryLedger())
    work = Work(answer())
    with table.attach(key("1"), DIGEST, "one", work) as first, table.attach(key("1"), DIGEST, "two", work) as second:
        assert await first.taken() == ("one", False)
        assert await second.taken() == ("one", True)
        work.go_on.set()
        await first.answer()
    await asyncio.sleep(0)
    with table.attach(key("1"), DIGEST, "three", work) as third:
        assert await third.taken() == ("a", True)


async def test_taken_raises_what_refused_the_request(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """A stream whose request is refused by the ledger gets the error before any event."""
    table = RequestTable(MemoryLedger())
    work = Work(answer())
    work.go_on.set()
    await ask(table, key("1"), work)
    with table.attach(key("1"), b"e" * 32, "x", work) as attachment, pytest.raises(RequestRejected):
        await attachment.taken()


async def test_closing_ends_calls_and_takes_no_more(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """At shutdown a call that ran gives its outcome, one of which nothing ran is told to try elsewhere."""
    table = RequestTable(MemoryLedger())
    ran, did_not = Work(answer(), when_cancelled=answer("cancelled")), Work(answer())
    first = asyncio.create_task(ask(table, key("1"), ran))
    second = asyncio.create_task(ask(table, key("2"), did_not))
    await ran.running.wait()
    await did_not.running.wait()
    await table.close()
    result = await first
    assert isinstance(result, CallAnswer)
    assert result.result.text == "cancelled"
    for wait in (second, asyncio.create_task(ask(table, key("3"), did_not))):
        with pytest.raises(Unavailable) as caught:
            await wait
        assert caught.value.reason is ErrorReason.SHUTTING_DOWN


async def test_a_bug_that_nobody_waits_for_is_logged(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer], caplog: pytest.LogCaptureFixture
) -> None:
    """An exception after the last caller left goes to the log, not into the void."""
    table = RequestTable(MemoryLedger())

    async def work() -> CallAnswer:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError("a bug") from None
        return answer()

    with caplog.at_level(logging.ERROR):
        with table.attach(key("1"), DIGEST, "audit-1", work) as attachment:
            await attachment.taken()
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=5)
        await asyncio.sleep(0)  # for the callbacks of what just ended
    assert "audit-1" in caplog.text


def answer_of(work: Work) -> CallAnswer:
    """Give what the work answers."""
    return work._answer
