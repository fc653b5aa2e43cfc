"""One audit event: a frozen value, made of blocks (`blocks.py`) that a call's records share.

Fields are only ever added; golden files in the tests hold the form. What the log itself knows (`sequence`, `chain`,
`previous_digest` and who emits) is added by `AuditLog`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sandgate_gateway.audit.blocks import (
    Action,
    Actor,
    Correlation,
    Judgement,
    Record,
    Result,
    Source,
    Target,
    put_texts,
)
from sandgate_gateway.audit.codes import Code
from sandgate_gateway.domain.call import JsonValue

__all__ = ["Action", "Actor", "AuditEvent", "Correlation", "Judgement", "Record", "Result", "Source", "Target"]
# An event cannot be made without its blocks, so whoever makes one finds them here.

SCHEMA_VERSION = 1
"""Raised only when a reader of the old form would misread the new one; added fields do not count."""

MIDDLEWARE_PREFIX = Code.MIDDLEWARE_EVENT.event


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """Something that must be on record.

    The code fixes the event's name, the stage and the outcome, so these can never contradict each other.
    """

    code: Code
    occurred_at: datetime
    """With a time zone; stored in UTC to the microsecond."""
    event_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    audit_id: str = ""
    """The call that it belongs to; empty for events that are no calls."""
    name: str = ""
    """Only for `Code.MIDDLEWARE_EVENT`: the whole name, for example `middleware:loop-stopped`."""
    received_at: datetime | None = None
    duration_ms: float | None = None
    """From the monotonic clock."""
    correlation: Correlation | None = None
    actor: Actor | None = None
    source: Source | None = None
    action: Action | None = None
    target: Target | None = None
    judgement: Judgement | None = None
    result: Result | None = None
    annotations: Mapping[str, JsonValue] | None = None
    """What stages found out, each under `stage/name`; they cannot replace a field of the record."""

    def __post_init__(self) -> None:
        if self.occurred_at.tzinfo is None:
            raise ValueError("an audit time has a time zone")
        if (self.code is Code.MIDDLEWARE_EVENT) != bool(self.name):
            raise ValueError("a middleware's event, and no other, brings its own name")
        if self.name and not self.name.startswith(MIDDLEWARE_PREFIX):
            raise ValueError(f"the name of a middleware's event begins with {MIDDLEWARE_PREFIX!r}")
        if bool(self.audit_id) != bool(self.code.stage.value):
            raise ValueError("a record of a call has an audit id, and no other record has one")

    @property
    def event(self) -> str:
        """Name of the event."""
        return self.name or self.code.event

    def to_record(self) -> Record:
        """Give the fields that are set, in their fixed order."""
        code = self.code
        record: Record = {
            "schema_version": SCHEMA_VERSION,
            "event": self.name or code.event,
            "code": code.code,
            "event_id": self.event_id,
        }
        put_texts(record, ("audit_id", self.audit_id), ("stage", code.stage.value))
        record["occurred_at"] = _time(self.occurred_at)
        if self.received_at is not None:
            record["received_at"] = _time(self.received_at)
        if self.duration_ms is not None:
            record["duration_ms"] = round(self.duration_ms, 3)
        for block in (self.correlation, self.actor, self.source, self.action, self.target, self.judgement):
            if block is not None:
                block.put(record)
        put_texts(record, ("outcome", code.outcome))
        if self.result is not None:
            self.result.put(record)
        if self.action is not None:
            self.action.put_privacy(record)
        if self.annotations:
            record["annotations"] = dict(self.annotations)
        return record


def _time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
