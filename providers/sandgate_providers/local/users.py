"""Host users of threads: one of its own for each, when the gateway is root.

Nothing is stored: the owner of a thread's folder is its user. Users of one thread only share neither files nor process
limits with another thread, even if the jail should leak.
"""

from __future__ import annotations

import grp
import pwd
import zlib
from collections.abc import Container

from sandgate_providers.errors import CapacityExhausted
from sandgate_providers.local.processes import processes

RETRY_SECONDS = 60.0
"""Users come free when thread folders are deleted, which is not a matter of seconds."""


class UserRange:
    """The users that may be given to threads."""

    def __init__(self, first: int, last: int, mark: str = "") -> None:
        """Take the range; `mark` is something that another gateway on this machine has not, such as its folder.

        Two gateways should have two ranges. Where they share one, the mark lets them begin at different places.
        """
        self._first = first
        self._last = last
        self._next = first + zlib.crc32(mark.encode()) % (last - first + 1)

    def __contains__(self, uid: int) -> bool:
        return self._first <= uid <= self._last

    @property
    def first(self) -> int:
        """The lowest of them."""
        return self._first

    def free(self, owners: Container[int]) -> int:
        """Find a user that owns no thread's folder, runs nothing, and was given to nobody on the host.

        Args:
            owners: Those that own a thread's folder.

        Raises:
            CapacityExhausted: there is none.
        """
        size = self._last - self._first + 1
        busy = {process.uid for process in processes()}
        # Going round rather than taking the lowest: a user that came free just now rests for a while.
        for step in range(size):
            uid = self._first + (self._next - self._first + step) % size
            if uid not in owners and uid not in busy and not _known_to_host(uid):
                self._next = uid + 1
                return uid
        message = f"uid_range: all {size} users from {self._first} to {self._last} are taken"
        raise CapacityExhausted(message, retry_after_seconds=RETRY_SECONDS)


def _known_to_host(uid: int) -> bool:
    """Ask whether the host has an account or a group with that number."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        pass
    else:
        return True
    try:
        grp.getgrgid(uid)
    except KeyError:
        return False
    return True
