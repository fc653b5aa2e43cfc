"""Getting the gateway's tools when an agent is built, and noticing later that they changed."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from sandgate_agent.catalogue import Catalogue
from sandgate_agent.client import GatewayClient
from sandgate_agent.counters import Counters
from sandgate_agent.errors import CallTimedOut, GatewayUnavailable, SandgateError
from sandgate_agent.types import JsonValue, MiddlewareEvent

CHECK_SECONDS = 60.0
"""How often the catalogue is compared at most: a change is noticed within a minute, at no cost worth counting."""

CHECK_TIMEOUT_SECONDS = 5.0

CHANGED = "middleware:catalogue-changed"
"""The event that the audit gets."""

Snapshot = Catalogue | Path | str | Mapping[str, JsonValue]
"""A catalogue that was kept: a value, the file that `Catalogue.save` wrote, or the object that it holds."""

_log = logging.getLogger(__name__)


async def load(client: GatewayClient, *, timeout_seconds: float, snapshot: Snapshot | None) -> Catalogue:
    """Ask the gateway for its tools; while it is away, take the snapshot.

    Raises:
        GatewayUnavailable, CallTimedOut: it is away and there is no snapshot.
        SandgateError: it answered, but not with usable tools. A snapshot does not hide that.
        Misconfigured: the snapshot cannot be read.
    """
    try:
        return await client.list_tools(timeout_seconds=timeout_seconds)
    except (GatewayUnavailable, CallTimedOut) as away:
        if snapshot is None:
            raise
        kept = await asyncio.to_thread(read_snapshot, snapshot)
        _log.warning("the gateway is away (%s); its tools are taken from a snapshot (digest %s)", away, kept.digest)
        return kept


def read_snapshot(snapshot: Snapshot) -> Catalogue:
    """Read a snapshot in any of its forms.

    Raises:
        Misconfigured: it cannot be read.
    """
    if isinstance(snapshot, Catalogue):
        return snapshot
    if isinstance(snapshot, Path | str):
        return Catalogue.load(Path(snapshot))
    return Catalogue.from_json(snapshot)


class CatalogueWatch:
    """Compares the catalogue that an agent was built with to the gateway's, now and then.

    A change is logged, counted and recorded as an event, once for each new digest. The agent goes on with the tools
    that it has: a call that does not fit any more gets a result that says so. The next agent that is built has the new
    ones.
    """

    def __init__(self, client: GatewayClient, counters: Counters, digest: str) -> None:
        self._client = client
        self._counters = counters
        self._digest = digest
        self._noticed = digest
        self._lock = threading.Lock()
        self._next_check = time.monotonic() + CHECK_SECONDS
        self.check_seconds = CHECK_SECONDS
        """How long to wait between two checks; zero checks each time."""

    def look(self, *, thread: str, run: str) -> None:
        """Start a check in the background when one is due. Never waits, never raises."""
        with self._lock:
            now = time.monotonic()
            if self.check_seconds and now < self._next_check:
                return
            self._next_check = now + self.check_seconds
        self._client.detach(self._check(thread, run), doing="looking for a change of the gateway's tools")

    async def _check(self, thread: str, run: str) -> None:
        try:
            offered = (await self._client.list_tools(timeout_seconds=CHECK_TIMEOUT_SECONDS)).digest
        except SandgateError:
            self._counters.add("catalogue_unchecked")
            raise
        with self._lock:
            if offered in (self._digest, self._noticed):
                return
            self._noticed = offered
        self._counters.add("catalogue_changed")
        _log.warning(
            "the gateway's tools have changed (digest %s, now %s); build the agent anew to use them",
            self._digest,
            offered,
        )
        event = MiddlewareEvent(
            event_id=str(uuid.uuid4()),
            event=CHANGED,
            thread=thread,
            run=run,
            occurred_at=datetime.now(UTC),
            attributes={"built_with": self._digest, "offered": offered},
        )
        await self._client.record_events([event])
