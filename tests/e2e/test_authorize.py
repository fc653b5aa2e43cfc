"""Calls of the agent's own tools through real gRPC."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from sandgate.v1 import tool_service_pb2, verdict_pb2
from sandgate_providers.fake import FakeProvider

Agent = Any  # the conftest's; test modules do not import each other


async def authorize(agent: Agent, **fields: object) -> tool_service_pb2.AuthorizeToolCallResponse:
    """Ask for a tool of the agent's own."""
    call = agent.call(tool="web_search", arguments_json=b'{"query":"sandboxes"}', **fields)
    reply: tool_service_pb2.AuthorizeToolCallResponse = await agent.tools.AuthorizeToolCall(
        tool_service_pb2.AuthorizeToolCallRequest(call=call), timeout=5
    )
    return reply


async def complete(agent: Agent, admission: bytes, *texts: str, **fields: object) -> Any:
    """Report its end."""
    values: dict[str, object] = {"outcome": verdict_pb2.OUTCOME_COMPLETED, **fields}
    request = tool_service_pb2.CompleteToolCallRequest(admission=admission, texts=texts, **values)  # type: ignore[arg-type]  # a test writes what it means
    return await agent.tools.CompleteToolCall(request, timeout=5)


async def test_a_tool_of_the_agents_own(agent: Agent, provider: FakeProvider) -> None:
    """Authorized, run elsewhere, completed: two records under one audit id, and no sandbox."""
    authorized = await authorize(agent, tool_call_id="call-1")
    assert authorized.verdict == verdict_pb2.VERDICT_PASS
    assert authorized.admission
    assert authorized.expire_time.seconds > 0
    assert not authorized.HasField("refusal")
    completed = await complete(agent, authorized.admission, "found it")
    assert completed.audit_id == authorized.audit_id
    assert completed.unchanged
    records = await agent.records(audit_id=authorized.audit_id)
    assert [(record["stage"], record["tool"], record["tool_call_id"]) for record in records] == [
        ("decided", "web_search", "call-1"),
        ("finished", "web_search", "call-1"),
    ]
    assert provider.made == []


async def test_the_first_completion_wins(agent: Agent) -> None:
    """The same again gets the same answer; anything else is refused."""
    admission = (await authorize(agent)).admission
    first = await complete(agent, admission, "one")
    assert await complete(agent, admission, "one") == first
    refusal = await agent.refusal(complete(agent, admission, "two"))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "ADMISSION_COMPLETED")


async def test_a_forged_admission(agent: Agent) -> None:
    """One changed byte, or none of ours at all."""
    admission = (await authorize(agent)).admission
    for ticket in (admission[:-1] + bytes([admission[-1] ^ 1]), b"forged", b""):
        refusal = await agent.refusal(complete(agent, ticket, "x"))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "ADMISSION_INVALID")


@pytest.mark.parametrize("outcome", [0, verdict_pb2.OUTCOME_DENIED, verdict_pb2.OUTCOME_LOST, 99])
async def test_only_ends_of_a_tool_can_be_reported(agent: Agent, outcome: int) -> None:
    """What only the gateway can know, and what nobody knows, is a wrong field."""
    admission = (await authorize(agent)).admission
    refusal = await agent.refusal(complete(agent, admission, outcome=outcome))
    assert refusal.fields == ["outcome"]


async def test_a_failure_is_recorded_with_its_reason(agent: Agent) -> None:
    """The name of the exception goes on record."""
    authorized = await authorize(agent)
    await complete(
        agent, authorized.admission, "oh", outcome=verdict_pb2.OUTCOME_FAILED, failure_reason="ToolException"
    )
    records = await agent.records(audit_id=authorized.audit_id)
    assert (records[-1]["outcome"], records[-1]["failure_reason"]) == ("failed", "ToolException")
