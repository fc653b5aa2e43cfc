"""Where cgroups may be made, read from a /proc of the test's own. Real cgroups are in test_cgroup."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandgate_providers.local.hierarchy import LEAF, Hierarchy, find_hierarchies


class Machine:
    """A /proc and mounted hierarchies, as plain files."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.proc.mkdir()
        self.mounts = folder / "cgroup mounts"
        self.mounts.mkdir()
        self._memberships: list[str] = []
        self._lines = ["22 1 8:1 / / rw,relatime - ext4 /dev/sda rw"]

    def mount(self, name: str, *, own: str, root: str = "/") -> Path:
        """Mount version 1's controllers of that name, or version 2 by the name `unified`; give the own folder."""
        point = self.mounts / name
        escaped = str(point).replace(" ", "\\040")
        kind, options = ("cgroup2", "rw") if name == "unified" else ("cgroup", f"rw,{name}")
        self._lines.append(f"30 22 0:26 {root} {escaped} rw,nosuid - {kind} cgroup {options}")
        self._memberships.append(f"{len(self._lines)}:{'' if name == 'unified' else name}:{own}")
        (self.proc / "mountinfo").write_text("\n".join(self._lines) + "\n")
        (self.proc / "cgroup").write_text("\n".join(self._memberships) + "\n")
        folder = point / own.removeprefix(root).strip("/")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def find(self, parent: str | None = None) -> list[Hierarchy]:
        """Find the places on this machine."""
        return find_hierarchies(parent, self.proc)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Give a machine without any hierarchy yet."""
    return Machine(tmp_path)


def delegate(folder: Path, controllers: str, enabled: str = "") -> None:
    """Make a folder look like a cgroup of version 2."""
    (folder / "cgroup.controllers").write_text(controllers)
    (folder / "cgroup.subtree_control").write_text(enabled)
    (folder / "cgroup.procs").write_text(f"{os.getpid()}\n")


def test_version_1_gives_a_place_for_each_controller(machine: Machine) -> None:
    """Memory and processes are limited below the gateway's own cgroup in each."""
    memory = machine.mount("memory", own="/service/gateway")
    pids = machine.mount("pids", own="/service")
    machine.mount("cpu,cpuacct", own="/service")
    assert machine.find() == [
        Hierarchy(version=1, parent=memory, memory=True, processes=False),
        Hierarchy(version=1, parent=pids, memory=False, processes=True),
    ]


def test_the_root_of_a_hierarchy_is_not_ours(machine: Machine) -> None:
    """Where the gateway is in the root, nothing is made unless a parent is named."""
    memory = machine.mount("memory", own="/gateway")
    machine.mount("pids", own="/")
    assert machine.find() == [Hierarchy(version=1, parent=memory, memory=True, processes=False)]


def test_a_named_parent_is_made_in_each_hierarchy(machine: Machine) -> None:
    """The operator's word is enough, also where the gateway is in the root."""
    machine.mount("memory", own="/gateway")
    machine.mount("pids", own="/")
    assert [(place.parent, place.parent.is_dir()) for place in machine.find("/sandgate")] == [
        (machine.mounts / "memory/sandgate", True),
        (machine.mounts / "pids/sandgate", True),
    ]


def test_a_container_sees_a_part_of_the_hierarchy(machine: Machine) -> None:
    """Without a cgroup namespace the mount shows the container's part, and paths are those of the host."""
    folder = machine.mount("memory", own="/docker/abc/sub", root="/docker/abc")
    assert folder == machine.mounts / "memory/sub"
    assert machine.find() == [Hierarchy(version=1, parent=folder, memory=True, processes=False)]


def test_a_cgroup_outside_of_the_mount_is_not_used(machine: Machine) -> None:
    """A path that the mount does not show leads nowhere."""
    machine.mount("memory", own="/elsewhere", root="/docker/abc")
    assert machine.find() == []


def test_version_2_is_used_where_it_was_delegated(machine: Machine) -> None:
    """What is turned on for children already is used as it is."""
    folder = machine.mount("unified", own="/user.slice/gateway")
    delegate(folder, "cpu memory pids", enabled="memory pids")
    assert machine.find() == [Hierarchy(version=2, parent=folder, memory=True, processes=True)]
    assert not (folder / LEAF).exists()


def test_version_2_is_turned_on_where_it_was_not(machine: Machine) -> None:
    """Only what is missing is asked for."""
    folder = machine.mount("unified", own="/gateway")
    delegate(folder, "memory pids io", enabled="pids")
    assert machine.find() == [Hierarchy(version=2, parent=folder, memory=True, processes=True)]
    assert (folder / "cgroup.subtree_control").read_text() == "+memory"


def test_version_2_after_a_move_is_the_cgroup_above(machine: Machine) -> None:
    """A gateway that moved itself aside before finds its old place again."""
    folder = machine.mount("unified", own=f"/gateway/{LEAF}")
    delegate(folder.parent, "memory pids", enabled="memory pids")
    assert machine.find() == [Hierarchy(version=2, parent=folder.parent, memory=True, processes=True)]


def test_version_2_without_our_controllers_is_not_used(machine: Machine) -> None:
    """A hybrid machine has them in version 1, and each is used once."""
    memory = machine.mount("memory", own="/gateway")
    folder = machine.mount("unified", own="/gateway")
    delegate(folder, "")
    assert machine.find() == [Hierarchy(version=1, parent=memory, memory=True, processes=False)]


def test_a_controller_is_used_once(machine: Machine) -> None:
    """Two hierarchies that claim the same would count a process twice."""
    machine.mount("memory", own="/gateway")
    folder = machine.mount("unified", own="/gateway")
    delegate(folder, "memory pids", enabled="memory pids")
    assert [(place.version, place.memory, place.processes) for place in machine.find()] == [
        (1, True, False),
        (2, False, True),
    ]


def test_a_cgroup_that_cannot_be_read_is_left_out(machine: Machine) -> None:
    """Without its files a folder is no cgroup; then rlimits are all there is."""
    machine.mount("unified", own="/gateway")
    assert machine.find() == []
