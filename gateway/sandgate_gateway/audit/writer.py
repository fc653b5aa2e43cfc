"""The one thread that owns the audit file.

It takes everything that waits, writes it in one piece (group commit), and wakes the waiters once for the whole batch:
many calls at once cost one write and one wake-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sandgate_gateway.audit.blocks import Record
from sandgate_gateway.audit.codes import Code
from sandgate_gateway.audit.event import AuditEvent
from sandgate_gateway.audit.file import AuditFile, Head

BATCH_RECORDS = 256
"""Records in one write; bounds how long the first of them waits for the last to be rendered (about 5 ms)."""

_logger = logging.getLogger(__name__)


class Entry:
    """A record on its way into the file, and who waits for it."""

    __slots__ = ("expired", "future", "record")

    def __init__(self, record: Record, future: asyncio.Future[None]) -> None:
        self.record = record
        self.future = future
        self.expired = False
        """Set on the loop when the waiter gave up; such a record is not written any more."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of one entry."""

    entry: Entry
    error: Exception | None
    """None: it is stored. An OSError is the disk's; anything else is a bug in the record."""


Settle = Callable[[Sequence[Settlement], Sequence[bytes], Head], None]
"""Takes a batch's settlements, the stored lines and the new head; called on the loop."""


class Writer:
    """Runs the thread."""

    def __init__(
        self, file: AuditFile, loop: asyncio.AbstractEventLoop, settle: Settle, end: Callable[[], None]
    ) -> None:
        self._file = file
        self._loop = loop
        self._settle = settle
        self._end = end
        self._queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="sandgate-audit", daemon=True)
        self._refused = 0

    @property
    def alive(self) -> bool:
        """False once it has ended, for whatever reason."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, entry: Entry) -> None:
        """Queue one record. The caller bounds how many."""
        self._queue.put(entry)

    def stop(self) -> None:
        """Let the thread end once everything that was queued before is written."""
        self._queue.put(None)

    def _run(self) -> None:
        try:
            going = True
            while going:
                batch, going = self._take()
                self._commit(batch)
        finally:
            try:
                self._file.close()
            except OSError:
                _logger.exception("audit: %s could not be closed; its newest records may be lost", self._file.path)
            finally:
                self._call(self._end)

    def _take(self) -> tuple[list[Entry], bool]:
        """Wait for a record, then take all that wait; false when it was told to stop."""
        batch: list[Entry] = []
        item = self._queue.get()
        while item is not None:
            batch.append(item)
            if len(batch) >= BATCH_RECORDS:
                return batch, True
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False

    def _commit(self, batch: Sequence[Entry]) -> None:
        if not batch:
            return
        lines: list[bytes] = []
        wanted: list[Entry] = []
        settlements: list[Settlement] = []
        for entry in batch:
            if entry.expired:
                settlements.append(Settlement(entry, TimeoutError("it waited too long")))
                self._refused += 1
            else:
                wanted.append(entry)
        if self._refused and (error := self._resume(lines)) is not None:
            self._refused += len(wanted)
            self._report([*settlements, *(Settlement(entry, error) for entry in wanted)], lines)
            return
        appended = self._file.append([entry.record for entry in wanted])
        bugs = dict(appended.bugs)
        for place, (entry, line) in enumerate(zip(wanted, appended.lines, strict=True)):
            if line is not None:
                lines.append(line.data)
                settlements.append(Settlement(entry, None))
            else:
                settlements.append(Settlement(entry, bugs.get(place, appended.error)))
        if appended.error is not None:
            _logger.error("audit: records cannot be written to %s: %s", self._file.path, appended.error)
            self._refused += appended.lines.count(None) - len(bugs)
        self._report(settlements, lines)

    def _resume(self, lines: list[bytes]) -> OSError | None:
        """After a failure, first put on record how many records are missing."""
        event = AuditEvent(
            code=Code.WRITES_RESUMED, occurred_at=datetime.now(UTC), annotations={"audit/refused": self._refused}
        )
        appended = self._file.append([event.to_record()])
        if appended.error is not None:
            return appended.error
        lines.extend(line.data for line in appended.lines if line is not None)
        _logger.warning("audit: records can be written again; %d were refused", self._refused)
        self._refused = 0
        return None

    def _report(self, settlements: Sequence[Settlement], lines: Sequence[bytes]) -> None:
        self._call(self._settle, settlements, lines, self._file.head)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        # A loop that was closed has nobody left to tell.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)
