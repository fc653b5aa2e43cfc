"""The audit trail as a table: one row a call."""

from __future__ import annotations

import json

from rich import box
from rich.table import Table
from rich.text import Text

from sandgate_gateway.audit.codes import Stage
from sandgate_gateway.audit.reader import MAX_PAGE_EVENTS, AuditReader
from sandgate_gateway.audit.stored import EventFilter, StoredEvent

DIGEST_CHARACTERS = 24

_OUTCOME_STYLES = {
    "completed": "green",
    "failed": "yellow",
    "denied": "red",
    "timed_out": "yellow",
    "cancelled": "yellow",
    "lost": "red",
    "interrupted": "red",
}


async def read_trail(reader: AuditReader) -> list[StoredEvent]:
    """Read the last record of every call, the oldest call first."""
    ends: list[StoredEvent] = []
    token = ""
    while True:
        page = await reader.query(EventFilter(), page_size=MAX_PAGE_EVENTS, page_token=token)
        ends += [event for event in page.events if event.stage in (Stage.FINISHED.value, Stage.ABORTED.value)]
        token = page.next_page_token
        if not token:
            return ends[::-1]


def trail_table(ends: list[StoredEvent]) -> Table:
    """Lay out the calls."""
    table = Table(
        title="The audit trail",
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("UTC", no_wrap=True)
    table.add_column("tool", no_wrap=True)
    table.add_column("what")  # the only column that gives way in a narrow terminal; its texts are cut, not folded
    for heading in ("verdict", "outcome"):
        table.add_column(heading, no_wrap=True)
    for heading in ("exit", "ms"):
        table.add_column(heading, no_wrap=True, justify="right")
    for event in ends:
        outcome = _text(event, "outcome") or _text(event, "error_reason") or event.stage
        table.add_row(
            f"{event.occurred_at:%H:%M:%S}",
            Text(event.tool),
            Text(what(event), no_wrap=True, overflow="ellipsis"),
            _text(event, "verdict"),
            Text(outcome, style=_OUTCOME_STYLES.get(outcome, "")),
            _text(event, "exit_code"),
            _milliseconds(event),
        )
    return table


def what(event: StoredEvent) -> str:
    """Say what was asked, as far as that is on record: the command, the arguments, or only a digest; on one line."""
    if command := _text(event, "command_preview"):
        return command
    if arguments := _text(event, "arguments_preview"):
        return _readable(arguments)
    digest = _text(event, "command_digest") or _text(event, "arguments_digest")
    return digest and f"{digest[:DIGEST_CHARACTERS]}…"


def _readable(arguments: str) -> str:
    """Write arguments as `name=value`; what was cut is no JSON any more and stays as it is."""
    try:
        values = json.loads(arguments)
    except ValueError:
        return arguments
    return " ".join(f"{name}={value}" for name, value in values.items()) if isinstance(values, dict) else arguments


def _text(event: StoredEvent, name: str) -> str:
    value = event.record.get(name)
    return str(value) if isinstance(value, str | int) else ""


def _milliseconds(event: StoredEvent) -> str:
    value = event.record.get("duration_ms")
    return f"{value:.0f}" if isinstance(value, int | float) else ""
