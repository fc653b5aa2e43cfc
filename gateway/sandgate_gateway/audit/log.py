"""The audit log as the gateway uses it: `await write(event)` returns once the operating system has the record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandgate_gateway.audit.event import AuditEvent
from sandgate_gateway.audit.file import AuditFile, Head
from sandgate_gateway.audit.following import Followers
from sandgate_gateway.audit.rendering import Emitter
from sandgate_gateway.audit.writer import Entry, Settlement, Writer
from sandgate_gateway.errors import ErrorReason, Unavailable

QUEUE_RECORDS = 4096
"""Records that may wait: far above two for each of the 512 calls that a gateway runs at once."""

WRITE_TIMEOUT_SECONDS = 5.0
"""How long a record may wait for a disk that hangs."""

STOP_TIMEOUT_SECONDS = 10.0

FULL_RETRY_SECONDS = 1.0
BROKEN_RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCounts:
    """Since the start of the log."""

    written: int
    refused: int
    """Records that could not be written; whoever wanted them was told."""


class AuditLog:
    """Writes audit events, and refuses loudly when it cannot.

    A record that was acknowledged survives the gateway's own death, KILL included; only a crash of the whole machine
    can take the newest ones. One log belongs to one event loop.
    """

    def __init__(
        self,
        path: Path,
        emitter: Emitter,
        *,
        queue_records: int = QUEUE_RECORDS,
        write_timeout_seconds: float = WRITE_TIMEOUT_SECONDS,
    ) -> None:
        self.path = path
        self.followers = Followers()
        """Whoever reads along; fed after each write."""
        self._file = AuditFile(path, emitter)
        self._queue_records = queue_records
        self._write_timeout_seconds = write_timeout_seconds
        self._waiting: set[Entry] = set()
        self._written = 0
        self._refused = 0
        self._head: Head | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: Writer | None = None
        self._stopping = False
        self._ended = asyncio.Event()

    @property
    def counts(self) -> AuditCounts:
        """How many records were written and refused so far."""
        return AuditCounts(written=self._written, refused=self._refused)

    @property
    def head(self) -> Head | None:
        """The newest record that was acknowledged; None before the start."""
        return self._head

    async def start(self) -> None:
        """Open the file, open this life's chain in it, and start the writer.

        Raises:
            Misconfigured: the file cannot be used, or another process writes it.
        """
        if self._writer is not None:
            raise RuntimeError("an audit log is started once")
        await asyncio.to_thread(self._file.open)
        self._head = self._file.head
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(self._file, self._loop, self._settle, self._end)
        self._writer.start()

    async def stop(self) -> None:
        """Write what waits, then close the file. Idempotent; later writes are refused.

        Raises:
            TimeoutError: the disk hangs; what waits is not stored.
        """
        if self._writer is None:
            return
        if not self._stopping:
            self._stopping = True
            self._writer.stop()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_SECONDS):
                await self._ended.wait()
        finally:
            self.followers.close()

    async def write(self, event: AuditEvent) -> None:
        """Store one event; return once the operating system has it.

        A caller that is cancelled while it waits does not know whether the record is stored; it may be.

        Raises:
            Unavailable: it is not stored (disk full, file gone, queue full, log stopped); `retry_after_seconds` says
                when to try again. After a timeout of five seconds it may be stored all the same.
        """
        loop, writer = self._loop, self._writer
        if loop is None or writer is None or self._stopping or self._ended.is_set() or not writer.alive:
            self._refused += 1
            raise _unavailable("the log is not running", BROKEN_RETRY_SECONDS)
        if len(self._waiting) >= self._queue_records:
            self._refused += 1
            raise _unavailable("too many records wait", FULL_RETRY_SECONDS)
        entry = Entry(event.to_record(), loop.create_future())
        self._waiting.add(entry)
        writer.put(entry)
        timer = loop.call_later(self._write_timeout_seconds, self._expire, entry)
        try:
            await entry.future
        finally:
            timer.cancel()

    def _expire(self, entry: Entry) -> None:
        """Give up on a disk that hangs."""
        if not entry.future.done():
            entry.expired = True
            self._refused += 1
            entry.future.set_exception(_unavailable("the disk does not take it", BROKEN_RETRY_SECONDS))

    def _settle(self, settlements: Sequence[Settlement], lines: Sequence[bytes], head: Head) -> None:
        """Tell the waiters of one batch."""
        self._head = head
        for settlement in settlements:
            entry, error = settlement.entry, settlement.error
            self._waiting.discard(entry)
            if error is None:
                self._written += 1
            elif not entry.expired:
                self._refused += 1
            if entry.future.done():  # its caller is gone, or it waited too long
                continue
            if error is None:
                entry.future.set_result(None)
            elif isinstance(error, OSError):
                entry.future.set_exception(_unavailable(_words(error), BROKEN_RETRY_SECONDS))
            else:
                entry.future.set_exception(error)
        self.followers.offer(lines)

    def _end(self) -> None:
        """Tell everybody that the writer is gone."""
        for entry in self._waiting:
            if not entry.future.done():
                self._refused += 1
                entry.future.set_exception(_unavailable("the log has ended", BROKEN_RETRY_SECONDS))
        self._waiting.clear()
        self._ended.set()


def _unavailable(why: str, retry_after_seconds: float) -> Unavailable:
    return Unavailable(
        ErrorReason.AUDIT_UNAVAILABLE,
        f"the audit record cannot be written, so nothing may run: {why}",
        retry_after_seconds=retry_after_seconds,
        metadata={"cause": why},
    )


def _words(error: OSError) -> str:
    """Say what is wrong without a path of the host: this text reaches clients."""
    return error.strerror or type(error).__name__
