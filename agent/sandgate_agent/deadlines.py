"""How long calls may take, and waiting for a gateway that is full."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from sandgate_agent.errors import CapacityExhausted, Misconfigured

T = TypeVar("T")

SMALLEST_TIMEOUT_SECONDS = 0.001
"""What is left is never given as zero or less, which gRPC would take for a bug; the call then ends as timed out."""

SHORTEST_PAUSE_SECONDS = 0.1
"""How long a wait for a place is at least, whatever the gateway says: "at once" would ask it some thousand times a
second, for as long as the call may take."""

JITTER = 0.25
"""A wait is made longer by up to this part of it: agents that were refused together shall not come back together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long each kind of call may take, in seconds. Every call has one.

    Raises:
        Misconfigured: one of them is not above zero.
    """

    control: float = 30.0
    """Authorize, complete, release and lists: short work, plus the wait in a gateway that is busy."""
    execution: float = 660.0
    """A tool: the reference's longest command, 600 s, plus a minute to make a sandbox. The gateway ends the tool before
    this passes, so that its partial output arrives."""
    transfer: float = 300.0
    """One file up or down."""
    capacity: float = 60.0
    """How long a call waits for a place in a gateway that is full, within its own timeout. After that the model is told
    to come back later, which is better than an agent that hangs."""

    def __post_init__(self) -> None:
        for name in ("control", "execution", "transfer", "capacity"):
            if not getattr(self, name) > 0:
                raise Misconfigured(f"the timeout `{name}` must be above zero")


class Deadline:
    """A point in time by which a call has ended, all its attempts included."""

    def __init__(self, timeout_seconds: float) -> None:
        self._end = time.monotonic() + timeout_seconds

    @property
    def remaining_seconds(self) -> float:
        """What is left, never below a millisecond."""
        return max(SMALLEST_TIMEOUT_SECONDS, self._end - time.monotonic())


async def with_capacity(attempt: Callable[[Deadline], Awaitable[T]], *, deadline: Deadline, patience: float) -> T:
    """Make a call, and wait and repeat it while the gateway is full and says when to come back.

    Raises:
        CapacityExhausted: it stayed full for `patience` seconds, or until the deadline, or did not say how long.
    """
    patient_until = Deadline(min(patience, deadline.remaining_seconds))
    while True:
        try:
            return await attempt(deadline)
        except CapacityExhausted as full:
            if full.retry_after_seconds is None:
                raise
            # Spreading the load, not a secret.
            jitter = 1 + random.uniform(0, JITTER)  # noqa: S311 - see above
            pause = max(SHORTEST_PAUSE_SECONDS, full.retry_after_seconds) * jitter
            if pause >= patient_until.remaining_seconds:
                raise
            await asyncio.sleep(pause)
