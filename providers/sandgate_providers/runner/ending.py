"""Ends everything below one worker: TERM, a grace, then freeze and KILL until nothing is left."""

from __future__ import annotations

import signal
import time
from typing import Callable, Optional

from sandgate_providers.runner import tree
from sandgate_providers.runner.loop import Loop, Timer

PAUSE_SECONDS = 0.005
"""Between a kill and the look whether it was enough; doubled each time."""
LONGEST_PAUSE_SECONDS = 0.05
GIVE_UP_SECONDS = 1.0
"""A tree that outlives this cannot be ended from here, and the whole sandbox ends instead."""


class Ending:
    """The end of one worker's tree, step by step on the loop."""

    def __init__(self, loop: Loop, root: int, grace: float, give_up: Callable[[], None]) -> None:
        self._loop = loop
        self._root = root
        self._give_up = give_up
        self._started = 0.0
        self._pause = PAUSE_SECONDS
        self._timer: Optional[Timer] = None
        if grace > 0:
            tree.terminate(root)
            self._timer = loop.after(grace, self._kill)
        else:
            self._timer = loop.after(0, self._kill)

    def hurry(self) -> None:
        """Kill at once what still has grace."""
        if not self._started:
            self.cancel()
            self._timer = self._loop.after(0, self._kill)

    def cancel(self) -> None:
        """Stop: nothing is left, the worker said so itself."""
        if self._timer is not None:
            self._timer.cancel()

    def _kill(self) -> None:
        now = time.monotonic()
        self._started = self._started or now
        left = tree.kill(self._root)
        tree.send([self._root], signal.SIGCONT)  # it has to reap them, and may have been stopped from inside
        if not left and now - self._started > LONGEST_PAUSE_SECONDS:
            # All are dead and the worker, which only has to reap them, says nothing: it was stopped or made to wait.
            tree.send([self._root], signal.SIGKILL)
        if now - self._started > GIVE_UP_SECONDS:
            self._give_up()
            return
        self._timer = self._loop.after(self._pause, self._kill)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
