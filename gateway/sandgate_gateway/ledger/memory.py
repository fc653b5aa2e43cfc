"""A ledger in the memory of one gateway process."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from sandgate_gateway.errors import CapacityExhausted, ErrorReason, RequestRejected, StateConflict
from sandgate_gateway.ledger.answer import Answer
from sandgate_gateway.ledger.contract import Answered, Running, Standing, Started
from sandgate_gateway.ledger.request import RequestKey, content_digest

KEEP_SECONDS = 24 * 3600.0
"""How long an answer is kept, and after that how long its id is still refused; from the design."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLimits:
    """What a ledger in memory may take."""

    max_requests: int = 20_000
    """Requests that run or are answered. About a day of one call every four seconds, or ten minutes of 32 callers at
    full speed; above it the oldest answers expire early."""
    max_bytes: int = 256 << 20
    """All answers together, roughly."""
    max_expired: int = 200_000
    """Ids that are refused because they expired: 100 bytes each or so. Above it the oldest are forgotten, and a repeat
    of one that old would run again."""


@dataclass(slots=True)
class _Entry:
    digest: bytes
    audit_id: str
    answer: Answer | None = None
    kept_at: float = 0.0
    size_bytes: int = 0


class MemoryLedger:
    """Keeps requests of one process; a restart forgets them.

    How an expired id is known: when an answer is dropped, for its age or for room, a 16-byte digest of its key goes
    into a second table for another 24 hours. After that, or when that table overflows, the id counts as new.

    It never awaits, so each method is atomic on its event loop. It is not for use from several threads.
    """

    def __init__(self, limits: LedgerLimits | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits or LedgerLimits()
        self._clock = clock
        self._running: dict[RequestKey, _Entry] = {}
        # Ordered, because a plain dict finds its first key slowly after many were taken from its front.
        self._kept: OrderedDict[RequestKey, _Entry] = OrderedDict()  # answered or suspended, oldest first
        self._kept_bytes = 0
        self._expired: OrderedDict[bytes, float] = OrderedDict()  # digest of the key: when it is forgotten

    async def begin(self, key: RequestKey, digest: bytes, audit_id: str) -> Standing:
        """See `Ledger.begin`."""
        self._expire()
        running = self._running.get(key)
        if running is not None:
            self._check(running, digest)
            return Running(running.audit_id)
        kept = self._kept.get(key)
        if kept is not None:
            self._check(kept, digest)
            if kept.answer is not None:
                return Answered(kept.answer)
            self._drop(key)
        elif self._expired and _key_digest(key) in self._expired:
            raise StateConflict(
                ErrorReason.REQUEST_ID_EXPIRED, "This request id is too old to be repeated; mint a new one."
            )
        self._make_room()
        self._running[key] = _Entry(digest, audit_id)
        return Started()

    async def finish(self, key: RequestKey, answer: Answer) -> None:
        """See `Ledger.finish`."""
        entry = self._running.pop(key)
        entry.answer = answer
        entry.size_bytes = answer.size_bytes
        self._keep(key, entry)
        while self._kept_bytes > self._limits.max_bytes and len(self._kept) > 1:
            self._expire_oldest()

    async def suspend(self, key: RequestKey) -> None:
        """See `Ledger.suspend`."""
        self._keep(key, self._running.pop(key))

    async def forget(self, key: RequestKey) -> None:
        """See `Ledger.forget`."""
        self._running.pop(key, None)

    def _keep(self, key: RequestKey, entry: _Entry) -> None:
        entry.kept_at = self._clock()
        self._kept[key] = entry
        self._kept_bytes += entry.size_bytes

    def _drop(self, key: RequestKey) -> None:
        self._kept_bytes -= self._kept.pop(key).size_bytes

    def _make_room(self) -> None:
        if len(self._running) + len(self._kept) < self._limits.max_requests:
            return
        if not self._kept:
            raise CapacityExhausted("Too many calls run at once.")
        self._expire_oldest()

    def _expire(self) -> None:
        now = self._clock()
        while self._kept and next(iter(self._kept.values())).kept_at + KEEP_SECONDS <= now:
            self._expire_oldest()
        while self._expired and next(iter(self._expired.values())) <= now:
            del self._expired[next(iter(self._expired))]

    def _expire_oldest(self) -> None:
        key = next(iter(self._kept))
        self._drop(key)
        while len(self._expired) >= self._limits.max_expired:
            del self._expired[next(iter(self._expired))]
        self._expired[_key_digest(key)] = self._clock() + KEEP_SECONDS

    @staticmethod
    def _check(entry: _Entry, digest: bytes) -> None:
        if entry.digest != digest:
            raise request_id_reused()


def request_id_reused() -> RequestRejected:
    """Say that an id came again with other content."""
    return RequestRejected(
        ErrorReason.REQUEST_ID_REUSED, "This request id was used before for another call; mint a new one for each call."
    )


def _key_digest(key: RequestKey) -> bytes:
    return content_digest(key.tenant.encode(), key.agent.encode(), key.request_id.encode())[:16]
