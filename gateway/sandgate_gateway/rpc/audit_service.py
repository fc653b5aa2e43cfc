"""Serves `sandgate.v1.AuditService`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from sandgate.v1 import audit_service_pb2
from sandgate_gateway.audit.following import Skipped
from sandgate_gateway.audit.reader import AuditReader
from sandgate_gateway.errors import ErrorReason, InvalidField, Unavailable
from sandgate_gateway.pipeline.middleware_events import MiddlewareEvents
from sandgate_gateway.rpc import fields
from sandgate_gateway.rpc.audit_codec import event_filter, middleware_event, stored_event
from sandgate_gateway.rpc.request import Request

MAX_EVENTS = 100
"""In one request; the contract's limit."""

RETRY_SECONDS = 5.0


class AuditService:
    """Writes agents' events down, and reads records."""

    def __init__(self, events: MiddlewareEvents, reader: AuditReader) -> None:
        self._events = events
        self._reader = reader

    async def record_events(
        self, message: audit_service_pb2.RecordEventsRequest, request: Request
    ) -> audit_service_pb2.RecordEventsResponse:
        """Record what agents' middlewares decided. All events are checked before the first is written."""
        if len(message.events) > MAX_EVENTS:
            raise InvalidField("events", f"has more than {MAX_EVENTS} events")
        events = [middleware_event(event, index, request) for index, event in enumerate(message.events)]
        count = await self._events.record(request.principal, events)
        return audit_service_pb2.RecordEventsResponse(recorded_count=count)

    async def query_events(
        self, message: audit_service_pb2.QueryEventsRequest, request: Request
    ) -> audit_service_pb2.QueryEventsResponse:
        """Read records, newest first."""
        wanted = event_filter(message.filter, request.principal.tenant)
        try:
            page = await self._reader.query(
                wanted, page_size=fields.page_size(message.page_size), page_token=message.page_token
            )
        except OSError as error:
            raise _unreadable() from error
        return audit_service_pb2.QueryEventsResponse(
            events=[stored_event(event) for event in page.events], next_page_token=page.next_page_token
        )

    async def tail_events(
        self, message: audit_service_pb2.TailEventsRequest, request: Request
    ) -> AsyncIterator[audit_service_pb2.TailEventsResponse]:
        """Follow new records."""
        wanted = event_filter(message.filter, request.principal.tenant)
        async with aclosing(self._reader.tail(wanted)) as items:
            async for item in items:
                if isinstance(item, Skipped):
                    yield audit_service_pb2.TailEventsResponse(skipped_count=item.count)
                else:
                    yield audit_service_pb2.TailEventsResponse(event=stored_event(item))

    async def verify_events(
        self, _message: audit_service_pb2.VerifyEventsRequest, _request: Request
    ) -> audit_service_pb2.VerifyEventsResponse:
        """Check the chains."""
        try:
            found = await self._reader.verify()
        except OSError as error:
            raise _unreadable() from error
        return audit_service_pb2.VerifyEventsResponse(
            intact=found.intact, record_count=found.record_count, problem=found.problem
        )


def _unreadable() -> Unavailable:
    return Unavailable(
        ErrorReason.AUDIT_UNAVAILABLE, "The audit's file cannot be read.", retry_after_seconds=RETRY_SECONDS
    )
