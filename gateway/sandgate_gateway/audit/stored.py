"""Events as they come back from the file, and which of them are wanted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import cast

from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.domain.verdict import Outcome, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """One record, with the fields that readers ask for taken out of it."""

    event_id: str
    event: str
    occurred_at: datetime
    audit_id: str = ""
    stage: str = ""
    tenant: str = ""
    thread: str = ""
    tool: str = ""
    verdict: Verdict | None = None
    outcome: Outcome | None = None
    """None while a call runs, and for an ending that is no outcome of a tool, for example `abandoned`."""
    record: Mapping[str, JsonValue]
    """Everything."""
    record_json: bytes
    """The same, as it is stored, without the line feed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events are wanted; a field that is empty or None matches all."""

    tenant: str = ""
    """Whoever may see one tenant's records only must have it set; records of no tenant are then left out too."""
    thread: str = ""
    audit_id: str = ""
    tool: str = ""
    verdict: Verdict | None = None
    outcome: Outcome | None = None
    event: str = ""
    """The whole name, or a family with a colon at its end: `middleware:` matches all events of middlewares."""
    start_time: datetime | None = None
    """Not before this time; with a time zone."""
    end_time: datetime | None = None
    """Before this time; with a time zone."""

    def __post_init__(self) -> None:
        for time in (self.start_time, self.end_time):
            if time is not None and time.tzinfo is None:
                raise ValueError("a time in a filter has a time zone")

    def matches(self, event: StoredEvent) -> bool:
        """Say whether an event is wanted."""
        return (
            (not self.tenant or event.tenant == self.tenant)
            and (not self.thread or event.thread == self.thread)
            and (not self.audit_id or event.audit_id == self.audit_id)
            and (not self.tool or event.tool == self.tool)
            and (self.verdict is None or event.verdict is self.verdict)
            and (self.outcome is None or event.outcome is self.outcome)
            and self._matches_name(event.event)
            and (self.start_time is None or event.occurred_at >= self.start_time)
            and (self.end_time is None or event.occurred_at < self.end_time)
        )

    def marks(self) -> tuple[bytes, ...]:
        """Give pieces of text that every matching line holds, so that most other lines need not be parsed."""
        fields = {
            "tenant": self.tenant,
            "thread": self.thread,
            "audit_id": self.audit_id,
            "tool": self.tool,
            "verdict": self.verdict.word if self.verdict else "",
            "outcome": self.outcome.value if self.outcome else "",
            "event": "" if self.event.endswith(":") else self.event,
        }
        return tuple(f'"{name}":{json.dumps(value)}'.encode("ascii") for name, value in fields.items() if value)

    def digest(self) -> str:
        """Tell filters apart, so that a page token of one cannot be used with another."""
        text = repr(
            (
                self.tenant,
                self.thread,
                self.audit_id,
                self.tool,
                self.verdict,
                self.outcome,
                self.event,
                self.start_time and self.start_time.timestamp(),
                self.end_time and self.end_time.timestamp(),
            )
        )
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def _matches_name(self, name: str) -> bool:
        if self.event.endswith(":"):
            return name.startswith(self.event)
        return not self.event or name == self.event


def parse(line: bytes) -> StoredEvent | None:
    """Read one line; None when it is no record. `verify` is who complains about such a line."""
    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            return None
        record = cast("dict[str, JsonValue]", record)
        return StoredEvent(
            event_id=_text(record, "event_id"),
            event=_text(record, "event"),
            occurred_at=_time(_text(record, "occurred_at")),
            audit_id=_text(record, "audit_id"),
            stage=_text(record, "stage"),
            tenant=_text(record, "tenant"),
            thread=_text(record, "thread"),
            tool=_text(record, "tool"),
            verdict=_verdict(_text(record, "verdict")),
            outcome=_outcome(_text(record, "outcome")),
            record=MappingProxyType(record),
            record_json=line.rstrip(b"\n"),
        )
    except (ValueError, RecursionError):
        return None


def _text(record: Mapping[str, JsonValue], name: str) -> str:
    value = record.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")  # noqa: TRY004 - one kind of error for every way to be no record
    return value


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("a time without a zone cannot be compared")
    return time


def _verdict(word: str) -> Verdict | None:
    return next((verdict for verdict in Verdict if verdict.word == word), None)


def _outcome(word: str) -> Outcome | None:
    return next((outcome for outcome in Outcome if outcome.value == word), None)
