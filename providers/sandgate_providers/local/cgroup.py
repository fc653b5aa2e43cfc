"""Limits of a whole sandbox by cgroups, where this gateway may make some.

They are made below the gateway's own cgroup, so that whoever limits the gateway limits its sandboxes too, and never at
the root of a hierarchy, which is not ours. Both versions are used, each controller where the machine has it. Where
neither can be used, the limits of single processes (rlimits, set by the runner) are all there is.

Everything here blocks, though briefly.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandgate_providers.errors import ProviderMisconfigured
from sandgate_providers.local.hierarchy import Hierarchy, find_hierarchies
from sandgate_providers.types import Limits

_log = logging.getLogger(__name__)

PROCESSES_OF_OURS = 128
"""Beside the processes of commands a sandbox holds the runner, its waiting workers and one process a call."""

REMOVAL_SECONDS = 2.0
"""How long the kernel may take to let go of a cgroup whose processes are gone."""

_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class _Place:
    """A sandbox's cgroup in one hierarchy."""

    hierarchy: Hierarchy
    folder: Path


class SandboxCgroup:
    """The cgroups of one sandbox, in all hierarchies; of none where none can be used."""

    def __init__(self, places: Sequence[_Place]) -> None:
        self._places = tuple(places)

    def add(self, pid: int) -> None:
        """Move a process in, with all that it starts from now on. Raises OSError when it cannot be moved."""
        for place in self._places:
            (place.folder / "cgroup.procs").write_text(str(pid))

    def memory_limit_bytes(self) -> int | None:
        """Read the limit that is in force back from the kernel; None where memory is not limited here."""
        for place in self._places:
            if place.hierarchy.memory:
                name = "memory.limit_in_bytes" if place.hierarchy.version == 1 else "memory.max"
                return int((place.folder / name).read_text())
        return None

    def out_of_memory_kills(self) -> int:
        """Count kills by the memory limit; zero where that is not counted, or the cgroup is gone."""
        for place in self._places:
            if place.hierarchy.memory:
                name = "memory.oom_control" if place.hierarchy.version == 1 else "memory.events"
                try:
                    lines = (place.folder / name).read_text().splitlines()
                except FileNotFoundError:
                    return 0
                return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
        return 0

    def processes(self) -> list[int]:
        """List the processes that are in it."""
        return sorted({pid for place in self._places for pid in _processes(place.folder)})


class Cgroups:
    """Makes and removes the cgroups of sandboxes; may be called from any thread.

    A lock keeps the making and the removal of one cgroup apart, even if the caller of the first gave up waiting.
    """

    def __init__(self, hierarchies: Sequence[Hierarchy], prefix: str) -> None:
        """Use these hierarchies; `prefix` tells our cgroups from those of others in the same place."""
        self._hierarchies = tuple(hierarchies)
        self._prefix = prefix
        self._lock = threading.Lock()

    @classmethod
    def discover(cls, parent: str | None, prefix: str) -> Cgroups:
        """Find out, by trying, which hierarchies can be used, and remove what an earlier life left there.

        Args:
            parent: The setting `cgroup_parent`.
            prefix: What the names of this gateway's cgroups start with; no other gateway that runs has the same.

        Raises:
            ProviderMisconfigured: the named parent cannot be used.
        """
        usable: list[Hierarchy] = []
        for hierarchy in find_hierarchies(parent):
            trial = cls([hierarchy], prefix)
            try:
                trial.clear()
                trial.create("trial", Limits())
            except OSError as error:
                _log.info("cgroups in %s are not used: %s", hierarchy.parent, error)
            else:
                usable.append(hierarchy)
            finally:
                trial.remove("trial")
        if parent is not None and not usable:
            message = f"cgroup_parent: no cgroup can be made in {parent}; it needs the controllers memory or pids"
            raise ProviderMisconfigured(message)
        return cls(usable, prefix)

    @property
    def versions(self) -> str:
        """Which versions are used, for people; empty when none is."""
        return " and ".join(sorted({f"v{hierarchy.version}" for hierarchy in self._hierarchies}))

    @property
    def limits_memory(self) -> bool:
        """Whether a sandbox's memory is limited as a whole."""
        return any(hierarchy.memory for hierarchy in self._hierarchies)

    @property
    def limits_processes(self) -> bool:
        """Whether a sandbox's processes are limited as a whole."""
        return any(hierarchy.processes for hierarchy in self._hierarchies)

    def create(self, name: str, limits: Limits) -> SandboxCgroup:
        """Make a sandbox's cgroups, with their limits. Raises OSError; then `remove` clears what was made."""
        with self._lock:
            places = list(self._places(name))
            for place in places:
                # One that could not be removed at its sandbox's end is tried again.
                _remove(place.folder)
                place.folder.mkdir()
                _limit(place, limits)
            return SandboxCgroup(places)

    def remove(self, name: str) -> bool:
        """End what is left in a sandbox's cgroups and remove them; true when they are gone. Idempotent."""
        with self._lock:
            gone = [_remove(place.folder) for place in self._places(name)]
        return all(gone)

    def clear(self) -> None:
        """Remove all of this gateway's cgroups, with what runs in them: no sandbox outlives its gateway."""
        with self._lock:
            for hierarchy in self._hierarchies:
                for folder in hierarchy.parent.glob(f"{self._prefix}*"):
                    _log.info("removing the cgroup %s of an earlier life", folder)
                    _remove(folder)

    def _places(self, name: str) -> Iterator[_Place]:
        for hierarchy in self._hierarchies:
            yield _Place(hierarchy, hierarchy.parent / f"{self._prefix}{name}")


def _limit(place: _Place, limits: Limits) -> None:
    folder = place.folder
    if place.hierarchy.processes:
        (folder / "pids.max").write_text(str(limits.processes + PROCESSES_OF_OURS))
    if not place.hierarchy.memory:
        return
    if place.hierarchy.version == 1:
        (folder / "memory.limit_in_bytes").write_text(str(limits.memory_bytes))
        both = folder / "memory.memsw.limit_in_bytes"
        if both.exists():
            # Memory and swap together: none of it in swap.
            both.write_text(str(limits.memory_bytes))
        return
    (folder / "memory.max").write_text(str(limits.memory_bytes))
    swap = folder / "memory.swap.max"
    if swap.exists():
        swap.write_text("0")


def _processes(folder: Path) -> list[int]:
    try:
        words = (folder / "cgroup.procs").read_text().split()
    except FileNotFoundError:
        return []
    # A process outside of the gateway's own namespace shows as 0, which to kill would mean ourselves.
    return [int(word) for word in words if word != "0"]


def _remove(folder: Path) -> bool:
    """End the processes in a cgroup and remove it; the kernel may hold it busy for a moment after the last has gone."""
    deadline = time.monotonic() + REMOVAL_SECONDS
    while folder.exists():
        for pid in _processes(folder):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                _log.warning("cgroup %s cannot be removed: %s", folder, error)
                return False
            time.sleep(_PAUSE_SECONDS)
    return True
