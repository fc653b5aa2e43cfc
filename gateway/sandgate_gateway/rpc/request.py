"""What a servicer knows of a request beside its message."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sandgate_gateway.domain.principal import Origin, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One RPC: who made it, from where, and how long it has."""

    audit_id: str
    """Minted for it; in every error that it ends in."""
    principal: Principal
    origin: Origin
    received_at: datetime
    deadline: float
    """By the event loop's clock: the caller's, or ours when the caller set none."""
