"""Who calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A caller whose identity was verified, or the one developer of a loopback gateway."""

    tenant: str
    agent: str
    kind: str
    """`human`, `agent` or `system`."""
    auth_method: str
    """`none` on loopback and Unix sockets without an authenticator."""


LOCAL_DEVELOPER = Principal(tenant="default", agent="local", kind="human", auth_method="none")
"""Who calls over loopback or a Unix socket, where the operating system decides who may connect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What an agent says of itself: recorded, never trusted."""

    agent_name: str = ""
    agent_instance: str = ""
    on_behalf_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a request came from: hints, never trusted."""

    peer: str = ""
    user_agent: str = ""
    trace_id: str = ""
    span_id: str = ""
