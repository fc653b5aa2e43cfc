"""How many sandboxes there may be: the caps, the short queue when they are reached, and who makes room for others."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping

from sandgate_gateway.errors import CapacityExhausted
from sandgate_gateway.sandboxes.place import Place
from sandgate_gateway.sandboxes.policy import SandboxPolicy

LOOK_AGAIN_SECONDS = 0.5
"""How often who waits looks again by itself: that a lease runs out is told by nobody."""


class Room:
    """Watches the manager's places. A sandbox that is being ended still takes its place."""

    def __init__(
        self,
        policy: SandboxPolicy,
        places: Mapping[str, Place],
        evict: Callable[[Place], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Watch places.

        Args:
            policy: the caps and the length of the wait.
            places: the manager's own, as they change.
            evict: begins to end a parked sandbox.
            clock: the manager's.
        """
        self._policy = policy
        self._places = places
        self._evict = evict
        self._clock = clock
        self._change = asyncio.Event()
        self._waiting = 0

    def full(self, tenant: str) -> bool:
        """Tell whether a tenant may have no more sandboxes now."""
        if len(self._places) >= self._policy.max_sandboxes:
            return True
        of_tenant = sum(place.key.tenant == tenant for place in self._places.values())
        return of_tenant >= self._policy.max_sandboxes_per_tenant

    async def wait(self, tenant: str) -> None:
        """Wait until a tenant may have one more.

        Raises:
            CapacityExhausted: that did not come in time.
        """
        self._waiting += 1
        try:
            async with asyncio.timeout(self._policy.queue_seconds):
                while self.full(tenant):
                    self._make_room(tenant)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                            await self._change.wait()
        except TimeoutError:
            raise CapacityExhausted(
                "Every place for a sandbox is taken.", retry_after_seconds=max(1.0, self._policy.queue_seconds)
            ) from None
        finally:
            self._waiting -= 1

    def changed(self) -> None:
        """Wake who waits: a sandbox is gone, or one may be parked now. Costs nothing while nobody waits."""
        if self._waiting:
            change, self._change = self._change, asyncio.Event()
            change.set()

    def _make_room(self, tenant: str) -> None:
        """End the sandbox that is parked for longest, the tenant's own first, unless as many end as wait."""
        if sum(place.ending is not None for place in self._places.values()) >= self._waiting:
            return
        now = self._clock()
        parked = [place for place in self._places.values() if place.parked(now=now)]
        own = [place for place in parked if place.key.tenant == tenant]
        others = parked if len(self._places) >= self._policy.max_sandboxes else []
        for candidates in (own, others):
            if candidates:
                self._evict(min(candidates, key=lambda place: place.idle_since))
                return
