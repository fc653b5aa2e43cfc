"""Streams whose callers leave early."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime
from typing import Any, cast

from sandgate.v1 import tool_pb2, tool_service_pb2
from sandgate_gateway.domain.call import CallContext
from sandgate_gateway.domain.principal import LOCAL_DEVELOPER, Origin
from sandgate_gateway.domain.result import OutputChunk, OutputStream, ToolResult
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.ledger.memory import MemoryLedger
from sandgate_gateway.ledger.table import RequestTable
from sandgate_gateway.pipeline.calls import CallRunner
from sandgate_gateway.rpc.output_relay import MAX_ITEMS
from sandgate_gateway.rpc.request import Request
from sandgate_gateway.rpc.tool_service import ToolService


async def talk(context: CallContext) -> ToolResult:
    """Run a tool that says more than a stream holds for its reader."""
    for _ in range(MAX_ITEMS * 2):
        if context.sink is not None:
            await context.sink(OutputChunk(OutputStream.STDOUT, b"x"))
    return ToolResult(outcome=Outcome.COMPLETED, text="done")


def request() -> Request:
    """Be the developer, with some seconds."""
    return Request(
        audit_id=str(uuid.uuid4()),
        principal=LOCAL_DEVELOPER,
        origin=Origin(),
        received_at=datetime.now(UTC),
        deadline=asyncio.get_running_loop().time() + 20,
    )


async def test_a_stream_that_leaves_at_once_holds_up_no_joiner() -> None:
    """Who leaves a stream before its first output is read does not stop the tool for who joined the same call."""
    no_desk = cast("Any", None)  # streams have nothing to do with it
    service = ToolService([], CallRunner(RequestTable(MemoryLedger()), talk), no_desk)
    call = tool_pb2.ToolCall(request_id=str(uuid.uuid4()), thread="thread", tool="shell", arguments_json=b"{}")
    stream = cast("Any", service.stream_tool(tool_service_pb2.StreamToolRequest(call=call), request()))
    assert (await anext(stream)).HasField("started")
    joined = asyncio.create_task(service.execute_tool(tool_service_pb2.ExecuteToolRequest(call=call), request()))
    await asyncio.sleep(0)
    await stream.aclose()
    async with asyncio.timeout(5):
        assert (await joined).result.text == "done"
