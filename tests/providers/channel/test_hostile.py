"""Code that shares the runner's user and does its worst, and events in the order that hurts most."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sandgate_providers.channel.client import RunnerChannel
from sandgate_providers.channel.configuration import RunnerConfiguration
from sandgate_providers.channel.types import Command, End, FileOperation, ProcessEnd
from sandgate_providers.errors import CallRefused
from sandgate_providers.types import JsonValue, Limits

KEY = bytes(range(100, 132))
CONFIGURATION = RunnerConfiguration(limits=Limits(processes=0), max_calls=8)


@pytest.fixture
async def runner(start_runner: Callable[[], Awaitable[Any]]) -> Any:
    """Give the line to a runner, not yet set up."""
    return await start_runner()


@pytest.fixture
async def channel(runner: Any) -> RunnerChannel:
    """Give a channel to that runner."""
    return await RunnerChannel.connect(runner, key=KEY, configuration=CONFIGURATION)


async def run(channel: RunnerChannel, *argv: str, seconds: float = 20.0, **extra: Any) -> tuple[End, str]:
    """Run a command; give its end and what it wrote to its output."""
    async with channel.open(Command(argv=argv, timeout_seconds=seconds, working_directory="/", **extra)) as call:
        out = b"".join([chunk.data async for chunk in call.chunks()])
        return await call.end(), out.decode()


async def operate(channel: RunnerChannel, name: str, **arguments: JsonValue) -> tuple[End, bytes]:
    """Do a file operation."""
    async with channel.open(FileOperation(name=name, arguments=arguments, timeout_seconds=20)) as call:
        out = b"".join([chunk.data async for chunk in call.chunks()])
        return await call.end(), out


async def until(condition: Callable[[], object]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nothing tells us
            await asyncio.sleep(0.01)


def state(pid: int) -> str:
    """Give the letter of a process's state, or nothing when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def stopped(pid: int) -> bool:
    """Tell whether a process was stopped."""
    return state(pid) == "T"


async def kill(pid: int) -> None:
    """Kill a process whose parent does not wait for it."""
    os.kill(pid, signal.SIGKILL)
    await until(lambda: state(pid) == "Z")


def lives(pid: int) -> bool:
    """Tell whether any thread of a process is still there."""
    try:
        tasks = [task.name for task in Path(f"/proc/{pid}/task").iterdir()]
    except FileNotFoundError:
        return False
    return any(state(int(task)) not in ("", "Z", "X") for task in tasks)


async def test_leaving_twice_cancelled_forgets_the_call(channel: RunnerChannel) -> None:
    """A caller that is cancelled again while its call ends leaves nothing behind on either side."""

    async def stay() -> None:
        script = "trap '' TERM; while :; do sleep 0.01; done"
        command = Command(argv=("sh", "-c", script), timeout_seconds=60, working_directory="/", grace_seconds=0.05)
        async with channel.open(command):
            await asyncio.Future()

    for _ in range(CONFIGURATION.max_calls + 1):
        task = asyncio.create_task(stay())
        await asyncio.sleep(0)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not channel._calls
    end, out = await run(channel, "echo", "next")
    assert (end.exit_code, out) == (0, "next\n")


FITS = 196_000
"""Letters of a job that fit into a worker's message, with the rest of the job."""

HEADLESS = """
import ctypes, os, threading, time
print(os.getpid(), flush=True)
threading.Thread(target=lambda: [time.sleep(0.05) for _ in range(100000)]).start()
ctypes.CDLL(None).syscall(60, 0)
"""


async def test_process_without_its_first_thread_is_ended(channel: RunnerChannel) -> None:
    """A process whose first thread ended looks like a zombie, but works on: it is ended like any other."""
    end, out = await run(channel, "/usr/bin/python3", "-c", HEADLESS, seconds=1.0)
    assert end.reason is ProcessEnd.TIMEOUT
    await until(lambda: not lives(int(out)))


async def test_headless_process_of_a_killed_worker_is_ended(channel: RunnerChannel) -> None:
    """The same holds when it comes down to the runner."""
    script = HEADLESS.replace("ctypes.CDLL", "os.kill(os.getppid(), 9)\nctypes.CDLL")
    end, out = await run(channel, "/usr/bin/python3", "-c", script)
    assert end.reason is ProcessEnd.SIGNALED
    await until(lambda: not lives(int(out)))


async def test_cancel_of_an_operation_whose_worker_is_gone(channel: RunnerChannel, runner: Any, tmp_path: Path) -> None:
    """A cancel that arrives between the death of a worker and the news of it harms nobody."""
    hold = tmp_path / "held"
    first = asyncio.create_task(run(channel, "sh", "-c", "echo $PPID; exec sleep 60"))
    content = FileOperation(
        name="write", arguments={"path": str(hold), "size_bytes": 5}, timeout_seconds=60, with_input=True
    )
    async with channel.open(content) as writing:
        await until(lambda: any(children(pid) for pid in children(runner.process.pid)))
        workers = children(runner.process.pid)
        runner.process.send_signal(signal.SIGSTOP)
        await until(lambda: state(runner.process.pid) == "T")
        busy = [pid for pid in workers if children(pid)]
        await kill(busy[0])
        await writing.cancel()
        for pid in workers:
            if pid != busy[0]:
                await kill(pid)
        runner.process.send_signal(signal.SIGCONT)
        assert (await writing.end()).reason is ProcessEnd.CANCELLED
    await first
    assert (await run(channel, "echo", "next"))[1] == "next\n"


def children(pid: int) -> list[int]:
    """List the children of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("size", [90_000, 97_000, 100_000, 104_000])
async def test_large_job_runs_or_is_refused(channel: RunnerChannel, size: int) -> None:
    """A job near the size of a worker's message either runs or is refused; it never looks as if it had run."""
    environment = {"A": "x" * size, "B": "y" * size}
    if 2 * size < FITS:
        assert (await run(channel, "true", environment=environment))[0].exit_code == 0
        return
    with pytest.raises(CallRefused) as raised:
        await run(channel, "true", environment=environment)
    assert raised.value.reason == "too-large"


@pytest.mark.parametrize("name", ["", "A=B"])
async def test_name_that_no_environment_can_hold_is_refused(channel: RunnerChannel, name: str) -> None:
    """What the kernel cannot take as a variable's name is refused, and nothing ran."""
    with pytest.raises(CallRefused) as raised:
        await run(channel, "true", environment={name: "x"})
    assert raised.value.reason == "malformed"


@pytest.mark.parametrize("seconds", [1e9, float("inf")])
async def test_time_of_years(channel: RunnerChannel, seconds: float) -> None:
    """A call may have all the time in the world."""
    end, _ = await run(channel, "sleep", "0.2", seconds=seconds)
    assert end.exit_code == 0


async def test_memory_of_a_worker_cannot_be_read(channel: RunnerChannel, tmp_path: Path) -> None:
    """A file operation runs in a process that knows the key of the line; what is its own is no file for anybody."""
    link = tmp_path / "link"
    link.symlink_to("/proc/self/maps")
    end, maps = await operate(channel, "read", path=str(link))
    link.unlink()
    link.symlink_to("/proc/self/mem")
    for line in maps.decode().splitlines():
        if "rw-p" in line:
            first, last = (int(word, 16) for word in line.split()[0].split("-"))
            end, data = await operate(
                channel, "read", path=str(link), offset_bytes=first, limit_bytes=min(last - first, 1 << 26)
            )
            assert KEY not in data
    assert end.error_code == "unsupported-file"


async def test_idle_workers_that_were_stopped_serve_on(channel: RunnerChannel, runner: Any) -> None:
    """A command that stops everything it can find does not take the time of the calls after it."""
    await until(lambda: len(children(runner.process.pid)) >= 2)
    for pid in children(runner.process.pid):
        os.kill(pid, signal.SIGSTOP)
        await until(partial(stopped, pid))
    end, out = await run(channel, "echo", "next", seconds=5)
    assert (end.reason, out) == (ProcessEnd.EXITED, "next\n")


async def test_many_orphans_hold_up_nobody(channel: RunnerChannel) -> None:
    """However many processes a dead worker leaves, other calls go on while they are ended."""
    script = "for i in $(seq 400); do setsid sleep 6411 & done; sleep 0.5; kill -9 $PPID"
    ending = asyncio.create_task(run(channel, "bash", "-c", script))
    slowest = 0.0
    while not ending.done():
        slowest = max(slowest, await channel.ping())
    await ending
    assert slowest < 2.0


async def test_orphans_are_found_however_late_they_come(start_runner: Any, tmp_path: Path) -> None:
    """On one processor the runner may hear of a worker's death before the kernel gives it what the worker left."""
    stream = await start_runner("taskset", "-c", "0")
    channel = await RunnerChannel.connect(stream, key=KEY, configuration=CONFIGURATION)
    pids = tmp_path / "pids"
    for _ in range(60):
        await run(channel, "bash", "-c", f"setsid sleep 60 & echo $! >> {pids}; kill -9 $PPID; sleep 60")
    await channel.ping()
    left = [int(word) for word in pids.read_text().split()]
    await until(lambda: not any(lives(pid) for pid in left))


async def test_runner_short_of_descriptors_serves_on(start_runner: Any) -> None:
    """Where there are few descriptors the runner takes few calls, and loses none for it."""
    stream = await start_runner("sh", "-c", 'ulimit -n 60; exec "$@"', "sh")
    channel = await RunnerChannel.connect(
        stream, key=KEY, configuration=RunnerConfiguration(limits=Limits(processes=0, open_files=0))
    )

    async def stay(ready: asyncio.Future[None]) -> None:
        command = Command(
            argv=("sh", "-c", "echo; sleep 60"), timeout_seconds=60, working_directory="/", with_input=True
        )
        try:
            async with channel.open(command) as call:
                async for _ in call.chunks():
                    ready.set_result(None)
                    await asyncio.Future()
        except CallRefused as refusal:
            ready.set_exception(refusal)

    async def fill() -> list[asyncio.Task[None]]:
        tasks = []
        refused = 0
        while refused < 30:
            ready = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(stay(ready))
            try:
                await ready
            except CallRefused:
                refused += 1
            else:
                tasks.append(task)
        return tasks

    async with asyncio.timeout(60):
        counts = []
        for _ in range(3):
            tasks = await fill()
            counts.append(len(tasks))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert channel.alive
    assert counts[0] == counts[1] == counts[2] > 4


async def test_worker_of_a_call_that_was_ended_is_not_used_again(channel: RunnerChannel) -> None:
    """It may have been killed a moment ago, and would take the next job into its grave."""
    command = Command(argv=("sh", "-c", "echo $PPID; sleep 60"), timeout_seconds=60, working_directory="/")
    async with channel.open(command) as call:
        worker = (await anext(call.chunks())).data.decode()
        await call.cancel()
        assert (await call.end()).reason is ProcessEnd.CANCELLED
    for _ in range(4):
        assert (await run(channel, "sh", "-c", "echo $PPID"))[1] != worker


async def test_input_for_a_call_without_costs_nothing_else(channel: RunnerChannel) -> None:
    """Closing an input that a call does not have is no reason to end the sandbox."""
    async with channel.open(Command(argv=("sleep", "0.2"), timeout_seconds=5, working_directory="/")) as call:
        await call.close_input()
        assert (await call.end()).exit_code == 0


async def test_operation_cannot_write_into_its_own_process(channel: RunnerChannel) -> None:
    """Nor can one write where it could not read."""
    work = FileOperation(
        name="write",
        arguments={"path": "/proc/self/oom_score_adj", "size_bytes": 3, "append": True},
        timeout_seconds=20,
        with_input=True,
    )
    async with channel.open(work) as call:
        await call.send(b"900")
        await call.close_input()
        assert (await call.end()).error_code == "unsupported-file"
