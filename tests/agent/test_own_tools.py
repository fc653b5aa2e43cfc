"""Tools of the agent's own: authorized, run in this process, completed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import grpc
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import ParentCommand
from langgraph.types import Command, interrupt

from sandgate.v1 import tool_pb2, tool_service_pb2, verdict_pb2
from sandgate_agent import GatewayMiddleware
from sandgate_agent.errors import SandgateError


def go() -> Any:
    """Say something to an agent."""
    return {"messages": [HumanMessage("go")]}


def tool_messages(state: dict[str, Any]) -> list[ToolMessage]:
    """List the answers of tools, in order."""
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.fixture(params=["invoke", "ainvoke"])
def invoke(request: pytest.FixtureRequest) -> Callable[..., dict[str, Any]]:
    """Run an agent in both ways that LangGraph has."""

    def run(agent: Any, given: Any = None, config: Any = None) -> Any:
        given = go() if given is None else given
        return agent.invoke(given, config) if request.param == "invoke" else asyncio.run(agent.ainvoke(given, config))

    return run


@dataclass
class Lookup:
    """A tool of the agent's own that answers what it is told to."""

    answers: list[Any] = field(default_factory=lambda: ["an answer"])
    words: list[str] = field(default_factory=list)

    def tool(self) -> Any:
        """Make the tool."""

        @tool
        def lookup(word: str) -> Any:
            """Look a word up."""
            self.words.append(word)
            answer = self.answers[min(len(self.words), len(self.answers)) - 1]
            if isinstance(answer, BaseException):
                raise answer
            return answer() if callable(answer) else answer

        return lookup


@pytest.fixture
def lookup() -> Lookup:
    """A tool of the agent's own."""
    return Lookup()


def outcomes(peer: Any) -> list[int]:
    """List the outcomes that were reported."""
    return [request.outcome for request in peer.servicer.requests("CompleteToolCall")]


def test_an_own_tool_is_authorized_run_and_completed(peer: Any, script: Any, invoke: Any, lookup: Lookup) -> None:
    """The gateway is asked before, told after, and its text is what the model sees."""
    peer.servicer.shape = lambda texts: [f"<{text}>" for text in texts]
    agent = create_agent(
        script(("lookup", {"word": "w"}), "done"), tools=[lookup.tool()], middleware=[GatewayMiddleware(peer.target)]
    )

    (message,) = tool_messages(invoke(agent, config={"configurable": {"thread_id": "t1"}}))

    assert message.content == "<an answer>"
    assert message.status == "success"
    assert message.additional_kwargs["sandgate"]["outcome"] == "completed"
    assert lookup.words == ["w"]
    (asked,) = peer.servicer.requests("AuthorizeToolCall")
    assert (asked.call.thread, asked.call.tool, asked.call.arguments_json) == ("t1", "lookup", b'{"word":"w"}')
    (told,) = peer.servicer.requests("CompleteToolCall")
    assert told.admission == asked.call.request_id.encode()
    assert list(told.texts) == ["an answer"]
    assert told.outcome == verdict_pb2.OUTCOME_COMPLETED


def test_an_unchanged_text_is_kept(peer: Any, script: Any, lookup: Lookup) -> None:
    """A completion that says `unchanged` leaves the tool's own text."""
    agent = create_agent(
        script(("lookup", {"word": "w"}), "done"), tools=[lookup.tool()], middleware=[GatewayMiddleware(peer.target)]
    )

    assert tool_messages(agent.invoke(go()))[0].content == "an answer"


def test_parts_that_are_no_text_stay(peer: Any, script: Any, lookup: Lookup) -> None:
    """In content of several parts only the texts are replaced, each in its place."""
    image = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    lookup.answers = [[{"type": "text", "text": "one"}, image, {"type": "text", "text": "two"}]]
    peer.servicer.shape = lambda texts: [text.upper() for text in texts]
    agent = create_agent(
        script(("lookup", {"word": "w"}), "done"), tools=[lookup.tool()], middleware=[GatewayMiddleware(peer.target)]
    )

    content: Any = tool_messages(agent.invoke(go()))[0].content

    assert [part.get("text") for part in content] == ["ONE", None, "TWO"]
    assert content[1] == image


def test_a_refused_call_does_not_run(peer: Any, script: Any, invoke: Any, lookup: Lookup) -> None:
    """The model gets the gateway's words as an error, and nothing is completed."""

    def refuse(call: tool_pb2.ToolCall) -> tool_service_pb2.AuthorizeToolCallResponse:
        refusal = peer.result(
            call, outcome=verdict_pb2.OUTCOME_DENIED, verdict=verdict_pb2.VERDICT_BLOCK, text="No: rule 7.", sandbox=""
        )
        return tool_service_pb2.AuthorizeToolCallResponse(verdict=verdict_pb2.VERDICT_BLOCK, refusal=refusal)

    peer.servicer.authorize = refuse
    agent = create_agent(
        script(("lookup", {"word": "w"}), "done"), tools=[lookup.tool()], middleware=[GatewayMiddleware(peer.target)]
    )

    (message,) = tool_messages(invoke(agent))

    assert (message.content, message.status) == ("No: rule 7.", "error")
    assert message.additional_kwargs["sandgate"]["verdict"] == "block"
    assert lookup.words == []
    assert outcomes(peer) == []


@pytest.mark.parametrize("verdict", [verdict_pb2.VERDICT_UNSPECIFIED, verdict_pb2.VERDICT_ASK, 99])
def test_a_verdict_that_is_not_pass_or_warn_does_not_run(peer: Any, script: Any, lookup: Lookup, verdict: Any) -> None:
    """An unknown verdict, and one that waits for an approval, run nothing, also when no refusal came along."""
    peer.servicer.authorize = lambda _: tool_service_pb2.AuthorizeToolCallResponse(
        verdict=verdict, admission=b"x", reasons=[verdict_pb2.Reason(code="c", message="Because.")]
    )
    agent = create_agent(
        script(("lookup", {"word": "w"}), "done"), tools=[lookup.tool()], middleware=[GatewayMiddleware(peer.target)]
    )

    (message,) = tool_messages(agent.invoke(go()))

    assert message.status == "error"
    assert "Because." in str(message.content)
    assert lookup.words == []


def test_a_doubtful_call_runs_and_says_so(peer: Any, script: Any, lookup: Lookup) -> None:
    """A warning is kept beside the message."""
    peer.servicer.authorize = lambda call: tool_service_pb2.AuthorizeToolCallResponse(
        verdict=verdict_pb2.VERDICT_WARN,
        admission=call.request_id.encode(),
        reasons=[verdict_pb2.Reason(code="odd-word", message="Odd.", rule_id="r1")],
    )
    agent = create_agent(
        script(("lookup", {"word": "w"}), "done"), tools=[lookup.tool()], middleware=[GatewayMiddleware(peer.target)]
    )

    facts = tool_messages(agent.invoke(go()))[0].additional_kwargs["sandgate"]

    assert facts["verdict"] == "warn"
    assert facts["reasons"] == [{"code": "odd-word", "message": "Odd.", "rule_id": "r1"}]
    assert lookup.words == ["w"]


def test_an_error_of_the_tool_is_reported_and_passes(peer: Any, script: Any, invoke: Any, lookup: Lookup) -> None:
    """The gateway learns the class of the exception, not its text; the agent gets the exception itself."""
    lookup.answers = [KeyError("secret")]
    agent = create_agent(
        script(("lookup", {"word": "w"}), "done"), tools=[lookup.tool()], middleware=[GatewayMiddleware(peer.target)]
    )

    with pytest.raises(KeyError, match="secret"):
        invoke(agent)
    (told,) = peer.servicer.requests("CompleteToolCall")
    assert (told.outcome, told.failure_reason, list(told.texts)) == (verdict_pb2.OUTCOME_FAILED, "KeyError", [])


def test_an_error_passes_although_it_cannot_be_reported(peer: Any, script: Any, lookup: Lookup) -> None:
    """The tool's own error is what the agent sees; the lost report is counted."""
    lookup.answers = [KeyError("mine")]
    peer.servicer.fail("CompleteToolCall", peer.Failure(grpc.StatusCode.INTERNAL, "INTERNAL"))
    gateway = GatewayMiddleware(peer.target)
    agent = create_agent(script(("lookup", {"word": "w"}), "done"), tools=[lookup.tool()], middleware=[gateway])

    with pytest.raises(KeyError, match="mine"):
        agent.invoke(go())
    assert gateway.counters.read() == {"report_failed": 1}


def test_a_message_that_says_error_is_reported_as_failed(peer: Any, script: Any, lookup: Lookup) -> None:
    """A tool that answers with status `error` has failed; so has a name that no tool has."""
    agent = create_agent(
        script([("lookup", {"wrong": 1}), ("no_such_tool", {})], "done"),
        tools=[lookup.tool()],
        middleware=[GatewayMiddleware(peer.target)],
    )

    assert [message.status for message in tool_messages(agent.invoke(go()))] == ["error", "error"]
    assert outcomes(peer) == [verdict_pb2.OUTCOME_FAILED] * 2
    assert lookup.words == []


def test_texts_inside_a_command_are_shaped(peer: Any, script: Any, invoke: Any) -> None:
    """A tool that answers with a Command keeps its other updates, and its message goes through the gateway."""

    @tool
    def note(word: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Note a word."""
        return Command(update={"messages": [ToolMessage(f"noted {word}", tool_call_id=tool_call_id)]})

    peer.servicer.shape = lambda texts: [text.upper() for text in texts]
    agent = create_agent(
        script(("note", {"word": "w"}), "done"), tools=[note], middleware=[GatewayMiddleware(peer.target)]
    )

    (message,) = tool_messages(invoke(agent))
    assert message.content == "NOTED W"
    assert message.additional_kwargs["sandgate"]["verdict"] == "pass"


def test_an_interrupt_passes_and_its_call_is_completed_once(peer: Any, script: Any, invoke: Any) -> None:
    """An interrupted call keeps its admission open; the resumed node repeats the id and completes that admission."""

    @tool
    def ask(question: str) -> str:
        """Ask a person."""
        return f"they said {interrupt(question)}"

    agent = create_agent(
        script(("ask", {"question": "?"}), "done"),
        tools=[ask],
        middleware=[GatewayMiddleware(peer.target)],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "t1"}}

    waiting = invoke(agent, config=config)
    assert waiting["__interrupt__"][0].value == "?"
    assert outcomes(peer) == []
    state = invoke(agent, Command(resume="yes"), config)

    assert tool_messages(state)[0].content == "they said yes"
    first, second = (request.call for request in peer.servicer.requests("AuthorizeToolCall"))
    assert first.request_id == second.request_id
    assert first.lease == second.lease
    assert outcomes(peer) == [verdict_pb2.OUTCOME_COMPLETED]


def test_a_call_that_was_interrupted_too_long_is_authorized_anew(peer: Any, script: Any) -> None:
    """An admission that ran out while a person thought is not used; policy is asked again under another id."""
    times = iter([datetime.now(UTC) - timedelta(hours=1)])

    def admit(call: tool_pb2.ToolCall) -> tool_service_pb2.AuthorizeToolCallResponse:
        reply = tool_service_pb2.AuthorizeToolCallResponse(
            verdict=verdict_pb2.VERDICT_PASS, admission=call.request_id.encode()
        )
        reply.expire_time.FromDatetime(next(times, datetime.now(UTC) + timedelta(hours=1)))
        return reply

    peer.servicer.authorize = admit
    agent = create_agent(
        script(("lookup", {"word": "w"}), "done"), tools=[Lookup().tool()], middleware=[GatewayMiddleware(peer.target)]
    )
    agent.invoke(go())

    old, new = (request.call.request_id for request in peer.servicer.requests("AuthorizeToolCall"))
    assert old != new
    assert peer.servicer.requests("CompleteToolCall")[0].admission == new.encode()


@pytest.mark.parametrize(
    ("method", "reason"),
    [("AuthorizeToolCall", "REQUEST_ID_EXPIRED"), ("CompleteToolCall", "ADMISSION_EXPIRED")],
)
def test_what_ran_out_is_renewed(peer: Any, script: Any, lookup: Lookup, method: str, reason: str) -> None:
    """An id that the gateway forgot, and an admission that ran out while the tool ran, are replaced by new ones."""
    peer.servicer.fail(method, peer.Failure(grpc.StatusCode.FAILED_PRECONDITION, reason))
    agent = create_agent(
        script(("lookup", {"word": "w"}), "done"), tools=[lookup.tool()], middleware=[GatewayMiddleware(peer.target)]
    )

    assert tool_messages(agent.invoke(go()))[0].content == "an answer"
    ids = {request.call.request_id for request in peer.servicer.requests("AuthorizeToolCall")}
    assert len(ids) == 2
    assert lookup.words == ["w"]


def test_a_retry_on_purpose_is_another_request(peer: Any, script: Any, invoke: Any, lookup: Lookup) -> None:
    """A retry middleware outside of the gateway's makes attempts, each with an id and a record of its own."""
    lookup.answers = [ValueError("first"), ValueError("second"), "third"]
    agent = create_agent(
        script(("lookup", {"word": "w"}), "done"),
        tools=[lookup.tool()],
        middleware=[
            ToolRetryMiddleware(max_retries=3, initial_delay=0, jitter=False),
            GatewayMiddleware(peer.target),
        ],
    )

    assert tool_messages(invoke(agent))[0].content == "third"
    ids = [request.call.request_id for request in peer.servicer.requests("AuthorizeToolCall")]
    assert len(set(ids)) == len(ids) == 3
    failed, completed = verdict_pb2.OUTCOME_FAILED, verdict_pb2.OUTCOME_COMPLETED
    assert outcomes(peer) == [failed, failed, completed]


def test_a_retry_after_an_error_of_the_gateway_is_the_same_request(peer: Any, script: Any, invoke: Any) -> None:
    """When it is not known whether a call ran, a retry repeats its id, so that it cannot run twice."""
    peer.servicer.fail("ExecuteTool", peer.Failure(grpc.StatusCode.INTERNAL, "INTERNAL"))
    agent = create_agent(
        script(("bash", {"command": "a"}), "done"),
        middleware=[
            ToolRetryMiddleware(max_retries=3, initial_delay=0, jitter=False, retry_on=(SandgateError,)),
            GatewayMiddleware(peer.target),
        ],
    )

    assert tool_messages(invoke(agent))[0].status == "success"
    first, second = (request.call.request_id for request in peer.servicer.requests("ExecuteTool"))
    assert first == second


def test_a_node_that_is_run_again_is_recorded_again(peer: Any, script: Any, lookup: Lookup) -> None:
    """A resumed node repeats its id; its tool runs again, so its second end gets an admission of its own."""
    lookup.answers = [ValueError("the first time"), "the second time"]
    agent = create_agent(
        script(("lookup", {"word": "w"}), "done"),
        tools=[lookup.tool()],
        middleware=[GatewayMiddleware(peer.target)],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "t1"}}

    with pytest.raises(ValueError, match="the first time"):
        agent.invoke(go(), config)
    state = agent.invoke(None, config)

    assert tool_messages(state)[0].content == "the second time"
    first, repeated, renewed = (request.call.request_id for request in peer.servicer.requests("AuthorizeToolCall"))
    assert first == repeated != renewed
    assert [answer.admission for answer in peer.servicer.requests("CompleteToolCall")] == [
        first.encode(),
        first.encode(),
        renewed.encode(),
    ]


def test_a_hand_over_to_another_graph_passes_and_is_reported(peer: Any, script: Any, lookup: Lookup) -> None:
    """A tool that ends by control flow has done its work; what it raises is not touched."""
    raised = ParentCommand(Command(goto="elsewhere", graph=Command.PARENT))
    lookup.answers = [raised]
    agent = create_agent(
        script(("lookup", {"word": "w"}), "done"), tools=[lookup.tool()], middleware=[GatewayMiddleware(peer.target)]
    )

    with pytest.raises(ParentCommand) as passed:
        agent.invoke(go())
    assert passed.value is raised
    peer.eventually(lambda: outcomes(peer) == [verdict_pb2.OUTCOME_COMPLETED])


async def test_a_cancelled_tool_is_reported_as_cancelled(peer: Any, script: Any) -> None:
    """Cancelling the run passes through the tool, and the record says how the call ended."""
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.sleep(60)
        return "never"

    gateway = await GatewayMiddleware.connect(peer.target)
    agent = create_agent(script(("wait", {}), "done"), tools=[wait], middleware=[gateway])
    run = asyncio.create_task(agent.ainvoke(go()))
    await asyncio.wait_for(started.wait(), 5)

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await asyncio.to_thread(peer.eventually, lambda: outcomes(peer) == [verdict_pb2.OUTCOME_CANCELLED])


async def test_a_run_cancelled_while_it_reports_still_reports(peer: Any, script: Any, lookup: Lookup) -> None:
    """The tool did run: a cancellation that comes during the report does not lose it."""
    release = asyncio.Event()
    loop = asyncio.get_running_loop()
    complete = peer.servicer.CompleteToolCall

    async def slowly(request: Any, context: Any) -> Any:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(release.wait(), loop))
        return await complete(request, context)

    peer.stop()
    peer.servicer.CompleteToolCall = slowly
    peer.start()
    gateway = await GatewayMiddleware.connect(peer.target)
    agent = create_agent(script(("lookup", {"word": "w"}), "done"), tools=[lookup.tool()], middleware=[gateway])
    run = asyncio.create_task(agent.ainvoke(go()))
    await asyncio.to_thread(peer.eventually, lambda: lookup.words)

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    release.set()
    await asyncio.to_thread(peer.eventually, lambda: verdict_pb2.OUTCOME_COMPLETED in outcomes(peer))
