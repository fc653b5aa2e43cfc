"""One call's hold on its thread's sandbox: bound before it is known whether the call needs one, opened by first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandgate_gateway.sandboxes.guarded_channel import GuardedChannel
from sandgate_providers.contract import Channel
from sandgate_providers.types import SandboxKey

if TYPE_CHECKING:  # the manager makes leases; at run time the import would be a circle
    from sandgate_gateway.sandboxes.manager import SandboxManager
    from sandgate_gateway.sandboxes.place import Place


class BoundLease:
    """A hold that costs nothing until it is opened. For one call at a time; close it when the call has ended."""

    def __init__(self, manager: SandboxManager, key: SandboxKey, lease: str) -> None:
        self.key = key
        self.lease = lease
        self.sandbox = manager.name_of(key)
        """Name of the sandbox, known before it is made."""
        self._manager = manager
        self._place: Place | None = None
        self._runs = 0

    @property
    def provider(self) -> str:
        """Name of the provider, for records."""
        return self._manager.provider_name

    @property
    def ready(self) -> bool:
        """True when opening will not have to wait."""
        return self._place is not None or self._manager.is_ready(self.sandbox)

    @property
    def anything_ran(self) -> bool:
        """True once something may have run in the sandbox. False again when the sandbox did not take it."""
        return self._runs > 0

    async def open(self, *, deadline: float) -> Channel:
        """Get the channel, making the sandbox if there is none.

        Args:
            deadline: by the event loop's clock, for everything that has to be waited for.

        Raises:
            CapacityExhausted: every place is taken.
            Unavailable: the provider cannot make it now.
        """
        if self._place is not None and not self._place.usable:
            self.close()  # it died since; this gets a new one
        if self._place is None:
            self._place = await self._manager.hold(self.key, self.lease, deadline=deadline)
        sandbox = self._place.sandbox
        assert sandbox is not None, "a place that is held has its sandbox"
        return GuardedChannel(sandbox.channel, self, self._place.kills)

    def close(self) -> None:
        """Let go. The sandbox stays, until its idle time is over. Idempotent."""
        place, self._place = self._place, None
        if place is not None:
            self._manager.let_go(place, self.lease)

    def began(self) -> None:
        """See `Watcher`."""
        self._runs += 1

    def never_ran(self) -> None:
        """See `Watcher`."""
        self._runs -= 1

    def lost(self) -> None:
        """See `Watcher`: the next call must get a new sandbox, even if it comes before the line is seen closed."""
        if self._place is not None:
            self._manager.drop(self._place)
