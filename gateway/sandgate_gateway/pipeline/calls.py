"""Runs tool calls: each once, in a task of its own. All callers of one request wait for the same answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import cast

from sandgate_gateway.domain.call import JsonValue, Sink, ToolCall
from sandgate_gateway.domain.principal import Origin, Principal
from sandgate_gateway.domain.result import ToolResult
from sandgate_gateway.errors import GatewayError
from sandgate_gateway.ledger.answer import CallAnswer
from sandgate_gateway.ledger.request import RequestKind, call_digest, call_key
from sandgate_gateway.ledger.table import Attachment, RequestTable
from sandgate_gateway.pipeline import outcomes
from sandgate_gateway.pipeline.execution import Execution
from sandgate_gateway.pipeline.stage import Handler

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingCall:
    """A call as it arrived, checked for form."""

    call: ToolCall
    arguments: Mapping[str, JsonValue]
    """Parsed; read-only."""
    principal: Principal
    origin: Origin
    audit_id: str
    """Minted for this request; not used when it turns out to be a repeat."""
    received_at: datetime
    deadline: float
    """By the event loop's clock."""

    def to_execution(self, sink: Sink | None = None) -> Execution:
        """Make the context that goes through the stages."""
        return Execution(
            call=self.call,
            principal=self.principal,
            origin=self.origin,
            audit_id=self.audit_id,
            received_at=self.received_at,
            deadline=self.deadline,
            sink=sink,
            arguments=self.arguments,
        )


class CallRunner:
    """Executes calls of the gateway's own tools."""

    def __init__(self, table: RequestTable, execute: Handler, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._execute = execute
        self._clock = clock

    def attach(self, incoming: IncomingCall, sink: Sink | None = None) -> Attachment:
        """Start a call, or join the one that has the same request id.

        Args:
            incoming: the call.
            sink: takes output while the call runs, unless an earlier request is joined.

        Raises:
            GatewayError: it cannot be taken; see `RequestTable.attach`. More may come from the attachment.
        """
        key = call_key(incoming.principal, incoming.call.request_id)
        digest = call_digest(RequestKind.EXECUTION, incoming.call)
        return self._table.attach(key, digest, incoming.audit_id, partial(self._run, incoming, sink))

    async def execute(self, incoming: IncomingCall) -> CallAnswer:
        """Run a call to its end, or wait for the one that has the same request id. Raises like `attach`."""
        with self.attach(incoming) as attachment:
            return cast("CallAnswer", await attachment.answer())  # the digest holds the kind of the request

    async def _run(self, incoming: IncomingCall, sink: Sink | None) -> CallAnswer:
        context = incoming.to_execution(sink)
        begun = self._clock()
        try:
            result = await self._execute(context)
        except asyncio.CancelledError:
            # This task was cancelled because its last caller left, or at shutdown. What has run has an end all the
            # same, and a repeat must learn it; when nothing ran, a repeat may run.
            if not context.anything_ran:
                raise
            result = outcomes.cancelled()
        except BaseException as error:
            if not context.anything_ran:
                raise
            _log_failure(context, error)
            result = outcomes.interrupted()
        return call_answer(context, result, self._clock() - begun)


def call_answer(context: Execution, result: ToolResult, duration_seconds: float) -> CallAnswer:
    """Make the answer to a call of its result and of what the stages found out."""
    return CallAnswer(
        request_id=context.call.request_id,
        audit_id=context.audit_id,
        verdict=context.verdict,
        reasons=context.reasons,
        sandbox=context.sandbox if context.anything_ran else "",
        received_at=context.received_at,
        duration_seconds=duration_seconds,
        result=result,
    )


def _log_failure(context: Execution, error: BaseException) -> None:
    if isinstance(error, GatewayError):
        _logger.error("Call %s was given up after it ran: %s", context.audit_id, error)
    else:
        _logger.error("Call %s failed in the gateway after it ran.", context.audit_id, exc_info=error)
