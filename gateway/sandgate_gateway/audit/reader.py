"""Reading the audit file: newest first, along with the writer, and to check that nothing was changed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from sandgate_gateway.audit.backwards import lines_backwards
from sandgate_gateway.audit.following import Skipped
from sandgate_gateway.audit.log import AuditLog
from sandgate_gateway.audit.pages import PageTokens
from sandgate_gateway.audit.stored import EventFilter, StoredEvent, parse
from sandgate_gateway.audit.verification import Verification, verify_file

DEFAULT_PAGE_EVENTS = 100
MAX_PAGE_EVENTS = 1000

PAGE_SCAN_BYTES = 256 << 20
"""How much one page reads at most, about a second's work; a page may therefore be short, or empty, before the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some events, newest first."""

    events: tuple[StoredEvent, ...]
    next_page_token: str
    """Empty at the end. Only that says that there is no more; a page with few events does not."""


class AuditReader:
    """Reads one audit file, while it is written or after."""

    def __init__(self, path: Path, *, page_key: bytes, log: AuditLog | None = None) -> None:
        """Read the file at `path`.

        Args:
            path: the file.
            page_key: seals page tokens; the same on every replica (`Digests.page_key`).
            log: who writes the file, in the gateway itself; without it there is nothing to follow.
        """
        self._path = path
        self._tokens = PageTokens(page_key)
        self._log = log

    async def query(self, filter_: EventFilter, *, page_size: int = 0, page_token: str = "") -> Page:
        """Read events, newest first.

        Args:
            filter_: which.
            page_size: at most this many; zero is 100, more than 1,000 is 1,000.
            page_token: from an earlier page of the same filter; empty: from the newest.

        Raises:
            RequestRejected: the token was not made by this query.
            OSError: the file cannot be read.
        """
        limit = min(page_size, MAX_PAGE_EVENTS) if page_size > 0 else DEFAULT_PAGE_EVENTS
        end = self._tokens.read(filter_, page_token) if page_token else None
        return await asyncio.to_thread(self._read_page, filter_, limit, end)

    async def tail(self, filter_: EventFilter) -> AsyncGenerator[StoredEvent | Skipped]:
        """Yield new events as they are written, until the log stops."""
        if self._log is None:
            raise RuntimeError("only the gateway that writes a log can follow it")
        with self._log.followers.follow(filter_) as follower:
            async with aclosing(follower.items()) as items:
                async for item in items:
                    yield item

    async def verify(self) -> Verification:
        """Check that no record was changed, removed or moved. Reads everything.

        Raises:
            OSError: the file cannot be read.
        """
        cancelled = threading.Event()
        head = self._log.head if self._log is not None else None
        try:
            return await asyncio.to_thread(verify_file, self._path, head=head, cancelled=cancelled)
        finally:
            cancelled.set()

    def _read_page(self, filter_: EventFilter, limit: int, end: int | None) -> Page:
        marks = filter_.marks()
        events: list[StoredEvent] = []
        with self._path.open("rb", buffering=0) as file:
            stop = -1
            for place in lines_backwards(file.fileno(), end):
                if stop < 0:
                    stop = place.end - PAGE_SCAN_BYTES
                if len(events) == limit or place.end < stop:
                    return Page(events=tuple(events), next_page_token=self._tokens.make(filter_, place.end))
                if all(mark in place.data for mark in marks):
                    event = parse(place.data)
                    if event is not None and filter_.matches(event):
                        events.append(event)
        return Page(events=tuple(events), next_page_token="")
