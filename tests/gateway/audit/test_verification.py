"""Verify finds what was changed, removed or moved, and says where."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sandgate_gateway.audit.event import AuditEvent
from sandgate_gateway.audit.log import AuditLog
from sandgate_gateway.audit.reader import AuditReader
from sandgate_gateway.audit.verification import LIMITS, Verification

MakeEvent = Callable[..., AuditEvent]
OpenLog = Callable[[], Awaitable[AuditLog]]
Lines = list[bytes]


@pytest.fixture
async def stored(open_log: OpenLog, make_event: MakeEvent, audit_file: Path) -> Lines:
    """Write two lives of five records each, 12 lines in all, and give the lines."""
    for _ in range(2):
        log = await open_log()
        for _ in range(5):
            await log.write(make_event())
        await log.stop()
    return audit_file.read_bytes().splitlines(keepends=True)


async def check(file: Path, log: AuditLog | None = None) -> Verification:
    """Verify a file."""
    return await AuditReader(file, page_key=bytes(32), log=log).verify()


def edited(line: bytes) -> bytes:
    """Change one word of a record."""
    assert b'"bash"' in line
    return line.replace(b'"bash"', b'"grep"')


async def test_a_whole_file_is_intact(stored: Lines, audit_file: Path) -> None:
    """It counts the records and the chains, and says what it cannot notice."""
    result = await check(audit_file)
    assert result.intact
    assert result.problem == ""
    assert (result.record_count, result.chain_count) == (len(stored), 2)
    assert result.limits == LIMITS


def edit(lines: Lines) -> Lines:
    """Change line 3."""
    return [*lines[:2], edited(lines[2]), *lines[3:]]


def edit_the_last_of_a_life(lines: Lines) -> Lines:
    """Change line 6, the last of the first life."""
    return [*lines[:5], edited(lines[5]), *lines[6:]]


def delete(lines: Lines) -> Lines:
    """Remove line 3."""
    return lines[:2] + lines[3:]


def delete_the_last_of_a_life(lines: Lines) -> Lines:
    """Remove line 6."""
    return lines[:5] + lines[6:]


def delete_a_life(lines: Lines) -> Lines:
    """Remove the whole first life."""
    return lines[6:]


def delete_an_opening(lines: Lines) -> Lines:
    """Remove line 7, where the second life begins."""
    return lines[:6] + lines[7:]


def swap(lines: Lines) -> Lines:
    """Exchange lines 3 and 4."""
    return [*lines[:2], lines[3], lines[2], *lines[4:]]


def repeat(lines: Lines) -> Lines:
    """Copy line 3."""
    return [*lines[:3], lines[2], *lines[3:]]


def repeat_a_life(lines: Lines) -> Lines:
    """Copy the first life behind the second."""
    return lines + lines[:6]


def insert(lines: Lines) -> Lines:
    """Put a record of somebody else in between."""
    return [*lines[:3], b'{"event":"tool.call.finished"}\n', *lines[3:]]


def empty_line(lines: Lines) -> Lines:
    """Put an empty line in between."""
    return [*lines[:3], b"\n", *lines[3:]]


def renumber(lines: Lines) -> Lines:
    """Remove line 3 and let line 4 take its number and its link."""
    record = json.loads(lines[3])
    record["sequence"] = 3
    record["previous_digest"] = json.loads(lines[2])["previous_digest"]
    return [*lines[:2], json.dumps(record, separators=(",", ":")).encode() + b"\n", *lines[4:]]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (edit, "line 3: this record was changed"),
        (edit_the_last_of_a_life, "line 7: the record before this line was changed or removed"),
        (delete, "line 3: records 3 to 3 before this one are missing"),
        (delete_the_last_of_a_life, "line 6: the record before this line was changed or removed"),
        (delete_a_life, "line 1: the records before the first line are missing"),
        (delete_an_opening, "line 7: this record belongs to another chain"),
        (swap, "line 3: records 3 to 3 before this one are missing or moved"),
        (repeat, "line 4: record 3 comes after record 3; records were moved or copied"),
        (repeat_a_life, "line 13: this chain was opened before"),
        (insert, "line 4: this is no record"),
        (empty_line, "line 4: this is no record"),
        (renumber, "line 4: records 4 to 4 before this one are missing"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_tampering_is_found(
    stored: Lines, audit_file: Path, change: Callable[[Lines], Lines], problem: str
) -> None:
    """Each way of tampering is found, with the line at which it shows."""
    audit_file.write_bytes(b"".join(change(stored)))
    result = await check(audit_file)
    assert not result.intact
    assert result.problem.startswith(problem)


async def test_any_changed_byte_before_the_last_record_is_found(stored: Lines, audit_file: Path) -> None:
    """Whichever byte is changed, in whichever record but the newest: the file is not intact."""
    data = b"".join(stored)
    for place in range(0, len(data) - len(stored[-1]), 97):
        audit_file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert not (await check(audit_file)).intact, f"byte {place}"


async def test_what_a_file_alone_cannot_show(stored: Lines, audit_file: Path) -> None:
    """Cut at the end, or changed in the newest record, a file of a stopped gateway looks whole; the limits say so."""
    for lines in (stored[:-1], [*stored[:-1], edited(stored[-1])]):
        audit_file.write_bytes(b"".join(lines))
        result = await check(audit_file)
        assert result.intact
        assert "newest records were cut off" in result.limits


async def test_a_running_gateway_notices_its_own_newest_records(
    open_log: OpenLog, make_event: MakeEvent, audit_file: Path
) -> None:
    """The writer knows what it wrote last, so cutting that off or changing it is found while it runs."""
    log = await open_log()
    for _ in range(3):
        await log.write(make_event())
    whole = audit_file.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert (await check(audit_file, log)).intact
    for changed in (b"".join(lines[:-1]), b"".join([*lines[:-1], edited(lines[-1])])):
        audit_file.write_bytes(changed)
        assert (await check(audit_file, log)).problem.endswith(
            "the newest records are missing or changed; the gateway wrote others here"
        )
    audit_file.write_bytes(whole)
    assert (await check(audit_file, log)).intact


async def test_half_a_line_at_the_end_is_not_judged(stored: Lines, audit_file: Path) -> None:
    """It is being written, or will be moved aside at the next start."""
    audit_file.write_bytes(b"".join(stored) + b'{"schema')
    assert (await check(audit_file)).record_count == len(stored)


async def test_an_absurd_line_is_a_problem_and_not_a_lot_of_memory(stored: Lines, audit_file: Path) -> None:
    """A line of many megabytes is read in pieces and reported."""
    audit_file.write_bytes(stored[0] + b"x" * (9 << 20) + b"\n" + stored[1])
    assert (await check(audit_file)).problem == "line 2: this is no record"


async def test_a_missing_file_is_an_error(audit_file: Path) -> None:
    """Nothing to read is not the same as nothing wrong."""
    with pytest.raises(FileNotFoundError):
        await check(audit_file)
