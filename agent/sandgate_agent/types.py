"""What an agent sends to the gateway and gets back, apart from results (`results`)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sandgate_agent.results import Outcome, Reason, ToolResult, Verdict

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
"""What JSON can say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool that the gateway offers."""

    name: str
    description: str
    """Written for a model."""
    arguments_schema: Mapping[str, JsonValue]
    """JSON Schema, draft 2020-12, of the arguments object."""
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What an agent says of itself: recorded by the gateway, never trusted. At most 256 bytes each."""

    agent_name: str = ""
    agent_instance: str = ""
    on_behalf_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of one tool."""

    request_id: str
    """A UUID. A repeat with the same content joins the running call or gets the first answer."""
    thread: str
    tool: str
    arguments_json: bytes
    """One JSON object in UTF-8, at most 1 MiB."""
    tool_call_id: str = ""
    run: str = ""
    lease: str = ""
    execution_timeout_seconds: float = 0.0
    """Zero: the gateway's default."""
    claims: Claims = field(default_factory=Claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """Whether a tool of the agent's own process may run."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    admission: bytes
    audit_id: str
    expires_at: datetime | None
    refusal: ToolResult | None
    """What to tell the model when the call may not run; always set then."""

    @property
    def runs(self) -> bool:
        """True when the call may run."""
        return self.verdict.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How an authorized call ended, as the agent tells the gateway."""

    outcome: Outcome
    """Completed, failed, timed out or cancelled."""
    texts: tuple[str, ...] = ()
    failure_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What the model shall see of an authorized call."""

    audit_id: str
    texts: tuple[str, ...]
    unchanged: bool
    truncated: bool


class OutputStream(enum.Enum):
    """Which of a command's outputs."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The gateway took the call."""

    audit_id: str
    joined: bool
    """True when an earlier request with this id is joined; its output so far is not repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk:
    """A piece of output, exact bytes; a character may be split between chunks."""

    stream: OutputStream
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something worth telling while a call runs."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The call has ended; always the last event."""

    result: ToolResult


StreamEvent = Started | OutputChunk | Notice | Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class MiddlewareEvent:
    """One decision of a middleware in the agent, for the gateway's audit."""

    event_id: str
    event: str
    """Begins with `middleware:`; at most 128 bytes."""
    thread: str
    occurred_at: datetime
    run: str = ""
    tool_call_id: str = ""
    attributes: Mapping[str, JsonValue] = field(default_factory=dict)
