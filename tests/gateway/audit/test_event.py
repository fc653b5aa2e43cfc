"""The form of a record, held by golden files: readers of other programs depend on it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from sandgate_gateway.audit.codes import Code, decided_code, finished_code
from sandgate_gateway.audit.event import Action, Actor, AuditEvent, Correlation, Judgement, Result, Source, Target
from sandgate_gateway.audit.rendering import Emitter, Renderer
from sandgate_gateway.domain.verdict import Decision, Outcome, Reason, Verdict

GOLDEN = Path(__file__).parent / "golden"
AT = datetime(2026, 7, 1, 12, 30, 15, 250, tzinfo=UTC)
WARNING = Decision(
    stage="bash-audit",
    verdict=Verdict.WARN,
    reasons=(Reason(code="network-command", message="curl reaches the network", rule_id="net-1"),),
    policy_id="shell",
    policy_revision="sha256:77",
)

FULL = AuditEvent(
    code=Code.CALL_DECIDED_WARN,
    event_id="00000000-0000-4000-8000-000000000001",
    occurred_at=AT,
    audit_id="00000000-0000-4000-8000-0000000000aa",
    received_at=AT - timedelta(milliseconds=2),
    correlation=Correlation(
        request_id="req-1", thread="thread-1", run="run-1", tool_call_id="call-1", trace_id="t" * 32, span_id="s" * 16
    ),
    actor=Actor(
        tenant="default",
        principal="local",
        principal_kind="human",
        auth_method="none",
        claimed_agent_name="researcher",
        claimed_agent_instance="host-7",
        claimed_on_behalf_of="alice",
    ),
    source=Source(peer="unix:", user_agent="grpc-python/1.70"),
    action=Action(
        tool="bash",
        arguments_digest="hmac-sha256:01",
        arguments_bytes=40,
        command_digest="hmac-sha256:02",
        command_bytes=20,
        command_preview="curl -H 'Authorization: [masked]' …",
        masked=("/command_preview",),
        erased=("/command_preview",),
    ),
    target=Target(provider="local", sandbox="sg-1"),
    judgement=Judgement(verdict=Verdict.WARN, decisions=(WARNING,)),
    annotations={"dispatch/attempts": 2},
)

EVENTS = {
    "decided-warn": FULL,
    "finished": replace(
        FULL,
        code=Code.CALL_COMPLETED,
        event_id="00000000-0000-4000-8000-000000000002",
        duration_ms=12.34567,
        result=Result(exit_code=0, process_end="exited", stdout_bytes=0, stderr_bytes=12, truncated=True),
        annotations=None,
    ),
    "denied": replace(
        FULL,
        code=Code.CALL_DENIED,
        event_id="00000000-0000-4000-8000-000000000003",
        target=None,
        judgement=Judgement(
            verdict=Verdict.BLOCK,
            decisions=(WARNING, Decision(stage="guardrail", verdict=Verdict.BLOCK, failed_closed=True)),
        ),
        result=Result(failure_reason="denied"),
        annotations=None,
    ),
    "refused": AuditEvent(
        code=Code.CALL_REFUSED,
        event_id="00000000-0000-4000-8000-000000000004",
        occurred_at=AT,
        audit_id="00000000-0000-4000-8000-0000000000ab",
        correlation=Correlation(request_id="req-2", thread="thread-1"),
        result=Result(error_reason="CAPACITY_EXHAUSTED"),
    ),
    "middleware": AuditEvent(
        code=Code.MIDDLEWARE_EVENT,
        name="middleware:loop-stopped",
        event_id="00000000-0000-4000-8000-000000000005",
        occurred_at=AT,
        annotations={"middleware/attributes": {"repeats": 5}},
    ),
    "gateway-started": AuditEvent(
        code=Code.GATEWAY_STARTED, event_id="00000000-0000-4000-8000-000000000006", occurred_at=AT
    ),
}


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_the_form_of_a_record_is_kept(name: str) -> None:
    """A record has exactly the fields, in the order, of its golden file; fields are only ever added."""
    renderer = Renderer(Emitter(service="sandgate", version="0.1.0", instance="i-1"), "c" * 32)
    line = renderer.render(EVENTS[name].to_record(), sequence=7, previous_digest="d" * 64)
    shown = json.dumps(json.loads(line.data), indent=2, ensure_ascii=False) + "\n"
    assert shown == (GOLDEN / f"{name}.json").read_text(encoding="utf-8")


def test_a_line_is_plain_ascii_and_one_line() -> None:
    """Whatever a caller sends, a line holds no control, bidirectional or half character and no second line feed."""
    renderer = Renderer(Emitter(service="sandgate", version="0.1.0", instance="i-1"), "c" * 32)
    thread = "a\nb\x1b[31m\u202e\ud800é"
    event = replace(FULL, correlation=Correlation(thread=thread))
    line = renderer.render(event.to_record(), sequence=1, previous_digest="")
    assert line.data.isascii()
    assert line.data.count(b"\n") == 1
    assert json.loads(line.data)["thread"] == thread


def test_no_field_of_the_record_can_be_replaced_by_an_annotation() -> None:
    """Annotations of stages live in an object of their own."""
    event = replace(FULL, annotations={"verdict": "pass", "previous_digest": ""})
    record = event.to_record()
    assert record["verdict"] == "warn"
    assert record["annotations"] == {"verdict": "pass", "previous_digest": ""}


def test_times_are_stored_in_utc() -> None:
    """A time of another zone becomes UTC; a time without a zone is refused."""
    event = replace(FULL, occurred_at=AT.astimezone(timezone(timedelta(hours=5))))
    assert event.to_record()["occurred_at"] == "2026-07-01T12:30:15.000250Z"
    with pytest.raises(ValueError, match="time zone"):
        replace(FULL, occurred_at=AT.replace(tzinfo=None))


def test_contradictions_fail_when_they_are_made() -> None:
    """A call's record without an audit id, another's with one, and a strange name cannot be made."""
    with pytest.raises(ValueError, match="audit id"):
        replace(FULL, audit_id="")
    with pytest.raises(ValueError, match="audit id"):
        replace(EVENTS["gateway-started"], audit_id="x")
    with pytest.raises(ValueError, match="its own name"):
        replace(FULL, name="middleware:x")
    with pytest.raises(ValueError, match="begins with"):
        replace(EVENTS["middleware"], name="tool.call.finished")


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_has_a_code_of_its_own(outcome: Outcome) -> None:
    """The code of a finished record says the same outcome."""
    assert finished_code(outcome).outcome == outcome.value


def test_a_call_that_may_not_run_has_no_decided_record() -> None:
    """Pass and warn have one; ask and block do not run, so they have none."""
    assert decided_code(Verdict.PASS) is Code.CALL_DECIDED
    assert decided_code(Verdict.WARN) is Code.CALL_DECIDED_WARN
    for verdict in (Verdict.ASK, Verdict.BLOCK):
        with pytest.raises(ValueError, match="does not run"):
            decided_code(verdict)
