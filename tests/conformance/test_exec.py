"""What every provider promises of the commands that it runs."""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass

import pytest

from sandgate_providers.channel.types import Command, End, ProcessEnd, Stream
from sandgate_providers.contract import Sandbox
from sandgate_providers.errors import ChannelClosed, SandboxLost


@dataclass
class Ran:
    """What a command gave."""

    end: End
    stdout: bytes
    stderr: bytes


async def run(sandbox: Sandbox, script: str, *, seconds: float = 20.0, **extra: object) -> Ran:
    """Run a script of bash to its end."""
    command = Command(argv=("bash", "-c", script), timeout_seconds=seconds, **extra)  # type: ignore[arg-type]  # of a test
    out = {Stream.STDOUT: bytearray(), Stream.STDERR: bytearray()}
    async with sandbox.channel.open(command) as call:
        async for chunk in call.chunks():
            out[chunk.stream] += chunk.data
        end = await call.end()
    return Ran(end, bytes(out[Stream.STDOUT]), bytes(out[Stream.STDERR]))


async def alive(sandbox: Sandbox, mark: str) -> list[str]:
    """List the processes inside whose command line holds a mark."""
    seen = await run(sandbox, "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f; echo; done 2>/dev/null")
    return [line for line in seen.stdout.decode().split("\n") if mark in line]


async def wait_for(sandbox: Sandbox, mark: str, least: int) -> None:
    """Wait until at least so many processes with this mark live; the shells whose script holds it count too."""
    async with asyncio.timeout(20):
        while len(await alive(sandbox, mark)) < least:  # noqa: ASYNC110 - nothing inside tells us
            await asyncio.sleep(0.02)


async def wait_until_gone(sandbox: Sandbox, mark: str) -> None:
    """Wait until no process with this mark lives."""
    async with asyncio.timeout(20):
        while await alive(sandbox, mark):  # noqa: ASYNC110 - nothing inside tells us
            await asyncio.sleep(0.02)


async def test_output_is_exact_and_streams_are_apart(sandbox: Sandbox) -> None:
    """Every byte value arrives as it was written, on the stream on which it was written."""
    script = "python3 -c 'import os; d=bytes(range(256))*1000; os.write(1,d[:65536]); os.write(2,d[::-1][:65536])'"
    ran = await run(sandbox, script)
    data = bytes(range(256)) * 1000
    assert ran.stdout == data[:65536]
    assert ran.stderr == data[::-1][:65536]
    assert (ran.end.stdout_bytes, ran.end.stderr_bytes) == (65536, 65536)


@pytest.mark.parametrize("code", [0, 1, 3, 126, 255])
async def test_exit_code_is_told(sandbox: Sandbox, code: int) -> None:
    """The end says how the command exited."""
    ran = await run(sandbox, f"exit {code}")
    assert (ran.end.reason, ran.end.exit_code, ran.end.signal) == (ProcessEnd.EXITED, code, None)


async def test_signal_is_told(sandbox: Sandbox) -> None:
    """A command that a signal ended has no exit code."""
    ran = await run(sandbox, "echo before; kill -SEGV $$")
    assert (ran.end.reason, ran.end.exit_code, ran.end.signal) == (ProcessEnd.SIGNALED, None, 11)
    assert ran.stdout == b"before\n"


async def test_program_that_does_not_exist(sandbox: Sandbox) -> None:
    """What cannot be started says so, with a code."""
    async with sandbox.channel.open(Command(argv=("no-such-program",), timeout_seconds=5)) as call:
        end = await call.end()
    assert (end.reason, end.error_code) == (ProcessEnd.START_FAILED, "not-found")


async def test_working_directory_and_environment(sandbox: Sandbox) -> None:
    """A command starts where it was told, with the given environment beside the basics."""
    ran = await run(sandbox, "pwd; echo $EXTRA; echo $HOME", working_directory="/tmp", environment={"EXTRA": "é x"})
    assert ran.stdout.decode().split("\n")[:2] == ["/tmp", "é x"]


async def test_input_of_any_size(sandbox: Sandbox) -> None:
    """Input arrives whole, however slowly the command reads it."""
    data = bytes(range(256)) * 20_000
    command = Command(argv=("bash", "-c", "sleep 0.2; sha256sum"), timeout_seconds=20, with_input=True)
    async with sandbox.channel.open(command) as call:
        await call.send(data)
        await call.close_input()
        received = b"".join([chunk.data async for chunk in call.chunks()])
    assert received.split()[0].decode() == hashlib.sha256(data).hexdigest()


async def test_command_that_does_not_read_its_input(sandbox: Sandbox) -> None:
    """Input that nobody takes does not hold up the end."""
    command = Command(argv=("true",), timeout_seconds=20, with_input=True)
    async with sandbox.channel.open(command) as call:
        await call.send(b"x" * 3_000_000)
        await call.close_input()
        assert (await call.end()).exit_code == 0


async def test_no_input_is_empty_input(sandbox: Sandbox) -> None:
    """A command that reads its input without any being sent meets its end at once."""
    assert (await run(sandbox, "cat; echo done")).stdout == b"done\n"


async def test_timeout_gives_partial_output(sandbox: Sandbox) -> None:
    """A command that takes too long is ended, and what it wrote comes along."""
    begun = time.monotonic()
    ran = await run(sandbox, "echo partial; sleep 60", seconds=0.5)
    assert ran.end.reason is ProcessEnd.TIMEOUT
    assert ran.stdout == b"partial\n"
    assert time.monotonic() - begun < 5


STUBBORN = """
trap '' TERM INT HUP
(trap '' TERM; setsid sleep {mark} &)
nohup setsid env -i /bin/bash -c "trap '' TERM; (/bin/sleep {mark} &) ; /bin/sleep {mark}" >/dev/null 2>&1 &
python3 -c '
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.execvp("sleep", ["sleep", "{mark}"])'
while true; do sleep {mark}; done
"""


async def test_timeout_ends_the_whole_tree(sandbox: Sandbox) -> None:
    """A tree that ignores TERM and detached itself in every way is gone one second after its timeout."""
    begun = time.monotonic()
    ran = await run(sandbox, STUBBORN.format(mark="7101"), seconds=1.0)
    took = time.monotonic() - begun
    assert ran.end.reason is ProcessEnd.TIMEOUT
    assert await alive(sandbox, "7101") == []
    assert took < 20  # a generous bound against hanging; the figure is measured in the benchmarks


async def test_cancel_ends_the_whole_tree(sandbox: Sandbox) -> None:
    """So is one whose caller went away."""
    async with sandbox.channel.open(
        Command(argv=("bash", "-c", STUBBORN.format(mark="7202")), timeout_seconds=60)
    ) as call:
        await wait_for(sandbox, "7202", 6)
        await call.cancel()
        assert (await call.end()).reason is ProcessEnd.CANCELLED
    assert await alive(sandbox, "7202") == []


async def test_leaving_the_call_ends_the_tree(sandbox: Sandbox) -> None:
    """Cancellation of the task that runs a call is honoured down to the last process, before it goes on."""
    task = asyncio.create_task(run(sandbox, "sleep 7303 & sleep 7303"))
    await wait_for(sandbox, "7303", 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await alive(sandbox, "7303") == []


async def test_end_is_the_commands_exit(sandbox: Sandbox) -> None:
    """A background child that holds the outputs delays nothing, is listed, and lives on."""
    begun = time.monotonic()
    ran = await run(sandbox, "sleep 7404 & echo started")
    assert time.monotonic() - begun < 5
    assert ran.stdout == b"started\n"
    assert ran.end.output_held
    assert [process.command for process in ran.end.background] == ["sleep 7404"]
    assert len(await alive(sandbox, "7404")) == 1


async def test_output_before_the_exit_is_never_lost(sandbox: Sandbox) -> None:
    """What was written before the exit arrives, even when a background child holds the pipe open."""
    for _ in range(20):
        ran = await run(sandbox, "sleep 2 & head -c 60000 /dev/zero")
        assert len(ran.stdout) == 60000


async def test_background_writer_is_not_killed_by_its_next_line(sandbox: Sandbox) -> None:
    """The pipes of what lives on are read and discarded, so that a server's log line does not end it."""
    script = "(for i in $(seq 1000000); do echo line || exit 1; echo line >&2; sleep 0.001; done) & echo $!"
    ran = await run(sandbox, script)
    pid = int(ran.stdout.split(b"\n")[0])
    await asyncio.sleep(0.5)
    assert (await run(sandbox, f"kill -0 {pid} && kill -9 {pid} && echo lived")).stdout == b"lived\n"


async def test_flood_in_the_background_leaves_others_alone(sandbox: Sandbox) -> None:
    """What background processes write without end is taken slowly: other calls do not wait for it."""
    await run(sandbox, "yes & yes >&2 & yes &")
    begun = time.monotonic()
    for _ in range(50):
        assert (await run(sandbox, "echo quick")).stdout == b"quick\n"
    assert time.monotonic() - begun < 20  # three busy processes share the processors with these


async def test_web_server_in_the_background(sandbox: Sandbox) -> None:
    """A server that a call starts answers a later call."""
    await run(sandbox, "python3 -m http.server 8123 --bind 127.0.0.1 & ")
    fetch = """python3 -c '
import time, urllib.request
for _ in range(100):
    try:
        print(urllib.request.urlopen("http://127.0.0.1:8123/").status)
        break
    except OSError:
        time.sleep(0.05)'"""
    assert (await run(sandbox, fetch)).stdout == b"200\n"


async def test_parallel_calls_are_told_apart(sandbox: Sandbox) -> None:
    """Ending one of two calls with detached children ends its own children only."""
    script = "env -i setsid /bin/sleep {mark} & /bin/sleep {mark}"
    first = asyncio.create_task(run(sandbox, script.format(mark="7505")))
    second = asyncio.create_task(run(sandbox, script.format(mark="7606")))
    await wait_for(sandbox, "7505", 3)
    await wait_for(sandbox, "7606", 3)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await alive(sandbox, "7505") == []
    assert len(await alive(sandbox, "7606")) == 3
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_ten_parallel_calls_never_mix_bytes(sandbox: Sandbox) -> None:
    """Calls on one line run at the same time, and each gets its own output."""
    begun = time.monotonic()
    script = "for i in $(seq 500); do echo {n}; echo {n} >&2; done; sleep 0.5"
    results = await asyncio.gather(*(run(sandbox, script.format(n=n)) for n in range(10)))
    assert time.monotonic() - begun < 4.5, "ten sleeps of half a second ran one after the other"
    for n, ran in enumerate(results):
        assert ran.stdout == ran.stderr == f"{n}\n".encode() * 500


async def test_slow_reader_stalls_only_itself(sandbox: Sandbox) -> None:
    """A call whose output nobody reads waits in bounded memory; other calls on the line go on."""
    command = Command(argv=("bash", "-c", "head -c 50000000 /dev/zero"), timeout_seconds=30)
    async with sandbox.channel.open(command) as slow:
        reader = slow.chunks()
        first = await anext(reader)
        for _ in range(20):
            assert (await run(sandbox, "echo quick")).stdout == b"quick\n"
        total = len(first.data)
        async for chunk in reader:
            total += len(chunk.data)
        assert (await slow.end()).exit_code == 0
    assert total == 50_000_000


async def test_unread_output_does_not_keep_a_call_alive(sandbox: Sandbox) -> None:
    """`end` discards what nobody reads, so that the command can finish."""
    command = Command(argv=("bash", "-c", "head -c 5000000 /dev/zero"), timeout_seconds=30)
    async with sandbox.channel.open(command) as call:
        end = await call.end()
    assert (end.exit_code, end.stdout_bytes) == (0, 5_000_000)


async def test_output_limit(sandbox: Sandbox) -> None:
    """A command that writes more than it may is ended, and the end says so."""
    ran = await run(sandbox, "yes", output_limit_bytes=1_000_000)
    assert ran.end.reason is ProcessEnd.OUTPUT_LIMIT
    assert 1_000_000 < ran.end.stdout_bytes < 3_000_000


async def test_killing_everything_from_inside(sandbox: Sandbox) -> None:
    """A command that kills all that it may gets an end, other calls get theirs, and the next call works."""
    other = asyncio.create_task(run(sandbox, "sleep 7707"))
    await wait_for(sandbox, "7707", 1)
    killer = await run(sandbox, "kill -9 -1; echo survived")
    assert killer.end.reason in (ProcessEnd.SIGNALED, ProcessEnd.EXITED)
    assert (await other).end.reason is ProcessEnd.SIGNALED
    assert (await run(sandbox, "echo next")).stdout == b"next\n"


async def test_killing_the_own_supervisor(sandbox: Sandbox) -> None:
    """What a command leaves behind when it kills the process that watches it is killed too."""
    ran = await run(sandbox, "setsid sleep 7808 & kill -9 $PPID; sleep 7808")
    assert ran.end.reason is ProcessEnd.SIGNALED
    await wait_until_gone(sandbox, "7808")


async def test_stopping_the_own_supervisor(sandbox: Sandbox) -> None:
    """Stopping the process that watches it buys a command nothing: its time runs out all the same."""
    ran = await run(sandbox, "kill -STOP $PPID; sleep 7909", seconds=1.0)
    assert ran.end.reason is ProcessEnd.TIMEOUT
    assert await alive(sandbox, "7909") == []
    assert (await run(sandbox, "echo next")).stdout == b"next\n"


async def test_signals_to_the_runner_are_of_no_use(sandbox: Sandbox) -> None:
    """The runner cannot be ended, stopped or interrupted from inside where it is process 1."""
    await run(sandbox, "for s in KILL STOP INT TERM HUP USR1 TSTP QUIT; do kill -$s 1; done")
    assert (await run(sandbox, "echo next")).stdout == b"next\n"


async def test_runner_and_workers_cannot_be_read(sandbox: Sandbox) -> None:
    """Neither their memory, nor their descriptors, nor their environment can be read from inside."""
    for name in ("mem", "environ", "maps", "fd/0", "fd/3"):
        for process in ("1", "$PPID"):
            ran = await run(sandbox, f"head -c 1 /proc/{process}/{name} >/dev/null")
            assert ran.end.exit_code != 0, (process, name)


async def test_limits_of_the_runner_cannot_be_changed(sandbox: Sandbox) -> None:
    """A command cannot take the runner's descriptors, processor time or processes away."""
    script = """python3 -c '
import os, resource
for pid in (1, os.getppid()):
    for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_NPROC):
        try:
            resource.prlimit(pid, which, (1, 1))
            print("changed", pid, which)
        except PermissionError:
            pass'"""
    assert (await run(sandbox, script)).stdout == b""
    assert (await run(sandbox, "echo next")).stdout == b"next\n"


async def test_death_of_the_sandbox(sandbox: Sandbox) -> None:
    """When the sandbox dies mid-call the call says so, and no later call pretends to run."""
    command = Command(argv=("sleep", "60"), timeout_seconds=60)
    async with sandbox.channel.open(command) as call:
        await sandbox.destroy()
        assert (await call.end()).reason is ProcessEnd.SANDBOX_LOST
    assert not (await sandbox.status()).alive
    with pytest.raises((ChannelClosed, SandboxLost)):
        await run(sandbox, "true")


async def test_reading_the_own_output_hangs_nobody(sandbox: Sandbox) -> None:
    """A command may open its own output for reading and take bytes out of it; it harms itself alone."""
    thief = "exec 3</proc/self/fd/1; for i in 1 2 3 4; do cat <&3 >/dev/null & done; head -c 30000000 /dev/zero; exit 0"
    stealing = asyncio.create_task(run(sandbox, thief, seconds=10))
    for _ in range(20):
        assert (await run(sandbox, "echo quick")).stdout == b"quick\n"
    ran = await stealing
    assert ran.end.reason is ProcessEnd.EXITED
    assert ran.end.stdout_bytes == len(ran.stdout) < 30_000_000


async def test_stolen_output_does_not_hold_up_the_end(sandbox: Sandbox) -> None:
    """Nor does a process that stays, holds the output open and takes away what was written before the exit."""
    # The window fills while nobody reads, so that the last of the output is still in the pipe when the command exits.
    thief = "(sleep 0.5; timeout 0.3 cat <&3 >/dev/null; exec sleep 8111) &"
    script = f"exec 3</proc/self/fd/1; {thief} head -c $((1048576 + 65536)) /dev/zero"
    async with sandbox.channel.open(Command(argv=("bash", "-c", script), timeout_seconds=60)) as call:
        async with asyncio.timeout(20):
            while "sleep 8111 " not in await alive(sandbox, "8111"):  # noqa: ASYNC110 - nothing inside tells us
                await asyncio.sleep(0.02)
            end = await call.end()
    assert (end.reason, end.exit_code) == (ProcessEnd.EXITED, 0)
    assert end.stdout_bytes < 1048576 + 65536


async def test_fork_bomb_is_bounded_and_gone(sandbox: Sandbox) -> None:
    """A fork bomb hits the process limit, is ended by its timeout, and the sandbox serves on."""
    ran = await run(sandbox, ":(){ :|:& };:; sleep 30", seconds=1.5)
    assert ran.end.reason in (ProcessEnd.TIMEOUT, ProcessEnd.EXITED, ProcessEnd.SIGNALED, ProcessEnd.SANDBOX_LOST)
    if ran.end.reason is not ProcessEnd.SANDBOX_LOST:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            after = await run(sandbox, "echo next")
            if after.stdout == b"next\n":
                return
            await asyncio.sleep(0.1)
        pytest.fail("the sandbox did not serve again")


async def test_many_calls_one_after_the_other(sandbox: Sandbox) -> None:
    """Workers are used again and replaced without a call noticing."""
    for n in range(450):
        ran = await run(sandbox, f"exit {n % 256}")
        assert ran.end.exit_code == n % 256


async def test_odd_words_arrive_unchanged(sandbox: Sandbox) -> None:
    """Arguments travel as given: empty, quoted, with newlines and any letters."""
    words = ("", " ", "a'b\"c", "line\nline", "$HOME", "\u00e9\u4e2d\U0001f600", "-n", "*")
    command = Command(argv=("printf", "%s\\0", *words), timeout_seconds=5)
    async with sandbox.channel.open(command) as call:
        out = b"".join([chunk.data async for chunk in call.chunks()])
    assert out == "\0".join((*words, "")).encode()
