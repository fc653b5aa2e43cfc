"""Turns the contract's messages into the values of this package and back, together with `result_codec`.

Nothing else here looks into a message. An enum value that this version does not know is read as the safest one: a
verdict as block, an outcome as failed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from sandgate.v1 import audit_service_pb2, sandbox_service_pb2, tool_pb2, tool_service_pb2, verdict_pb2
from sandgate_agent.errors import ProtocolViolation, RequestRejected
from sandgate_agent.result_codec import data_from_message, failure_from_message
from sandgate_agent.results import Outcome, Reason, ToolResult, Verdict
from sandgate_agent.types import (
    Authorization,
    Completion,
    Finished,
    JsonValue,
    MiddlewareEvent,
    Notice,
    OutputChunk,
    OutputStream,
    Report,
    Started,
    StreamEvent,
    ToolCall,
    ToolSpec,
)

_VERDICTS: dict[int, Verdict] = {
    verdict_pb2.VERDICT_PASS: Verdict.PASS,
    verdict_pb2.VERDICT_WARN: Verdict.WARN,
    verdict_pb2.VERDICT_ASK: Verdict.ASK,
    verdict_pb2.VERDICT_BLOCK: Verdict.BLOCK,
}

_OUTCOMES: dict[verdict_pb2.Outcome.ValueType, Outcome] = {
    verdict_pb2.OUTCOME_COMPLETED: Outcome.COMPLETED,
    verdict_pb2.OUTCOME_FAILED: Outcome.FAILED,
    verdict_pb2.OUTCOME_DENIED: Outcome.DENIED,
    verdict_pb2.OUTCOME_PENDING: Outcome.PENDING,
    verdict_pb2.OUTCOME_TIMED_OUT: Outcome.TIMED_OUT,
    verdict_pb2.OUTCOME_CANCELLED: Outcome.CANCELLED,
    verdict_pb2.OUTCOME_INTERRUPTED: Outcome.INTERRUPTED,
    verdict_pb2.OUTCOME_LOST: Outcome.LOST,
}

_OUTCOME_VALUES = {outcome: value for value, outcome in _OUTCOMES.items()}

_REFUSED = "The call was refused."
"""What the model is told when a gateway refuses without a word."""


def call_to_message(call: ToolCall) -> tool_pb2.ToolCall:
    """Write a call. A zero timeout stays unset.

    Raises:
        RequestRejected: one of its texts cannot be written in UTF-8.
    """
    try:
        message = tool_pb2.ToolCall(
            request_id=call.request_id,
            thread=call.thread,
            tool=call.tool,
            arguments_json=call.arguments_json,
            tool_call_id=call.tool_call_id,
            run=call.run,
            lease=call.lease,
            claims=tool_pb2.AgentClaims(
                agent_name=call.claims.agent_name,
                agent_instance=call.claims.agent_instance,
                on_behalf_of=call.claims.on_behalf_of,
            ),
        )
    except ValueError as error:
        raise RequestRejected("the call has a text that is not valid Unicode, so it cannot be sent") from error
    if call.execution_timeout_seconds > 0:
        message.execution_timeout.CopyFrom(_duration(call.execution_timeout_seconds))
    return message


def tool_from_message(message: tool_pb2.Tool) -> ToolSpec:
    """Read a tool.

    Raises:
        ProtocolViolation: it has no name, or its schema is no JSON object.
    """
    try:
        schema: JsonValue = json.loads(message.arguments_schema_json)
    except (ValueError, RecursionError) as error:
        raise ProtocolViolation(f"the schema of the gateway's tool {message.name!r} is not JSON") from error
    if not message.name or not isinstance(schema, dict):
        raise ProtocolViolation(f"the gateway's tool {message.name!r} has no name, or its schema is not an object")
    return ToolSpec(
        name=message.name,
        description=message.description,
        arguments_schema=schema,
        read_only=message.read_only,
    )


def result_from_message(message: tool_pb2.ToolResult) -> ToolResult:
    """Read the end of a call.

    Raises:
        ProtocolViolation: it says nothing to the model.
    """
    if not message.text:
        raise ProtocolViolation("the gateway sent a result without a text for the model")
    return ToolResult(
        audit_id=message.audit_id,
        request_id=message.request_id,
        outcome=_OUTCOMES.get(message.outcome, Outcome.FAILED),
        verdict=_verdict(message.verdict),
        text=message.text,
        truncated=message.truncated,
        sandbox=message.sandbox,
        failure=failure_from_message(message),
        reasons=_reasons(message.reasons),
        duration_seconds=message.duration.seconds + message.duration.nanos / 1e9,
        data=data_from_message(message),
    )


def authorization_from_message(
    message: tool_service_pb2.AuthorizeToolCallResponse, *, request_id: str
) -> Authorization:
    """Read whether a call may run. A refusal without a result gets one, so that the model is always told.

    Raises:
        ProtocolViolation: the call may run but there is no admission to complete it with.
    """
    verdict = _verdict(message.verdict)
    reasons = _reasons(message.reasons)
    refusal: ToolResult | None = None
    if verdict.runs:
        if not message.admission:
            raise ProtocolViolation("the gateway let a call run without an admission")
    elif message.HasField("refusal") and message.refusal.text:
        refusal = result_from_message(message.refusal)
    else:
        refusal = ToolResult(
            audit_id=message.audit_id,
            request_id=request_id,
            outcome=Outcome.PENDING if verdict is Verdict.ASK else Outcome.DENIED,
            verdict=verdict,
            text="\n".join([_REFUSED, *(f"- {reason.message}" for reason in reasons)]),
            reasons=reasons,
        )
    return Authorization(
        verdict=verdict,
        reasons=reasons,
        admission=message.admission,
        audit_id=message.audit_id,
        expires_at=_time(message.expire_time) if message.HasField("expire_time") else None,
        refusal=refusal,
    )


def report_to_message(admission: bytes, report: Report) -> tool_service_pb2.CompleteToolCallRequest:
    """Write how an authorized call ended."""
    return tool_service_pb2.CompleteToolCallRequest(
        admission=admission,
        outcome=_OUTCOME_VALUES[report.outcome],
        texts=report.texts,
        failure_reason=report.failure_reason,
    )


def completion_from_message(message: tool_service_pb2.CompleteToolCallResponse, *, sent: Sequence[str]) -> Completion:
    """Read what the model shall see.

    Raises:
        ProtocolViolation: there are not as many texts as were sent, so it is not known what replaces what.
    """
    texts = tuple(sent) if message.unchanged else tuple(message.texts)
    if len(texts) != len(sent):
        raise ProtocolViolation(f"the gateway was sent {len(sent)} texts and answered with {len(texts)}")
    return Completion(audit_id=message.audit_id, texts=texts, unchanged=message.unchanged, truncated=message.truncated)


def event_from_message(message: tool_service_pb2.StreamToolResponse) -> StreamEvent | None:
    """Read one event of a stream; None for one that this version does not know."""
    match message.WhichOneof("event"):
        case "started":
            return Started(audit_id=message.started.audit_id, joined=message.started.joined)
        case "output":
            is_stderr = message.output.stream == tool_service_pb2.OUTPUT_STREAM_STDERR
            return OutputChunk(
                stream=OutputStream.STDERR if is_stderr else OutputStream.STDOUT, data=message.output.data
            )
        case "notice":
            return Notice(code=message.notice.code, message=message.notice.message)
        case "finished":
            return Finished(result=result_from_message(message.finished.result))
        case _:
            return None


def middleware_event_to_message(event: MiddlewareEvent) -> audit_service_pb2.MiddlewareEvent:
    """Write a decision of a middleware."""
    message = audit_service_pb2.MiddlewareEvent(
        event_id=event.event_id,
        event=event.event,
        thread=event.thread,
        run=event.run,
        tool_call_id=event.tool_call_id,
        attributes_json=json_bytes(event.attributes),
    )
    message.occur_time.FromDatetime(event.occurred_at)
    return message


def upload_header_to_message(
    *, thread: str, path: str, size_bytes: int, executable: bool
) -> sandbox_service_pb2.UploadFileRequest:
    """Write the first part of an upload."""
    header = sandbox_service_pb2.UploadHeader(thread=thread, path=path, size_bytes=size_bytes, executable=executable)
    return sandbox_service_pb2.UploadFileRequest(header=header)


def upload_data_to_message(data: bytes) -> sandbox_service_pb2.UploadFileRequest:
    """Write a part of an upload."""
    return sandbox_service_pb2.UploadFileRequest(data=data)


def json_bytes(value: Mapping[str, object]) -> bytes:
    """Write an object as JSON, the same object always as the same bytes.

    Raises:
        ValueError: it holds what JSON cannot say (not a number, a lone surrogate).
        RecursionError: it is nested too deeply.
        TypeError: it holds something else than JSON's types.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True).encode()


def _verdict(value: int) -> Verdict:
    return _VERDICTS.get(value, Verdict.BLOCK)


def _reasons(messages: Sequence[verdict_pb2.Reason]) -> tuple[Reason, ...]:
    return tuple(Reason(code=item.code, rule_id=item.rule_id, message=item.message) for item in messages)


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration


def _time(timestamp: Timestamp) -> datetime | None:
    try:
        return timestamp.ToDatetime(UTC)
    except (ValueError, OverflowError):
        # Out of the calendar: as good as no time at all.
        return None
