"""Events of agents' own middlewares: recorded once each, however often they are sent."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from sandgate_gateway.audit.event import AuditEvent
from sandgate_gateway.domain.principal import Principal
from sandgate_gateway.pipeline.recorder import Recorder

REMEMBERED_EVENTS = 50_000
"""Ids that are kept to know a repeat. A client repeats within seconds; this is many minutes of many agents."""


class MiddlewareEvents:
    """Writes events down, and leaves out those that it wrote before."""

    def __init__(self, recorder: Recorder, *, remembered: int = REMEMBERED_EVENTS) -> None:
        self._recorder = recorder
        self._remembered = remembered
        self._seen: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    async def record(self, principal: Principal, events: Sequence[AuditEvent]) -> int:
        """Record events in their order; give how many were new.

        Raises:
            Unavailable: one cannot be written. Those before it are; a repeat writes the rest.
        """
        count = 0
        for event in events:
            key = (principal.tenant, principal.agent, event.event_id)
            if key in self._seen:
                continue
            self._seen[key] = None  # before the wait, so that the same request twice at once writes it once
            try:
                await self._recorder.write(event)
            except BaseException:
                self._seen.pop(key, None)
                raise
            count += 1
            while len(self._seen) > self._remembered:
                self._seen.popitem(last=False)
        return count
