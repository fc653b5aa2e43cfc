"""The tool `bash`, in a real sandbox."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from sandgate_gateway.domain.result import OutputStream, ProcessData, ProcessEnd, ToolResult
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.tools.bash import MOST_CHUNK_BYTES, MOST_COMMAND_BYTES, Bash
from sandgate_providers.errors import ChannelClosed, SandboxLost

pytestmark = pytest.mark.local


def data_of(result: ToolResult) -> ProcessData:
    """Give the typed data of a result."""
    assert isinstance(result.data, ProcessData)
    return result.data


async def test_output_of_a_command(use: Any) -> None:
    """Standard output as text, exact bytes beside it."""
    result = await use(Bash(), command="printf 'one\\ntwo\\n'; pwd")
    assert result.outcome is Outcome.COMPLETED
    assert result.text == "one\ntwo\n/mnt/user-data/workspace"
    assert result.truncated is False
    data = data_of(result)
    assert (data.end, data.exit_code, data.signal) == (ProcessEnd.EXITED, 0, None)
    assert data.stdout.data == b"one\ntwo\n/mnt/user-data/workspace\n"
    assert data.stderr.data == b""
    assert data.duration_seconds > 0


async def test_both_outputs_and_an_exit_code(use: Any) -> None:
    """Standard error stands under its label, the exit code is told when it is not zero; the call is completed."""
    result = await use(Bash(), command="echo out; echo err >&2; exit 3")
    assert result.outcome is Outcome.COMPLETED
    assert result.failure is None
    assert result.text == "out\nStd Error:\nerr\nExit Code: 3"
    assert data_of(result).exit_code == 3


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("true", "(no output)"),
        ("false", "(no output)\nExit Code: 1"),
        ("echo err >&2", "Std Error:\nerr"),
        ("not-a-program", "Std Error:\nbash: line 1: not-a-program: command not found\nExit Code: 127"),
        ("printf '\\xff\\x00\\n'", "\ufffd\ufffd"),
        ("-x 2>/dev/null; echo 'grün 🎈'", "grün 🎈"),
        ("+x 2>/dev/null; echo $0", "bash"),
        ("cat", "(no output)"),
        ("cat <<'EOF'\n$HOME\nEOF", "$HOME"),
    ],
)
async def test_texts(command: str, text: str, use: Any) -> None:
    """What the model reads, for commands of several kinds."""
    assert (await use(Bash(), command=command)).text == text


async def test_a_long_output_is_cut_in_its_middle(use: Any) -> None:
    """Head and tail stay, whole lines each, with a note between them; the whole is never above 20,000 characters."""
    result = await use(Bash(), command="seq 1 100000; echo problem >&2; exit 2")
    assert len(result.text) <= 20_000
    assert result.truncated is True
    lines = result.text.split("\n")
    assert lines[:3] == ["1", "2", "3"]
    assert lines[-4:] == ["100000", "Std Error:", "problem", "Exit Code: 2"]
    (note,) = [line for line in lines if line.startswith("[…")]
    assert all(line.isdigit() for line in lines[: lines.index(note)])
    data = data_of(result)
    assert data.stdout.total_bytes == 588_895
    assert len(data.stdout.data) == 256 * 1024
    assert data.stdout.data[: data.stdout.gap_bytes].startswith(b"1\n2\n")
    assert data.stdout.data.endswith(b"99999\n100000\n")


async def test_the_limit_counts_characters_and_bytes(use: Any) -> None:
    """20,000 characters of four bytes each are above 64 KiB, and are cut further."""
    result = await use(Bash(), command="python3 -c \"print('🎈' * 19000)\"")
    assert len(result.text.encode()) <= 64 * 1024
    assert result.truncated is True
    assert "\ufffd" not in result.text


async def test_a_timeout_ends_the_tree_and_keeps_the_output(use: Any) -> None:
    """The partial output comes along, with what happened and what to do."""
    result = await use(Bash(), command="echo begun; sleep 60 & setsid sleep 61 & sleep 62", allowed_seconds=0.5)
    assert result.outcome is Outcome.TIMED_OUT
    first, output, hint = result.text.split("\n")
    assert first == "Timed out after 0.5 s; the whole process tree was ended. Output so far:"
    assert output == "begun"
    assert hint.startswith("Run long work in the background")
    assert result.failure is not None
    assert result.failure.reason == "timed-out"
    assert (data_of(result).end, data_of(result).stdout.data) == (ProcessEnd.TIMEOUT, b"begun\n")
    left = await use(Bash(), command="ls /proc/*/comm | xargs cat 2>/dev/null | grep -c sleep")
    assert left.text.startswith("0")


async def test_the_model_may_ask_for_less_time(use: Any) -> None:
    """Its own timeout counts when it is shorter, and never makes the gateway's longer."""
    shorter = await use(Bash(), command="sleep 60", timeout_seconds=1)
    assert shorter.text.startswith("Timed out after 1 s")
    longer = await use(Bash(), command="sleep 60", timeout_seconds=50, allowed_seconds=0.5)
    assert longer.text.startswith("Timed out after 0.5 s")


async def test_a_signal_is_told_by_name(use: Any) -> None:
    """A command that is killed from inside is completed, with the signal."""
    result = await use(Bash(), command="echo before; kill -KILL $$")
    assert result.outcome is Outcome.COMPLETED
    assert result.text == "before\nEnded by signal 9 (SIGKILL)"
    assert (data_of(result).exit_code, data_of(result).signal) == (None, signal.SIGKILL)


async def test_background_processes_are_listed(use: Any) -> None:
    """They delay nothing, and the model learns their numbers; one that holds the output is told as well."""
    # Until the child has its file as output it holds that of the command.
    wait = "until readlink /proc/$!/fd/1 | grep -q log.txt; do :; done"
    quiet = await use(Bash(), command=f"sleep 300 > log.txt 2>&1 & {wait}; echo started")
    (process,) = data_of(quiet).background
    assert quiet.text == f"started\nStill running in the background: {process.pid} (sleep 300). End one with kill PID."
    loud = await use(Bash(), command="sleep 301 & echo started")
    assert data_of(loud).output_held is True
    assert "what it writes from now on is discarded" in loud.text
    ended = await use(Bash(), command=f"kill {process.pid} && echo ended")
    assert ended.text == "ended"


async def test_output_goes_to_the_sink_while_it_comes(use: Any, sink: Any) -> None:
    """Each stream in order, exact bytes, in pieces of bounded size, before the command has ended."""
    call = asyncio.ensure_future(
        use(Bash(), command="echo first; echo oops >&2; until [ -e go ]; do sleep 0.05; done; seq 50000", sink=sink)
    )
    async with asyncio.timeout(10):
        await sink.came.wait()
    assert not call.done()
    await use(Bash(), command="touch go")
    result = await call
    stdout = b"".join(chunk.data for chunk in sink.chunks if chunk.stream is OutputStream.STDOUT)
    stderr = b"".join(chunk.data for chunk in sink.chunks if chunk.stream is OutputStream.STDERR)
    assert stdout.startswith(b"first\n1\n")
    assert stdout.endswith(b"50000\n")
    assert len(stdout) == data_of(result).stdout.total_bytes
    assert stderr == b"oops\n"
    assert max(len(chunk.data) for chunk in sink.chunks) <= MOST_CHUNK_BYTES


async def test_too_much_output_ends_the_command(use: Any) -> None:
    """What runs wild is ended, says so, and keeps its head and tail."""
    result = await use(Bash(most_output_bytes=1 << 20), command="yes")
    assert result.outcome is Outcome.FAILED
    assert result.failure is not None
    assert result.failure.reason == "output-limit"
    assert result.text.startswith("Error (output-limit): The command wrote more than it may")
    assert "\ny\ny\n" in result.text
    assert result.text.endswith("Send the output into a file, or use head, tail or grep.")
    assert data_of(result).end is ProcessEnd.OUTPUT_LIMIT


@pytest.mark.parametrize("command", ["", "  \n\t", "echo \0", "#" * (MOST_COMMAND_BYTES + 1), "é" * 50_001])
async def test_a_command_that_is_none_is_refused(command: str, use: Any) -> None:
    """Empty, with NUL, or too long: nothing runs, and the argument is named."""
    result = await use.unchecked(Bash(), command=command)
    assert result.outcome is Outcome.FAILED
    assert result.failure is not None
    assert result.failure.reason == "invalid-arguments"
    assert result.failure.violations[0].pointer == "/command"


@pytest.mark.parametrize("character", ["x", "é", "語", "🎈", "\x01"])
async def test_a_command_of_any_characters_may_be_long(character: str, use: Any) -> None:
    """Up to the limit it runs, or is refused as too long; it never breaks the line."""
    command = "true #" + character * ((MOST_COMMAND_BYTES - 6) // len(character.encode()))
    result = await use(Bash(), command=command)
    assert result.outcome is Outcome.COMPLETED or result.failure.reason == "invalid-arguments"
    assert (await use(Bash(), command="echo fine")).text == "fine"


async def test_a_lost_sandbox_is_told(use: Any) -> None:
    """When the sandbox ends under a command, the output so far comes along, and what is kept is said."""
    begun = asyncio.Event()

    async def note(_item: object) -> None:
        begun.set()

    call = asyncio.ensure_future(use(Bash(), command="echo begun; sleep 60", sink=note))
    async with asyncio.timeout(10):
        await begun.wait()
    await use.sandbox.destroy()
    result = await call
    assert result.outcome is Outcome.LOST
    assert result.failure is not None
    assert result.failure.reason == "sandbox-lost"
    assert "begun" in result.text
    assert "Files below /mnt/user-data are kept" in result.text
    assert data_of(result).end is ProcessEnd.SANDBOX_LOST
    with pytest.raises((SandboxLost, ChannelClosed)):
        await use(Bash(), command="true")


async def test_cancellation_ends_what_runs(use: Any, sink: Any) -> None:
    """A caller that goes away takes the whole tree with it, and the cancellation is passed on."""
    call = asyncio.ensure_future(use(Bash(), command="echo begun; setsid sleep 333 & sleep 334", sink=sink))
    async with asyncio.timeout(10):
        await sink.came.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    left = await use(Bash(), command="cat /proc/*/cmdline | tr '\\0' ' ' | grep -c 'sleep 33[34] '")
    assert left.text.startswith("0")
