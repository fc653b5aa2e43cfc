"""The blocks of an audit event, each about one question: who, from where, what, on what, how decided, how ended.

A block is made once a call and used in both of its records. Each writes only the fields that are set.
"""

from __future__ import annotations

from dataclasses import dataclass

from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.domain.verdict import Decision, Reason, Verdict

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
        put_texts(
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
        put_texts(
            record,
            ("tenant", self.tenant),
            ("principal", self.principal),
            ("principal_kind", self.principal_kind),
            ("auth_method", self.auth_method),
        )
        claims: Record = {}
        put_texts(
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
        put_texts(record, ("peer", self.peer), ("user_agent", self.user_agent))


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
        """Add the fields that are set, but for `masked` and `erased`, which end the record."""
        record["tool"] = self.tool
        put_texts(record, ("arguments_digest", self.arguments_digest))
        put_numbers(record, ("arguments_bytes", self.arguments_bytes))
        put_texts(record, ("arguments_preview", self.arguments_preview), ("command_digest", self.command_digest))
        put_numbers(record, ("command_bytes", self.command_bytes))
        put_texts(record, ("command_preview", self.command_preview))

    def put_privacy(self, record: Record) -> None:
        """Add what was removed."""
        if self.masked:
            record["masked"] = list(self.masked)
        if self.erased:
            record["erased"] = list(self.erased)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """On what it was done; empty when the call was refused before a sandbox was opened."""

    provider: str = ""
    sandbox: str = ""

    def put(self, record: Record) -> None:
        """Add the fields that are set."""
        put_texts(record, ("provider", self.provider), ("sandbox", self.sandbox))


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
        put_texts(
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
    error_reason: str = ""
    """Why the gateway could not do its job: an `ErrorReason`, from which the gRPC status follows."""
    stdout_bytes: int | None = None
    stderr_bytes: int | None = None
    """What the command wrote in all, before anything was cut."""
    truncated: bool = False

    def put(self, record: Record) -> None:
        """Add the fields that are set."""
        put_numbers(record, ("exit_code", self.exit_code), ("signal", self.signal))
        put_texts(
            record,
            ("process_end", self.process_end),
            ("failure_reason", self.failure_reason),
            ("error_reason", self.error_reason),
        )
        put_numbers(record, ("stdout_bytes", self.stdout_bytes), ("stderr_bytes", self.stderr_bytes))
        if self.truncated:
            record["truncated"] = True


def put_texts(record: Record, *pairs: tuple[str, str]) -> None:
    """Add the texts that are not empty."""
    for name, value in pairs:
        if value:
            record[name] = value


def put_numbers(record: Record, *pairs: tuple[str, int | None]) -> None:
    """Add the numbers that are known; zero is one."""
    for name, value in pairs:
        if value is not None:
            record[name] = value


def _reason(decision: Decision, reason: Reason) -> Record:
    entry: Record = {"code": reason.code}
    put_texts(entry, ("rule_id", reason.rule_id), ("stage", decision.stage))
    return entry
