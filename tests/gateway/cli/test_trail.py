"""The audit trail as a table."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from sandgate_gateway.audit.stored import StoredEvent, parse
from sandgate_gateway.cli.trail import trail_table, what


def stored(**fields: object) -> StoredEvent:
    """Make an event as it comes from the file."""
    record = {"event_id": "1", "event": "tool.call.finished", "stage": "finished", "tool": "bash", **fields}
    event = parse(json.dumps({"occurred_at": "2026-07-01T12:00:01.500000Z", **record}).encode())
    assert event is not None
    return event


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"command_preview": "ls -la"}, "ls -la"),
        ({"arguments_preview": '{"path": "/x", "append": true}'}, "path=/x append=True"),
        ({"arguments_preview": '{"path": "/x", "conte…'}, '{"path": "/x", "conte…'),
        ({"arguments_preview": "{}"}, ""),
        ({"command_digest": "hmac-sha256:" + "a" * 64}, "hmac-sha256:aaaaaaaaaaaa…"),
        ({}, ""),
    ],
)
def test_what_was_asked(fields: dict[str, object], text: str) -> None:
    """The command, the arguments, or a digest, as far as it is on record."""
    assert what(stored(**fields)) == text


def test_a_narrow_terminal_cuts_the_command_only() -> None:
    """Verdict, outcome, exit code and duration stay whole in 80 columns, one line a call."""
    event = stored(command_preview="x" * 200, verdict="pass", outcome="timed_out", exit_code=124, duration_ms=60012.3)
    refused = stored(error_reason="CAPACITY_EXHAUSTED")
    file = io.StringIO()
    Console(file=file, width=80).print(trail_table([event, refused]))
    lines = [line for line in file.getvalue().splitlines() if line.strip().startswith("12:00:01")]
    assert len(lines) == 2
    assert all(len(line) <= 80 for line in lines)
    for word in ("bash", "xxx…", "pass", "timed_out", "124", "60012"):
        assert word in lines[0]
    assert "CAPACITY_EXHAUSTED" in lines[1]
