"""Real work in real sandboxes, through real gRPC."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import grpc
import pytest

from sandgate.v1 import sandbox_pb2, sandbox_service_pb2, tool_pb2, verdict_pb2

Agent = Any  # the conftest's; test modules do not import each other
Start = Any
Until = Any

pytestmark = pytest.mark.local

MARK = "sandgate-e2e-mark"


def marked_processes(mark: str) -> list[int]:
    """List the processes of this machine with a mark in their command line; sandboxes hide nothing from the host."""
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [number for number in numbers if mark.encode() in _read(number, "cmdline")]


async def upload(agent: Agent, path: str, parts: Iterable[bytes], **header: object) -> Any:
    """Upload a file in parts."""
    values: dict[str, object] = {"thread": "thread", "path": path, **header}

    async def messages() -> AsyncIterator[sandbox_service_pb2.UploadFileRequest]:
        yield sandbox_service_pb2.UploadFileRequest(header=sandbox_service_pb2.UploadHeader(**values))  # type: ignore[arg-type]  # a test writes what it means
        for part in parts:
            yield sandbox_service_pb2.UploadFileRequest(data=part)

    return await agent.sandboxes.UploadFile(messages(), timeout=20)


async def download(agent: Agent, path: str, **fields: int) -> tuple[bytes, int]:
    """Download a file; give its bytes and what the first part says of its size."""
    request = sandbox_service_pb2.DownloadFileRequest(thread="thread", path=path, **fields)
    parts = [part async for part in agent.sandboxes.DownloadFile(request, timeout=20)]
    assert all(len(part.data) <= 256 << 10 for part in parts)
    assert all(part.total_bytes == 0 for part in parts[1:])
    return b"".join(part.data for part in parts), parts[0].total_bytes


async def test_bash_runs_in_a_sandbox(local: Agent) -> None:
    """The seven words of a first call: output, both streams, exit code, place, user."""
    result = await local.bash("pwd; id -u; echo oops >&2; exit 3")
    assert result.outcome == verdict_pb2.OUTCOME_COMPLETED
    place, user = result.process.stdout.split()
    assert place == b"/mnt/user-data/workspace"
    assert user != b"0"
    assert result.process.stderr == b"oops\n"
    assert result.process.exit_code == 3


async def test_files_stay_in_their_thread(local: Agent) -> None:
    """What one call wrote another one of the thread reads, and none of another thread sees."""
    await local.bash("echo secret > /mnt/user-data/workspace/file")
    assert (await local.bash("cat /mnt/user-data/workspace/file")).process.stdout == b"secret\n"
    other = await local.bash("cat /mnt/user-data/workspace/file", thread="other")
    assert other.process.exit_code == 1


@pytest.mark.parametrize("streamed", [False, True])
async def test_cancel_kills_the_whole_tree(local: Agent, until: Until, streamed: object) -> None:
    """A caller that goes away takes every process of its call along, detached ones and those deaf to TERM too."""
    mark = f"{MARK}-{os.urandom(4).hex()}"
    sleeper = f"exec -a {mark} sleep 300"
    command = (
        f"trap '' TERM; ({sleeper}) & setsid bash -c '{sleeper}' & "
        f"(setsid nohup env -i bash -c '{sleeper}' > /dev/null 2>&1 &) ; {sleeper}"
    )
    call = local.call(command)
    attempt: Any = local.stream(call) if streamed else asyncio.ensure_future(local.run(call))
    if streamed:
        assert (await attempt.read()).WhichOneof("event") == "started"
    await until(lambda: len(marked_processes(mark)) >= 4)
    attempt.cancel()
    async with asyncio.timeout(3):
        await until(lambda: not marked_processes(mark))
    repeated = await local.run(call)
    assert repeated.outcome == verdict_pb2.OUTCOME_CANCELLED
    assert (await local.bash("echo fine")).process.stdout == b"fine\n"


async def test_a_timeout_returns_what_there_was(local: Agent) -> None:
    """A slow command comes back as an outcome, with its output so far, before the caller's own deadline."""
    call = local.call("echo begun; sleep 60")
    call.execution_timeout.FromMilliseconds(500)
    result = await local.run(call)
    assert result.outcome == verdict_pb2.OUTCOME_TIMED_OUT
    assert result.process.end == tool_pb2.PROCESS_END_TIMEOUT
    assert result.process.stdout == b"begun\n"


async def test_a_sandbox_that_is_killed_is_lost_and_replaced(local: Agent, until: Until) -> None:
    """Killing the runner under a call gives a clear outcome; the next call works, and the thread's files are there."""
    mark = f"{MARK}-{os.urandom(4).hex()}"
    await local.bash("echo kept > file")
    running = asyncio.ensure_future(local.bash(f"echo begun; exec -a {mark} sleep 300"))
    await until(lambda: bool(marked_processes(mark)))
    [victim] = marked_processes(mark)
    for ancestor in _ancestors(victim):
        if b"bwrap" in _read(ancestor, "cmdline"):
            os.kill(ancestor, 9)
            break
    else:
        raise AssertionError("no bubblewrap above the command")
    result = await running
    assert result.outcome == verdict_pb2.OUTCOME_LOST
    assert result.failure.reason == "sandbox-lost"
    assert (await local.bash("cat file")).process.stdout == b"kept\n"
    await until(lambda: not marked_processes(mark))


async def test_parallel_calls_never_mix(local: Agent) -> None:
    """Ten calls at once on one thread: every byte arrives at its own caller."""
    results = await asyncio.gather(
        *(local.bash(f"for i in $(seq 200); do echo {number}-$i; done") for number in range(10))
    )
    for number, result in enumerate(results):
        assert result.process.stdout == b"".join(b"%d-%d\n" % (number, line) for line in range(1, 201))


async def test_a_file_goes_in_and_comes_out(local: Agent) -> None:
    """Binary, larger than one part, executable; whole, and in ranges; both on record."""
    content = random.Random(1).randbytes(3_000_000)
    parts = [content[at : at + (1 << 20)] for at in range(0, len(content), 1 << 20)]
    path = "/mnt/user-data/uploads/new folder/file.bin"
    reply = await upload(local, path, parts, size_bytes=len(content), executable=True)
    assert (reply.path, reply.size_bytes) == (path, len(content))
    digest = (await local.bash(f"sha256sum < '{path}'; test -x '{path}' && echo executable")).process.stdout.split()
    assert digest == [hashlib.sha256(content).hexdigest().encode(), b"-", b"executable"]
    assert await download(local, path) == (content, len(content))
    assert await download(local, path, offset_bytes=10, limit_bytes=5) == (content[10:15], len(content))
    assert await download(local, path, offset_bytes=len(content)) == (b"", len(content))
    names = [record["event"] for record in await local.records() if record["event"].startswith("sandbox.file")]
    assert names == ["sandbox.file.uploaded"] + ["sandbox.file.downloaded"] * 3


async def test_an_empty_file_goes_both_ways(local: Agent) -> None:
    """Nothing is something: one part with no bytes and the size zero."""
    path = "/mnt/user-data/outputs/empty"
    await upload(local, path, [], size_bytes=0)
    assert await download(local, path) == (b"", 0)


@pytest.mark.parametrize("size", [4, 6])
async def test_an_upload_of_another_size_writes_nothing(local: Agent, size: int) -> None:
    """More or fewer bytes than announced: refused, and the file is not there, not even a part of it."""
    path = "/mnt/user-data/uploads/file"
    refusal = await local.refusal(upload(local, path, [b"fiv", b"e!"], size_bytes=size))
    assert refusal.fields == ["data"]
    assert (await local.bash("ls -A /mnt/user-data/uploads")).process.stdout == b""


async def test_an_upload_without_its_header_first(local: Agent) -> None:
    """The order of the parts is part of the contract."""
    no_parts: tuple[sandbox_service_pb2.UploadFileRequest, ...] = ()

    async def no_header() -> AsyncIterator[sandbox_service_pb2.UploadFileRequest]:
        yield sandbox_service_pb2.UploadFileRequest(data=b"x")

    async def two_headers() -> AsyncIterator[sandbox_service_pb2.UploadFileRequest]:
        header = sandbox_service_pb2.UploadHeader(thread="thread", path="/mnt/user-data/uploads/x", size_bytes=1)
        yield sandbox_service_pb2.UploadFileRequest(header=header)
        yield sandbox_service_pb2.UploadFileRequest(header=header)

    async def nothing() -> AsyncIterator[sandbox_service_pb2.UploadFileRequest]:
        for part in no_parts:
            yield part

    for messages, field in ((no_header, "header"), (two_headers, "data"), (nothing, "header")):
        assert (await local.refusal(local.sandboxes.UploadFile(messages(), timeout=10))).fields == [field]


async def test_files_that_cannot_be_had(local: Agent) -> None:
    """Missing, a folder, a pipe, outside of the thread's folder: each has its reason, and none is recorded as read."""
    await local.bash("mkfifo /mnt/user-data/workspace/pipe; ln -s /proc/self/environ /mnt/user-data/workspace/link")
    for path, code, reason in (
        ("/mnt/user-data/workspace/missing", grpc.StatusCode.NOT_FOUND, "FILE_NOT_FOUND"),
        ("/mnt/user-data/workspace", grpc.StatusCode.FAILED_PRECONDITION, "FILE_REFUSED"),
        ("/mnt/user-data/workspace/pipe", grpc.StatusCode.FAILED_PRECONDITION, "FILE_REFUSED"),
        ("/etc/passwd", grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
        ("/mnt/user-data/../../etc/passwd", grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
    ):
        refusal = await local.refusal(download(local, path))
        assert (refusal.code, refusal.reason) == (code, reason), path
    assert not await local.records(event="sandbox.file.downloaded")


async def test_the_isolation_report_is_probed(local: Agent) -> None:
    """Get shows what is in force, and who says so."""
    result = await local.bash("true")
    request = sandbox_service_pb2.GetSandboxRequest(name=result.sandbox)
    sandbox = (await local.sandboxes.GetSandbox(request, timeout=5)).sandbox
    facts = {fact.name: fact for fact in sandbox.isolation.facts}
    assert list(facts) == sorted(facts)
    for name in ("non-root", "no-new-privileges", "no-network", "read-only-root"):
        assert facts[name].enforced, name
        assert facts[name].source == sandbox_pb2.FACT_SOURCE_PROBE


async def test_every_tool_works_through_the_gateway(local: Agent) -> None:
    """Write, read, replace, list, glob and grep, each with its typed data."""

    async def run(tool: str, arguments: str) -> tool_pb2.ToolResult:
        result: tool_pb2.ToolResult = await local.run(local.call(tool=tool, arguments_json=arguments.encode()))
        assert result.outcome == verdict_pb2.OUTCOME_COMPLETED, result.text
        return result

    path = "/mnt/user-data/workspace/a.txt"
    written = await run("write_file", f'{{"path":"{path}","content":"one\\ntwo\\n"}}')
    assert written.file_change.created
    read = await run("read_file", f'{{"path":"{path}"}}')
    assert read.file_range.content == b"one\ntwo\n"
    replaced = await run("str_replace", f'{{"path":"{path}","old_str":"two","new_str":"three"}}')
    assert replaced.file_change.replacements == 1
    listed = await run("ls", '{"path":"/mnt/user-data/workspace"}')
    assert [entry.path for entry in listed.entries.entries] == [path]
    globbed = await run("glob", '{"pattern":"**/*.txt","path":"/mnt/user-data"}')
    assert [entry.path for entry in globbed.entries.entries] == [path]
    found = await run("grep", '{"pattern":"thr.e","path":"/mnt/user-data"}')
    assert [(match.path, match.line_number) for match in found.matches.matches] == [(path, 2)]


@pytest.mark.load
async def test_a_long_stream_needs_little_memory(local: Agent) -> None:
    """256 MiB of output pass through a stream, every byte of it, in a process that grows by less than 64 MiB."""
    await local.bash("true")
    before = _resident_bytes()
    size = 256 << 20
    total = peak = 0
    stream = local.stream(local.call(f"head -c {size} /dev/zero"), seconds=60)
    async for event in stream:
        if event.WhichOneof("event") == "output":
            total += len(event.output.data)
            if total % (16 << 20) < len(event.output.data):
                peak = max(peak, _resident_bytes())
    assert total == size
    assert peak - before < 64 << 20


def _resident_bytes() -> int:
    return int(_read(os.getpid(), "statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _ancestors(pid: int) -> list[int]:
    """List a process and those above it, the outermost of ours first."""
    chain = []
    while pid > 1 and pid != os.getpid():
        chain.append(pid)
        pid = int(_read(pid, "stat").rpartition(b")")[2].split()[1])
    return chain[::-1]


def _read(pid: int, name: str) -> bytes:
    """Read what the kernel says of a process; nothing when it is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
