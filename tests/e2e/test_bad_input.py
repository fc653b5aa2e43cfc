"""Bad input gets a typed outcome or status with a stable reason, and the gateway keeps serving."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from sandgate.v1 import sandbox_service_pb2, tool_service_pb2, verdict_pb2

Agent = Any  # the conftest's; test modules do not import each other

EXECUTE = "/sandgate.v1.ToolService/ExecuteTool"
INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture(autouse=True)
async def _still_serving(agent: Agent) -> AsyncIterator[None]:
    """After every one of these tests the same gateway runs an ordinary call."""
    yield
    result = await agent.bash("echo fine", thread="afterwards")
    assert result.outcome == verdict_pb2.OUTCOME_COMPLETED


@pytest.mark.parametrize(
    ("tool", "arguments", "reason", "pointers"),
    [
        ("bsh", {"command": "ls"}, "unknown-tool", []),
        ("bash", {}, "invalid-arguments", ["/command"]),
        ("bash", {"command": 3}, "invalid-arguments", ["/command"]),
        ("bash", {"command": "ls", "colour": "red"}, "invalid-arguments", ["/colour"]),
        ("bash", {"command": "ls\0"}, "invalid-arguments", ["/command"]),
        ("bash", {"command": "\ud800"}, "invalid-arguments", ["/command"]),
        ("read_file", {"path": ["/x"]}, "invalid-arguments", ["/path"]),
    ],
)
async def test_what_a_model_gets_wrong_is_an_outcome(
    agent: Agent, tool: str, arguments: dict[str, object], reason: str, pointers: list[str]
) -> None:
    """Unknown tool, missing, mistyped or unknown argument, NUL: an OK reply with a reason and what is wrong."""
    result = await agent.run(agent.call(tool=tool, arguments_json=json.dumps(arguments).encode()))
    assert result.outcome == verdict_pb2.OUTCOME_FAILED
    assert result.failure.reason == reason
    assert [violation.pointer for violation in result.failure.violations] == pointers
    assert reason in result.text
    assert result.sandbox == ""
    records = await agent.records(audit_id=result.audit_id)
    assert [(record["stage"], record["failure_reason"]) for record in records] == [("finished", reason)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("thread", ""),
        ("thread", "a\0b"),
        ("thread", "x" * 257),
        ("request_id", ""),
        ("request_id", "4711"),
        ("tool", ""),
        ("arguments_json", b""),
        ("arguments_json", b"{"),
        ("arguments_json", b'"text"'),
        ("arguments_json", b'{"command":"\xff"}'),
        ("arguments_json", b'{"command":"\0"}'),
        ("arguments_json", b'{"command":"' + b"x" * (1 << 20) + b'"}'),
    ],
)
async def test_what_a_program_gets_wrong_is_a_status(agent: Agent, field: str, value: object) -> None:
    """A field that breaks the contract is refused by its name, before anything runs."""
    refusal = await agent.refusal(agent.run(agent.call(**{field: value})))
    assert (refusal.code, refusal.reason) == (INVALID, "INVALID_FIELD")
    assert refusal.fields == [f"call.{field}"]
    assert refusal.metadata["field"] == f"call.{field}"
    assert refusal.metadata["audit_id"]


@pytest.mark.parametrize(
    "data",
    [
        b"garbage",
        b"\x0a\x05\x12\x03a\xffb",  # a thread that is not UTF-8
        b"\x0a\xff\xff\xff\xff\x0f",  # a length beyond the end
    ],
)
async def test_bytes_that_are_no_message(agent: Agent, data: bytes) -> None:
    """Broken encoding and text that is not UTF-8 are MALFORMED_REQUEST, not a bare INTERNAL."""
    refusal = await agent.refusal(agent.raw(EXECUTE, data))
    assert (refusal.code, refusal.reason) == (INVALID, "MALFORMED_REQUEST")


async def test_a_call_without_anything(agent: Agent) -> None:
    """An empty request is a wrong field, like any other."""
    refusal = await agent.refusal(agent.raw(EXECUTE, b""))
    assert refusal.reason == "INVALID_FIELD"


async def test_a_fifty_megabyte_argument(agent: Agent) -> None:
    """Far above the limit there is still a typed reason, with the limit in it."""
    call = agent.call(arguments_json=b'{"command":"' + b"x" * (50 << 20) + b'"}')
    refusal = await agent.refusal(agent.run(call))
    assert (refusal.code, refusal.reason) == (INVALID, "REQUEST_TOO_LARGE")
    assert refusal.metadata["limit_bytes"] == str(4 << 20)


UNKNOWN = b"\xfa\x3e\x03new"  # field 1007, three bytes


async def test_an_unknown_field_is_refused(agent: Agent) -> None:
    """What a newer agent asks for is not left out in silence: the call does not run."""
    call = agent.call("echo hello").SerializeToString()
    outside = tool_service_pb2.ExecuteToolRequest(call=agent.call("echo hello")).SerializeToString() + UNKNOWN
    inside = b"\x0a" + bytes([len(call) + len(UNKNOWN) & 0x7F | 0x80, len(call) + len(UNKNOWN) >> 7]) + call + UNKNOWN
    for data in (outside, inside):
        refusal = await agent.refusal(agent.raw(EXECUTE, data))
        assert (refusal.code, refusal.reason) == (INVALID, "UNKNOWN_FIELD")


async def test_too_little_time(agent: Agent) -> None:
    """A request that arrives almost spent is refused, whichever end notices first, and runs nothing."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await agent.run(agent.call("echo never"), seconds=0.1)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert await agent.records(event="tool.call.decided") == []


async def test_too_little_time_has_a_reason(agent: Agent) -> None:
    """When the gateway notices, the status says DEADLINE_TOO_SHORT."""
    noticed: list[grpc.aio.AioRpcError] = []
    for _ in range(50):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await agent.run(agent.call("echo never"), seconds=0.19)
        if "too little to start" in (caught.value.details() or ""):
            noticed.append(caught.value)
            break  # on a busy machine the client's own clock may be first, and then there is no reason
    [error] = noticed
    refusal = agent.read_refusal(error)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_TOO_SHORT")


async def test_no_deadline_is_no_fault(agent: Agent) -> None:
    """A caller that sets none gets the gateway's own."""
    request = tool_service_pb2.ExecuteToolRequest(call=agent.call("echo hello"))
    reply = tool_service_pb2.ExecuteToolResponse.FromString(
        await agent.raw(EXECUTE, request.SerializeToString(), seconds=None)
    )
    assert reply.result.outcome == verdict_pb2.OUTCOME_COMPLETED


async def test_a_stream_is_refused_the_same_way(agent: Agent) -> None:
    """A streamed call with a wrong field ends in the same status, before any event."""

    async def read() -> None:
        async for event in agent.stream(agent.call(thread="")):
            raise AssertionError(f"nothing may come: {event}")

    refusal = await agent.refusal(read())
    assert refusal.fields == ["call.thread"]


@pytest.mark.parametrize("token", ["x", "YWZ0ZXI6_w=="])
async def test_a_page_token_that_is_not_ours(agent: Agent, token: str) -> None:
    """All lists refuse it alike."""
    for attempt in (
        agent.tools.ListTools(tool_service_pb2.ListToolsRequest(page_token=token), timeout=5),
        agent.sandboxes.ListSandboxes(sandbox_service_pb2.ListSandboxesRequest(page_token=token), timeout=5),
    ):
        refusal = await agent.refusal(attempt)
        assert (refusal.code, refusal.reason) == (INVALID, "PAGE_TOKEN_INVALID")


async def test_no_such_method(agent: Agent) -> None:
    """What is not in the contract is UNIMPLEMENTED, by gRPC itself."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await agent.raw("/sandgate.v1.ToolService/DropTable", b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
