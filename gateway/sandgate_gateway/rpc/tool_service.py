"""Serves `sandgate.v1.ToolService`."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import cast

from sandgate.v1 import tool_pb2, tool_service_pb2, verdict_pb2
from sandgate_gateway.domain.call import Notice
from sandgate_gateway.domain.result import OutputChunk
from sandgate_gateway.errors import InvalidField
from sandgate_gateway.ledger.answer import CallAnswer
from sandgate_gateway.ledger.table import Attachment
from sandgate_gateway.pipeline.authorizing import AdmissionDesk
from sandgate_gateway.pipeline.calls import CallRunner
from sandgate_gateway.pipeline.reporting import Report
from sandgate_gateway.rpc import fields, result_codec
from sandgate_gateway.rpc.call_codec import REPORTABLE, incoming_call
from sandgate_gateway.rpc.output_relay import OutputRelay
from sandgate_gateway.rpc.paging import page
from sandgate_gateway.rpc.request import Request
from sandgate_gateway.tools.contract import ToolSpec


class ToolService:
    """Takes calls from the wire, and puts their ends onto it."""

    def __init__(self, specs: Sequence[ToolSpec], calls: CallRunner, desk: AdmissionDesk) -> None:
        self._calls = calls
        self._desk = desk
        self._tools = [_tool(spec) for spec in sorted(specs, key=lambda spec: spec.name)]
        self._catalogue_digest = _digest(self._tools)

    async def list_tools(
        self, message: tool_service_pb2.ListToolsRequest, _request: Request
    ) -> tool_service_pb2.ListToolsResponse:
        """List the tools."""
        shown, token = page(self._tools, lambda tool: tool.name, size=message.page_size, token=message.page_token)
        return tool_service_pb2.ListToolsResponse(
            tools=shown, next_page_token=token, catalogue_digest=self._catalogue_digest
        )

    async def execute_tool(
        self, message: tool_service_pb2.ExecuteToolRequest, request: Request
    ) -> tool_service_pb2.ExecuteToolResponse:
        """Run one call to its end."""
        answer = await self._calls.execute(incoming_call(message.call, request))
        return tool_service_pb2.ExecuteToolResponse(result=result_codec.tool_result(answer))

    async def stream_tool(
        self, message: tool_service_pb2.StreamToolRequest, request: Request
    ) -> AsyncIterator[tool_service_pb2.StreamToolResponse]:
        """Run one call and show its output while it runs."""
        relay = OutputRelay()
        try:
            with self._calls.attach(incoming_call(message.call, request), relay.put) as attachment:
                audit_id, joined = await attachment.taken()
                yield tool_service_pb2.StreamToolResponse(
                    started=tool_service_pb2.ToolStarted(audit_id=audit_id, joined=joined)
                )
                async with _ending(attachment, relay) as answer:
                    async for item in relay.items():
                        yield _event(item)
                    result = result_codec.tool_result(cast("CallAnswer", await answer))
                yield tool_service_pb2.StreamToolResponse(finished=tool_service_pb2.ToolFinished(result=result))
        finally:
            relay.leave()  # wherever this caller leaves: the tool goes on for others that joined the call

    async def authorize_tool_call(
        self, message: tool_service_pb2.AuthorizeToolCallRequest, request: Request
    ) -> tool_service_pb2.AuthorizeToolCallResponse:
        """Say whether a tool of the agent's own process may run."""
        authorization = await self._desk.authorize(incoming_call(message.call, request))
        reply = tool_service_pb2.AuthorizeToolCallResponse(
            verdict=result_codec.VERDICTS[authorization.verdict],
            reasons=result_codec.reasons(authorization.reasons),
            admission=authorization.admission,
            audit_id=authorization.audit_id,
        )
        if authorization.expires_at is not None:
            reply.expire_time.CopyFrom(result_codec.timestamp(authorization.expires_at))
        if authorization.refusal is not None:
            reply.refusal.CopyFrom(result_codec.tool_result(authorization.refusal))
        return reply

    async def complete_tool_call(
        self, message: tool_service_pb2.CompleteToolCallRequest, request: Request
    ) -> tool_service_pb2.CompleteToolCallResponse:
        """Take the end of an authorized call."""
        outcome = REPORTABLE.get(message.outcome)
        if outcome is None:
            names = ", ".join(verdict_pb2.Outcome.Name(value) for value in REPORTABLE)
            raise InvalidField("outcome", f"must be one of {names}")
        report = Report(
            admission=message.admission,
            outcome=outcome,
            texts=tuple(message.texts),
            failure_reason=fields.identifier("failure_reason", message.failure_reason),
        )
        completion = await self._desk.complete(request.principal, request.origin, report)
        return tool_service_pb2.CompleteToolCallResponse(
            audit_id=completion.audit_id,
            texts=[result_codec.clean(text) for text in completion.texts],
            unchanged=completion.unchanged,
            truncated=completion.truncated,
        )


@contextlib.asynccontextmanager
async def _ending(attachment: Attachment, relay: OutputRelay) -> AsyncIterator[asyncio.Future[object]]:
    """Wait for the answer beside the output, and end the output with it."""
    answer: asyncio.Future[object] = asyncio.ensure_future(attachment.answer())
    answer.add_done_callback(lambda _: relay.end())
    try:
        yield answer
    finally:
        answer.cancel()
        await asyncio.wait([answer])


def _event(item: OutputChunk | Notice) -> tool_service_pb2.StreamToolResponse:
    if isinstance(item, OutputChunk):
        output = tool_service_pb2.OutputChunk(stream=result_codec.STREAMS[item.stream], data=item.data)
        return tool_service_pb2.StreamToolResponse(output=output)
    notice = tool_service_pb2.Notice(code=item.code, message=result_codec.clean(item.message))
    return tool_service_pb2.StreamToolResponse(notice=notice)


def _tool(spec: ToolSpec) -> tool_pb2.Tool:
    schema = json.dumps(dict(spec.arguments_schema), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return tool_pb2.Tool(
        name=spec.name,
        description=spec.description,
        arguments_schema_json=schema.encode(),
        read_only=spec.read_only,
    )


def _digest(tools: Sequence[tool_pb2.Tool]) -> str:
    digest = hashlib.sha256()
    for tool in tools:
        data = tool.SerializeToString(deterministic=True)
        digest.update(len(data).to_bytes(8, "big") + data)
    return f"sha256:{digest.hexdigest()}"
