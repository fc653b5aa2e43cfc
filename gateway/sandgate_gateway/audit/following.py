"""Reading along: each follower gets new records from the writer, and learns when it was too slow for some."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sandgate_gateway.audit.stored import EventFilter, StoredEvent, parse

FOLLOWER_EVENTS = 1000
"""Events that wait for one follower; what comes on top is counted and left out."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """So many records were left out here, because the follower read too slowly. They are in the log."""

    count: int


class Follower:
    """One reader's place: a bounded queue."""

    def __init__(self, filter_: EventFilter, limit: int) -> None:
        self.filter = filter_
        self._limit = limit
        self._items: deque[StoredEvent | Skipped] = deque()
        self._skipped = 0
        self._wake = asyncio.Event()
        self._closed = False

    def offer(self, event: StoredEvent) -> None:
        """Take one event, or count it when there is no room."""
        if len(self._items) >= self._limit:
            self._skipped += 1
            return
        self._mark_gap()
        self._items.append(event)
        self._wake.set()

    def close(self) -> None:
        """End the iteration once everything that waits was read."""
        self._closed = True
        self._wake.set()

    async def items(self) -> AsyncGenerator[StoredEvent | Skipped]:
        """Yield what comes, until the log ends."""
        while True:
            while self._items:
                yield self._items.popleft()
            self._mark_gap()
            if self._items:
                continue
            if self._closed:
                return
            self._wake.clear()
            await self._wake.wait()

    def _mark_gap(self) -> None:
        if self._skipped:
            self._items.append(Skipped(self._skipped))
            self._skipped = 0


class Followers:
    """Everybody who reads along."""

    def __init__(self) -> None:
        self._followers: set[Follower] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._followers)

    @contextmanager
    def follow(self, filter_: EventFilter, *, limit: int = FOLLOWER_EVENTS) -> Iterator[Follower]:
        """Read along from now on, while the context lasts."""
        follower = Follower(filter_, limit)
        if self._closed:
            follower.close()
        self._followers.add(follower)
        try:
            yield follower
        finally:
            self._followers.discard(follower)

    def offer(self, lines: Sequence[bytes]) -> None:
        """Hand out new lines. Costs nothing while nobody follows."""
        if not self._followers:
            return
        for line in lines:
            event = parse(line)
            if event is None:
                continue
            for follower in self._followers:
                if follower.filter.matches(event):
                    follower.offer(event)

    def close(self) -> None:
        """The log has ended."""
        self._closed = True
        for follower in self._followers:
            follower.close()
