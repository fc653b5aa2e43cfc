"""What agents report of the calls that they run themselves, and what is known of such a call when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sandgate_gateway.admissions.admission import Admission
from sandgate_gateway.audit.codes import Code
from sandgate_gateway.audit.event import Action, AuditEvent, Judgement
from sandgate_gateway.domain.call import ToolCall
from sandgate_gateway.domain.principal import Origin, Principal
from sandgate_gateway.domain.result import Failure, ToolResult
from sandgate_gateway.domain.verdict import Decision, Outcome, Verdict
from sandgate_gateway.ledger.request import RequestKind, content_digest
from sandgate_gateway.pipeline.blocks import Blocks, blocks_of
from sandgate_gateway.pipeline.execution import Execution


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an agent says of a call that it ran itself."""

    admission: bytes
    outcome: Outcome
    """Completed, failed, timed out or cancelled."""
    texts: tuple[str, ...]
    failure_reason: str


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that was admitted and is not completed."""

    admission: Admission
    blocks: Blocks
    decisions: tuple[Decision, ...]


def reported_result(report: Report, text: str, *, truncated: bool = False) -> ToolResult:
    """Make a result of what an agent says."""
    failure = None
    if report.outcome is not Outcome.COMPLETED:
        failure = Failure(reason=report.failure_reason or report.outcome.value, message="The agent's own tool failed.")
    return ToolResult(outcome=report.outcome, text=text, truncated=truncated, failure=failure)


def report_digest(report: Report) -> bytes:
    """Digest the content of a completion."""
    parts = [report.outcome.value, report.failure_reason, *report.texts]
    return content_digest(RequestKind.COMPLETION.value.encode(), *(part.encode() for part in parts))


def completion_context(
    principal: Principal, origin: Origin, admission: Admission, opened: OpenCall | None
) -> Execution:
    """Rebuild what is known of the call: from memory, or from the admission when another gateway gave it."""
    call = ToolCall(
        request_id=admission.request_id,
        thread=admission.thread,
        tool=admission.tool,
        arguments_json=b"",
        tool_call_id=admission.tool_call_id,
        run=admission.run,
    )
    action = Action(tool=admission.tool, arguments_digest=admission.argument_digest)
    decision = Decision(
        stage="admission", verdict=Verdict(admission.verdict), policy_revision=admission.policy_revision
    )
    return Execution(
        call=call,
        principal=principal,
        origin=origin,
        audit_id=admission.audit_id,
        received_at=datetime.fromtimestamp(admission.received_at, UTC),
        deadline=float("inf"),
        decisions=list(opened.decisions) if opened is not None else [decision],
        blocks=opened.blocks if opened is not None else blocks_of(call, principal, origin, action),
    )


def abandoned_event(opened: OpenCall, now: float) -> AuditEvent:
    """Make the last record of a call that was never completed."""
    admission = opened.admission
    return AuditEvent(
        code=Code.CALL_ABANDONED,
        occurred_at=datetime.fromtimestamp(now, UTC),
        audit_id=admission.audit_id,
        received_at=datetime.fromtimestamp(admission.received_at, UTC),
        duration_ms=(now - admission.received_at) * 1000.0,
        correlation=opened.blocks.correlation,
        actor=opened.blocks.actor,
        source=opened.blocks.source,
        action=opened.blocks.action,
        judgement=Judgement(verdict=Verdict(admission.verdict), decisions=opened.decisions),
    )
