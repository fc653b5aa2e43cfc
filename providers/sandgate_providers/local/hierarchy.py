"""Where this gateway may make cgroups: read from /proc, for both versions."""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_log = logging.getLogger(__name__)

CONTROLLERS = frozenset({"memory", "pids"})
"""The ones that sandboxes are limited by."""

LEAF = "sandgate-gateway"
"""Where the gateway moves itself in version 2: a cgroup that gives limits to its children may hold no process."""

_PROC = Path("/proc/self")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """A place for sandboxes' cgroups, and what it can limit."""

    version: int
    parent: Path
    """The folder to make them in."""
    memory: bool
    processes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mount:
    version: int
    root: PurePosixPath
    """What of the hierarchy is mounted."""
    point: Path
    controllers: frozenset[str]
    """Of version 1; a mount of version 2 says them in each folder."""


def find_hierarchies(parent: str | None, proc: Path = _PROC) -> list[Hierarchy]:
    """Find the places, and turn the controllers on there where version 2 needs that.

    Args:
        parent: A cgroup to make sandboxes' cgroups in, made when missing; None: the gateway's own, unless that is the
            root of its hierarchy.
        proc: The folder of this process below /proc.

    Raises:
        OSError: /proc cannot be read.
    """
    found: list[Hierarchy] = []
    memberships = dict(_memberships(proc))
    for mount in _mounts(proc):
        folder = _named(mount, parent) if parent is not None else _own(mount, memberships)
        if folder is None:
            continue
        try:
            controllers = mount.controllers if mount.version == 1 else _turn_on(folder, named=parent is not None)
        except OSError as error:
            _log.info("cgroup %s is not used: %s", folder, error)
            continue
        taken = {name for other in found for name, has in _has(other) if has}
        controllers -= taken
        if controllers:
            hierarchy = Hierarchy(
                version=mount.version,
                parent=folder,
                memory="memory" in controllers,
                processes="pids" in controllers,
            )
            found.append(hierarchy)
    return found


def _has(hierarchy: Hierarchy) -> tuple[tuple[str, bool], ...]:
    return (("memory", hierarchy.memory), ("pids", hierarchy.processes))


def _memberships(proc: Path) -> Iterator[tuple[str, PurePosixPath]]:
    """Give the gateway's own cgroup by controller; that of version 2 by an empty name."""
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, PurePosixPath(path)


def _mounts(proc: Path) -> Iterator[_Mount]:
    for line in (proc / "mountinfo").read_text().splitlines():
        fields, _, filesystem = line.partition(" - ")
        kind, _, options = filesystem.split(" ", 2)
        if kind not in ("cgroup", "cgroup2"):
            continue
        controllers = frozenset(options.split(",")) & CONTROLLERS
        if kind == "cgroup" and not controllers:
            continue
        _, _, _, root, point, *_ = fields.split(" ")
        version = 2 if kind == "cgroup2" else 1
        yield _Mount(
            version=version,
            root=PurePosixPath(_unescaped(root)),
            point=Path(_unescaped(point)),
            controllers=controllers if version == 1 else frozenset(),
        )


def _unescaped(field: str) -> str:
    """Read a path of mountinfo, where blanks and backslashes are octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _own(mount: _Mount, memberships: dict[str, PurePosixPath]) -> Path | None:
    """Find the folder of the gateway's own cgroup; None at the root, or when the mount does not show it."""
    names = sorted(mount.controllers) or [""]
    path = memberships.get(names[0])
    if path is None or path == PurePosixPath("/") or not path.is_relative_to(mount.root):
        return None
    folder = mount.point / path.relative_to(mount.root)
    # This gateway, or one that this process was before, has moved itself already.
    return folder.parent if mount.version != 1 and folder.name == LEAF else folder


def _named(mount: _Mount, parent: str) -> Path | None:
    folder = mount.point / parent.strip("/")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        _log.info("cgroup %s cannot be made: %s", folder, error)
        return None
    return folder


def _turn_on(folder: Path, *, named: bool) -> frozenset[str]:
    """Give a version 2 cgroup's children what it has itself, and say what that is.

    Args:
        folder: The cgroup.
        named: Whether it was named by the operator, so that no process is moved; else the gateway is in it itself, and
            has to leave it first.

    Raises:
        OSError: it may not be done; others' processes are in the cgroup, for one.
    """
    available = frozenset((folder / "cgroup.controllers").read_text().split()) & CONTROLLERS
    switch = folder / "cgroup.subtree_control"
    missing = sorted(available - frozenset(switch.read_text().split()))
    if not missing:
        return available
    words = " ".join(f"+{name}" for name in missing)
    try:
        switch.write_text(words)
    except OSError as error:
        if named or error.errno != errno.EBUSY:
            raise
        _step_aside(folder)
        switch.write_text(words)
    return available


def _step_aside(folder: Path) -> None:
    """Move this process into a cgroup below its own, when it is alone there."""
    if (folder / "cgroup.procs").read_text().split() != [str(os.getpid())]:
        raise OSError(errno.EBUSY, "other processes are in the gateway's cgroup", str(folder))
    leaf = folder / LEAF
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))
