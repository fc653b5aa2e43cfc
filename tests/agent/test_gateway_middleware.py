"""The middleware in a real LangGraph agent, against a real gRPC server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from sandgate.v1 import tool_pb2, verdict_pb2
from sandgate_agent import (
    CallTimedOut,
    Claims,
    GatewayFault,
    GatewayMiddleware,
    Misconfigured,
    NameClash,
    RequestRejected,
)


def go() -> Any:
    """Say something to an agent; LangGraph keeps the message, so each run gets its own."""
    return {"messages": [HumanMessage("go")]}


def tool_messages(state: dict[str, Any]) -> list[ToolMessage]:
    """List the answers of tools, in order."""
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.fixture(params=["invoke", "ainvoke"])
def invoke(request: pytest.FixtureRequest) -> Callable[..., dict[str, Any]]:
    """Run an agent in both ways that LangGraph has."""

    def run(agent: Any, given: Any = None, config: Any = None) -> Any:
        given = go() if given is None else given
        if request.param == "invoke":
            return agent.invoke(given, config)
        return asyncio.run(agent.ainvoke(given, config))

    return run


def test_a_sandbox_tool_runs_in_the_gateway(peer: Any, script: Any, invoke: Any) -> None:
    """A gateway's tool is executed there, and its result comes back as message, artifact, facts and sandbox id."""

    async def execute(call: tool_pb2.ToolCall) -> Any:
        process = tool_pb2.ProcessData(end=tool_pb2.PROCESS_END_EXITED, exit_code=3, stdout=b"hi\n", stdout_bytes=3)
        return peer.result(call, text="hi\nExit code: 3", process=process)

    peer.servicer.execute = execute
    agent = create_agent(script(("bash", {"command": "x"}), "done"), middleware=[GatewayMiddleware(peer.target)])

    state = invoke(agent, config={"configurable": {"thread_id": "t1"}})

    (message,) = tool_messages(state)
    assert message.content == "hi\nExit code: 3"
    assert message.status == "success"
    assert message.name == "bash"
    assert message.tool_call_id == "call-1"
    assert message.artifact["kind"] == "process"
    assert message.artifact["exit_code"] == 3
    assert message.artifact["stdout"]["data"] == b"hi\n"
    facts = message.additional_kwargs["sandgate"]
    assert facts["outcome"] == "completed"
    assert facts["verdict"] == "pass"
    assert facts["audit_id"].startswith("audit-")
    assert state["sandbox"] == {"sandbox_id": "sandboxes/t1"}
    (request,) = peer.servicer.requests("ExecuteTool")
    assert request.call.thread == "t1"
    assert request.call.arguments_json == b'{"command":"x"}'
    (release,) = peer.servicer.requests("ReleaseSandbox")
    assert (release.thread, release.lease) == ("t1", request.call.lease)


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (verdict_pb2.OUTCOME_FAILED, "failed"),
        (verdict_pb2.OUTCOME_DENIED, "denied"),
        (verdict_pb2.OUTCOME_PENDING, "pending"),
        (verdict_pb2.OUTCOME_TIMED_OUT, "timed_out"),
        (verdict_pb2.OUTCOME_CANCELLED, "cancelled"),
        (verdict_pb2.OUTCOME_INTERRUPTED, "interrupted"),
        (verdict_pb2.OUTCOME_LOST, "lost"),
        (99, "failed"),
    ],
)
def test_every_other_outcome_is_an_error_message(peer: Any, script: Any, outcome: int, word: str) -> None:
    """The model sees an outcome that is not `completed`, also one that is not known yet, as an error with its text."""

    async def execute(call: tool_pb2.ToolCall) -> Any:
        failure = tool_pb2.ToolFailure(reason="not-found", message="gone", next_step="look elsewhere")
        return peer.result(call, outcome=outcome, text="Error: gone", sandbox="", failure=failure)

    peer.servicer.execute = execute
    agent = create_agent(script(("bash", {"command": "x"}), "done"), middleware=[GatewayMiddleware(peer.target)])

    (message,) = tool_messages(agent.invoke(go()))

    assert message.status == "error"
    assert message.content == "Error: gone"
    assert message.additional_kwargs["sandgate"]["outcome"] == word
    assert message.artifact["failure"]["reason"] == "not-found"


def test_a_call_without_a_sandbox_leaves_the_state_alone(peer: Any, script: Any) -> None:
    """A refused call brings no sandbox into the state, and then there is nothing to release."""

    async def execute(call: tool_pb2.ToolCall) -> Any:
        return peer.result(call, outcome=verdict_pb2.OUTCOME_DENIED, verdict=verdict_pb2.VERDICT_BLOCK, sandbox="")

    peer.servicer.execute = execute
    agent = create_agent(script(("bash", {"command": "x"}), "done"), middleware=[GatewayMiddleware(peer.target)])

    assert "sandbox" not in agent.invoke(go())
    assert peer.servicer.requests("ReleaseSandbox") == []


def test_parallel_calls_may_report_one_new_sandbox(peer: Any, script: Any, invoke: Any) -> None:
    """Two calls at once that both bring the first sandbox end well, with different request ids and one lease."""
    agent = create_agent(
        script([("bash", {"command": "a"}), ("bash", {"command": "b"})], "done"),
        middleware=[GatewayMiddleware(peer.target)],
    )

    state = invoke(agent, config={"configurable": {"thread_id": "t1"}})

    assert [message.content for message in tool_messages(state)] == [
        'ran bash {"command":"a"}',
        'ran bash {"command":"b"}',
    ]
    assert state["sandbox"] == {"sandbox_id": "sandboxes/t1"}
    calls = [request.call for request in peer.servicer.requests("ExecuteTool")]
    assert len({call.request_id for call in calls}) == 2
    assert len({call.lease for call in calls}) == 1
    assert len(peer.servicer.requests("ReleaseSandbox")) == 1


def test_another_sandbox_replaces_the_known_one(peer: Any, script: Any) -> None:
    """A sandbox that died is replaced in the state; two different ones in one step are no error."""
    names = iter(["sandboxes/a", "sandboxes/b", "sandboxes/c"])

    async def execute(call: tool_pb2.ToolCall) -> Any:
        return peer.result(call, sandbox=next(names))

    peer.servicer.execute = execute
    turns = [("bash", {"command": "a"}), ("bash", {"command": "b"})]
    agent = create_agent(script(turns, ("bash", {"command": "c"}), "done"), middleware=[GatewayMiddleware(peer.target)])

    assert agent.invoke(go())["sandbox"] == {"sandbox_id": "sandboxes/c"}


def test_a_known_sandbox_is_not_written_again(peer: Any, script: Any) -> None:
    """Only the first call updates the state's sandbox; later ones are plain messages."""
    agent = create_agent(
        script(("bash", {"command": "a"}), ("bash", {"command": "b"}), "done"),
        middleware=[GatewayMiddleware(peer.target)],
    )

    updates = [update["tools"] for update in agent.stream(go(), stream_mode="updates") if "tools" in update]

    assert ["sandbox" in update for update in updates] == [True, False]


def test_every_call_has_a_deadline(peer: Any, script: Any) -> None:
    """No RPC of a run travels without a deadline."""

    def lookup(word: str) -> str:
        """Look a word up."""
        return word

    agent = create_agent(
        script([("bash", {"command": "a"}), ("lookup", {"word": "b"})], "done"),
        tools=[lookup],
        middleware=[GatewayMiddleware(peer.target)],
    )
    agent.invoke(go())

    assert {name for name, _ in peer.servicer.deadlines} == {
        "ListTools",
        "ExecuteTool",
        "AuthorizeToolCall",
        "CompleteToolCall",
        "ReleaseSandbox",
    }
    assert all(remaining is not None and 0 < remaining < 700 for _, remaining in peer.servicer.deadlines)


def test_a_full_gateway_is_waited_for(peer: Any, script: Any, invoke: Any) -> None:
    """A call that is told when to come back comes back then, with the same request id."""
    full = peer.Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "CAPACITY_EXHAUSTED", retry_after_seconds=0.01)
    peer.servicer.fail("ExecuteTool", full, full)
    agent = create_agent(script(("bash", {"command": "a"}), "done"), middleware=[GatewayMiddleware(peer.target)])

    (message,) = tool_messages(invoke(agent))

    assert message.status == "success"
    calls = [request.call for request in peer.servicer.requests("ExecuteTool")]
    assert len(calls) == 3
    assert len({call.request_id for call in calls}) == 1


def test_a_gateway_that_stays_full_tells_the_model_when_to_come_back(peer: Any, script: Any) -> None:
    """The model gets an error message with a time, and the agent goes on."""
    full = peer.Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "CAPACITY_EXHAUSTED", retry_after_seconds=120)
    peer.servicer.fail("ExecuteTool", full)
    agent = create_agent(script(("bash", {"command": "a"}), "done"), middleware=[GatewayMiddleware(peer.target)])

    (message,) = tool_messages(agent.invoke(go()))

    assert message.status == "error"
    assert "in 120 seconds" in str(message.content)


def test_an_outage_is_raised_or_told(peer: Any, script: Any) -> None:
    """By default an outage ends the run with a typed error; on request it becomes a message for the model."""
    away = peer.Failure(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_TOO_SHORT", metadata={"audit_id": "a-1"})
    peer.servicer.fail("ExecuteTool", away, away)
    model = script(("bash", {"command": "a"}), "done")

    with pytest.raises(CallTimedOut) as raised:
        create_agent(model, middleware=[GatewayMiddleware(peer.target)]).invoke(go())
    state = create_agent(model, middleware=[GatewayMiddleware(peer.target, on_outage="message")]).invoke(go())

    assert raised.value.audit_id == "a-1"
    (message,) = tool_messages(state)
    assert message.status == "error"
    assert message.additional_kwargs["sandgate"]["error_reason"] == "DEADLINE_TOO_SHORT"


def test_nothing_runs_without_the_gateway(peer: Any, script: Any, invoke: Any) -> None:
    """A tool of the agent's own does not run while the gateway cannot authorize it."""
    ran: list[str] = []

    def lookup(word: str) -> str:
        """Look a word up."""
        ran.append(word)
        return word

    bug = peer.Failure(grpc.StatusCode.INTERNAL, "INTERNAL")
    peer.servicer.fail("AuthorizeToolCall", bug)
    agent = create_agent(
        script(("lookup", {"word": "a"}), "done"), tools=[lookup], middleware=[GatewayMiddleware(peer.target)]
    )

    with pytest.raises(GatewayFault):
        invoke(agent)
    assert ran == []


def test_arguments_that_are_too_large_are_the_models_to_mend(peer: Any, script: Any) -> None:
    """The model is told the limit and what to do instead."""
    large = peer.Failure(grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_TOO_LARGE", metadata={"limit_bytes": "1048576"})
    peer.servicer.fail("ExecuteTool", large)
    agent = create_agent(script(("bash", {"command": "a"}), "done"), middleware=[GatewayMiddleware(peer.target)])

    (message,) = tool_messages(agent.invoke(go()))

    assert message.status == "error"
    assert "1048576 bytes" in str(message.content)


def nested(depth: int) -> list[Any]:
    """Make a list in a list, and so on."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("arguments", [{"command": float("nan")}, {"command": "\ud800"}, {"command": nested(2000)}])
def test_arguments_that_are_no_json_are_not_sent(peer: Any, script: Any, arguments: dict[str, Any]) -> None:
    """What JSON cannot say becomes an error message; nothing runs."""
    agent = create_agent(script(("bash", arguments), "done"), middleware=[GatewayMiddleware(peer.target)])

    (message,) = tool_messages(agent.invoke(go()))

    assert message.status == "error"
    assert peer.servicer.requests("ExecuteTool") == []


def test_a_failed_release_is_counted_not_raised(
    peer: Any, script: Any, invoke: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The run ends well although its lease could not be released."""
    peer.servicer.fail("ReleaseSandbox", peer.Failure(grpc.StatusCode.INTERNAL, "INTERNAL"))
    gateway = GatewayMiddleware(peer.target)
    agent = create_agent(script(("bash", {"command": "a"}), "done"), middleware=[gateway])

    assert invoke(agent)["messages"][-1].content == "done"
    assert gateway.counters.read() == {"release_failed": 1}
    assert "was not released" in caplog.text


def test_a_clash_of_names_is_found_when_the_agent_is_built(peer: Any) -> None:
    """A tool of the agent with the name of one of the gateway's is an error at once, in any form that a tool has."""

    def bash(command: str) -> str:
        """Not the gateway's."""
        return command

    for clashing in (tool(bash), bash, {"name": "bash"}, {"type": "function", "function": {"name": "bash"}}):
        with pytest.raises(NameClash) as raised:
            GatewayMiddleware(peer.target, tools=[clashing])
        assert raised.value.names == ("bash",)
    GatewayMiddleware(peer.target, tools=[tool(bash)], only=["read_file"])


def test_a_clash_of_names_is_found_at_the_first_model_call(peer: Any, script: Any, invoke: Any) -> None:
    """A clash that was not visible at construction ends the run before the model is asked."""

    def bash(command: str) -> str:
        """Not the gateway's."""
        return command

    agent = create_agent(
        script(("bash", {"command": "a"}), "done"), tools=[bash], middleware=[GatewayMiddleware(peer.target)]
    )

    with pytest.raises(NameClash):
        invoke(agent)
    assert peer.servicer.requests("ExecuteTool") == []


def test_only_some_of_the_gateways_tools_can_be_used(peer: Any) -> None:
    """None takes all tools, an empty collection none, and an unknown name is an error."""
    assert [tool.name for tool in GatewayMiddleware(peer.target).tools] == ["bash", "read_file"]
    assert [tool.name for tool in GatewayMiddleware(peer.target, only=["read_file"]).tools] == ["read_file"]
    assert list(GatewayMiddleware(peer.target, only=[]).tools) == []
    with pytest.raises(Misconfigured, match="no tool nope"):
        GatewayMiddleware(peer.target, only=["nope"])


def test_a_gateway_tool_does_nothing_past_the_middleware(peer: Any) -> None:
    """Calling the tool object itself raises instead of running anything."""
    bash, _ = GatewayMiddleware(peer.target).tools

    with pytest.raises(ToolException, match="only in the gateway"):
        bash.invoke({"command": "x"})
    assert peer.servicer.requests("ExecuteTool") == []


@pytest.mark.parametrize("config", [None, {"configurable": {"thread_id": "t1"}}])
def test_a_subagent_shares_the_thread_but_not_the_lease(peer: Any, script: Any, invoke: Any, config: Any) -> None:
    """A subagent works in its parent's sandbox, also without a thread id, and its end does not release the parent."""
    gateway = GatewayMiddleware(peer.target)
    subagent = create_agent(script(("bash", {"command": "inner"}), "found"), middleware=[gateway])

    @tool
    def task(question: str) -> str:
        """Ask the subagent."""
        return str(subagent.invoke({"messages": [HumanMessage(question)]})["messages"][-1].content)

    agent = create_agent(
        script([("task", {"question": "q"}), ("bash", {"command": "outer"})], "done"),
        tools=[task],
        middleware=[gateway],
    )
    state = invoke(agent, config=config)

    assert tool_messages(state)[0].content == "found"
    inner, outer = sorted(
        (request.call for request in peer.servicer.requests("ExecuteTool")), key=lambda call: call.arguments_json
    )
    assert inner.thread == outer.thread == ("t1" if config else outer.thread)
    assert inner.thread
    assert inner.lease != outer.lease
    assert inner.run != outer.run
    assert {release.lease for release in peer.servicer.requests("ReleaseSandbox")} == {inner.lease, outer.lease}


def test_a_new_invocation_has_a_new_lease(peer: Any, script: Any) -> None:
    """Two runs on one thread have the thread in common, and neither lease nor run nor request id."""
    agent = create_agent(
        script(("bash", {"command": "a"}), "done"),
        middleware=[GatewayMiddleware(peer.target)],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "t1"}}
    agent.invoke(go(), config)
    agent.invoke(go(), config)

    first, second = (request.call for request in peer.servicer.requests("ExecuteTool"))
    assert first.thread == second.thread == "t1"
    assert first.lease != second.lease
    assert first.run != second.run
    assert first.request_id != second.request_id


def test_claims_and_timeout_travel_with_each_call(peer: Any, script: Any) -> None:
    """What the agent says of itself, and how long a tool may run, reach the gateway."""
    gateway = GatewayMiddleware(
        peer.target, claims=Claims(agent_name="tester", on_behalf_of="me"), execution_timeout_seconds=2.5
    )
    create_agent(script(("bash", {"command": "a"}), "done"), middleware=[gateway]).invoke(go())

    (request,) = peer.servicer.requests("ExecuteTool")
    assert request.call.claims.agent_name == "tester"
    assert request.call.claims.on_behalf_of == "me"
    assert request.call.execution_timeout.ToNanoseconds() == 2_500_000_000


async def test_cancelling_the_agent_cancels_the_call_at_the_gateway(peer: Any, script: Any) -> None:
    """A cancelled run ends its call in the gateway and passes the cancellation on."""

    async def execute(_: tool_pb2.ToolCall) -> Any:
        await asyncio.sleep(60)

    peer.servicer.execute = execute
    gateway = await GatewayMiddleware.connect(peer.target)
    agent = create_agent(script(("bash", {"command": "a"}), "done"), middleware=[gateway])
    run = asyncio.create_task(agent.ainvoke(go()))
    await asyncio.to_thread(peer.eventually, lambda: peer.servicer.running)

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await asyncio.to_thread(peer.eventually, lambda: peer.servicer.cancelled)


async def test_the_middleware_can_be_built_without_blocking(peer: Any, script: Any) -> None:
    """`connect` awaits the tools and takes the same options."""
    gateway = await GatewayMiddleware.connect(peer.target, only=["bash"], on_outage="message")

    state = await create_agent(script(("bash", {"command": "a"}), "done"), middleware=[gateway]).ainvoke(go())

    assert [tool.name for tool in gateway.tools] == ["bash"]
    assert tool_messages(state)[0].status == "success"


@pytest.mark.parametrize("field", ["call.tool", "call.arguments_json"])
def test_what_the_model_chose_wrongly_is_the_models_to_mend(peer: Any, script: Any, field: str) -> None:
    """A name or arguments that the gateway cannot read become an error message; the agent goes on."""
    wrong = peer.Failure(
        grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", f"{field}: too deep", metadata={"field": field}
    )
    peer.servicer.fail("ExecuteTool", wrong)
    agent = create_agent(script(("bash", {"command": "a"}), "done"), middleware=[GatewayMiddleware(peer.target)])

    (message,) = tool_messages(agent.invoke(go()))

    assert message.status == "error"
    assert "too deep" in str(message.content)


def test_what_the_program_chose_wrongly_is_raised(peer: Any, script: Any) -> None:
    """A thread that the gateway does not take is no matter for the model."""
    wrong = peer.Failure(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", metadata={"field": "call.thread"})
    peer.servicer.fail("ExecuteTool", wrong)
    agent = create_agent(script(("bash", {"command": "a"}), "done"), middleware=[GatewayMiddleware(peer.target)])

    with pytest.raises(RequestRejected):
        agent.invoke(go())


async def test_the_event_loop_is_never_blocked(peer: Any, script: Any) -> None:
    """The asynchronous hooks make no blocking call: neither for the gateway's tools nor for the agent's own."""

    async def lookup(word: str) -> str:
        """Look a word up."""
        return word

    agent = create_agent(
        script([("bash", {"command": "a"}), ("lookup", {"word": "b"})], "done"),
        tools=[lookup],
        middleware=[await GatewayMiddleware.connect(peer.target)],
    )
    await agent.ainvoke(go())

    with blockbuster_ctx("sandgate_agent"):
        state = await agent.ainvoke(go())

    assert [message.status for message in tool_messages(state)] == ["success"] * 2


@pytest.mark.parametrize("name", ["bash", "lookup"])
@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_a_reviewers_edit_is_what_the_gateway_decides_on_and_runs(peer: Any, script: Any, mode: Any, name: str) -> None:
    """Nothing is sent before the reviewer has answered, and then the edited call only, also for an own tool."""

    @tool
    def lookup(command: str) -> str:
        """Look something up."""
        return command

    agent = create_agent(
        script((name, {"command": "bad"}), "done"),
        tools=[lookup],
        middleware=[
            HumanInTheLoopMiddleware(interrupt_on={name: True}, interrupt_mode=mode),
            GatewayMiddleware(peer.target),
        ],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    (asked,) = agent.invoke(go(), config)["__interrupt__"]
    sent = [call for method, call in peer.servicer.calls if method in ("ExecuteTool", "AuthorizeToolCall")]
    assert sent == []

    decision = {"type": "edit", "edited_action": {"name": name, "args": {"command": "good"}}}
    answer = {asked.id: {"decisions": [decision]} if mode == "batched" else decision}
    (message,) = tool_messages(agent.invoke(Command(resume=answer), config))
    assert "good" in str(message.content)
    sent = [call for method, call in peer.servicer.calls if method in ("ExecuteTool", "AuthorizeToolCall")]
    assert [request.call.arguments_json for request in sent] == [b'{"command":"good"}']


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_what_a_reviewer_rejects_is_never_sent(peer: Any, script: Any, mode: Any) -> None:
    """The gateway does not even hear of it."""
    agent = create_agent(
        script(("bash", {"command": "bad"}), "done"),
        middleware=[
            HumanInTheLoopMiddleware(interrupt_on={"bash": True}, interrupt_mode=mode),
            GatewayMiddleware(peer.target),
        ],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    (asked,) = agent.invoke(go(), config)["__interrupt__"]

    answer = {asked.id: {"decisions": [{"type": "reject"}]} if mode == "batched" else {"type": "reject"}}
    (message,) = tool_messages(agent.invoke(Command(resume=answer), config))
    assert message.status == "error"
    assert peer.servicer.requests("ExecuteTool") == []
