"""Calls that run in the agent's own process: authorized before they run, completed after, closed if they never are."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import cast

from sandgate_gateway.admissions.admission import Admission
from sandgate_gateway.admissions.signing import AdmissionSigner
from sandgate_gateway.domain.call import CallContext
from sandgate_gateway.domain.principal import Origin, Principal
from sandgate_gateway.domain.result import ToolResult
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.errors import CapacityExhausted, ErrorReason, RequestRejected, StateConflict, Unavailable
from sandgate_gateway.ledger.answer import Authorization, Completion
from sandgate_gateway.ledger.request import RequestKind, call_digest, call_key, completion_key
from sandgate_gateway.ledger.table import RequestTable
from sandgate_gateway.pipeline import outcomes
from sandgate_gateway.pipeline.assemble import Pipeline
from sandgate_gateway.pipeline.blocks import Blocks
from sandgate_gateway.pipeline.calls import IncomingCall, call_answer
from sandgate_gateway.pipeline.execution import Execution, execution
from sandgate_gateway.pipeline.recorder import Recorder
from sandgate_gateway.pipeline.reporting import (
    OpenCall,
    Report,
    abandoned_event,
    completion_context,
    report_digest,
    reported_result,
)

SWEEP_SECONDS = 5.0
"""How often admissions that ran out are looked for."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicy:
    """How long admissions last and how many may be open."""

    lifetime_seconds: float = 3600.0
    """A call of an agent's own tool that takes longer is recorded as abandoned."""
    max_open: int = 10_000
    """Bounds the memory that calls take which are never completed, about 2 KiB each."""


class AdmissionDesk:
    """Authorizes and completes."""

    def __init__(
        self,
        table: RequestTable,
        pipeline: Pipeline,
        recorder: Recorder,
        signer: AdmissionSigner,
        policy: AdmissionPolicy,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._table = table
        self._recorder = recorder
        self._signer = signer
        self._policy = policy
        self._clock = clock
        self._decide = pipeline.recorded(pipeline.deciding(self._admit))
        self._shape = pipeline.shaping(_reported)
        self._open: dict[str, OpenCall] = {}
        self._sweeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for admissions that ran out."""
        self._sweeper = asyncio.create_task(self._sweep_forever(), name="admission-sweeper")
        self._sweeper.add_done_callback(_log_failure)

    async def close(self) -> None:
        """Stop looking. Calls that are still open can be completed by another gateway with the same keys."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])

    async def authorize(self, incoming: IncomingCall) -> Authorization:
        """Say whether a call may run; a repeat gets the same answer.

        Raises:
            GatewayError: see `RequestTable.attach`; the audit's store is away; too many admissions are open.
        """
        key = call_key(incoming.principal, incoming.call.request_id)
        digest = call_digest(RequestKind.AUTHORIZATION, incoming.call)
        with self._table.attach(key, digest, incoming.audit_id, partial(self._authorize, incoming)) as attachment:
            return cast("Authorization", await attachment.answer())  # the digest holds the kind of the request

    async def complete(self, principal: Principal, origin: Origin, report: Report) -> Completion:
        """Take the end of an admitted call, and say what the model shall see of it.

        Raises:
            RequestRejected: the admission is not ours or not this principal's (`ADMISSION_INVALID`), or the call was
                completed before with other content (`ADMISSION_COMPLETED`).
            StateConflict: it ran out (`ADMISSION_EXPIRED`).
        """
        admission = self._signer.check(report.admission, principal)
        key = completion_key(principal, admission.audit_id)
        work = partial(self._complete, principal, origin, admission, report)
        try:
            with self._table.attach(key, report_digest(report), admission.audit_id, work) as attachment:
                return cast("Completion", await attachment.answer())  # only completions have such keys
        except RequestRejected as error:
            if error.reason is not ErrorReason.REQUEST_ID_REUSED:
                raise
            raise RequestRejected(
                ErrorReason.ADMISSION_COMPLETED, "This call was completed before with other content."
            ) from None
        except StateConflict as error:
            if error.reason is not ErrorReason.REQUEST_ID_EXPIRED:
                raise
            raise self._signer.expired() from None

    async def sweep(self) -> None:
        """Close the calls whose admission ran out, as abandoned."""
        now = self._clock()
        for audit_id, opened in list(self._open.items()):
            if opened.admission.expires_at > now or self._open.pop(audit_id, None) is None:
                continue
            try:
                await self._recorder.write(abandoned_event(opened, now))
            except Unavailable:
                self._open[audit_id] = opened  # tried again at the next sweep
                return

    async def _authorize(self, incoming: IncomingCall) -> Authorization:
        if len(self._open) >= self._policy.max_open:
            raise CapacityExhausted("Too many calls were authorized and are not completed.", retry_after_seconds=5.0)
        context = incoming.to_execution()
        begun = time.monotonic()
        result = await self._decide(context)
        if not context.left_open:
            refusal = call_answer(context, result, time.monotonic() - begun)
            return Authorization(
                audit_id=context.audit_id, verdict=context.verdict, reasons=context.reasons, refusal=refusal
            )
        assert context.blocks is not None, "the decided record was written"
        admission = self._admission(context, context.blocks)
        self._open[context.audit_id] = OpenCall(admission, context.blocks, tuple(context.decisions))
        return Authorization(
            audit_id=context.audit_id,
            verdict=context.verdict,
            reasons=context.reasons,
            admission=self._signer.sign(admission),
            expires_at=datetime.fromtimestamp(admission.expires_at, UTC),
        )

    async def _admit(self, context: CallContext) -> ToolResult:
        """Stand at the centre of an authorization: nothing speaks against the call, so this is recorded."""
        if not context.verdict.runs:  # a stage that blocks does not proceed; this holds even if one forgets
            return outcomes.denied(context)
        await self._recorder.decided(context)
        execution(context).left_open = True
        return ToolResult(outcome=Outcome.COMPLETED, text="The call may run.")

    def _admission(self, context: Execution, blocks: Blocks) -> Admission:
        call, principal = context.call, context.principal
        deciding = max(context.decisions, key=lambda decision: decision.verdict, default=None)
        return Admission(
            audit_id=context.audit_id,
            tenant=principal.tenant,
            agent=principal.agent,
            request_id=call.request_id,
            thread=call.thread,
            run=call.run,
            tool_call_id=call.tool_call_id,
            tool=call.tool,
            argument_digest=blocks.action.arguments_digest,
            verdict=int(context.verdict),
            policy_revision=deciding.policy_revision if deciding is not None else "",
            received_at=context.received_at.timestamp(),
            expires_at=self._clock() + self._policy.lifetime_seconds,
        )

    async def _complete(self, principal: Principal, origin: Origin, admission: Admission, report: Report) -> Completion:
        self._signer.require_current(admission)
        opened = self._open.pop(admission.audit_id, None)
        context = completion_context(principal, origin, admission, opened)
        try:
            shaped = [await self._shape_text(context, report, text) for text in report.texts]
        except BaseException:
            if opened is not None:
                self._open[admission.audit_id] = opened
            raise
        truncated = any(result is not None and result.truncated for result in shaped)
        texts = tuple(
            text if result is None else result.text for text, result in zip(report.texts, shaped, strict=True)
        )
        ended = reported_result(report, "The agent reported the end of this call.", truncated=truncated)
        await self._recorder.finished(context, ended, self._clock() - admission.received_at)
        unchanged = texts == report.texts
        return Completion(
            audit_id=admission.audit_id, texts=() if unchanged else texts, unchanged=unchanged, truncated=truncated
        )

    async def _shape_text(self, context: Execution, report: Report, text: str) -> ToolResult | None:
        """Shape one text; an empty one has no shape."""
        if not text:
            return None
        context.reported = reported_result(report, text)
        return await self._shape(context)

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweep()


def _log_failure(sweeper: asyncio.Task[None]) -> None:
    error = None if sweeper.cancelled() else sweeper.exception()
    if error is not None:
        _logger.error("Admissions that run out are not looked for any more.", exc_info=error)


async def _reported(context: CallContext) -> ToolResult:
    """Stand at the centre of a completion."""
    reported = execution(context).reported
    assert reported is not None, "a completion sets what was reported"
    return reported
