"""Ids of requests, threads, runs and leases."""

from __future__ import annotations

import uuid
from typing import Any

import grpc
import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy

from sandgate_agent import GatewayMiddleware, Misconfigured
from sandgate_agent.errors import CallTimedOut, SandgateError
from sandgate_agent.identity import Identity, recorded


def identity(**fields: str) -> Identity:
    """Make an identity."""
    return Identity(**({"thread": "t", "run": "r", "lease": "l", "task": "k", "tool_call_id": "c"} | fields))


def test_a_request_id_is_a_uuid_that_repeats() -> None:
    """The same call has the same id, in any process. It is pinned: a change would let resumed calls run again."""
    first = identity().request_id(attempt=0)

    assert first == identity(run="other", lease="other").request_id(attempt=0)
    assert first == "f5833796-d207-586f-bcd8-b046d5e540f8"
    assert uuid.UUID(first).version == 5


def test_whatever_makes_another_call_makes_another_id() -> None:
    """Thread, task, call, attempt and renewal each count, and cannot be shifted into one another."""
    ids = {
        identity().request_id(attempt=0),
        identity(thread="t2").request_id(attempt=0),
        identity(task="k2").request_id(attempt=0),
        identity(tool_call_id="c2").request_id(attempt=0),
        identity(thread="tk", task="").request_id(attempt=0),
        identity().request_id(attempt=1),
        identity().request_id(attempt=0, renewal=1),
        identity().request_id(attempt=1, renewal=1),
    }
    assert len(ids) == 8


def test_a_resumed_node_repeats_its_request_id(peer: Any, script: Any) -> None:
    """A graph that failed and is resumed from its checkpoint, by another agent object, asks with the same id."""
    peer.servicer.fail("ExecuteTool", peer.Failure(grpc.StatusCode.INTERNAL, "INTERNAL"))
    saver = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "t1"}}

    def build() -> Any:
        model = script(("bash", {"command": "a"}), "done")
        return create_agent(model, middleware=[GatewayMiddleware(peer.target)], checkpointer=saver)

    with pytest.raises(SandgateError):
        build().invoke({"messages": [HumanMessage("go")]}, config)
    state = build().invoke(None, config)

    assert state["messages"][-1].content == "done"
    first, second = (request.call for request in peer.servicer.requests("ExecuteTool"))
    assert first.request_id == second.request_id
    assert first.lease == second.lease


def test_a_node_with_a_retry_policy_repeats_its_request_id(peer: Any) -> None:
    """LangGraph's own retry of a node is no attempt on purpose; the call joins the first one."""
    peer.servicer.fail("ExecuteTool", peer.Failure(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_TOO_SHORT"))
    gateway = GatewayMiddleware(peer.target)
    graph = StateGraph(MessagesState)
    policy = RetryPolicy(max_attempts=2, initial_interval=0.01, jitter=False, retry_on=CallTimedOut)
    graph.add_node("tools", ToolNode(gateway.tools, wrap_tool_call=gateway.wrap_tool_call), retry_policy=policy)
    graph.set_entry_point("tools")
    call = {"name": "bash", "args": {"command": "a"}, "id": "c1"}

    graph.compile().invoke({"messages": [AIMessage("", tool_calls=[call])]}, {"configurable": {"thread_id": "t1"}})

    first, second = (request.call for request in peer.servicer.requests("ExecuteTool"))
    assert first.request_id == second.request_id
    assert first.lease == ""


def test_a_graph_without_the_middleware_needs_a_thread_id(peer: Any) -> None:
    """A graph that mints no invocation and has no thread gets an error that says what to do."""
    gateway = GatewayMiddleware(peer.target)
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(gateway.tools, wrap_tool_call=gateway.wrap_tool_call))
    graph.set_entry_point("tools")
    call = {"name": "bash", "args": {"command": "a"}, "id": "c1"}

    with pytest.raises(Misconfigured, match="thread_id"):
        graph.compile().invoke({"messages": [AIMessage("", tool_calls=[call])]})


def test_a_thread_id_may_be_a_number(peer: Any, script: Any) -> None:
    """What LangGraph takes as a thread id travels as text."""
    agent = create_agent(script(("bash", {"command": "a"}), "done"), middleware=[GatewayMiddleware(peer.target)])

    agent.invoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": 7}})

    assert peer.servicer.requests("ExecuteTool")[0].call.thread == "7"
    assert peer.servicer.requests("ReleaseSandbox")[0].thread == "7"


def test_without_a_thread_each_invocation_has_one_of_its_own(peer: Any, script: Any) -> None:
    """All calls of a run share a minted thread; the next run has another."""
    model = script([("bash", {"command": "a"}), ("bash", {"command": "b"})], ("bash", {"command": "c"}), "done")
    agent = create_agent(model, middleware=[GatewayMiddleware(peer.target)])

    agent.invoke({"messages": [HumanMessage("go")]})
    agent.invoke({"messages": [HumanMessage("go")]})

    threads = [request.call.thread for request in peer.servicer.requests("ExecuteTool")]
    assert len(set(threads[:3])) == len(set(threads[3:])) == 1
    assert threads[0] != threads[3]


def test_a_run_id_that_the_program_gives_is_used(peer: Any, script: Any) -> None:
    """A run id in the config names the run."""
    run_id = uuid.uuid4()
    agent = create_agent(script(("bash", {"command": "a"}), "done"), middleware=[GatewayMiddleware(peer.target)])

    agent.invoke({"messages": [HumanMessage("go")]}, {"run_id": run_id})

    assert peer.servicer.requests("ExecuteTool")[0].call.run == str(run_id)


def test_ids_that_others_chose_are_cut_for_the_record() -> None:
    """An id of a model that is too long or holds control characters does not end the run."""
    assert recorded("call-1") == "call-1"
    assert recorded("a\x00b\nc\ud800") == "abc"
    assert recorded("€" * 100) == "€" * 85
