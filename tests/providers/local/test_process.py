"""Starting, watching and ending a program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from pathlib import Path

import pytest
import uvloop

from sandgate_providers.errors import ProviderUnavailable
from sandgate_providers.local.process import KEPT_BYTES, Launch, PipeReader, SandboxProcess


def shell(text: str, **more: object) -> Launch:
    """Say how to start a shell as the gateway's own user."""
    return Launch(arguments=("/bin/sh", "-c", text), uid=None, **more)  # type: ignore[arg-type]  # fields by name


async def everything(process: SandboxProcess) -> bytes:
    """Read the line to its end."""
    data = b""
    async with asyncio.timeout(10):
        while chunk := await process.stream.read():
            data += chunk
    return data


async def test_the_line_is_its_standard_input_and_output() -> None:
    """Bytes go to it and come from it; its complaints are kept apart."""
    process = await SandboxProcess.start(shell("read line; echo got $line; echo bad >&2; exit 3"))
    process.stream.write(b"this\n")
    assert await everything(process) == b"got this\n"
    assert await process.wait(5)
    assert (process.exit_code, process.running) == (3, False)
    assert await process.last_words(5) == "bad"
    assert await process.end()


async def test_it_has_only_the_environment_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret of the gateway's is not handed on."""
    monkeypatch.setenv("SANDGATE_SECRET", "very secret")
    process = await SandboxProcess.start(Launch(arguments=("/usr/bin/env",), uid=None, environment={"LANG": "C.UTF-8"}))
    assert await everything(process) == b"LANG=C.UTF-8\n"
    await process.end()


async def test_it_has_a_session_of_its_own_and_a_plain_umask() -> None:
    """Ctrl-C at the gateway's terminal does not reach it, and its files are readable."""
    process = await SandboxProcess.start(shell("umask; ps -o sid= -p $$; echo $$", environment={"PATH": os.defpath}))
    umask, session, own = (await everything(process)).split()
    assert umask == b"0022"
    assert session == own
    await process.end()


@pytest.mark.usefixtures("as_root")
async def test_it_runs_as_another_user_without_groups() -> None:
    """Nothing of root's is left: user, group and further groups are the given one."""
    process = await SandboxProcess.start(
        Launch(arguments=("/bin/sh", "-c", "id -u; id -g; id -G"), uid=58000, environment={"PATH": os.defpath})
    )
    assert (await everything(process)).split() == [b"58000"] * 3
    await process.end()


async def test_descriptors_other_than_the_given_stay_closed() -> None:
    """Only what was named is inherited."""
    kept, hidden = os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(hidden, True)  # noqa: FBT003 - the standard library takes it by place
    try:
        process = await SandboxProcess.start(shell("echo /proc/$$/fd/*", descriptors=(kept,)))
        listed = {int(Path(word.decode()).name) for word in (await everything(process)).split()}
        assert kept in listed
        assert hidden not in listed
        await process.end()
    finally:
        os.close(kept)
        os.close(hidden)


async def test_end_kills_and_waits() -> None:
    """A program that does not want to end has ended when `end` answers, and is not a zombie."""
    process = await SandboxProcess.start(shell("trap '' TERM HUP; echo ready; while :; do sleep 1; done"))
    assert await process.stream.read() == b"ready\n"
    async with asyncio.timeout(5):
        assert await process.end()
        assert await process.end()
    assert process.exit_code == -9
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


async def test_waiting_has_a_deadline() -> None:
    """Whoever waits for a program that runs is told so."""
    process = await SandboxProcess.start(shell("read line"))
    assert not await process.wait(0.05)
    assert await process.end()


async def test_complaints_are_bounded() -> None:
    """The end is kept, where the reason is; the rest is read and dropped, so that the program does not hang."""
    text = f"i=0; while [ $i -lt 5000 ]; do echo {'x' * 80} >&2; i=$((i+1)); done; echo the reason >&2"
    process = await SandboxProcess.start(shell(text))
    assert await process.wait(20)
    words = await process.last_words(5)
    assert words.endswith("the reason")
    assert len(words) <= KEPT_BYTES
    await process.end()


async def test_a_program_that_is_missing_is_said_so() -> None:
    """The message has the program and the reason."""
    with pytest.raises(ProviderUnavailable, match="/no/such/program"):
        await SandboxProcess.start(Launch(arguments=("/no/such/program",), uid=None))


async def test_the_inner_process_is_killed_by_its_handle() -> None:
    """Where the sandbox's first process is known, that one is killed, and the program ends by itself after it."""
    code = (
        "import os, signal, sys\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    signal.pause()\n"
        "print(child, flush=True)\n"
        "os.waitpid(child, 0)\n"
        "sys.exit(7)\n"
    )
    process = await SandboxProcess.start(Launch(arguments=(sys.executable, "-c", code), uid=None))
    process.hold_inner(int(await process.stream.read()))
    assert await process.end()
    assert process.exit_code == 7


async def test_a_start_that_is_cancelled_keeps_no_descriptor() -> None:
    """At whatever step of the loop that happens; a program that was started is ended by whoever has it."""
    for step in range(8):
        before = descriptors()
        task = asyncio.create_task(SandboxProcess.start(shell("sleep 60")))
        for _ in range(step):
            await asyncio.sleep(0)  # one step of the loop
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).end()
        async with asyncio.timeout(5):
            while descriptors() != before:  # noqa: ASYNC110 - nothing wakes us when a descriptor is closed
                await asyncio.sleep(0)


def descriptors() -> int:
    """Count the open files of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_reader_closes_its_own_descriptor_only(tmp_path: Path) -> None:
    """However many pipes are read and closed, no descriptor that another thread was given meanwhile is closed."""
    stop = threading.Event()
    lost: list[OSError] = []

    def work_in_folders(name: str) -> None:
        while not stop.is_set():
            try:
                folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                os.mkdir(name, dir_fd=folder)
                os.rmdir(name, dir_fd=folder)
                os.close(folder)
            except OSError as error:
                lost.append(error)

    async def read_and_close() -> None:
        for _ in range(2000):
            reading, writing = os.pipe()
            reader = PipeReader(reading)
            os.write(writing, b"{}")
            assert await reader.until("}") == "{}"
            os.close(writing)
            await reader.until("")
            reader.close()

    threads = [threading.Thread(target=work_in_folders, args=(f"folder-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(read_and_close())
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert lost == []
