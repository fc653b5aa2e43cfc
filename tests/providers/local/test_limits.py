"""Limits of a sandbox: what goes wrong inside stays inside."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sandgate_providers.channel.types import ProcessEnd
from sandgate_providers.local.provider import LocalProvider
from sandgate_providers.types import SandboxSpec

pytestmark = pytest.mark.local

Run = Callable[..., Awaitable[Any]]
MakeSpec = Callable[..., SandboxSpec]

MIB = 1 << 20


def python(code: str) -> str:
    """Say in shell words how to run Python code inside."""
    return f"python3 -c {shlex.quote(code)}"


async def test_a_memory_bomb_ends_itself_only(provider: LocalProvider, make_spec: MakeSpec, run: Run) -> None:
    """The command that took too much is ended, a neighbour's sandbox is not, and the next call works."""
    neighbour = await provider.acquire(make_spec("two"))
    sandbox = await provider.acquire(make_spec(memory_bytes=192 * MIB))
    ran = await run(sandbox, f"exec {python('b = bytearray(1 << 30); print(len(b))')}")
    assert ran.stdout == ""
    assert ran.end.exit_code != 0
    status = await sandbox.status()
    limited = {fact.name: fact.detail for fact in sandbox.isolation}["memory-limit"]
    if "whole sandbox" in limited:
        assert ran.end.reason in (ProcessEnd.SIGNALED, ProcessEnd.OOM)
        assert status.out_of_memory_kills >= 1
    assert status.alive
    assert (await run(sandbox, "echo alive")).stdout == "alive\n"
    assert (await run(neighbour, "echo well")).stdout == "well\n"


async def test_memory_of_many_processes_counts_together(provider: LocalProvider, make_spec: MakeSpec, run: Run) -> None:
    """Processes that each stay small cannot take more than the sandbox has, files in /dev/shm included."""
    sandbox = await provider.acquire(make_spec(memory_bytes=192 * MIB))
    if "whole sandbox" not in {fact.name: fact.detail for fact in sandbox.isolation}["memory-limit"]:
        pytest.skip("no cgroup can be made here")
    one = python("import time; b = bytearray(48 << 20); print('up', flush=True); time.sleep(20)")
    await run(sandbox, f"for i in 1 2 3 4 5 6 7 8; do {one} & done; wait", timeout_seconds=1.5)
    assert (await sandbox.status()).out_of_memory_kills >= 1


async def test_a_fork_bomb_is_bounded(provider: LocalProvider, make_spec: MakeSpec, run: Run) -> None:
    """It stops at the limit, is cleared with its call, and the next call works."""
    sandbox = await provider.acquire(make_spec(processes=40))
    code = """
import os, time
count = 0
try:
    while count < 1000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        count += 1
except OSError as error:
    print(count, error.strerror, flush=True)
    time.sleep(60)
"""
    ran = await run(sandbox, python(code), timeout_seconds=1.5)
    count, _, reason = ran.stdout.strip().partition(" ")
    assert int(count) <= 40
    assert reason == "Resource temporarily unavailable"
    assert ran.end.reason is ProcessEnd.TIMEOUT
    assert (await run(sandbox, "echo alive")).stdout == "alive\n"


async def test_a_neighbour_can_fork_meanwhile(provider: LocalProvider, make_spec: MakeSpec, run: Run) -> None:
    """The count is the sandbox's own, although both are limited by their user's processes."""
    full = await provider.acquire(make_spec(processes=20))
    other = await provider.acquire(make_spec("two", processes=20))
    await run(full, "i=0; while [ $i -lt 10 ]; do sleep 60 & i=$((i+1)); done")
    ran = await run(other, "i=0; while [ $i -lt 10 ]; do sleep 60 & i=$((i+1)); done; echo ok")
    assert ran.stdout == "ok\n"


async def test_a_file_cannot_grow_without_bound(provider: LocalProvider, make_spec: MakeSpec, run: Run) -> None:
    """Writing ends at the limit, on the disk too."""
    sandbox = await provider.acquire(make_spec(file_size_bytes=MIB))
    ran = await run(sandbox, "head -c 3000000 /dev/zero > big; stat -c %s big")
    assert ran.stdout == f"{MIB}\n"


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
async def test_temporary_folders_are_sized(provider: LocalProvider, make_spec: MakeSpec, run: Run, folder: str) -> None:
    """Each is full at its size, and says so."""
    sandbox = await provider.acquire(make_spec(temporary_bytes=2 * MIB))
    ran = await run(
        sandbox, f"head -c 3000000 /dev/zero > {folder}/big; stat -c %s {folder}/big; df -k --output=size {folder}"
    )
    size, _, total = ran.stdout.split()
    assert int(size) == 2 * MIB
    assert int(total) == 2048
    assert "No space left" in ran.stderr


async def test_processor_time_is_limited(provider: LocalProvider, make_spec: MakeSpec, run: Run) -> None:
    """A process that only spins is ended, and the signal says why."""
    sandbox = await provider.acquire(make_spec(cpu_seconds=1))
    ran = await run(sandbox, "exec sh -c 'while :; do :; done'", timeout_seconds=15)
    assert (ran.end.reason, ran.end.signal) == (ProcessEnd.SIGNALED, signal.SIGXCPU)


async def test_the_gateway_is_not_in_the_sandboxes_cgroup(provider: LocalProvider, make_spec: MakeSpec) -> None:
    """What is limited is the sandbox; the gateway stays where it was."""
    before = own_cgroups()
    await provider.acquire(make_spec())
    assert own_cgroups() == before


def own_cgroups() -> str:
    """Read which cgroups this process is in."""
    return Path("/proc/self/cgroup").read_text()
