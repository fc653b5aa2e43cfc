"""A small event loop: descriptors, timers, and one step at the end of each round."""

from __future__ import annotations

import heapq
import itertools
import selectors
import time
from typing import Callable, Optional

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE
LONGEST_WAIT_SECONDS = 3600.0
"""In one go: the kernel takes no more than some weeks."""
LEAST_COMPACTED = 256
"""So few timers are never looked through for cancelled ones."""


class Timer:
    """Something to do later; `cancel` makes it nothing."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Optional[Callable[[], None]] = action

    def cancel(self) -> None:
        """Forget it."""
        self.action = None


class Loop:
    """Runs callbacks until it is stopped. One thread; callbacks never block."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._full = LEAST_COMPACTED
        self._numbers = itertools.count()
        self._running = True
        self._rounds: list[Callable[[], None]] = []

    def watch(self, descriptor: int, events: int, action: Callable[[int], None]) -> None:
        """Call `action` with the ready events whenever there are any."""
        self._selector.register(descriptor, events, action)

    def change(self, descriptor: int, events: int) -> None:
        """Watch for other events."""
        self._selector.modify(descriptor, events, self._selector.get_key(descriptor).data)

    def unwatch(self, descriptor: int) -> None:
        """Watch no longer. The descriptor must still be open."""
        self._selector.unregister(descriptor)

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Call `action` once, when the time has passed."""
        if len(self._timers) >= self._full:
            # Most timers of calls are cancelled long before their time, and would all wait for it here.
            self._timers = [entry for entry in self._timers if entry[2].action is not None]
            heapq.heapify(self._timers)
            self._full = max(LEAST_COMPACTED, 2 * len(self._timers))
        timer = Timer(action)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), timer))
        return timer

    def each_round(self, action: Callable[[], None]) -> None:
        """Call `action` at the end of every round."""
        self._rounds.append(action)

    def stop(self) -> None:
        """End after this round."""
        self._running = False

    def run(self) -> None:
        """Go round until stopped."""
        while self._running:
            for key, events in self._selector.select(self._wait()):
                # An earlier callback of this round may have closed this one's descriptor.
                if self._selector.get_map().get(key.fd) is key:
                    key.data(events)
            self._fire()
            for action in self._rounds:
                action()

    def _wait(self) -> Optional[float]:
        while self._timers and self._timers[0][2].action is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return None
        return min(max(0.0, self._timers[0][0] - time.monotonic()), LONGEST_WAIT_SECONDS)

    def _fire(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            action = heapq.heappop(self._timers)[2].action
            if action is not None:
                action()
