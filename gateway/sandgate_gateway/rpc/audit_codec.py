"""Audit records: filters and agents' events from the wire, stored events onto it."""

from __future__ import annotations

from sandgate.v1 import audit_service_pb2, verdict_pb2
from sandgate_gateway.audit.event import MIDDLEWARE_PREFIX, AuditEvent, Correlation
from sandgate_gateway.audit.stored import EventFilter, StoredEvent
from sandgate_gateway.errors import InvalidField
from sandgate_gateway.pipeline.records import middleware_record
from sandgate_gateway.rpc import fields
from sandgate_gateway.rpc.call_codec import json_object
from sandgate_gateway.rpc.request import Request
from sandgate_gateway.rpc.result_codec import OUTCOMES, VERDICTS, clean, timestamp

MAX_ATTRIBUTES_BYTES = 8 << 10
"""The contract's limit."""

MAX_NAME_BYTES = 128
"""The contract's limit."""

_VERDICTS_BACK = {value: verdict for verdict, value in VERDICTS.items()}
_OUTCOMES_BACK = {value: outcome for outcome, value in OUTCOMES.items()}


def event_filter(message: audit_service_pb2.EventFilter, tenant: str) -> EventFilter:
    """Take a filter from the wire; it never matches another tenant's records.

    Raises:
        InvalidField: with the first field that is wrong.
    """
    verdict = outcome = None
    if message.verdict != verdict_pb2.VERDICT_UNSPECIFIED and (verdict := _VERDICTS_BACK.get(message.verdict)) is None:
        raise InvalidField("filter.verdict", "is no verdict that this gateway knows")
    if message.outcome != verdict_pb2.OUTCOME_UNSPECIFIED and (outcome := _OUTCOMES_BACK.get(message.outcome)) is None:
        raise InvalidField("filter.outcome", "is no outcome that this gateway knows")
    return EventFilter(
        tenant=tenant,
        thread=message.thread,
        audit_id=message.audit_id,
        tool=message.tool,
        verdict=verdict,
        outcome=outcome,
        event=message.event,
        start_time=fields.moment("filter.start_time", message.start_time) if message.HasField("start_time") else None,
        end_time=fields.moment("filter.end_time", message.end_time) if message.HasField("end_time") else None,
    )


def stored_event(event: StoredEvent) -> audit_service_pb2.AuditEvent:
    """Put a record onto the wire."""
    message = audit_service_pb2.AuditEvent(
        event_id=event.event_id,
        audit_id=event.audit_id,
        event=event.event,
        stage=event.stage,
        occur_time=timestamp(event.occurred_at),
        thread=clean(event.thread),
        tool=clean(event.tool),
        record_json=event.record_json,
    )
    if event.verdict is not None:
        message.verdict = VERDICTS[event.verdict]
    if event.outcome is not None:
        message.outcome = OUTCOMES[event.outcome]
    return message


def middleware_event(message: audit_service_pb2.MiddlewareEvent, index: int, request: Request) -> AuditEvent:
    """Take an agent's event from the wire.

    Raises:
        InvalidField: with the first field that is wrong.
    """
    at = f"events[{index}]"
    name = fields.identifier(f"{at}.event", message.event, required=True)
    if not name.startswith(MIDDLEWARE_PREFIX) or name == MIDDLEWARE_PREFIX:
        raise InvalidField(f"{at}.event", f"must begin with {MIDDLEWARE_PREFIX} and go on behind it")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise InvalidField(f"{at}.event", f"has more than {MAX_NAME_BYTES} bytes")
    if not message.HasField("occur_time"):
        raise InvalidField(f"{at}.occur_time", "must be set")
    attributes = message.attributes_json or b"{}"
    return middleware_record(
        fields.uuid_text(f"{at}.event_id", message.event_id),
        name,
        request.principal,
        request.origin,
        correlation=Correlation(
            thread=fields.identifier(f"{at}.thread", message.thread, required=True),
            run=fields.identifier(f"{at}.run", message.run),
            tool_call_id=fields.identifier(f"{at}.tool_call_id", message.tool_call_id),
            trace_id=request.origin.trace_id,
            span_id=request.origin.span_id,
        ),
        occurred_at=fields.moment(f"{at}.occur_time", message.occur_time),
        attributes=json_object(f"{at}.attributes_json", attributes, limit_bytes=MAX_ATTRIBUTES_BYTES),
    )
