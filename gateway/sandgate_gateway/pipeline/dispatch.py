"""The centre of the onion: checks the arguments, records the decision, opens the sandbox, runs the tool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sandgate_gateway.domain.call import CallContext, JsonValue, Notice
from sandgate_gateway.domain.result import ToolResult, Violation
from sandgate_gateway.pipeline import outcomes
from sandgate_gateway.pipeline.execution import execution
from sandgate_gateway.pipeline.recorder import Recorder
from sandgate_gateway.tools.contract import Tool, ToolRun
from sandgate_providers.errors import ChannelClosed, SandboxLost

MARGIN_SECONDS = 1.0
"""Kept between the tool's timeout and the deadline of the RPC, so that the partial output of a slow tool still arrives:
0.3 s grace between TERM and KILL, then the kill itself, the records, and the way back."""

MARGIN_SHARE = 0.25
"""Of a deadline so short that the margin would eat it up."""


class Tools(Protocol):
    """The tools that there are."""

    @property
    def names(self) -> Sequence[str]:
        """All names, in order."""
        ...

    def find(self, name: str) -> Tool | None:
        """Give the tool of a name."""
        ...

    def check(self, name: str, arguments: Mapping[str, JsonValue]) -> tuple[Violation, ...]:
        """Say what is wrong with arguments for a tool that there is; empty when nothing is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long tools may run, in seconds."""

    default_seconds: float = 120.0
    max_seconds: float = 600.0

    def of(self, wanted: float, remaining: float) -> float:
        """Give the timeout of one call: what it wants or the default, within our limit and below its deadline."""
        margin = min(MARGIN_SECONDS, remaining * MARGIN_SHARE)
        return min(wanted or self.default_seconds, self.max_seconds, remaining - margin)


class Dispatch:
    """Runs the named tool on the call's lease."""

    def __init__(self, tools: Tools, recorder: Recorder, timeouts: Timeouts) -> None:
        self._tools = tools
        self._recorder = recorder
        self._timeouts = timeouts

    async def __call__(self, context: CallContext) -> ToolResult:
        """Run the call, if nothing speaks against it."""
        call = context.call
        tool = self._tools.find(call.tool)
        if tool is None:
            return outcomes.unknown_tool(call.tool, self._tools.names)
        violations = self._tools.check(call.tool, context.arguments)
        if violations:
            return outcomes.invalid_arguments(call.tool, violations)
        if not context.verdict.runs:  # a stage that blocks does not proceed; this holds even if one forgets
            return outcomes.denied(context)
        lease = execution(context).lease
        assert lease is not None, "dispatch is inside the sandbox stage"
        context.sandbox, context.provider = lease.sandbox, lease.provider
        await self._recorder.decided(context)
        try:
            return await self._run(context, tool)
        except (SandboxLost, ChannelClosed):
            if lease.anything_ran:
                raise
            # It had died, or was being ended, before this call came to it. Nothing ran, so a new one serves as well.
            return await self._run(context, tool)

    async def _run(self, context: CallContext, tool: Tool) -> ToolResult:
        lease = execution(context).lease
        assert lease is not None, "checked above"
        if context.sink is not None and not lease.ready:
            await context.sink(Notice(code="sandbox-starting", message="A sandbox is being made for this thread."))
        channel = await lease.open(deadline=context.deadline)
        remaining = context.deadline - asyncio.get_running_loop().time()
        run = ToolRun(
            arguments=context.arguments,
            channel=channel,
            timeout_seconds=self._timeouts.of(context.call.execution_timeout_seconds, remaining),
            sink=context.sink,
        )
        waiting = asyncio.timeout_at(context.deadline)
        try:
            async with waiting:
                return await tool.run(run)
        except TimeoutError:
            if not waiting.expired():
                raise
            return outcomes.unanswered()
