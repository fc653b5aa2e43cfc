"""Tool calls: from the wire into the domain, with every check of form."""

from __future__ import annotations

from collections.abc import Mapping

from sandgate.v1 import tool_pb2, verdict_pb2
from sandgate_gateway.domain.call import JsonValue, ToolCall
from sandgate_gateway.domain.principal import Claims
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.errors import InvalidField
from sandgate_gateway.pipeline.calls import IncomingCall
from sandgate_gateway.rpc import fields
from sandgate_gateway.rpc.request import Request
from sandgate_gateway.tools.parsing import MOST_ARGUMENTS_BYTES, parse_arguments

_ARGUMENTS = "call.arguments_json"

REPORTABLE = {
    verdict_pb2.OUTCOME_COMPLETED: Outcome.COMPLETED,
    verdict_pb2.OUTCOME_FAILED: Outcome.FAILED,
    verdict_pb2.OUTCOME_TIMED_OUT: Outcome.TIMED_OUT,
    verdict_pb2.OUTCOME_CANCELLED: Outcome.CANCELLED,
}
"""What an agent may report of a call that it ran itself."""


def incoming_call(message: tool_pb2.ToolCall, request: Request) -> IncomingCall:
    """Take a call from the wire.

    Raises:
        InvalidField: with the first field that is wrong.
    """
    claims = message.claims
    call = ToolCall(
        request_id=fields.uuid_text("call.request_id", message.request_id),
        thread=fields.identifier("call.thread", message.thread, required=True),
        tool=fields.identifier("call.tool", message.tool, required=True),
        arguments_json=message.arguments_json,
        tool_call_id=fields.identifier("call.tool_call_id", message.tool_call_id),
        run=fields.identifier("call.run", message.run),
        lease=fields.identifier("call.lease", message.lease),
        execution_timeout_seconds=fields.seconds("call.execution_timeout", message.execution_timeout),
        claims=Claims(
            agent_name=fields.identifier("call.claims.agent_name", claims.agent_name),
            agent_instance=fields.identifier("call.claims.agent_instance", claims.agent_instance),
            on_behalf_of=fields.identifier("call.claims.on_behalf_of", claims.on_behalf_of),
        ),
    )
    return IncomingCall(
        call=call,
        arguments=json_object(_ARGUMENTS, message.arguments_json, limit_bytes=MOST_ARGUMENTS_BYTES),
        principal=request.principal,
        origin=request.origin,
        audit_id=request.audit_id,
        received_at=request.received_at,
        deadline=request.deadline,
    )


def json_object(field: str, data: bytes, *, limit_bytes: int) -> Mapping[str, JsonValue]:
    """Read one JSON object in UTF-8; see `parse_arguments`.

    Raises:
        InvalidField: it is too large, or no such object.
    """
    if len(data) > limit_bytes:
        raise InvalidField(field, f"has {len(data)} bytes; the limit is {limit_bytes}")
    value = parse_arguments(data)
    if isinstance(value, tuple):
        raise InvalidField(field, value[0].message)
    return value
