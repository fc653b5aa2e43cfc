"""Reading back: newest first, filtered, in pages that fit their filter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sandgate_gateway.audit import backwards, reader
from sandgate_gateway.audit.codes import Code
from sandgate_gateway.audit.event import AuditEvent
from sandgate_gateway.audit.log import AuditLog
from sandgate_gateway.audit.reader import AuditReader
from sandgate_gateway.audit.stored import EventFilter
from sandgate_gateway.domain.verdict import Outcome, Verdict
from sandgate_gateway.errors import ErrorReason, RequestRejected

MakeEvent = Callable[..., AuditEvent]
OpenLog = Callable[[], Awaitable[AuditLog]]
KEY = bytes(range(32))


async def test_newest_comes_first(open_log: OpenLog, make_event: MakeEvent, audit_file: Path) -> None:
    """A query gives the newest records first, with the fields that readers ask for and the exact stored bytes."""
    log = await open_log()
    events = [make_event(thread=f"thread-{number}") for number in range(5)]
    for event in events:
        await log.write(event)
    page = await AuditReader(audit_file, page_key=KEY).query(EventFilter(event="tool.call.finished"))
    assert [found.event_id for found in page.events] == [event.event_id for event in reversed(events)]
    assert page.next_page_token == ""
    newest = page.events[0]
    assert newest.record_json == audit_file.read_bytes().splitlines()[-1]
    assert (newest.thread, newest.tool, newest.tenant, newest.stage) == ("thread-4", "bash", "default", "finished")
    assert newest.verdict is Verdict.PASS
    assert newest.outcome is Outcome.COMPLETED
    assert newest.occurred_at == events[-1].occurred_at


async def test_each_filter_selects(open_log: OpenLog, make_event: MakeEvent, audit_file: Path) -> None:
    """Every field of a filter leaves exactly the records that have it; together they all must fit."""
    log = await open_log()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    plain = make_event(occurred_at=start)
    other = make_event(
        code=Code.CALL_DENIED,
        thread='thré"ad\n',
        tool="ls",
        tenant="other",
        verdict=Verdict.BLOCK,
        occurred_at=start + timedelta(hours=1),
    )
    middleware = AuditEvent(
        code=Code.MIDDLEWARE_EVENT, name="middleware:loop-stopped", occurred_at=start + timedelta(hours=2)
    )
    for event in (plain, other, middleware):
        await log.write(event)
    found = AuditReader(audit_file, page_key=KEY)

    async def names(filter_: EventFilter) -> list[str]:
        known = {plain.event_id: "plain", other.event_id: "other", middleware.event_id: "middleware"}
        page = await found.query(filter_)
        return [known[event.event_id] for event in page.events if event.event_id in known]

    assert await names(EventFilter()) == ["middleware", "other", "plain"]
    assert await names(EventFilter(tenant="default")) == ["plain"]
    assert await names(EventFilter(thread='thré"ad\n')) == ["other"]
    assert await names(EventFilter(audit_id=plain.audit_id)) == ["plain"]
    assert await names(EventFilter(tool="ls")) == ["other"]
    assert await names(EventFilter(verdict=Verdict.BLOCK)) == ["other"]
    assert await names(EventFilter(outcome=Outcome.COMPLETED)) == ["plain"]
    assert await names(EventFilter(event="tool.call.finished")) == ["other", "plain"]
    assert await names(EventFilter(event="middleware:loop-stopped")) == ["middleware"]
    assert await names(EventFilter(event="middleware:")) == ["middleware"]
    assert await names(EventFilter(start_time=start + timedelta(hours=1))) == ["middleware", "other"]
    assert await names(EventFilter(end_time=start + timedelta(hours=1))) == ["plain"]
    assert await names(EventFilter(tool="ls", tenant="default")) == []
    assert await names(EventFilter(tool='ls","tenant":"default')) == []


async def test_pages_cover_everything_once(open_log: OpenLog, make_event: MakeEvent, audit_file: Path) -> None:
    """Pages follow each other without gap or repeat, while new records come in."""
    log = await open_log()
    for number in range(25):
        await log.write(make_event(thread="wanted" if number % 2 else "other"))
    filter_ = EventFilter(thread="wanted")
    found = AuditReader(audit_file, page_key=KEY)
    everything = [event.event_id for event in (await found.query(filter_)).events]
    seen: list[str] = []
    token = ""
    pages = 0
    while pages == 0 or token:
        page = await found.query(filter_, page_size=5, page_token=token)
        seen += [event.event_id for event in page.events]
        token = page.next_page_token
        pages += 1
        await log.write(make_event(thread="wanted"))
    assert seen == everything
    assert len(seen) == 12
    assert pages == 3


async def test_page_sizes_are_bounded(open_log: OpenLog, make_event: MakeEvent, audit_file: Path) -> None:
    """No size, or a negative one, is 100; more than 1,000 is 1,000."""
    log = await open_log()
    await asyncio.gather(*(log.write(make_event()) for _ in range(1005)))
    found = AuditReader(audit_file, page_key=KEY)
    assert len((await found.query(EventFilter())).events) == 100
    assert len((await found.query(EventFilter(), page_size=-1)).events) == 100
    assert len((await found.query(EventFilter(), page_size=7)).events) == 7
    assert len((await found.query(EventFilter(), page_size=5000)).events) == 1000


async def test_a_page_token_fits_its_query_only(open_log: OpenLog, make_event: MakeEvent, audit_file: Path) -> None:
    """A token of another filter, of another key, changed, or made up is refused with its reason."""
    log = await open_log()
    for _ in range(5):
        await log.write(make_event())
    found = AuditReader(audit_file, page_key=KEY)
    filter_ = EventFilter(tool="bash")
    token = (await found.query(filter_, page_size=2)).next_page_token
    assert token
    assert (await found.query(filter_, page_size=2, page_token=token)).events
    foreign = (await AuditReader(audit_file, page_key=bytes(32)).query(filter_, page_size=2)).next_page_token
    changed = ("A" if token[0] != "A" else "B") + token[1:]
    for bad in (foreign, changed, token[:-4], token + "AAAA", "x", "é", "=", "\n", "A" * 100_000):
        with pytest.raises(RequestRejected) as caught:
            await found.query(filter_, page_token=bad)
        assert caught.value.reason is ErrorReason.PAGE_TOKEN_INVALID
    with pytest.raises(RequestRejected):
        await found.query(EventFilter(tool="ls"), page_token=token)


async def test_a_page_reads_a_bounded_part(
    open_log: OpenLog, make_event: MakeEvent, audit_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter that nothing fits ends its page early, with a token to go on; only an empty token says the end."""
    log = await open_log()
    await log.write(make_event(thread="needle"))
    for _ in range(200):
        await log.write(make_event())
    monkeypatch.setattr(reader, "PAGE_SCAN_BYTES", 20_000)
    found = AuditReader(audit_file, page_key=KEY)
    filter_ = EventFilter(thread="needle")
    pages = [await found.query(filter_)]
    while pages[-1].next_page_token:
        pages.append(await found.query(filter_, page_token=pages[-1].next_page_token))
    assert len(pages) > 3
    assert [len(page.events) for page in pages[:-1]] == [0] * (len(pages) - 1)
    assert len(pages[-1].events) == 1


async def test_lines_that_are_no_records_are_passed_over(
    open_log: OpenLog, make_event: MakeEvent, audit_file: Path
) -> None:
    """A query shows what can be read; that something is broken is for verify to say."""
    log = await open_log()
    await log.write(make_event())
    with audit_file.open("ab") as file:
        file.write(b'not json\n[1]\n{"event_id":5}\n{"occurred_at":"never"}\n\n\xff\xfe\n' + b"[" * 5000 + b"\n")
    await log.write(make_event())
    page = await AuditReader(audit_file, page_key=KEY).query(EventFilter(event="tool.call.finished"))
    assert len(page.events) == 2


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_lines_are_found_whatever_the_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Reading backwards gives every whole line with its exact place, also where a read ends inside one."""
    monkeypatch.setattr(backwards, "CHUNK_BYTES", chunk)
    data = b"first\n\nthird line is longer\n" + b"x" * 300 + b"\nlast\nhalf"
    path = tmp_path / "lines"
    path.write_bytes(data)
    with path.open("rb") as file:
        places = list(backwards.lines_backwards(file.fileno()))
    assert [place.data for place in reversed(places)] == data.splitlines(keepends=True)[:-1]
    assert all(data[place.start : place.end] == place.data for place in places)


def test_no_lines_in_an_empty_file_or_in_half_a_line(tmp_path: Path) -> None:
    """Neither has a whole line."""
    path = tmp_path / "lines"
    for data in (b"", b"half"):
        path.write_bytes(data)
        with path.open("rb") as file:
            assert list(backwards.lines_backwards(file.fileno())) == []


def test_a_line_of_absurd_length_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown as an empty one in its right place, and the lines around it are whole."""
    monkeypatch.setattr(backwards, "CHUNK_BYTES", 10)
    monkeypatch.setattr(backwards, "LONGEST_LINE_BYTES", 50)
    path = tmp_path / "lines"
    path.write_bytes(b"before\n" + b"x" * 500 + b"\nafter\n")
    with path.open("rb") as file:
        places = list(backwards.lines_backwards(file.fileno()))
    assert [(place.start, place.end, place.data) for place in places] == [
        (508, 514, b"after\n"),
        (7, 508, b""),
        (0, 7, b"before\n"),
    ]
