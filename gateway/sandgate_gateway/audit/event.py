"""One audit event: a frozen value, made of blocks that a call's records share.

A block is made once a call and used in both of its records. Fields are only ever added; golden files in the tests hold
the form. What the log itself knows (`sequence`, `chain`, `previous_digest` and who emits) is added by `AuditLog`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sandgate_gateway.audit.codes import Code
from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.domain.verdict import Decision, Reason, Verdict

SCHEMA_VERSION = 1
"""Raised only when a reader of the old form would misread the new one; added fields do not count."""

MIDDLEWARE_PREFIX = Code.MIDDLEWARE_EVENT.event

Record = dict[str, JsonValue]
"""An event as it is stored: fields that are set, in their fixed order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """What the record belongs to. All but the gateway's own audit id comes from the client."""

    request_id: str = ""
    thread: str = ""
    run: str = ""
    tool_call_id: str = ""
    trace_id: str = ""
    span_id: str = ""

    def put(self, record: Record) -> None:
        """Add the fields that are set."""
        _put_texts(
            record,
            ("request_id", self.request_id),
            ("thread", self.thread),
            ("run", self.run),
            ("tool_call_id", self.tool_call_id),
            ("trace_id", self.trace_id),
            ("span_id", self.span_id),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who did it. Tenant, principal, kind and method are verified; the rest is what the agent says of itself."""

    tenant: str
    principal: str
    principal_kind: str
    """`human`, `agent` or `system`."""
    auth_method: str
    claimed_agent_name: str = ""
    claimed_agent_instance: str = ""
    claimed_on_behalf_of: str = ""

    def put(self, record: Record) -> None:
        """Add the fields that are set; claims go into an object of their own."""
        _put_texts(
            record,
            ("tenant", self.tenant),
            ("principal", self.principal),
            ("principal_kind", self.principal_kind),
            ("auth_method", self.auth_method),
        )
        claims: Record = {}
        _put_texts(
            claims,
            ("agent_name", self.claimed_agent_name),
            ("agent_instance", self.claimed_agent_instance),
            ("on_behalf_of", self.claimed_on_behalf_of),
        )
        if claims:
            record["claims"] = claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the request came from: hints, never trusted."""

    peer: str = ""
    user_agent: str = ""

    def put(self, record: Record) -> None:
        """Add the fields that are set."""
        _put_texts(record, ("peer", self.peer), ("user_agent", self.user_agent))


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What was asked. `disclosure.Disclosure` makes it and decides how much of the content is shown."""

    tool: str
    arguments_digest: str = ""
    arguments_bytes: int | None = None
    arguments_preview: str = ""
    command_digest: str = ""
    command_bytes: int | None = None
    command_preview: str = ""
    masked: tuple[str, ...] = ()
    """JSON pointers, into this record, of fields in which something was masked."""
    erased: tuple[str, ...] = ()
    """JSON pointers, into this record, of fields that were cut or left out on purpose."""

    def put(self, record: Record) -> None:
        """Add the fields that are set."""
        record["tool"] = self.tool
        _put_texts(record, ("arguments_digest", self.arguments_digest))
        _put_numbers(record, ("arguments_bytes", self.arguments_bytes))
        _put_texts(record, ("arguments_preview", self.arguments_preview), ("command_digest", self.command_digest))
        _put_numbers(record, ("command_bytes", self.command_bytes))
        _put_texts(record, ("command_preview", self.command_preview))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """On what it was done; empty when the call was refused before a sandbox was opened."""

    provider: str = ""
    sandbox: str = ""
    host: str = ""

    def put(self, record: Record) -> None:
        """Add the fields that are set."""
        _put_texts(record, ("provider", self.provider), ("sandbox", self.sandbox), ("host", self.host))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What was decided before anything ran: the most severe opinion, and every opinion that is more than pass."""

    verdict: Verdict
    decisions: tuple[Decision, ...] = ()

    def put(self, record: Record) -> None:
        """Add the verdict, and who decided it and why when it is more than pass."""
        record["verdict"] = self.verdict.word
        severe = [decision for decision in self.decisions if decision.verdict > Verdict.PASS]
        if not severe:
            return
        reasons: list[JsonValue] = [_reason(decision, reason) for decision in severe for reason in decision.reasons]
        if reasons:
            record["reasons"] = reasons
        deciding = max(severe, key=lambda decision: decision.verdict)
        _put_texts(
            record,
            ("policy_id", deciding.policy_id),
            ("policy_revision", deciding.policy_revision),
            ("decided_by", deciding.stage),
        )
        if any(decision.failed_closed for decision in severe):
            record["failed_closed"] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How it ended, as the gateway saw it; the outcome itself follows from the event's code."""

    exit_code: int | None = None
    signal: int | None = None
    process_end: str = ""
    failure_reason: str = ""
    """Why the tool could not do it: a stable kebab-case code."""
    status_code: str = ""
    """The gRPC status, when the answer was one."""
    error_reason: str = ""
    """Why the gateway could not do its job: an `ErrorReason`."""
    stdout_bytes: int | None = None
    stderr_bytes: int | None = None
    """What the command wrote in all, before anything was cut."""
    truncated: bool = False
    output_digest: str = ""

    def put(self, record: Record) -> None:
        """Add the fields that are set."""
        _put_numbers(record, ("exit_code", self.exit_code), ("signal", self.signal))
        _put_texts(
            record,
            ("process_end", self.process_end),
            ("failure_reason", self.failure_reason),
            ("status_code", self.status_code),
            ("error_reason", self.error_reason),
        )
        _put_numbers(record, ("stdout_bytes", self.stdout_bytes), ("stderr_bytes", self.stderr_bytes))
        if self.truncated:
            record["truncated"] = True
        _put_texts(record, ("output_digest", self.output_digest))


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
        _put_texts(record, ("audit_id", self.audit_id), ("stage", code.stage.value))
        record["occurred_at"] = _time(self.occurred_at)
        if self.received_at is not None:
            record["received_at"] = _time(self.received_at)
        if self.duration_ms is not None:
            record["duration_ms"] = round(self.duration_ms, 3)
        for block in (self.correlation, self.actor, self.source, self.action, self.target, self.judgement):
            if block is not None:
                block.put(record)
        _put_texts(record, ("outcome", code.outcome))
        if self.result is not None:
            self.result.put(record)
        if self.action is not None:
            if self.action.masked:
                record["masked"] = list(self.action.masked)
            if self.action.erased:
                record["erased"] = list(self.action.erased)
        if self.annotations:
            record["annotations"] = dict(self.annotations)
        return record


def _time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _reason(decision: Decision, reason: Reason) -> Record:
    entry: Record = {"code": reason.code}
    _put_texts(entry, ("rule_id", reason.rule_id), ("stage", decision.stage))
    return entry


def _put_texts(record: Record, *pairs: tuple[str, str]) -> None:
    for name, value in pairs:
        if value:
            record[name] = value


def _put_numbers(record: Record, *pairs: tuple[str, int | None]) -> None:
    for name, value in pairs:
        if value is not None:
            record[name] = value
