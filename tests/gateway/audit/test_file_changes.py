"""When somebody else touches the audit file, or its writer changes: no acknowledged record becomes unreadable."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandgate_gateway.audit.codes import Code
from sandgate_gateway.audit.event import AuditEvent
from sandgate_gateway.audit.file import AuditFile
from sandgate_gateway.audit.log import AuditLog
from sandgate_gateway.audit.reader import AuditReader
from sandgate_gateway.audit.rendering import Emitter
from sandgate_gateway.audit.stored import EventFilter
from sandgate_gateway.audit.verification import verify_file
from sandgate_gateway.errors import Unavailable

MakeEvent = Callable[..., AuditEvent]
OpenLog = Callable[[], Awaitable[AuditLog]]


@pytest.mark.parametrize("lost_bytes", [1, 5])
async def test_a_record_is_not_glued_to_half_a_line(
    open_log: OpenLog, make_event: MakeEvent, audit_file: Path, lost_bytes: int
) -> None:
    """Somebody cut the file in the middle of a record: the next one begins a line, is found, and `verify` complains."""
    log = await open_log()
    await log.write(make_event())
    os.truncate(audit_file, audit_file.stat().st_size - lost_bytes)
    event = make_event()
    await log.write(event)
    await log.write(make_event())
    reader = AuditReader(audit_file, page_key=bytes(32), log=log)
    page = await reader.query(EventFilter(audit_id=event.audit_id))
    assert [found.event_id for found in page.events] == [event.event_id]
    if lost_bytes > 1:
        assert not (await reader.verify()).intact


def test_a_gateway_that_ends_while_the_next_starts_breaks_no_chain(
    audit_file: Path, emitter: Emitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last words of the old gateway may come after the new one opened the file, and before it got the lock."""
    old = AuditFile(audit_file, emitter)
    old.open()
    real = fcntl.flock

    def late(descriptor: int, operation: int) -> None:
        old.append([AuditEvent(code=Code.GATEWAY_STOPPED, occurred_at=datetime.now(UTC)).to_record()])
        old.close()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)  # stands in for a scheduler that stops the new gateway here
    new = AuditFile(audit_file, emitter)
    new.open()
    new.close()
    assert verify_file(audit_file, head=None, cancelled=threading.Event()).problem == ""


async def test_records_that_were_given_up_are_on_record(
    make_event: MakeEvent, audit_file: Path, emitter: Emitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that waited too long for a slow disk is not written; how many that were is, once writing goes on."""
    log = AuditLog(audit_file, emitter, write_timeout_seconds=0.05)
    await log.start()
    gate, real = threading.Event(), os.write

    def hang(descriptor: int, data: bytes) -> int:
        if threading.current_thread().name == "sandgate-audit":
            assert gate.wait(10)
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", hang)  # stands in for the kernel of a hanging disk
    for _ in range(3):  # the first is on its way into the file; the others never get there
        with pytest.raises(Unavailable, match="does not take it"):
            await log.write(make_event())
    gate.set()
    await log.write(make_event())
    await log.stop()
    records = [json.loads(line) for line in audit_file.read_bytes().splitlines()]
    resumed = [record for record in records if record["event"] == "audit.writes.resumed"]
    assert sum(record["annotations"]["audit/refused"] for record in resumed) == 2
    assert (await AuditReader(audit_file, page_key=bytes(32)).verify()).problem == ""


async def test_a_disk_that_fails_at_the_close_holds_up_no_stop(
    make_event: MakeEvent, audit_file: Path, emitter: Emitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems report at the close what went wrong before; the log still ends, at once."""
    log = AuditLog(audit_file, emitter)
    await log.start()
    await log.write(make_event())
    real = os.close

    def fail(descriptor: int) -> None:
        real(descriptor)
        if threading.current_thread().name == "sandgate-audit":
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "close", fail)  # stands in for a network file system
    monkeypatch.setattr("sandgate_gateway.audit.log.STOP_TIMEOUT_SECONDS", 2.0)
    await log.stop()


async def test_a_time_without_a_zone_is_no_record(audit_file: Path) -> None:
    """Whoever may write the file cannot make queries fail with it."""
    audit_file.parent.mkdir(parents=True)
    audit_file.write_text('{"event":"x","occurred_at":"2026-01-01T00:00:00"}\n', encoding="utf-8")
    reader = AuditReader(audit_file, page_key=bytes(32))
    page = await reader.query(EventFilter(start_time=datetime(2020, 1, 1, tzinfo=UTC)))
    assert page.events == ()
