"""Calls of the agent's own tools: authorized, completed once, or closed as abandoned."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from sandgate_gateway.domain.call import CallContext
from sandgate_gateway.domain.principal import LOCAL_DEVELOPER, Origin
from sandgate_gateway.domain.result import Failure, ToolResult, failed
from sandgate_gateway.domain.verdict import Decision, Outcome, Reason, Verdict
from sandgate_gateway.errors import CapacityExhausted, ErrorReason, RequestRejected, StateConflict, Unavailable
from sandgate_gateway.ledger.answer import Completion
from sandgate_gateway.pipeline.authorizing import AdmissionDesk, AdmissionPolicy
from sandgate_gateway.pipeline.reporting import Report
from sandgate_gateway.pipeline.stage import Handler, Phase

World = Any  # the conftest's; test modules do not import each other


class Blocking:
    """A stage that refuses."""

    name = "guardrail"
    phases = frozenset({Phase.DECIDE})

    def __init__(self, verdict: Verdict, outcome: Outcome) -> None:
        self.verdict, self.outcome = verdict, outcome

    async def __call__(self, context: CallContext, _proceed: Handler) -> ToolResult:
        """Refuse."""
        reason = Reason(code="not-allowed", message="It is not allowed.")
        context.decisions.append(Decision(stage=self.name, verdict=self.verdict, reasons=(reason,)))
        return failed(Failure(reason="not-allowed", message="It is not allowed."), outcome=self.outcome)


class Cutting:
    """A stage that cuts long texts."""

    name = "output-budget"
    phases = frozenset({Phase.SHAPE})

    async def __call__(self, context: CallContext, proceed: Handler) -> ToolResult:
        """Keep four characters."""
        result = await proceed(context)
        if len(result.text) <= 4:
            return result
        return dataclasses.replace(result, text=result.text[:4], truncated=True)


async def complete(
    desk: AdmissionDesk, admission: bytes, *texts: str, outcome: Outcome = Outcome.COMPLETED
) -> Completion:
    """Report an end."""
    failure_reason = "" if outcome is Outcome.COMPLETED else "ToolException"
    report = Report(admission=admission, outcome=outcome, texts=texts, failure_reason=failure_reason)
    return await desk.complete(LOCAL_DEVELOPER, Origin(), report)


async def test_a_call_is_decided_and_finished(world: World) -> None:
    """Authorize records *decided*, complete records *finished*, under one audit id and with the same identity."""
    desk = world.desk()
    authorization = await desk.authorize(world.incoming(tool="web_search", tool_call_id="c1", run="r1"))
    assert authorization.verdict is Verdict.PASS
    assert authorization.refusal is None
    assert authorization.expires_at.timestamp() == world.now + 3600
    assert world.log.names() == ["decided"]
    completion = await complete(desk, authorization.admission, "found it")
    assert completion.audit_id == authorization.audit_id
    assert completion.unchanged
    assert completion.texts == ()
    decided, finished = world.log.events
    assert finished.code.name == "CALL_COMPLETED"
    assert (decided.audit_id, decided.correlation, decided.actor, decided.action) == (
        finished.audit_id,
        finished.correlation,
        finished.actor,
        finished.action,
    )
    assert world.provider.made == []


async def test_authorize_repeats_its_answer(world: World) -> None:
    """The same request gets the same admission, and is recorded once."""
    desk = world.desk()
    incoming = world.incoming(tool="web_search")
    first = await desk.authorize(incoming)
    assert await desk.authorize(incoming) is first
    assert world.log.names() == ["decided"]


async def test_one_id_is_for_one_kind_of_request(world: World) -> None:
    """An id that was used for an authorization cannot run a call."""
    incoming = world.incoming()
    await world.desk().authorize(incoming)
    with pytest.raises(RequestRejected) as caught:
        await world.calls.execute(incoming)
    assert caught.value.reason is ErrorReason.REQUEST_ID_REUSED


async def test_a_refused_call_has_no_admission(world: World) -> None:
    """A blocked call has only a *finished* record, and an answer for the model."""
    world.stages.append(Blocking(Verdict.BLOCK, Outcome.DENIED))
    authorization = await world.desk().authorize(world.incoming(tool="web_search"))
    assert authorization.admission == b""
    assert authorization.verdict is Verdict.BLOCK
    assert [reason.code for reason in authorization.reasons] == ["not-allowed"]
    assert authorization.refusal.result.outcome is Outcome.DENIED
    assert world.log.names() == ["finished"]


async def test_a_pending_call_is_looked_at_again(world: World) -> None:
    """An ask is no answer: the repeat of the request asks the stages again."""
    stage = Blocking(Verdict.ASK, Outcome.PENDING)
    world.stages.append(stage)
    desk = world.desk()
    incoming = world.incoming(tool="web_search")
    assert (await desk.authorize(incoming)).pending
    stage.verdict, stage.outcome = Verdict.BLOCK, Outcome.DENIED
    assert (await desk.authorize(incoming)).refusal.result.outcome is Outcome.DENIED


async def test_nothing_is_authorized_unrecorded(world: World) -> None:
    """With the audit away there is no admission; later there may be."""
    world.log.broken = True
    desk = world.desk()
    incoming = world.incoming(tool="web_search")
    with pytest.raises(Unavailable) as caught:
        await desk.authorize(incoming)
    assert caught.value.reason is ErrorReason.AUDIT_UNAVAILABLE
    world.log.broken = False
    assert (await desk.authorize(incoming)).admission


async def test_the_first_completion_wins(world: World) -> None:
    """A repeat gets the first answer, other content is refused, and one *finished* is recorded."""
    world.stages.append(Cutting())
    desk = world.desk()
    admission = (await desk.authorize(world.incoming(tool="web_search"))).admission
    first = await complete(desk, admission, "a long text", "", "ok")
    assert first.texts == ("a lo", "", "ok")
    assert first.truncated
    assert not first.unchanged
    assert await complete(desk, admission, "a long text", "", "ok") is first
    for texts in (("another",), ("a long text", ""), ("a long text", "", "ok", "")):
        with pytest.raises(RequestRejected) as caught:
            await complete(desk, admission, *texts)
        assert caught.value.reason is ErrorReason.ADMISSION_COMPLETED
    assert world.log.names() == ["decided", "finished"]
    assert world.log.events[-1].result.truncated


async def test_completions_at_once_are_one(world: World) -> None:
    """Two equal completions at the same moment share one answer and one record."""
    desk = world.desk()
    admission = (await desk.authorize(world.incoming(tool="web_search"))).admission
    first, second = await asyncio.gather(complete(desk, admission, "x"), complete(desk, admission, "x"))
    assert first is second
    assert world.log.names() == ["decided", "finished"]


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome.FAILED, "CALL_FAILED"),
        (Outcome.TIMED_OUT, "CALL_TIMED_OUT"),
        (Outcome.CANCELLED, "CALL_CANCELLED"),
    ],
)
async def test_the_end_is_recorded_as_reported(world: World, outcome: Outcome, code: str) -> None:
    """What the agent says of the end goes on record, with its reason."""
    desk = world.desk()
    admission = (await desk.authorize(world.incoming(tool="web_search"))).admission
    await complete(desk, admission, "oh", outcome=outcome)
    assert world.log.events[-1].code.name == code
    assert world.log.events[-1].result.failure_reason == "ToolException"


async def test_only_the_same_principal_completes(world: World) -> None:
    """Somebody else's admission looks forged."""
    desk = world.desk()
    admission = (await desk.authorize(world.incoming(tool="web_search"))).admission
    report = Report(admission=admission, outcome=Outcome.COMPLETED, texts=(), failure_reason="")
    with pytest.raises(RequestRejected) as caught:
        await desk.complete(dataclasses.replace(LOCAL_DEVELOPER, agent="other"), Origin(), report)
    assert caught.value.reason is ErrorReason.ADMISSION_INVALID
    with pytest.raises(RequestRejected):
        await complete(world.desk(key=b"z" * 32), admission)


async def test_another_replica_completes_from_the_admission_alone(world: World) -> None:
    """The ticket carries what the last record needs: identity, thread, run, tool, digest and verdict."""
    admission = (
        await world.desk().authorize(world.incoming(tool="web_search", thread="t1", run="r1", tool_call_id="c1"))
    ).admission
    await complete(world.desk(), admission, "x")
    decided, finished = world.log.events
    assert finished.audit_id == decided.audit_id
    assert finished.correlation == decided.correlation
    assert finished.action.arguments_digest == decided.action.arguments_digest
    assert finished.action.tool == "web_search"


async def test_a_call_that_is_never_completed_is_abandoned(world: World) -> None:
    """When the admission runs out the record is closed once, and a late completion is refused."""
    desk = world.desk()
    admission = (await desk.authorize(world.incoming(tool="web_search"))).admission
    world.now += 3599
    await desk.sweep()
    assert world.log.names() == ["decided"]
    world.now += 1
    world.log.broken = True
    await desk.sweep()
    world.log.broken = False
    await desk.sweep()
    await desk.sweep()
    assert [event.code.name for event in world.log.events] == ["CALL_DECIDED", "CALL_ABANDONED"]
    with pytest.raises(StateConflict) as caught:
        await complete(desk, admission, "late")
    assert caught.value.reason is ErrorReason.ADMISSION_EXPIRED
    assert world.log.names() == ["decided", "finished"]


async def test_a_repeat_of_a_completion_in_time_gets_its_answer_late(world: World) -> None:
    """The end of the admission does not take an answer back."""
    desk = world.desk()
    admission = (await desk.authorize(world.incoming(tool="web_search"))).admission
    first = await complete(desk, admission, "x")
    world.now += 10_000
    assert await complete(desk, admission, "x") is first
    await desk.sweep()
    assert world.log.names() == ["decided", "finished"]


async def test_open_admissions_are_bounded(world: World) -> None:
    """An agent that never completes is told to wait; a completion makes room."""
    world.limits = AdmissionPolicy(max_open=1)
    desk = world.desk()
    admission = (await desk.authorize(world.incoming(tool="web_search"))).admission
    with pytest.raises(CapacityExhausted):
        await desk.authorize(world.incoming(tool="web_search"))
    await complete(desk, admission)
    assert (await desk.authorize(world.incoming(tool="web_search"))).admission
