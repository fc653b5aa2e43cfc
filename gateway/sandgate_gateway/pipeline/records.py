"""Records of what is no tool call: the life of sandboxes, files that are moved, decisions of agents' middlewares."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from sandgate_gateway.audit.codes import Code
from sandgate_gateway.audit.event import Actor, AuditEvent, Correlation, Result, Target
from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.domain.principal import Origin, Principal
from sandgate_gateway.pipeline.blocks import actor_of, source_of
from sandgate_gateway.sandboxes.events import SandboxChange, SandboxEvent

_CODES: Mapping[SandboxChange, Code] = {
    SandboxChange.CREATED: Code.SANDBOX_CREATED,
    SandboxChange.CREATE_FAILED: Code.SANDBOX_CREATE_FAILED,
    SandboxChange.ENDED: Code.SANDBOX_ENDED,
    SandboxChange.LOST: Code.SANDBOX_LOST,
}


def sandbox_record(event: SandboxEvent) -> AuditEvent:
    """Record a change in the life of a sandbox. The gateway itself did it, for the tenant."""
    return AuditEvent(
        code=_CODES[event.change],
        occurred_at=event.occurred_at,
        duration_ms=event.duration_seconds * 1000.0,
        correlation=Correlation(thread=event.key.thread),
        actor=Actor(tenant=event.key.tenant, principal="gateway", principal_kind="system", auth_method="none"),
        target=Target(provider=event.provider, sandbox=event.name),
        result=Result(failure_reason=event.reason) if event.reason else None,
    )


def file_record(
    code: Code, principal: Principal, origin: Origin, *, thread: str, target: Target, path: str, size_bytes: int
) -> AuditEvent:
    """Record a file that a caller moves into a sandbox or out of it."""
    return AuditEvent(
        code=code,
        occurred_at=datetime.now(UTC),
        correlation=Correlation(thread=thread, trace_id=origin.trace_id, span_id=origin.span_id),
        actor=actor_of(principal),
        source=source_of(origin),
        target=target,
        annotations={"file/path": path, "file/size_bytes": size_bytes},
    )


def middleware_record(
    event_id: str,
    name: str,
    principal: Principal,
    origin: Origin,
    *,
    correlation: Correlation,
    occurred_at: datetime,
    attributes: Mapping[str, JsonValue],
) -> AuditEvent:
    """Record what an agent's middleware says that it decided, and when, by the agent's clock."""
    return AuditEvent(
        code=Code.MIDDLEWARE_EVENT,
        name=name,
        event_id=event_id,
        occurred_at=occurred_at,
        received_at=datetime.now(UTC),
        correlation=correlation,
        actor=actor_of(principal),
        source=source_of(origin),
        annotations={"middleware/attributes": dict(attributes)} if attributes else None,
    )
