"""One tool call, as it goes through the pipeline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from sandgate_gateway.domain.principal import Claims, Origin, Principal
from sandgate_gateway.domain.result import OutputChunk
from sandgate_gateway.domain.verdict import Decision, Reason, Verdict

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
"""What JSON can say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """What is asked. Immutable: no stage can change what another one judged."""

    request_id: str
    thread: str
    tool: str
    arguments_json: bytes
    """The exact bytes that the agent sent; digests are over these."""
    tool_call_id: str = ""
    run: str = ""
    lease: str = ""
    execution_timeout_seconds: float = 0.0
    """Zero: the gateway's default."""
    claims: Claims = field(default_factory=Claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something worth telling while a call runs."""

    code: str
    message: str


Sink = Callable[[OutputChunk | Notice], Awaitable[None]]
"""Takes output while a call runs; awaiting it slows the tool down to the reader's speed."""


@dataclass(slots=True, kw_only=True)
class CallContext:
    """A call on its way through the stages, with what they found out about it.

    Stages add decisions and annotations; only the recorder writes them down. The call itself cannot be changed.
    """

    call: ToolCall
    principal: Principal
    origin: Origin
    audit_id: str
    received_at: datetime
    deadline: float
    """By the event loop's clock: when the RPC ends."""
    sink: Sink | None = None
    """Where output goes while the call runs; None for a unary call."""
    arguments: Mapping[str, JsonValue] = field(default_factory=lambda: MappingProxyType({}))
    """The parsed arguments, read-only; set before the first stage."""
    decisions: list[Decision] = field(default_factory=list)
    annotations: dict[str, JsonValue] = field(default_factory=dict)
    """Namespaced by stage, for example `dispatch/attempts`; they go into the audit record and cannot replace its
    fields."""
    sandbox: str = ""
    """Name of the sandbox, once one was opened."""
    provider: str = ""

    @property
    def verdict(self) -> Verdict:
        """The most severe opinion so far; pass when there is none."""
        return max((decision.verdict for decision in self.decisions), default=Verdict.PASS)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons of every opinion that is more than pass."""
        return tuple(
            reason for decision in self.decisions if decision.verdict > Verdict.PASS for reason in decision.reasons
        )
