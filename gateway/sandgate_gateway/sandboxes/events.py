"""What the manager tells about the life of sandboxes."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from sandgate_providers.types import SandboxKey


class SandboxChange(enum.Enum):
    """What happened to a sandbox."""

    CREATED = "created"
    CREATE_FAILED = "create-failed"
    ENDED = "ended"
    """We ended it: idle, deleted, evicted, or at shutdown."""
    LOST = "lost"
    """It died by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxEvent:
    """One change in the life of one sandbox."""

    change: SandboxChange
    key: SandboxKey
    name: str
    provider: str
    occurred_at: datetime
    reason: str = ""
    """Stable kebab-case code: `idle`, `deleted`, `evicted`, `shutdown`, `not-used` (ended before it took a call),
    `out-of-memory`, `died`, or the error's class."""
    duration_seconds: float = 0.0
    """How long it took to make, or how long it lived."""


Emit = Callable[[SandboxEvent], Awaitable[None]]
"""Writes an event down. Raises `Unavailable` when it cannot; a sandbox whose creation cannot be recorded is ended."""
