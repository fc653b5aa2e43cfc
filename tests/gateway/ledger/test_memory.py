"""The ledger in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sandgate_gateway.errors import CapacityExhausted, ErrorReason, RequestRejected, StateConflict
from sandgate_gateway.ledger.answer import CallAnswer
from sandgate_gateway.ledger.contract import Answered, Running, Started
from sandgate_gateway.ledger.memory import KEEP_SECONDS, LedgerLimits, MemoryLedger
from sandgate_gateway.ledger.request import RequestKey

DIGEST = b"d" * 32


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


async def test_a_request_starts_once(key: Callable[[str], RequestKey]) -> None:
    """A new request starts; while it runs, a repeat is told so and by which audit id."""
    ledger = MemoryLedger()
    assert await ledger.begin(key("1"), DIGEST, "audit-1") == Started()
    assert await ledger.begin(key("1"), DIGEST, "audit-2") == Running("audit-1")


async def test_a_repeat_gets_the_first_answer(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """Once answered, a request never starts again."""
    ledger = MemoryLedger()
    await ledger.begin(key("1"), DIGEST, "a")
    first = answer("first")
    await ledger.finish(key("1"), first)
    assert await ledger.begin(key("1"), DIGEST, "b") == Answered(first)


@pytest.mark.parametrize("finished", [False, True])
async def test_an_id_with_other_content_is_refused(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer], *, finished: bool
) -> None:
    """The same id with another digest is refused, while the first runs and after."""
    ledger = MemoryLedger()
    await ledger.begin(key("1"), DIGEST, "a")
    if finished:
        await ledger.finish(key("1"), answer())
    with pytest.raises(RequestRejected) as caught:
        await ledger.begin(key("1"), b"e" * 32, "b")
    assert caught.value.reason is ErrorReason.REQUEST_ID_REUSED


async def test_ids_of_other_agents_never_meet(answer: Callable[..., CallAnswer]) -> None:
    """The same id of another agent or tenant is another request."""
    ledger = MemoryLedger()
    for key in (RequestKey("t", "a", "1"), RequestKey("t", "b", "1"), RequestKey("u", "a", "1")):
        assert await ledger.begin(key, DIGEST, "x") == Started()
        await ledger.finish(key, answer())


async def test_a_suspended_request_starts_again(key: Callable[[str], RequestKey]) -> None:
    """A request that waits for an approval is looked at again, and still only with the same content."""
    ledger = MemoryLedger()
    await ledger.begin(key("1"), DIGEST, "a")
    await ledger.suspend(key("1"))
    with pytest.raises(RequestRejected):
        await ledger.begin(key("1"), b"e" * 32, "b")
    assert await ledger.begin(key("1"), DIGEST, "b") == Started()
    assert await ledger.begin(key("1"), DIGEST, "c") == Running("b")


async def test_a_forgotten_request_starts_again(key: Callable[[str], RequestKey]) -> None:
    """A request of which nothing ran leaves no trace, so a repeat may run, with whatever content."""
    ledger = MemoryLedger()
    await ledger.begin(key("1"), DIGEST, "a")
    await ledger.forget(key("1"))
    assert await ledger.begin(key("1"), b"e" * 32, "b") == Started()


async def test_an_expired_id_is_refused_and_then_forgotten(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """After a day the answer is gone and the id refused, not run; after two days the id counts as new."""
    clock = Clock()
    ledger = MemoryLedger(clock=clock)
    await ledger.begin(key("1"), DIGEST, "a")
    await ledger.finish(key("1"), answer())
    clock.now = KEEP_SECONDS - 1
    assert isinstance(await ledger.begin(key("1"), DIGEST, "b"), Answered)
    clock.now = KEEP_SECONDS
    with pytest.raises(StateConflict) as caught:
        await ledger.begin(key("1"), DIGEST, "b")
    assert caught.value.reason is ErrorReason.REQUEST_ID_EXPIRED
    clock.now = 2 * KEEP_SECONDS
    assert await ledger.begin(key("1"), DIGEST, "b") == Started()


async def test_a_running_request_never_expires(key: Callable[[str], RequestKey]) -> None:
    """However long a call runs, its id is not given away."""
    clock = Clock()
    ledger = MemoryLedger(clock=clock)
    await ledger.begin(key("1"), DIGEST, "a")
    clock.now = 10 * KEEP_SECONDS
    assert await ledger.begin(key("1"), DIGEST, "b") == Running("a")


async def test_the_oldest_answer_makes_room(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """A full ledger drops its oldest answer, and refuses that id instead of running it again."""
    ledger = MemoryLedger(LedgerLimits(max_requests=2))
    for name in ("1", "2", "3"):
        await ledger.begin(key(name), DIGEST, name)
        await ledger.finish(key(name), answer(name))
    with pytest.raises(StateConflict):
        await ledger.begin(key("1"), DIGEST, "x")
    assert isinstance(await ledger.begin(key("2"), DIGEST, "x"), Answered)
    assert isinstance(await ledger.begin(key("3"), DIGEST, "x"), Answered)


async def test_a_ledger_full_of_running_calls_refuses_new_ones(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """When everything that is remembered still runs, a new request is told to come later; an end makes room."""
    ledger = MemoryLedger(LedgerLimits(max_requests=2))
    await ledger.begin(key("1"), DIGEST, "a")
    await ledger.begin(key("2"), DIGEST, "a")
    with pytest.raises(CapacityExhausted):
        await ledger.begin(key("3"), DIGEST, "a")
    await ledger.finish(key("1"), answer())
    assert await ledger.begin(key("3"), DIGEST, "a") == Started()


async def test_answers_are_bounded_in_bytes(
    key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]
) -> None:
    """Large answers expire early; the newest is always kept."""
    ledger = MemoryLedger(LedgerLimits(max_bytes=10_000))
    for name in ("1", "2"):
        await ledger.begin(key(name), DIGEST, name)
        await ledger.finish(key(name), answer("x" * 9_500))
    with pytest.raises(StateConflict):
        await ledger.begin(key("1"), DIGEST, "x")
    assert isinstance(await ledger.begin(key("2"), DIGEST, "x"), Answered)


async def test_expired_ids_are_bounded(key: Callable[[str], RequestKey], answer: Callable[..., CallAnswer]) -> None:
    """The table of expired ids forgets its oldest; this is the documented end of the promise."""
    ledger = MemoryLedger(LedgerLimits(max_requests=1, max_expired=1))
    for name in ("1", "2", "3"):
        await ledger.begin(key(name), DIGEST, name)
        await ledger.finish(key(name), answer())
    with pytest.raises(StateConflict):
        await ledger.begin(key("2"), DIGEST, "x")
    assert await ledger.begin(key("1"), DIGEST, "x") == Started()
