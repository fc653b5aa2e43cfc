"""Writing: acknowledged records are on disk, in order, whole, and in a chain."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import stat
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sandgate_gateway.audit.event import AuditEvent, Correlation
from sandgate_gateway.audit.log import AuditLog
from sandgate_gateway.audit.reader import AuditReader
from sandgate_gateway.audit.rendering import Emitter
from sandgate_gateway.errors import ErrorReason, Misconfigured, Unavailable

MakeEvent = Callable[..., AuditEvent]
OpenLog = Callable[[], Awaitable[AuditLog]]


def lines(file: Path) -> list[dict[str, object]]:
    """Read every record."""
    return [json.loads(line) for line in file.read_bytes().splitlines()]


async def verify(file: Path) -> str:
    """Give the first problem of a file."""
    return (await AuditReader(file, page_key=bytes(32)).verify()).problem


async def test_a_record_is_in_the_file_when_write_returns(
    open_log: OpenLog, make_event: MakeEvent, audit_file: Path
) -> None:
    """What was acknowledged can be read by anybody at once."""
    log = await open_log()
    event = make_event()
    await log.write(event)
    assert lines(audit_file)[-1]["event_id"] == event.event_id


async def test_many_writers_lose_nothing(open_log: OpenLog, make_event: MakeEvent, audit_file: Path) -> None:
    """50 tasks with 100 records each: all are there once, numbered without a gap, in a chain that holds."""
    log = await open_log()
    written: list[str] = []

    async def work(number: int) -> None:
        for _ in range(100):
            event = make_event(thread=f"thread-{number}")
            await log.write(event)
            written.append(event.event_id)

    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(work(number))
    records = lines(audit_file)
    assert [record["sequence"] for record in records] == list(range(1, 5002))
    assert sorted(str(record["event_id"]) for record in records[1:]) == sorted(written)
    assert await verify(audit_file) == ""
    assert log.counts.written == 5000
    assert log.counts.refused == 0


async def test_each_record_names_the_digest_of_the_line_before_it(
    open_log: OpenLog, make_event: MakeEvent, audit_file: Path
) -> None:
    """The digest is SHA-256 over the exact bytes of the line, its line feed included: `sed -n 5p FILE | sha256sum`."""
    log = await open_log()
    for _ in range(3):
        await log.write(make_event())
    stored = audit_file.read_bytes().splitlines(keepends=True)
    for before, line in itertools.pairwise(stored):
        assert json.loads(line)["previous_digest"] == hashlib.sha256(before).hexdigest()


async def test_every_life_opens_a_chain_that_continues_the_file(
    open_log: OpenLog, make_event: MakeEvent, audit_file: Path
) -> None:
    """A restart begins a chain of its own, linked to the last line of the one before."""
    for _ in range(3):
        log = await open_log()
        await log.write(make_event())
        await log.stop()
    records = lines(audit_file)
    assert [record["event"] for record in records] == ["audit.chain.opened", "tool.call.finished"] * 3
    assert [record["sequence"] for record in records] == [1, 2] * 3
    assert len({record["chain"] for record in records}) == 3
    assert await verify(audit_file) == ""


async def test_file_and_folder_are_private(open_log: OpenLog, audit_file: Path) -> None:
    """Only the gateway's user may read the audit, whatever its umask is."""
    before = os.umask(0)
    try:
        await open_log()
    finally:
        os.umask(before)
    assert stat.S_IMODE(audit_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(audit_file.parent.stat().st_mode) == 0o700


async def test_one_file_has_one_writer(open_log: OpenLog, audit_file: Path, emitter: Emitter) -> None:
    """A second gateway on the same file refuses to start, and says what to do."""
    await open_log()
    with pytest.raises(Misconfigured, match="another gateway writes it"):
        await AuditLog(audit_file, emitter).start()


async def test_a_file_that_cannot_be_opened_is_a_misconfiguration(tmp_path: Path, emitter: Emitter) -> None:
    """A folder, a link or a device in the file's place is named with the setting."""
    folder = tmp_path / "folder"
    folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for path in (folder, link, Path("/dev/null"), Path("/proc/nowhere/audit.jsonl")):
        with pytest.raises(Misconfigured, match=r"audit\.file"):
            await AuditLog(path, emitter).start()
    assert not (tmp_path / "elsewhere").exists()


async def test_half_a_record_at_the_end_is_moved_aside(
    open_log: OpenLog, make_event: MakeEvent, audit_file: Path
) -> None:
    """A crash of the machine may leave half a line: it is kept apart, that is recorded, and the chain holds."""
    log = await open_log()
    await log.write(make_event())
    await log.stop()
    whole = audit_file.read_bytes()
    with audit_file.open("ab") as file:
        file.write(b'{"schema_version":1,"event":"tool.ca')
    log = await open_log()
    assert audit_file.read_bytes().startswith(whole)
    repair = lines(audit_file)[-1]
    assert repair["event"] == "audit.tail.repaired"
    annotations = repair["annotations"]
    assert isinstance(annotations, dict)
    assert annotations["audit/torn_bytes"] == 36
    aside = audit_file.parent / str(annotations["audit/moved_to"])
    assert aside.read_bytes() == b'{"schema_version":1,"event":"tool.ca'
    assert await verify(audit_file) == ""


async def test_a_file_of_half_a_record_only_is_repaired(
    open_log: OpenLog, make_event: MakeEvent, audit_file: Path
) -> None:
    """Also when not a single record is whole, longer than one read."""
    audit_file.parent.mkdir()
    audit_file.write_bytes(b"x" * 200_000)
    log = await open_log()
    await log.write(make_event())
    assert len(lines(audit_file)) == 3
    assert await verify(audit_file) == ""


async def test_a_write_after_the_end_is_refused(open_log: OpenLog, make_event: MakeEvent) -> None:
    """Stopping writes what waits; later writes are told so, and stopping twice is fine."""
    log = await open_log()
    waiting = [asyncio.ensure_future(log.write(make_event())) for _ in range(100)]
    await asyncio.sleep(0)  # let them queue up
    await log.stop()
    assert [task.exception() for task in waiting] == [None] * 100
    with pytest.raises(Unavailable) as caught:
        await log.write(make_event())
    assert caught.value.reason is ErrorReason.AUDIT_UNAVAILABLE
    await log.stop()


async def test_a_write_before_the_start_is_refused(make_event: MakeEvent, audit_file: Path, emitter: Emitter) -> None:
    """A log that nobody started stores nothing and says so; stopping it is fine."""
    log = AuditLog(audit_file, emitter)
    with pytest.raises(Unavailable):
        await log.write(make_event())
    await log.stop()
    assert log.counts.refused == 1


async def test_a_full_queue_is_refused_at_once(make_event: MakeEvent, audit_file: Path, emitter: Emitter) -> None:
    """What waits is bounded: what comes on top is told to try again soon."""
    log = AuditLog(audit_file, emitter, queue_records=10)
    await log.start()
    try:
        results = await asyncio.gather(*(log.write(make_event()) for _ in range(11)), return_exceptions=True)
        refused = [result for result in results if result is not None]
        assert len(refused) == 1
        assert isinstance(refused[0], Unavailable)
        assert refused[0].retry_after_seconds == 1
        await log.write(make_event())
    finally:
        await log.stop()
    assert len(lines(audit_file)) == 12


async def test_a_record_that_json_cannot_say_is_a_bug_of_its_own(
    open_log: OpenLog, make_event: MakeEvent, audit_file: Path
) -> None:
    """Such a record fails alone; those beside it in the same batch are stored and the chain holds."""
    log = await open_log()
    bad = replace(make_event(), annotations={"stage/what": float("nan")})
    worse = replace(make_event(), annotations={"stage/what": object()})  # type: ignore[dict-item]  # the bug
    results = await asyncio.gather(
        *(log.write(event) for event in (make_event(), bad, make_event(), worse, make_event())), return_exceptions=True
    )
    assert [type(result) for result in results] == [type(None), ValueError, type(None), TypeError, type(None)]
    assert len(lines(audit_file)) == 4
    assert await verify(audit_file) == ""


async def test_cancelling_a_writer_harms_nobody(open_log: OpenLog, make_event: MakeEvent, audit_file: Path) -> None:
    """A caller that goes away while it waits gets its cancellation; the records of others are stored."""
    log = await open_log()
    tasks = [asyncio.ensure_future(log.write(make_event())) for _ in range(20)]
    await asyncio.sleep(0)  # let them queue up
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results[::2])
    assert results[1::2] == [None] * 10
    await log.write(make_event())
    assert await verify(audit_file) == ""


async def test_hostile_text_cannot_break_a_line(open_log: OpenLog, make_event: MakeEvent, audit_file: Path) -> None:
    """Line feeds and quotes of a caller stay inside its own value."""
    log = await open_log()
    forged = 'x"}\n{"event":"tool.call.finished","verdict":"pass"}'
    await log.write(replace(make_event(), correlation=Correlation(thread=forged)))
    assert len(lines(audit_file)) == 2
    assert lines(audit_file)[-1]["thread"] == forged
