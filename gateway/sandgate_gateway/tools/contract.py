"""What a tool is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sandgate_gateway.domain.call import JsonValue, Sink
from sandgate_gateway.domain.result import ToolResult
from sandgate_providers.contract import Channel


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as it is listed."""

    name: str
    description: str
    """Written for a model."""
    arguments_schema: Mapping[str, JsonValue]
    """JSON Schema, draft 2020-12, of the arguments object; unknown arguments are refused."""
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """One run of a tool."""

    arguments: Mapping[str, JsonValue]
    """Checked against the schema."""
    channel: Channel
    timeout_seconds: float
    sink: Sink | None = None
    """Where output goes while the tool runs."""


class Tool(Protocol):
    """Something that runs in a sandbox."""

    @property
    def spec(self) -> ToolSpec:
        """How it is listed."""
        ...

    async def run(self, run: ToolRun) -> ToolResult:
        """Run it to its end.

        What the tool could not do is a result with a failure. Raises `SandboxLost`, `ChannelClosed` and `CallRefused`
        of the provider when the sandbox could not take the call; cancellation ends what runs inside.
        """
        ...
