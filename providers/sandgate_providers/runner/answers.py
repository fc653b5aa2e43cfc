"""Lists that an operation answers with: bounded in number and in bytes."""

from __future__ import annotations

import json

MOST_ANSWER_BYTES = 512 * 1024
"""Of one list, as JSON. It keeps a reply far below the 4 MiB that a gRPC message may have, whatever the names are."""


class BoundedList:
    """Takes items until there are enough; one more than that makes it truncated."""

    def __init__(self, limit: int) -> None:
        self.items: list[dict[str, object]] = []
        self.truncated = False
        self._limit = limit
        self._room = MOST_ANSWER_BYTES

    def add(self, item: dict[str, object]) -> bool:
        """Take an item; false when there is no room for it, and then none comes after it."""
        size = len(json.dumps(item)) + 2
        if self.truncated or len(self.items) >= self._limit or size > self._room:
            self.truncated = True
            return False
        self.items.append(item)
        self._room -= size
        return True
