"""Calls through real gRPC: run, repeat, watch, cancel."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from sandgate.v1 import tool_pb2, tool_service_pb2, verdict_pb2
from sandgate_providers.fake import FakeProvider

Agent = Any  # the conftest's; test modules do not import each other
Start = Any
Until = Any


async def test_a_call_runs_and_comes_back(agent: Agent) -> None:
    """One unary call: output, exit code, verdict, ids, times, the sandbox that ran it."""
    call = agent.call("echo hello")
    result = await agent.run(call)
    assert result.outcome == verdict_pb2.OUTCOME_COMPLETED
    assert result.verdict == verdict_pb2.VERDICT_PASS
    assert "hello" in result.text
    assert result.process.stdout == b"hello\n"
    assert result.process.end == tool_pb2.PROCESS_END_EXITED
    assert result.process.HasField("exit_code")
    assert result.process.exit_code == 0
    assert result.request_id == call.request_id
    assert result.sandbox.startswith("sandboxes/sg-")
    assert result.start_time.seconds > 0
    decided, finished = await agent.records(audit_id=result.audit_id)
    assert (decided["stage"], finished["stage"]) == ("decided", "finished")
    assert finished["outcome"] == "completed"
    assert finished["sandbox"] == result.sandbox.removeprefix("sandboxes/")


async def test_an_exit_code_is_no_failure(agent: Agent) -> None:
    """A command that fails has completed; the model sees its code."""
    result = await agent.bash("exit 3")
    assert result.outcome == verdict_pb2.OUTCOME_COMPLETED
    assert result.process.exit_code == 3
    assert not result.HasField("failure")


async def test_tools_are_listed_in_pages(agent: Agent) -> None:
    """Every tool comes once, with a schema; the digest is the same on each page."""
    names: list[str] = []
    digests = set()
    token = ""
    while True:
        request = tool_service_pb2.ListToolsRequest(page_size=3, page_token=token)
        reply = await agent.tools.ListTools(request, timeout=5)
        names += [tool.name for tool in reply.tools]
        digests.add(reply.catalogue_digest)
        assert all(tool.arguments_schema_json.startswith(b"{") and tool.description for tool in reply.tools)
        token = reply.next_page_token
        if not token:
            break
    assert names == ["bash", "glob", "grep", "ls", "read_file", "str_replace", "write_file"]
    [digest] = digests
    assert digest.startswith("sha256:")


async def test_a_repeat_gets_the_same_answer(agent: Agent, provider: FakeProvider) -> None:
    """Ten requests of one id, at once and later, run once and get the same bytes."""
    call = agent.call("echo once")
    first, *others = await asyncio.gather(*(agent.run(call) for _ in range(10)))
    others.append(await agent.run(call))
    assert all(other == first for other in others)
    assert len(await agent.records(event="tool.call.decided")) == 1
    assert len(provider.made) == 1


async def test_an_id_cannot_be_used_for_something_else(agent: Agent) -> None:
    """Another command under the same id is refused; so is an authorization under the id of a call."""
    call = agent.call("echo one")
    await agent.run(call)
    other = agent.call("echo two", request_id=call.request_id)
    refusal = await agent.refusal(agent.run(other))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED")
    request = tool_service_pb2.AuthorizeToolCallRequest(call=call)
    refusal = await agent.refusal(agent.tools.AuthorizeToolCall(request, timeout=5))
    assert refusal.reason == "REQUEST_ID_REUSED"


async def test_a_stream_starts_shows_and_finishes(agent: Agent) -> None:
    """Started first, notices and output in between, exactly one finished event at the end, with the unary result."""
    events = [event async for event in agent.stream(agent.call("echo hello"))]
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds == ["started", "notice", "output", "finished"]
    started, notice, output, finished = events
    assert not started.started.joined
    assert notice.notice.code == "sandbox-starting"
    assert output.output.stream == tool_service_pb2.OUTPUT_STREAM_STDOUT
    assert output.output.data == b"hello\n"
    assert finished.finished.result.audit_id == started.started.audit_id
    assert finished.finished.result.process.stdout == b"hello\n"


async def test_a_stream_joins(agent: Agent) -> None:
    """A stream of a call that runs, and of one that ran, is told so and gets the same end without the output."""
    call = agent.call("echo hello")
    first = await agent.run(call)
    events = [event async for event in agent.stream(call)]
    assert [event.WhichOneof("event") for event in events] == ["started", "finished"]
    assert events[0].started.joined
    assert events[0].started.audit_id == first.audit_id
    assert events[1].finished.result == first


async def test_a_stream_that_leaves_does_not_end_a_call_for_others(agent: Agent) -> None:
    """One caller of two goes away, the one whose output blocked the tool; the call goes on for the other."""
    call = agent.call(f"flood {64 << 20}")
    stream = agent.stream(call)
    assert (await stream.read()).WhichOneof("event") == "started"
    waiting = asyncio.create_task(agent.run(call))
    await stream.read()
    await asyncio.sleep(0.2)  # the unary request must have arrived; there is nothing to see it by
    stream.cancel()
    result = await waiting
    assert result.outcome == verdict_pb2.OUTCOME_COMPLETED
    assert result.process.stdout_bytes == 64 << 20
    assert len(await agent.records(event="tool.call.decided")) == 1


async def test_one_slow_reader_slows_its_own_call_only(agent: Agent) -> None:
    """While a stream is not read, others of the same thread run; read at last, it has every byte."""
    stream = agent.stream(agent.call(f"flood {32 << 20}"))
    assert (await stream.read()).WhichOneof("event") == "started"
    for _ in range(3):
        await agent.bash("echo quick")
    total = 0
    last = ""
    while (event := await stream.read()) is not grpc.aio.EOF:
        last = event.WhichOneof("event")
        if last == "output":
            assert len(event.output.data) <= 256 << 10
            total += len(event.output.data)
    assert (total, last) == (32 << 20, "finished")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_caller_that_goes_away_ends_its_call(
    agent: Agent, provider: FakeProvider, until: Until, streamed: object
) -> None:
    """Cancel reaches the process; the outcome is recorded and is what a repeat gets."""
    call = agent.call("wait")
    if streamed:
        stream = agent.stream(call)
        while (await stream.read()).WhichOneof("event") != "output":
            pass
        stream.cancel()
    else:
        caller = asyncio.create_task(agent.run(call))
        await until(lambda: bool(provider.made) and bool(provider.made[0].channel._calls))
        caller.cancel()
    await until(lambda: not provider.made[0].channel._calls)
    result = await agent.run(call)
    assert result.outcome == verdict_pb2.OUTCOME_CANCELLED
    assert result.failure.reason == "cancelled"
    assert [record["stage"] for record in await agent.records(audit_id=result.audit_id)] == ["decided", "finished"]


async def test_a_slow_tool_answers_before_the_deadline(agent: Agent) -> None:
    """The tool's timeout is below the caller's deadline, so its partial output arrives instead of a bare status."""
    result = await agent.run(agent.call("wait"), seconds=1.0)
    assert result.outcome == verdict_pb2.OUTCOME_TIMED_OUT
    assert result.process.stdout == b"waiting\n"
    assert result.process.end == tool_pb2.PROCESS_END_TIMEOUT


async def test_many_callers_at_once_lose_nothing(agent: Agent) -> None:
    """Fifty calls at once over five threads: every answer is its own."""
    results = await asyncio.gather(
        *(agent.bash(f"echo {number}", thread=f"thread-{number % 5}") for number in range(50))
    )
    assert [result.process.stdout for result in results] == [b"%d\n" % number for number in range(50)]
    assert len({result.sandbox for result in results}) == 5
    assert len({result.audit_id for result in results}) == 50
