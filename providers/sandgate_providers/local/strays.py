"""End what runs in a sandbox without a jail, and jails that nobody watches.

In a jail the kernel does this: the end of process 1 ends the namespace. Without one, processes are told by their
descent from the runner, which adopts orphans. What outlived a runner that was killed from inside is told by the user
that is the thread's alone, where it has one; else it is not found. Who runs without a jail trusts what runs.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from sandgate_providers.local.processes import Process, processes

_log = logging.getLogger(__name__)

SWEEP_SECONDS = 5.0
"""How long processes are looked for, at most."""

_PAUSE_SECONDS = 0.01


def end_of_user(uid: int) -> None:
    """End every process of a user. Blocks until none is left, or `SWEEP_SECONDS` have passed."""
    _sweep(lambda: [process.pid for process in processes() if process.uid == uid and not process.gone])


def end_descendants(runner: int) -> None:
    """End everything that descends from a runner; itself it is only stopped, so that it adopts until then. Blocks."""
    try:
        os.kill(runner, signal.SIGSTOP)
    except ProcessLookupError:
        return
    _sweep(lambda: list(_descendants(runner)))


def end_jails(folder: Path) -> int:
    """End every bubblewrap that mounts something below a folder, and give how many there were. Blocks.

    A gateway that is killed while it makes a sandbox leaves one that waits for ever, for it does not yet die with its
    parent. The folder must be locked by the caller, so that no living gateway's are found.
    """

    def find() -> list[int]:
        return [process.pid for process in processes() if not process.gone and _is_jail(process.pid, folder)]

    found = find()
    if found:
        _sweep(find)
    return len(found)


def _is_jail(pid: int, folder: Path) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
    below = os.fsencode(folder) + b"/"
    mounts = any(word == b"--bind" and place.startswith(below) for word, place in itertools.pairwise(words))
    return words[0].endswith(b"bwrap") and mounts


def _sweep(find: Callable[[], list[int]]) -> None:
    """Kill what is found until two looks in a row find nothing, for a process may be forked while we look.

    What became another user (by sudo, where there is no jail) cannot be killed: it is left, and named in the log.
    """
    deadline = time.monotonic() + SWEEP_SECONDS
    quiet = 0
    foreign: set[int] = set()
    while quiet < 2 and time.monotonic() < deadline:  # noqa: PLR2004 - two, as the docstring says
        found = [pid for pid in find() if pid not in foreign]
        quiet = 0 if found else quiet + 1
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            except PermissionError:
                foreign.add(pid)
        if found:
            time.sleep(_PAUSE_SECONDS)
    if foreign:
        _log.warning("processes %s of a sandbox run as another user and cannot be ended", sorted(foreign))


def _descendants(root: int) -> Iterator[int]:
    children: dict[int, list[Process]] = defaultdict(list)
    for process in processes():
        children[process.parent].append(process)
    left = children[root].copy()
    while left:
        process = left.pop()
        left += children[process.pid]
        if not process.gone:
            yield process.pid
