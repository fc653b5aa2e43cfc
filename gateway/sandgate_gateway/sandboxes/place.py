"""One sandbox of the manager: where it is in its life, and who holds it."""

from __future__ import annotations

import asyncio
import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sandgate_gateway.errors import CapacityExhausted
from sandgate_gateway.sandboxes.memory_kills import MemoryKills
from sandgate_providers.contract import Sandbox
from sandgate_providers.types import IsolationFact, SandboxKey

MAX_LEASES = 1024
"""Leases of one sandbox at once: agents mint their ids, so there must be a bound."""


class SandboxState(enum.Enum):
    """Where a sandbox is in its life; the words of the contract."""

    CREATING = "creating"
    ACTIVE = "active"
    PARKED = "parked"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxView:
    """What is shown of a sandbox."""

    name: str
    thread: str
    state: SandboxState
    provider: str
    created_at: datetime
    used_at: datetime
    lease_count: int
    call_count: int
    isolation: Sequence[IsolationFact] = ()


class Place:
    """A sandbox, from the moment that it is wanted until it is gone.

    Times are the manager's clock in seconds; `created_at` and `used_at` are for people.
    """

    def __init__(self, key: SandboxKey, name: str, *, now: float) -> None:
        self.key = key
        self.name = name
        self.opened_at = now
        self.created_at = datetime.now(UTC)
        self.used_at = self.created_at
        self.idle_since = now
        self.calls = 0
        self.expected = 0
        """Calls that wait for the start. They hold it too, so that nobody takes it away before they come to it."""
        self.starting: asyncio.Task[None]
        """Makes the sandbox; set right after construction, by the manager."""
        self.sandbox: Sandbox | None = None
        """Set once it takes calls."""
        self.kills: MemoryKills
        """Set together with the sandbox."""
        self.ending: asyncio.Task[None] | None = None
        """Ends the sandbox; set once it must take no more calls."""
        self._leases: dict[str, float] = {}
        self._calls_under: Counter[str] = Counter()

    @property
    def usable(self) -> bool:
        """True while it takes calls."""
        return self.sandbox is not None and self.ending is None

    def hold(self, lease: str) -> None:
        """Count a call in, and under its lease."""
        self.calls += 1
        self._calls_under[lease] += 1

    def let_go(self, lease: str, *, now: float) -> None:
        """Count a call out."""
        self.calls -= 1
        self._calls_under[lease] -= 1
        if not self._calls_under[lease]:
            del self._calls_under[lease]
        self.touch(now=now)

    def touch(self, *, now: float) -> None:
        """Begin the idle time again."""
        self.idle_since = now
        self.used_at = datetime.now(UTC)

    def begin_lease(self, lease: str, *, until: float) -> None:
        """Begin a lease or make it last longer. An empty id is no lease.

        Raises:
            CapacityExhausted: too many leases.
        """
        if not lease:
            return
        if len(self._leases) >= MAX_LEASES and lease not in self._leases:
            raise CapacityExhausted("Too many leases hold this thread's sandbox; release some.")
        self._leases[lease] = until

    def renew_lease(self, lease: str, *, until: float) -> None:
        """Make a lease last longer, unless it was ended meanwhile."""
        if lease in self._leases:
            self._leases[lease] = until

    def end_lease(self, lease: str, *, now: float) -> bool:
        """End a lease; give True when it was known and had not run out."""
        self.expire_leases(now=now)
        if self._leases.pop(lease, None) is None:
            return False
        self.touch(now=now)
        return True

    def expire_leases(self, *, now: float) -> None:
        """Drop leases that ran out; none does under its own call. The idle time counts from the last of them."""
        for lease, until in list(self._leases.items()):
            if until <= now and lease not in self._calls_under:
                del self._leases[lease]
                self.idle_since = max(self.idle_since, until)

    def parked(self, *, now: float) -> bool:
        """Tell whether neither lease nor call holds it."""
        self.expire_leases(now=now)
        return self.usable and not self.calls and not self.expected and not self._leases

    def view(self, *, provider: str, now: float, with_isolation: bool = False) -> SandboxView:
        """Show it."""
        parked = self.parked(now=now)
        if self.ending is not None:
            state = SandboxState.DELETING
        elif self.sandbox is None:
            state = SandboxState.CREATING
        else:
            state = SandboxState.PARKED if parked else SandboxState.ACTIVE
        return SandboxView(
            name=self.name,
            thread=self.key.thread,
            state=state,
            provider=provider,
            created_at=self.created_at,
            used_at=self.used_at,
            lease_count=len(self._leases),
            call_count=self.calls,
            isolation=tuple(self.sandbox.isolation) if with_isolation and self.sandbox is not None else (),
        )
