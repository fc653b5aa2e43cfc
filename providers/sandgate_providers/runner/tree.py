"""Process trees: who descends from whom, and how to end all of them.

Orphans climb to the nearest subreaper, and each call has one of its own (its worker), so the descendants of the worker
are exactly the processes of the call, however often they forked, changed their session or emptied their environment.
"""

from __future__ import annotations

import os
import signal
from typing import Collection

QUIET_SCANS = 2
"""So many scans in a row must find nobody new: a process that forks and ends between two reads hides its child once."""
SCAN_ROUNDS = 64
"""Most scans of one freeze. A fork bomb needs a few; who still grows after so many is killed at the next step."""


_THREADS = 17
"""Where the number of threads stands behind the name in a process's stat."""


def snapshot() -> dict[int, tuple[int, bool]]:
    """Read every process's parent from /proc, and whether it lives; those that end meanwhile are left out.

    A process whose first thread ended while others go on has the state of a zombie, but it lives.
    """
    table: dict[int, tuple[int, bool]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/{}/stat".format(name), "rb") as stat:
                text = stat.read()
        except OSError:
            continue
        fields = text[text.rfind(b")") + 2 :].split(b" ", _THREADS + 1)
        table[int(name)] = (int(fields[1]), fields[0] not in (b"Z", b"X") or int(fields[_THREADS]) > 1)
    return table


def descendants(root: int, spared: Collection[int] = ()) -> list[int]:
    """List the live descendants of a process, parents before children, but not those spared, nor what is below them.

    Zombies are no longer anybody's work.
    """
    table = snapshot()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    frontier = [root]
    while frontier:
        for pid in children.get(frontier.pop(), ()):
            if pid in spared:
                continue
            frontier.append(pid)
            if table[pid][1]:
                found.append(pid)
    return found


def send(pids: list[int], number: int) -> None:
    """Signal each process that still exists."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:  # pragma: no cover - a set-uid program; the sandbox has none that gains anything
            continue


def terminate(root: int) -> None:
    """Ask all descendants to end."""
    pids = descendants(root)
    send(pids, signal.SIGTERM)
    send(pids, signal.SIGCONT)


def kill(root: int, spared: Collection[int] = ()) -> int:
    """Kill all descendants that can be seen, frozen first so that none escapes by forking; give how many there were.

    Those spared, and what is below them, live on.

    Freezing goes on until two scans in a row find nobody new. Call it again until it gives 0.
    """
    frozen: set[int] = set()
    quiet = 0
    for _ in range(SCAN_ROUNDS):
        new = [pid for pid in descendants(root, spared) if pid not in frozen]
        if new:
            send(new, signal.SIGSTOP)
            frozen.update(new)
            quiet = 0
        else:
            quiet += 1
            if quiet == QUIET_SCANS:
                break
    send(list(frozen), signal.SIGKILL)
    return len(frozen)


def command_line(pid: int, limit: int = 200) -> str:
    """Give a process's command line for people; empty when it is gone."""
    try:
        with open("/proc/{}/cmdline".format(pid), "rb") as source:
            words = source.read(4 * limit).split(b"\0")
        if not any(words):
            with open("/proc/{}/comm".format(pid), "rb") as source:
                words = [source.read(limit).strip()]
    except OSError:
        return ""
    text = b" ".join(word for word in words if word).decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)[:limit]
