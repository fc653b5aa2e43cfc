"""Sends single tool calls through the gateway: its own tools to it, the agent's past it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Literal, TypeVar, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from sandgate_agent import messages
from sandgate_agent.attempts import Attempts
from sandgate_agent.bridging import Caller
from sandgate_agent.client import GatewayClient
from sandgate_agent.codec import json_bytes
from sandgate_agent.counters import Counters
from sandgate_agent.errors import (
    CallTimedOut,
    CapacityExhausted,
    GatewayUnavailable,
    RequestRejected,
    RequestTooLarge,
    TransportLimitReached,
)
from sandgate_agent.identity import Identity, identity_of, inside, recorded
from sandgate_agent.own_tools import OwnToolCall
from sandgate_agent.results import Outcome, ToolResult
from sandgate_agent.texts import bounded, texts_of
from sandgate_agent.types import Claims, Report, ToolCall

MODEL_FIELDS = frozenset({"call.tool", "call.arguments_json"})
"""Fields of a request that the model chose. When one of them is refused, the model can mend it; the program cannot."""

OnOutage = Literal["raise", "message"]

T = TypeVar("T")

_Answer = ToolMessage | Command[Any]
_Handler = Callable[[ToolCallRequest], Awaitable[object]]


class ToolCalls:
    """The tool calls of one agent. One implementation for both kinds of hooks: see `bridging`.

    Args:
        client: the gateway.
        counters: where reports are counted that did not arrive.
        names: names of the tools that run in the gateway; all others run here.
        claims: what the agent says of itself.
        execution_timeout_seconds: how long a tool may run; zero is the gateway's default.
        on_outage: what happens to a call while the gateway is away.
    """

    def __init__(
        self,
        client: GatewayClient,
        counters: Counters,
        names: Collection[str],
        *,
        claims: Claims,
        execution_timeout_seconds: float,
        on_outage: OnOutage,
    ) -> None:
        self._client = client
        self._counters = counters
        self._names = names
        self._claims = claims
        self._execution_timeout_seconds = execution_timeout_seconds
        self._on_outage = on_outage
        self._attempts = Attempts()

    async def send(self, request: ToolCallRequest, handler: _Handler, caller: Caller) -> _Answer:
        """Send one call through the gateway.

        What the model can act on is an answer; see `GatewayMiddleware` for what is raised. The handler is called for
        tools of the agent's own only, at most once, and only after the gateway let the call run.
        """
        try:
            arguments = json_bytes(request.tool_call["args"])
        except (TypeError, ValueError, RecursionError):
            text = "Error (invalid-arguments): the arguments are not a JSON object, so the call was not sent."
            return messages.error_message(request.tool_call, text)
        identity = identity_of(request)
        attempt = self._attempts.number(request)

        def call(renewal: int) -> ToolCall:
            return self._tool_call(request, identity, arguments, identity.request_id(attempt=attempt, renewal=renewal))

        if request.tool_call["name"] in self._names:
            return await self._run_in_gateway(request, call(0), caller)
        own = OwnToolCall(self._client, caller, self._counters, call)
        return await self._run_here(request, identity, handler, own)

    async def _run_in_gateway(self, request: ToolCallRequest, call: ToolCall, caller: Caller) -> _Answer:
        result = await self._answered(request, caller.ask(self._client.execute(call)))
        if isinstance(result, ToolMessage):
            return result
        self._note_answer(request, result)
        return messages.with_sandbox(messages.message_of(request.tool_call, result), result, request.state)

    async def _run_here(
        self, request: ToolCallRequest, identity: Identity, handler: _Handler, own: OwnToolCall
    ) -> _Answer:
        admitted = await self._answered(request, own.authorize())
        if isinstance(admitted, ToolMessage):
            return admitted
        if isinstance(admitted, ToolResult):
            self._note_answer(request, admitted)
            return messages.message_of(request.tool_call, admitted)
        try:
            with inside(identity):
                answer = await own.run(admitted, lambda: handler(request))
        except Exception:
            # Whoever tries again now runs the tool again, on purpose.
            self._attempts.answered(request)
            raise
        self._attempts.answered(request)
        texts = texts_of(answer, state=request.state)
        outcome = Outcome.FAILED if texts.failed else Outcome.COMPLETED
        report = Report(
            outcome=outcome, texts=bounded(texts.read()), failure_reason="tool-error" if texts.failed else ""
        )
        completed = await self._answered(request, own.complete(admitted, report))
        if isinstance(completed, ToolMessage):
            return completed
        if isinstance(completed, ToolResult):
            return messages.message_of(request.tool_call, completed)
        authorization, completion = completed.admitted.authorization, completed.completion
        shaped = texts.replace(
            completion.texts, lambda message: messages.marked(message, authorization, completion, outcome)
        )
        # Of the same type as what the handler returned.
        return cast("_Answer", shaped)

    async def _answered(self, request: ToolCallRequest, work: Awaitable[T]) -> T | ToolMessage:
        """Wait for the gateway; what a model can act on becomes a message, everything else is raised."""
        call = request.tool_call
        try:
            return await work
        except CapacityExhausted as error:
            return messages.error_message(call, messages.capacity_text(error), error)
        except RequestTooLarge as error:
            return messages.error_message(call, messages.too_large_text(error), error)
        except RequestRejected as error:
            if error.metadata.get("field") not in MODEL_FIELDS:
                raise
            return messages.error_message(call, messages.rejected_text(error), error)
        except (GatewayUnavailable, CallTimedOut, TransportLimitReached) as error:
            if self._on_outage == "raise":
                raise
            return messages.error_message(call, messages.outage_text(), error)

    def _note_answer(self, request: ToolCallRequest, result: ToolResult) -> None:
        # A call that waits for an approval is no answer yet: its repeat has the same id and looks again.
        if result.outcome is not Outcome.PENDING:
            self._attempts.answered(request)

    def _tool_call(self, request: ToolCallRequest, identity: Identity, arguments: bytes, request_id: str) -> ToolCall:
        return ToolCall(
            request_id=request_id,
            thread=identity.thread,
            tool=request.tool_call["name"],
            arguments_json=arguments,
            tool_call_id=recorded(identity.tool_call_id),
            run=recorded(identity.run),
            lease=identity.lease,
            execution_timeout_seconds=self._execution_timeout_seconds,
            claims=self._claims,
        )
