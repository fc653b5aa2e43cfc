"""Health as load balancers and orchestrators ask for it: `grpc.health.v1`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio

CHECK_SECONDS = 0.5
"""How often the state is looked at. Looking costs two comparisons."""


class Health:
    """The empty name says that the process lives; a service's name says that it can do its work.

    That means: sandboxes can be made, and the audit can be written.
    """

    def __init__(self, services: Sequence[str], able: Callable[[], bool]) -> None:
        self.servicer = aio.HealthServicer()
        self._services = services
        self._able = able
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to say what is the case."""
        await self._say(able=self._able())
        self._watcher = asyncio.create_task(self._watch(), name="health")

    async def leave(self) -> None:
        """Say NOT_SERVING from now on, so that no new calls are sent here. Idempotent."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait([self._watcher])
        await self.servicer.enter_graceful_shutdown()

    async def _watch(self) -> None:
        said = self._able()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            able = self._able()
            if able is not said:
                await self._say(able=able)
                said = able

    async def _say(self, *, able: bool) -> None:
        state = health_pb2.HealthCheckResponse.SERVING if able else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in self._services:
            await self.servicer.set(service, state)
