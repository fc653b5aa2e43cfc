"""Makes, finds, keeps and ends sandboxes: one for each thread, whichever provider makes them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from functools import lru_cache, partial

from sandgate_gateway.errors import ErrorReason, GatewayError, NotFound, Unavailable
from sandgate_gateway.sandboxes.events import Emit, SandboxChange
from sandgate_gateway.sandboxes.lease import BoundLease
from sandgate_gateway.sandboxes.lifecycle import RETRY_SECONDS, Lifecycle
from sandgate_gateway.sandboxes.place import Place, SandboxView
from sandgate_gateway.sandboxes.policy import SandboxPolicy
from sandgate_gateway.sandboxes.room import Room
from sandgate_providers.contract import SandboxProvider
from sandgate_providers.naming import sandbox_name
from sandgate_providers.types import SandboxKey

REAP_SECONDS = 5.0
"""How often idle sandboxes are looked for, at most."""

NAMES_KEPT = 4096
"""A name is needed for each call and takes 6 µs to derive."""

_logger = logging.getLogger(__name__)


class SandboxManager:
    """Owns every sandbox of this gateway.

    All state belongs to one event loop and changes between awaits only, so there are no locks. A sandbox is made by a
    task of the manager's own, never by the call that wants it: a caller that goes away takes nothing from the others.
    """

    def __init__(
        self,
        provider: SandboxProvider,
        policy: SandboxPolicy,
        emit: Emit,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lifecycle = Lifecycle(provider, policy, emit, clock=clock)
        self._policy = policy
        self._clock = clock
        self._places: dict[str, Place] = {}
        self._room = Room(policy, self._places, self._evict, clock=clock)
        self._names = lru_cache(NAMES_KEPT)(partial(sandbox_name, policy.installation))
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    @property
    def provider_name(self) -> str:
        """Name of the provider, for records."""
        return self._lifecycle.provider_name

    @property
    def provider_answers(self) -> bool:
        """False for a while after the provider failed to make a sandbox."""
        return self._lifecycle.provider_answers

    def start(self) -> None:
        """Begin to look for idle sandboxes."""
        self._spawn(self._reap_forever(), "sandbox-reaper")

    async def close(self) -> None:
        """End every sandbox and wait for that. Idempotent."""
        self._closing = True
        endings = [self._end(place, SandboxChange.ENDED, "shutdown") for place in self._places.values()]
        await asyncio.gather(*endings, return_exceptions=True)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # For calls.

    def name_of(self, key: SandboxKey) -> str:
        """Name the sandbox of a key, whether it exists or not."""
        return self._names(key)

    def is_ready(self, name: str) -> bool:
        """Tell whether a sandbox takes calls right now."""
        place = self._places.get(name)
        return place is not None and place.usable

    def bind(self, key: SandboxKey, lease: str) -> BoundLease:
        """Give a hold that is not opened yet."""
        return BoundLease(self, key, lease)

    async def hold(self, key: SandboxKey, lease: str, *, deadline: float) -> Place:
        """Count a call into its sandbox, making that if there is none. `let_go` ends it.

        Raises:
            CapacityExhausted: every place is taken.
            Unavailable: the provider cannot make it, or it was not ready in time.
        """
        name = self.name_of(key)
        place = self._places.get(name)
        if place is None or not place.usable:
            try:
                async with asyncio.timeout_at(deadline):
                    place = await self._usable_place(key, name)
            except TimeoutError:
                raise Unavailable(
                    ErrorReason.PROVIDER_UNAVAILABLE,
                    "The sandbox was not ready in time.",
                    retry_after_seconds=RETRY_SECONDS,
                ) from None
        place.begin_lease(lease, until=self._clock() + self._policy.lease_seconds)
        place.hold(lease)
        return place

    def let_go(self, place: Place, lease: str) -> None:
        """Count a call out again; its lease lasts from now on."""
        now = self._clock()
        place.let_go(lease, now=now)
        place.renew_lease(lease, until=now + self._policy.lease_seconds)
        self._room.changed()

    def drop(self, place: Place) -> None:
        """Note that a sandbox is dead: the next call gets a new one."""
        self._end(place, SandboxChange.LOST, "")

    # For agents and operators.

    async def acquire(self, key: SandboxKey, lease: str, *, deadline: float) -> SandboxView:
        """Make a thread's sandbox ready before its first call. Raises like `hold`."""
        place = await self.hold(key, lease, deadline=deadline)
        self.let_go(place, lease)
        return self._view(place, with_isolation=True)

    def release(self, key: SandboxKey, lease: str) -> bool:
        """End a lease, and no other one; the sandbox stays until its idle time is over. True when it was known."""
        place = self._places.get(self.name_of(key))
        released = place is not None and place.end_lease(lease, now=self._clock())
        self._room.changed()
        return released

    def get(self, tenant: str, name: str) -> SandboxView:
        """Show one sandbox.

        Raises:
            NotFound: there is none of this name that the tenant may see.
        """
        return self._view(self._find(tenant, name), with_isolation=True)

    def list(self, tenant: str) -> list[SandboxView]:
        """Show a tenant's sandboxes in order of their names."""
        places = sorted(self._places.values(), key=lambda place: place.name)
        return [self._view(place) for place in places if place.key.tenant == tenant]

    async def delete(self, tenant: str, name: str) -> None:
        """End a sandbox with everything that runs in it, and wait for that.

        Raises:
            NotFound: there is none of this name that the tenant may see.
        """
        place = self._find(tenant, name)
        await asyncio.wait([self._end(place, SandboxChange.ENDED, "deleted")])

    def reap(self) -> None:
        """Begin to end the sandboxes whose idle time is over."""
        now = self._clock()
        for place in list(self._places.values()):
            if place.parked(now=now) and now - place.idle_since >= self._policy.idle_seconds:
                self._end(place, SandboxChange.ENDED, "idle")

    # Making and ending.

    async def _usable_place(self, key: SandboxKey, name: str) -> Place:
        """Find the sandbox or make it; whoever else wants it meanwhile waits for the same one."""
        while not self._closing:
            place = self._places.get(name)
            if place is None:
                if self._room.full(key.tenant):
                    await self._room.wait(key.tenant)
                    continue  # while this waited, somebody else may have begun to make it
                place = self._make(key, name)
            if place.ending is not None:
                await asyncio.wait([place.ending])
                continue
            await self._started(place)
            if place.starting.cancelled():
                continue
            place.starting.result()
            if place.usable:
                return place
        raise Unavailable(ErrorReason.SHUTTING_DOWN, "The gateway is shutting down.", retry_after_seconds=RETRY_SECONDS)

    async def _started(self, place: Place) -> None:
        """Wait until the start has ended, however it did."""
        place.expected += 1
        try:
            # Not awaited itself: a start that is cancelled, by a delete, is no cancellation of this call.
            await asyncio.wait([place.starting])
        finally:
            place.expected -= 1
            self._room.changed()  # this call may leave, and with it the last that holds the sandbox

    def _make(self, key: SandboxKey, name: str) -> Place:
        place = Place(key, name, now=self._clock())
        self._places[name] = place
        place.starting = self._spawn(self._start(place), f"start-{name}")
        return place

    async def _start(self, place: Place) -> None:
        try:
            await self._lifecycle.start(place)
        except BaseException:
            self._remove(place)
            raise
        self._spawn(self._watch(place), f"watch-{place.name}")
        self._room.changed()  # whoever wanted it may be gone: then it is parked

    async def _watch(self, place: Place) -> None:
        assert place.sandbox is not None, "only a sandbox that was made is watched"
        await place.sandbox.channel.wait_closed()
        self.drop(place)

    def _end(self, place: Place, change: SandboxChange, reason: str) -> asyncio.Task[None]:
        if place.ending is None:
            place.ending = self._spawn(self._finish(place, change, reason), f"end-{place.name}")
        return place.ending

    def _evict(self, place: Place) -> None:
        self._end(place, SandboxChange.ENDED, "evicted")

    async def _finish(self, place: Place, change: SandboxChange, reason: str) -> None:
        try:
            await self._lifecycle.finish(place, change, reason)
        finally:
            self._remove(place)

    def _remove(self, place: Place) -> None:
        if self._places.get(place.name) is place:
            del self._places[place.name]
        self._room.changed()

    async def _reap_forever(self) -> None:
        while True:
            await asyncio.sleep(min(REAP_SECONDS, self._policy.idle_seconds / 4))
            self.reap()

    # The rest.

    def _find(self, tenant: str, name: str) -> Place:
        place = self._places.get(name)
        if place is None or place.key.tenant != tenant:
            raise NotFound(ErrorReason.SANDBOX_NOT_FOUND, "There is no such sandbox.")
        return place

    def _view(self, place: Place, *, with_isolation: bool = False) -> SandboxView:
        return place.view(provider=self.provider_name, now=self._clock(), with_isolation=with_isolation)

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, GatewayError):  # those are told to whoever waits
            _logger.error("The task %s failed.", task.get_name(), exc_info=error)
