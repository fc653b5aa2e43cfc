"""How one sandbox comes to life and how it ends, with what is told about it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from sandgate_gateway.errors import CapacityExhausted, ErrorReason, GatewayError, Unavailable
from sandgate_gateway.sandboxes.events import Emit, SandboxChange, SandboxEvent
from sandgate_gateway.sandboxes.memory_kills import MemoryKills
from sandgate_gateway.sandboxes.place import Place
from sandgate_gateway.sandboxes.policy import SandboxPolicy
from sandgate_providers import errors as provider_errors
from sandgate_providers.contract import Sandbox, SandboxProvider
from sandgate_providers.types import SandboxSpec

DESTROY_SECONDS = 30.0
"""How long ending one sandbox may take before we go on without it; its provider clears it at the next start."""

RETRY_SECONDS = 5.0
"""When to try again after the provider failed."""

_logger = logging.getLogger(__name__)


class Lifecycle:
    """Makes and ends sandboxes with one provider."""

    def __init__(
        self,
        provider: SandboxProvider,
        policy: SandboxPolicy,
        emit: Emit,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._provider = provider
        self._policy = policy
        self._emit = emit
        self._clock = clock
        self._failed_at = float("-inf")

    @property
    def provider_name(self) -> str:
        """Name of the provider, for records."""
        return self._provider.name

    @property
    def provider_answers(self) -> bool:
        """False for a while after the provider failed to make a sandbox; then it is worth another try."""
        return self._clock() - self._failed_at >= RETRY_SECONDS

    async def start(self, place: Place) -> None:
        """Make the sandbox of a place.

        Raises:
            CapacityExhausted: the provider has no room.
            Unavailable: it cannot make one now, or its creation cannot be recorded.
        """
        spec = SandboxSpec(
            key=place.key, name=place.name, limits=self._policy.limits, environment=self._policy.environment
        )
        try:
            async with asyncio.timeout(self._policy.start_seconds):
                sandbox = await self._provider.acquire(spec)
        except (provider_errors.ProviderError, TimeoutError) as error:
            if not isinstance(error, provider_errors.CapacityExhausted):
                self._failed_at = self._clock()
                _logger.exception("Sandbox %s could not be made.", place.name)
            await self._tell(place, SandboxChange.CREATE_FAILED, type(error).__name__)
            raise _translated(error) from error
        try:
            kills = MemoryKills(sandbox, clock=self._clock)
            await kills.start()
            await self._emit(self._event(place, SandboxChange.CREATED, ""))
        except BaseException as error:
            await self._destroy(place, sandbox)
            if not isinstance(error, GatewayError):  # ended meanwhile, so the record of its creation may be stored
                await self._tell(place, SandboxChange.ENDED, "not-used")
            raise
        self._failed_at = float("-inf")
        place.sandbox, place.kills = sandbox, kills
        place.touch(now=self._clock())

    async def finish(self, place: Place, change: SandboxChange, reason: str) -> None:
        """End the sandbox of a place, in whatever state it is."""
        if place.sandbox is None:
            place.starting.cancel()
            await asyncio.wait([place.starting])
        sandbox = place.sandbox
        if sandbox is None:
            return
        if change is SandboxChange.LOST:  # asked before the provider clears its traces
            reason = "out-of-memory" if await place.kills.happened() else "died"
        await self._destroy(place, sandbox)
        await self._tell(place, change, reason)

    async def _destroy(self, place: Place, sandbox: Sandbox) -> None:
        try:
            async with asyncio.timeout(DESTROY_SECONDS):
                await sandbox.destroy()
        except (provider_errors.ProviderError, TimeoutError):
            _logger.exception("Sandbox %s could not be ended.", place.name)

    async def _tell(self, place: Place, change: SandboxChange, reason: str) -> None:
        """Record what has happened already, so that failing to record it can stop nothing."""
        try:
            await self._emit(self._event(place, change, reason))
        except GatewayError:
            _logger.exception("Sandbox %s: that it is %s could not be recorded.", place.name, change.value)

    def _event(self, place: Place, change: SandboxChange, reason: str) -> SandboxEvent:
        return SandboxEvent(
            change=change,
            key=place.key,
            name=place.name,
            provider=self.provider_name,
            occurred_at=datetime.now(UTC),
            reason=reason,
            duration_seconds=self._clock() - place.opened_at,
        )


def _translated(error: provider_errors.ProviderError | TimeoutError) -> GatewayError:
    """Say it without what the provider's message may hold for operators: host paths and commands."""
    if isinstance(error, provider_errors.CapacityExhausted):
        return CapacityExhausted("The provider has no room.", retry_after_seconds=error.retry_after_seconds)
    return Unavailable(
        ErrorReason.PROVIDER_UNAVAILABLE, "The sandbox could not be made.", retry_after_seconds=RETRY_SECONDS
    )
