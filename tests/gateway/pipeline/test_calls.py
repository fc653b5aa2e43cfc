"""Calls through the whole pipeline: what runs, what is answered, what is recorded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sandgate_gateway.domain.call import CallContext, Notice
from sandgate_gateway.domain.result import OutputChunk, ToolResult
from sandgate_gateway.domain.verdict import Decision, Outcome, Reason, Verdict
from sandgate_gateway.errors import ErrorReason, RequestRejected, Unavailable
from sandgate_gateway.pipeline.stage import Handler, Phase
from sandgate_gateway.tools.contract import ToolRun
from sandgate_providers.channel.types import Command, End, ProcessEnd
from sandgate_providers.errors import CallRefused, FileOperationFailed, ProviderUnavailable
from sandgate_providers.fake import FakeCall, Work, exited

World = Any  # the conftest's; test modules do not import each other


async def test_a_call_runs_and_is_recorded_twice(world: World) -> None:
    """An executed call has a *decided* record before it runs and a *finished* one when it has ended."""
    order: list[str] = []

    async def script(_work: Work, call: FakeCall) -> End:
        order.extend(world.log.names())
        await call.emit(b"hello")
        return exited()

    world.provider.script = script
    result = await world.execute()
    assert result.text == "hello"
    assert order == ["decided"]
    assert world.log.names() == ["decided", "finished"]
    decided, finished = world.log.events
    assert decided.audit_id == finished.audit_id
    assert decided.code.name == "CALL_DECIDED"
    assert finished.code.name == "CALL_COMPLETED"
    assert decided.target == finished.target
    assert decided.action.arguments_digest
    assert finished.duration_ms is not None


async def test_what_cannot_be_recorded_does_not_run(world: World) -> None:
    """With the audit away the call is refused before a sandbox is made; the id may be used again."""
    world.log.broken = True
    incoming = world.incoming()
    with pytest.raises(Unavailable) as caught:
        await world.calls.execute(incoming)
    assert caught.value.reason is ErrorReason.AUDIT_UNAVAILABLE
    assert world.tool.runs == []
    assert world.provider.made == []
    assert not world.recorder.writable
    world.log.broken = False
    answer = await world.calls.execute(incoming)
    assert answer.result.outcome is Outcome.COMPLETED


async def test_an_end_that_cannot_be_recorded_is_answered_and_counted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """What has run has run: its answer is kept and given, the missing record is counted, logged, and seen in health."""

    async def script(_work: Work, call: FakeCall) -> End:
        world.log.broken = True
        await call.emit(b"hello")
        return exited()

    world.provider.script = script
    assert (await world.execute()).text == "hello"
    assert world.recorder.unrecorded_ends == 1
    assert not world.recorder.writable
    assert "could not be recorded" in caplog.text


async def test_a_repeat_runs_nothing(world: World) -> None:
    """The second request with one id gets the first answer, audit id included."""
    incoming = world.incoming()
    first = await world.calls.execute(incoming)
    second = await world.calls.execute(world.incoming(request_id=incoming.call.request_id))
    assert second is first
    assert len(world.tool.runs) == 1
    assert world.log.names() == ["decided", "finished"]


async def test_a_repeat_of_another_run_is_the_same_request(world: World) -> None:
    """A resumed graph node repeats its call under a new run, lease and timeout; that is no other content."""
    incoming = world.incoming(run="one", lease="l1")
    first = await world.calls.execute(incoming)
    repeat = world.incoming(request_id=incoming.call.request_id, run="two", lease="l2", execution_timeout_seconds=3.0)
    assert await world.calls.execute(repeat) is first


@pytest.mark.parametrize("change", [{"thread": "other"}, {"tool": "other"}, {"arguments_json": b'{"command": "x"}'}])
async def test_an_id_with_other_content_is_refused(world: World, change: dict[str, object]) -> None:
    """Another thread, tool, or one more byte in the arguments is another request."""
    incoming = world.incoming()
    await world.calls.execute(incoming)
    with pytest.raises(RequestRejected) as caught:
        await world.calls.execute(world.incoming(request_id=incoming.call.request_id, **change))
    assert caught.value.reason is ErrorReason.REQUEST_ID_REUSED


async def test_an_unknown_tool_is_an_outcome(world: World) -> None:
    """The model learns what there is; only *finished* is recorded, and no sandbox was made."""
    result = await world.execute(tool="shel")
    assert result.outcome is Outcome.FAILED
    assert result.failure.reason == "unknown-tool"
    assert "Did you mean shell?" in result.text
    assert world.log.names() == ["finished"]
    assert world.provider.made == []


async def test_wrong_arguments_are_an_outcome(world: World) -> None:
    """The model learns which argument is wrong; nothing ran."""
    result = await world.execute(arguments={})
    assert result.failure.reason == "invalid-arguments"
    assert [violation.pointer for violation in result.failure.violations] == ["/command"]
    assert world.log.names() == ["finished"]
    assert world.provider.made == []


async def test_a_cancelled_call_is_ended_recorded_and_kept(world: World) -> None:
    """When its only caller leaves, what runs is ended first; the outcome is recorded, and a repeat gets it."""
    running = asyncio.Event()
    ended = asyncio.Event()

    async def script(_work: Work, call: FakeCall) -> End:
        running.set()
        await call.cancelled.wait()
        ended.set()
        return End(reason=ProcessEnd.CANCELLED)

    world.provider.script = script
    incoming = world.incoming()
    caller = asyncio.create_task(world.calls.execute(incoming))
    await running.wait()
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled()
    async with asyncio.timeout(5):
        await ended.wait()
        answer = await world.calls.execute(incoming)
    assert answer.result.outcome is Outcome.CANCELLED
    assert answer.sandbox
    assert world.log.names() == ["decided", "finished"]
    assert world.log.events[-1].code.name == "CALL_CANCELLED"
    assert len(world.tool.runs) == 1


async def test_a_call_that_was_cancelled_before_it_ran_may_run(world: World) -> None:
    """A caller that leaves while *decided* is written leaves nothing behind: a repeat runs."""
    world.log.held = asyncio.Event()
    incoming = world.incoming()
    caller = asyncio.create_task(world.calls.execute(incoming))
    for _ in range(20):
        await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    world.log.held.set()
    async with asyncio.timeout(5):
        answer = await world.calls.execute(incoming)
    assert answer.result.outcome is Outcome.COMPLETED
    assert world.log.names() == ["finished", "decided", "finished"]


async def test_a_cancellation_that_comes_too_late_changes_nothing(world: World) -> None:
    """A call that has ended is recorded and kept as it ended, though its caller leaves while that is written."""
    ended = asyncio.Event()

    async def body(_run: ToolRun) -> ToolResult:
        world.log.held = asyncio.Event()
        ended.set()
        return ToolResult(outcome=Outcome.COMPLETED, text="done")

    world.tool.body = body
    incoming = world.incoming()
    caller = asyncio.create_task(world.calls.execute(incoming))
    await ended.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    world.log.held.set()
    async with asyncio.timeout(5):
        answer = await world.calls.execute(incoming)
    assert answer.result.text == "done"
    assert world.log.events[-1].code.name == "CALL_COMPLETED"


async def test_a_sandbox_that_dies_is_an_outcome(world: World) -> None:
    """A call whose sandbox dies says so, and the next call works."""
    default = world.tool.body

    async def run_and_die(run: ToolRun) -> ToolResult:
        await default(run)
        await world.provider.made[-1].channel.lose()
        return await default(run)  # type: ignore[no-any-return]  # the world is untyped here

    world.tool.body = run_and_die
    result = await world.execute()
    assert result.outcome is Outcome.LOST
    assert result.failure.reason == "sandbox-lost"
    assert result.failure.retryable
    assert "/mnt/user-data" in result.text
    world.tool.body = default
    assert (await world.execute()).outcome is Outcome.COMPLETED
    assert len(world.provider.made) == 2


async def test_a_sandbox_that_was_dead_before_is_replaced_at_once(world: World) -> None:
    """When nothing ran in the dead one, the same call goes on in a new one, and the caller notices nothing."""
    await world.execute()
    world.provider.made[0].channel._lost = True  # dead, and nobody has noticed yet
    assert (await world.execute()).outcome is Outcome.COMPLETED
    assert len(world.provider.made) == 2
    assert world.log.names() == ["decided", "finished"] * 2


@pytest.mark.parametrize(
    ("error", "reason", "retryable"),
    [
        (RuntimeError("a bug at /srv/secret"), "internal-error", False),
        (CallRefused("no-room", "there is no room"), "call-refused", True),
        (FileOperationFailed("not-found", "/mnt/user-data/x: no such file"), "not-found", False),
        (TimeoutError(), "internal-error", False),
    ],
)
async def test_what_a_tool_raises_becomes_a_result(
    world: World, error: Exception, reason: str, retryable: object
) -> None:
    """The model gets a stable reason, little text, no host path and no stack trace."""

    async def body(_run: ToolRun) -> ToolResult:
        raise error

    world.tool.body = body
    result = await world.execute()
    assert result.outcome is Outcome.FAILED
    assert result.failure.reason == reason
    assert result.failure.retryable is retryable
    assert "/srv" not in result.text
    assert "Traceback" not in result.text
    assert len(result.failure.message) <= 500
    assert world.log.names() == ["decided", "finished"]


async def test_an_outage_is_no_outcome(world: World) -> None:
    """That no sandbox can be made is an error of the gateway, recorded as refused; the id may be used again."""
    world.provider.fail_with = ProviderUnavailable("/srv")
    incoming = world.incoming()
    with pytest.raises(Unavailable):
        await world.calls.execute(incoming)
    assert world.log.events[-1].code.name == "CALL_REFUSED"
    assert world.log.events[-1].result.error_reason == "PROVIDER_UNAVAILABLE"
    assert (await world.calls.execute(incoming)).result.outcome is Outcome.COMPLETED


class BrokenStage:
    """A stage with a bug behind the tool."""

    name = "broken"
    phases = frozenset({Phase.DECIDE})

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def __call__(self, context: CallContext, proceed: Handler) -> ToolResult:
        """Proceed, then break."""
        await proceed(context)
        raise self.error


@pytest.mark.parametrize(
    "error", [RuntimeError("a bug"), Unavailable(ErrorReason.AUDIT_UNAVAILABLE, "away", retry_after_seconds=1)]
)
async def test_a_failure_after_the_tool_ran_is_kept_as_interrupted(world: World, error: Exception) -> None:
    """The gateway fails behind the tool: the caller and every repeat learn that the end is not known."""
    world.stages.append(BrokenStage(error))
    incoming = world.incoming()
    first = await world.calls.execute(incoming)
    assert first.result.outcome is Outcome.INTERRUPTED
    assert await world.calls.execute(incoming) is first
    assert len(world.tool.runs) == 1
    last = world.log.events[-1]
    assert last.code.name == ("CALL_ABORTED" if isinstance(error, RuntimeError) else "CALL_REFUSED")


class BrokenBeforeStage(BrokenStage):
    """A stage with a bug before the tool."""

    async def __call__(self, _context: CallContext, _proceed: Handler) -> ToolResult:
        """Break."""
        raise self.error


async def test_a_bug_before_the_tool_is_raised_and_forgotten(world: World) -> None:
    """Nothing ran, so the caller gets the bug as such, an *aborted* record is left, and a repeat may run."""
    world.stages.append(BrokenBeforeStage(RuntimeError("a bug")))
    incoming = world.incoming()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            await world.calls.execute(incoming)
    assert world.log.names() == ["aborted", "aborted"]


class JudgingStage:
    """A stage that has an opinion, and stops a call only when it says so."""

    name = "judge"
    phases = frozenset({Phase.DECIDE})

    def __init__(self, verdict: Verdict, *, proceeds: bool = True) -> None:
        self.verdict = verdict
        self.proceeds = proceeds

    async def __call__(self, context: CallContext, proceed: Handler) -> ToolResult:
        """Judge."""
        reason = Reason(code="not-today", message="Not today.", rule_id="r1")
        context.decisions.append(Decision(stage=self.name, verdict=self.verdict, reasons=(reason,)))
        context.annotations["judge/mood"] = "grim"
        return await proceed(context)


@pytest.mark.parametrize("verdict", [Verdict.ASK, Verdict.BLOCK])
async def test_no_call_that_may_not_run_reaches_its_tool(world: World, verdict: Verdict) -> None:
    """Dispatch refuses even when a stage that blocked a call lets it pass; annotations and reasons are recorded."""
    world.stages.append(JudgingStage(verdict))
    result = await world.execute()
    assert result.outcome is Outcome.DENIED
    assert result.failure.reason == "not-today"
    assert world.tool.runs == []
    assert world.log.names() == ["finished"]
    assert world.log.events[0].judgement.verdict is verdict
    assert world.log.events[0].annotations == {"judge/mood": "grim"}


async def test_a_warning_runs_and_is_told(world: World) -> None:
    """The verdict and its reasons are in the answer and in both records."""
    world.stages.append(JudgingStage(Verdict.WARN))
    answer = await world.calls.execute(world.incoming())
    assert answer.verdict is Verdict.WARN
    assert [reason.code for reason in answer.reasons] == ["not-today"]
    assert [event.judgement.verdict for event in world.log.events] == [Verdict.WARN, Verdict.WARN]


@pytest.mark.parametrize(
    ("wanted", "seconds", "given"),
    [(0.0, 1000.0, 60.0), (5.0, 1000.0, 5.0), (9999.0, 10_000.0, 600.0), (50.0, 21.0, 20.0), (50.0, 2.0, 1.5)],
)
async def test_the_timeout_is_clamped(world: World, wanted: float, seconds: float, given: float) -> None:
    """Default, wish, limit, and what the deadline leaves with a margin: the smallest counts."""
    await world.execute(execution_timeout_seconds=wanted, seconds=seconds)
    assert world.tool.runs[0].timeout_seconds == pytest.approx(given, abs=0.1)


async def test_a_sandbox_that_does_not_answer_is_given_up(world: World) -> None:
    """When the runner does not report the end in time, the call ends by the gateway's own clock."""

    async def body(run: ToolRun) -> ToolResult:
        async with run.channel.open(Command(argv=("sleep",), timeout_seconds=run.timeout_seconds)):
            await asyncio.Event().wait()
        raise AssertionError("it never ends by itself")

    async def script(_work: Work, call: FakeCall) -> End:
        await call.cancelled.wait()
        return End(reason=ProcessEnd.CANCELLED)

    world.tool.body = body
    world.provider.script = script
    result = await world.execute(seconds=0.3)
    assert result.outcome is Outcome.TIMED_OUT
    assert result.failure.reason == "no-answer"


async def test_a_watched_call_shows_its_output_and_the_start_of_its_sandbox(world: World) -> None:
    """The sink gets a notice while a sandbox is made, then the output as it comes; a warm sandbox needs no notice."""
    seen: list[OutputChunk | Notice] = []

    async def sink(item: OutputChunk | Notice) -> None:
        seen.append(item)

    async def script(_work: Work, call: FakeCall) -> End:
        await call.emit(b"one")
        await call.emit(b"two")
        return exited()

    world.provider.script = script
    await world.execute(sink)
    assert isinstance(seen[0], Notice)
    assert seen[0].code == "sandbox-starting"
    assert [item.data for item in seen[1:]] == [b"one", b"two"]  # type: ignore[union-attr]  # chunks by now
    seen.clear()
    await world.execute(sink)
    assert [type(item) for item in seen] == [OutputChunk, OutputChunk]


async def test_a_lease_is_let_go_with_the_call(world: World) -> None:
    """During the call the sandbox counts it; after, it does not, and the lease goes on."""
    counts: list[int] = []

    async def script(_work: Work, _call: FakeCall) -> End:
        counts.extend(view.call_count for view in world.sandboxes.list("default"))
        return exited()

    world.provider.script = script
    await world.execute(lease="lease")
    [view] = world.sandboxes.list("default")
    assert counts == [1]
    assert (view.call_count, view.lease_count) == (0, 1)


async def test_shutdown_ends_what_runs(world: World) -> None:
    """A call that runs at shutdown is ended, and its waiting caller gets the outcome."""
    running = asyncio.Event()

    async def script(_work: Work, call: FakeCall) -> End:
        running.set()
        await call.cancelled.wait()
        return End(reason=ProcessEnd.CANCELLED)

    world.provider.script = script
    caller = asyncio.create_task(world.execute())
    await running.wait()
    await world.table.close()
    assert (await caller).outcome is Outcome.CANCELLED
    assert world.log.names() == ["decided", "finished"]
