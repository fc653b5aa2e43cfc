"""Real cgroups, where this machine lets us make some."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandgate_providers.errors import ProviderMisconfigured
from sandgate_providers.local.cgroup import Cgroups, SandboxCgroup
from sandgate_providers.local.hierarchy import Hierarchy
from sandgate_providers.types import Limits

BOMB = "import sys; sys.stdin.readline(); b = bytearray(512 << 20); print(len(b))"


@pytest.fixture
def prefix() -> str:
    """Give a mark of this test's own."""
    return f"sandgate-test-{secrets.token_hex(4)}-"


@pytest.fixture
def cgroups(prefix: str) -> Iterator[Cgroups]:
    """Give cgroups, cleared afterwards; skip where there are none that limit memory."""
    cgroups = Cgroups.discover(None, prefix)
    if not cgroups.limits_memory:
        pytest.skip("no cgroup can be made here")
    yield cgroups
    cgroups.clear()


@contextlib.contextmanager
def waiting(code: str) -> Iterator[subprocess.Popen[str]]:
    """Run Python code that waits for a line before it goes on."""
    with subprocess.Popen(
        ["/usr/bin/env", "python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_memory_of_all_processes_is_limited_and_kills_are_counted(cgroups: Cgroups) -> None:
    """A process that takes too much dies by the kernel, and the count says why."""
    cgroup = cgroups.create("one", Limits(memory_bytes=64 << 20))
    assert cgroup.memory_limit_bytes() == 64 << 20
    assert cgroup.out_of_memory_kills() == 0
    with waiting(BOMB) as process:
        cgroup.add(process.pid)
        assert process.pid in cgroup.processes()
        output, _ = process.communicate("go\n", timeout=20)
        assert (process.returncode, output) == (-9, "")
    assert cgroup.out_of_memory_kills() == 1
    assert cgroups.remove("one")
    assert cgroup.out_of_memory_kills() == 0


def test_a_cgroup_is_removed_with_what_runs_in_it(cgroups: Cgroups) -> None:
    """Removal ends its processes first, and can be repeated."""
    cgroup = cgroups.create("one", Limits())
    with waiting("input()") as process:
        cgroup.add(process.pid)
        handle = os.pidfd_open(process.pid)
        try:
            assert cgroups.remove("one")
            assert select.select([handle], [], [], 5)[0]
        finally:
            os.close(handle)
    assert cgroups.remove("one")


def test_a_cgroup_of_an_earlier_life_is_replaced(cgroups: Cgroups) -> None:
    """Making one under a name that is still there starts from a fresh count."""
    cgroups.create("one", Limits(memory_bytes=64 << 20))
    assert cgroups.create("one", Limits(memory_bytes=32 << 20)).memory_limit_bytes() == 32 << 20


def test_what_an_earlier_life_left_is_cleared(cgroups: Cgroups, prefix: str) -> None:
    """The next gateway with the same mark removes it, and nobody else's."""
    left = cgroups.create("left", Limits())
    other = Cgroups.discover(None, f"other-{prefix}")
    kept = other.create("kept", Limits())
    try:
        Cgroups.discover(None, prefix)
        assert kept.memory_limit_bytes() == Limits().memory_bytes
        with pytest.raises(FileNotFoundError):
            left.memory_limit_bytes()
    finally:
        other.clear()


def test_a_parent_that_cannot_be_made_is_refused(prefix: str) -> None:
    """The operator's word is not passed over in silence."""
    with pytest.raises(ProviderMisconfigured, match="cgroup_parent"):
        Cgroups.discover("/no/such/parent", prefix)


def test_without_any_hierarchy_nothing_is_limited() -> None:
    """Then the limits of single processes are all there is, and the facts say so."""
    cgroups = Cgroups((), "none-")
    cgroup = cgroups.create("one", Limits())
    cgroup.add(os.getpid())
    assert (cgroups.limits_memory, cgroups.limits_processes, cgroups.versions) == (False, False, "")
    assert cgroup.memory_limit_bytes() is None
    assert (cgroup.out_of_memory_kills(), cgroup.processes()) == (0, [])
    assert cgroups.remove("one")


def test_version_2_is_limited_by_its_own_files(tmp_path: Path) -> None:
    """Written to plain files, for this machine may have its controllers in version 1."""
    hierarchy = Hierarchy(version=2, parent=tmp_path, memory=True, processes=True)
    cgroups = Cgroups([hierarchy], "mark-")
    cgroup: SandboxCgroup = cgroups.create("one", Limits(memory_bytes=1 << 20, processes=10))
    folder = tmp_path / "mark-one"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"memory.max": "1048576", "pids.max": "138"}
    assert cgroup.memory_limit_bytes() == 1 << 20
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\noom_group_kill 0\n")
    assert cgroup.out_of_memory_kills() == 2
    (folder / "cgroup.procs").write_text("0\n")
    assert cgroup.processes() == []
    assert cgroups.versions == "v2"
