"""What a call's records are made of, taken from the domain's values."""

from __future__ import annotations

from dataclasses import dataclass

from sandgate_gateway.audit.event import Action, Actor, Correlation, Result, Source
from sandgate_gateway.domain.call import ToolCall
from sandgate_gateway.domain.principal import Claims, Origin, Principal
from sandgate_gateway.domain.result import ProcessData, ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The parts that all records of one call share."""

    correlation: Correlation
    actor: Actor
    source: Source
    action: Action


def blocks_of(call: ToolCall, principal: Principal, origin: Origin, action: Action) -> Blocks:
    """Describe a call."""
    correlation = Correlation(
        request_id=call.request_id,
        thread=call.thread,
        run=call.run,
        tool_call_id=call.tool_call_id,
        trace_id=origin.trace_id,
        span_id=origin.span_id,
    )
    return Blocks(
        correlation=correlation, actor=actor_of(principal, call.claims), source=source_of(origin), action=action
    )


def actor_of(principal: Principal, claims: Claims | None = None) -> Actor:
    """Say who did it: what was verified, and apart from it what the agent says of itself."""
    said = claims or Claims()
    return Actor(
        tenant=principal.tenant,
        principal=principal.agent,
        principal_kind=principal.kind,
        auth_method=principal.auth_method,
        claimed_agent_name=said.agent_name,
        claimed_agent_instance=said.agent_instance,
        claimed_on_behalf_of=said.on_behalf_of,
    )


def source_of(origin: Origin) -> Source:
    """Say where it came from."""
    return Source(peer=origin.peer, user_agent=origin.user_agent)


def result_of(result: ToolResult) -> Result:
    """Say how it ended."""
    failure = result.failure.reason if result.failure is not None else ""
    process = result.data
    if not isinstance(process, ProcessData):
        return Result(failure_reason=failure, truncated=result.truncated)
    return Result(
        exit_code=process.exit_code,
        signal=process.signal,
        process_end=process.end.value,
        failure_reason=failure,
        stdout_bytes=process.stdout.total_bytes,
        stderr_bytes=process.stderr.total_bytes,
        truncated=result.truncated,
    )
