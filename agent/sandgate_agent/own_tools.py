"""Calls of the agent's own tools: authorized by the gateway, run here, and completed at the gateway.

When a call is interrupted (LangGraph's `interrupt`, a drain, an answer that does not fit the question) its admission
stays open: the resumed node repeats the request id, is given the same admission, and completes that one. If it ran out
meanwhile, or the node is run again after its first run was completed, the call is authorized anew under another id. So
the audit shows each time that a tool ran, and policy is asked again after a long wait.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from langgraph.errors import GraphBubbleUp, ParentCommand, is_invalid_resume

from sandgate_agent.bridging import Caller
from sandgate_agent.client import GatewayClient
from sandgate_agent.counters import Counters
from sandgate_agent.errors import AdmissionCompleted, AdmissionExpired, RequestIdExpired, SandgateError
from sandgate_agent.results import Outcome, ToolResult
from sandgate_agent.types import Authorization, Completion, Report, ToolCall

MAX_RENEWALS = 8
"""How often one call is authorized anew: a question that waits for days is resumed a few times, not dozens."""

_REPORTING = "reporting the end of a call"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Admitted:
    """A call that may run."""

    authorization: Authorization
    renewal: int


@dataclass(frozen=True, slots=True)
class Completed:
    """A call whose end the gateway knows."""

    admitted: Admitted
    completion: Completion


class OwnToolCall:
    """One call of a tool that runs in the agent's process.

    Args:
        client: the gateway.
        caller: how to wait for it.
        counters: where reports are counted that did not arrive.
        call: makes the call to authorize; takes the number of the renewal.
    """

    def __init__(
        self, client: GatewayClient, caller: Caller, counters: Counters, call: Callable[[int], ToolCall]
    ) -> None:
        self._client = client
        self._caller = caller
        self._counters = counters
        self._call = call

    async def authorize(self, renewal: int = 0) -> Admitted | ToolResult:
        """Ask whether it may run; a refusal is a result.

        Raises:
            SandgateError: the gateway could not say. Then the call must not run.
        """
        while True:
            last = renewal >= MAX_RENEWALS
            try:
                authorization = await self._caller.ask(self._client.authorize(self._call(renewal)))
            except RequestIdExpired:
                if last:
                    raise
            else:
                if authorization.refusal is not None:
                    return authorization.refusal
                # An answer from before a long wait. The last one is taken as it is, in case our own clock is wrong.
                if last or not _expired(authorization):
                    return Admitted(authorization, renewal)
            renewal += 1

    async def run(self, admitted: Admitted, handler: Callable[[], Awaitable[object]]) -> object:
        """Run the tool. What it raises passes; the gateway is told of it where the call has ended."""
        try:
            return await handler()
        except ParentCommand:
            # The tool did its work: it hands over to another graph, and this node will not be run again.
            self._detach(admitted, Report(outcome=Outcome.COMPLETED))
            raise
        except GraphBubbleUp:
            raise
        except Exception as error:
            if not is_invalid_resume(error):
                await self._report_failure(admitted, error)
            raise
        except BaseException:
            # Cancelled, or the program is ending: nobody waits any more.
            self._detach(admitted, Report(outcome=Outcome.CANCELLED, failure_reason="cancelled"))
            raise

    async def complete(self, admitted: Admitted, report: Report) -> Completed | ToolResult:
        """Report the end and get what the model shall see. A refusal is a result: policy changed while the tool ran.

        Raises:
            SandgateError: the gateway could not say what the model may see.
        """
        while True:
            try:
                completion = await self._caller.ask(self._client.complete(admitted.authorization.admission, report))
            except (AdmissionExpired, AdmissionCompleted):
                if admitted.renewal >= MAX_RENEWALS:
                    raise
            except SandgateError:
                raise
            except BaseException:
                # The wait is given up, but the tool did run: the record shall say so.
                self._detach(admitted, report)
                raise
            else:
                return Completed(admitted, completion)
            renewed = await self.authorize(admitted.renewal + 1)
            if isinstance(renewed, ToolResult):
                return renewed
            admitted = renewed

    async def _report_failure(self, admitted: Admitted, error: Exception) -> None:
        # The exception's text stays here: it may hold secrets, and the model is told by whoever handles it.
        report = Report(outcome=Outcome.FAILED, failure_reason=type(error).__name__)
        try:
            await self.complete(admitted, report)
        except SandgateError as unreported:
            # The tool's own error is what the agent must see.
            self._counters.add("report_failed")
            _log.warning("%s failed: %s", _REPORTING, unreported)

    def _detach(self, admitted: Admitted, report: Report) -> None:
        self._client.detach(self._client.complete(admitted.authorization.admission, report), doing=_REPORTING)


def _expired(authorization: Authorization) -> bool:
    return authorization.expires_at is not None and authorization.expires_at <= datetime.now(UTC)
