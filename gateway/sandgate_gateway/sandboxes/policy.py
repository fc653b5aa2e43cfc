"""How many sandboxes there may be, and how long they live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sandgate_providers.types import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPolicy:
    """The operator's choices. Times in seconds."""

    installation: str
    """Part of every sandbox's name, so that two installations on one engine never meet."""
    limits: Limits = field(default_factory=Limits)
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    max_sandboxes: int = 64
    max_sandboxes_per_tenant: int = 64
    queue_seconds: float = 5.0
    """How long a call waits for a place before it is told to try again later."""
    start_seconds: float = 60.0
    """How long a provider may take to make one."""
    idle_seconds: float = 900.0
    """How long a sandbox that no lease and no call holds is kept."""
    lease_seconds: float = 900.0
    """How long a lease lasts after the last call under it; `after_agent` does not run when a graph is interrupted."""
