"""Counts of what a middleware only logs, for a program that watches it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Literal

Event = Literal["catalogue_changed", "catalogue_unchecked", "release_failed", "report_failed"]


class Counters:
    """Counts that several threads raise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Event] = Counter()

    def add(self, event: Event) -> None:
        """Count one."""
        with self._lock:
            self._counts[event] += 1

    def read(self) -> Mapping[Event, int]:
        """Copy the counts; what never happened is missing."""
        with self._lock:
            return dict(self._counts)
