"""The audit recorder: opened outside all other stages, and the only part of the pipeline that writes records.

Two records an executed call: *decided* just before anything runs, *finished* when it has ended, however it ended. A
call that never ran has *finished* only.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Protocol

from sandgate_gateway.audit.codes import Code, decided_code, finished_code
from sandgate_gateway.audit.disclosure import Disclosure
from sandgate_gateway.audit.event import AuditEvent, Judgement, Result, Target
from sandgate_gateway.domain.call import CallContext
from sandgate_gateway.domain.result import ToolResult
from sandgate_gateway.errors import ErrorReason, GatewayError, Unavailable
from sandgate_gateway.pipeline.blocks import blocks_of, result_of
from sandgate_gateway.pipeline.execution import Execution, execution
from sandgate_gateway.pipeline.stage import Handler, Phase

BROKEN_SECONDS = 5.0
"""How long the audit counts as broken after a failed write; then it is worth another try."""

_logger = logging.getLogger(__name__)


class EventWriter(Protocol):
    """Where records go."""

    async def write(self, event: AuditEvent) -> None:
        """Store one event, within some seconds; raises `Unavailable` when it is not stored."""
        ...


class Recorder:
    """Wraps every call, whether it is executed, authorized or completed."""

    name = "audit-recorder"
    phases: frozenset[Phase] = frozenset(Phase)

    def __init__(
        self, log: EventWriter, disclosure: Disclosure, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._disclosure = disclosure
        self._clock = clock
        self._failed_at = float("-inf")
        self.unrecorded_ends = 0
        """Calls that ran and whose *finished* record could not be written. Should be zero; each is an alarm."""

    @property
    def writable(self) -> bool:
        """False for a while after a record could not be written."""
        return self._clock() - self._failed_at >= BROKEN_SECONDS

    def require_writable(self) -> None:
        """Refuse what could only be recorded after it was done, while the audit is known to be broken.

        Raises:
            Unavailable: a record could not be written a moment ago (`AUDIT_UNAVAILABLE`).
        """
        if not self.writable:
            raise Unavailable(
                ErrorReason.AUDIT_UNAVAILABLE, "The audit cannot be written.", retry_after_seconds=BROKEN_SECONDS
            )

    async def __call__(self, context: CallContext, proceed: Handler) -> ToolResult:
        """Let the call pass, and write down how it ended."""
        call = execution(context)
        begun = self._clock()
        try:
            result = await proceed(context)
        except asyncio.CancelledError:
            await self._finish(call, Code.CALL_CANCELLED, Result(), self._clock() - begun)
            raise
        except GatewayError as error:
            await self._finish(call, Code.CALL_REFUSED, Result(error_reason=error.reason.value), self._clock() - begun)
            raise
        except BaseException as error:
            bug = Result(failure_reason=type(error).__name__)
            await self._finish(call, Code.CALL_ABORTED, bug, self._clock() - begun)
            raise
        if not call.left_open:
            await self.finished(context, result, self._clock() - begun)
        return result

    async def decided(self, context: CallContext) -> None:
        """Write down that the call runs next.

        Raises:
            Unavailable: it cannot be written (`AUDIT_UNAVAILABLE`); then nothing may run.
        """
        await self._write(self._event(execution(context), decided_code(context.verdict), Result()))

    async def finished(self, context: CallContext, result: ToolResult, duration_seconds: float) -> None:
        """Write down how the call ended. That this cannot be written is counted and logged; it undoes nothing."""
        await self._finish(execution(context), finished_code(result.outcome), result_of(result), duration_seconds)

    async def write(self, event: AuditEvent) -> None:
        """Write a record that is no call's. Raises `Unavailable` when it cannot be written."""
        await self._write(event)

    async def _finish(self, context: Execution, code: Code, result: Result, duration_seconds: float) -> None:
        """Write the last record. It is written whole even if the call is cancelled meanwhile: what ended has ended."""
        event = self._event(context, code, result, duration_seconds * 1000.0)
        try:
            await _to_its_end(self._write(event))
        except Unavailable:
            self.unrecorded_ends += 1
            _logger.critical("The end of call %s could not be recorded (%s).", context.audit_id, code.name)

    async def _write(self, event: AuditEvent) -> None:
        try:
            await self._log.write(event)
        except Unavailable:
            self._failed_at = self._clock()
            raise

    def _event(self, context: Execution, code: Code, result: Result, duration_ms: float | None = None) -> AuditEvent:
        blocks = context.blocks
        if blocks is None:
            call, tenant = context.call, context.principal.tenant
            action = self._disclosure.action(tenant, call.tool, call.arguments_json, context.arguments)
            blocks = context.blocks = blocks_of(call, context.principal, context.origin, action)
        return AuditEvent(
            code=code,
            occurred_at=datetime.now(UTC),
            audit_id=context.audit_id,
            received_at=context.received_at,
            duration_ms=duration_ms,
            correlation=blocks.correlation,
            actor=blocks.actor,
            source=blocks.source,
            action=blocks.action,
            target=Target(provider=context.provider, sandbox=context.sandbox) if context.sandbox else None,
            judgement=Judgement(verdict=context.verdict, decisions=tuple(context.decisions)),
            result=result,
            annotations=context.annotations or None,
        )


async def _to_its_end(write: Coroutine[None, None, None]) -> None:
    """Wait for a write, which has a deadline of its own, without being cut short.

    A cancellation that comes meanwhile comes too late to change anything, so it is the same as one that comes after the
    end: it has no effect.
    """
    task = asyncio.ensure_future(write)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
    task.result()
