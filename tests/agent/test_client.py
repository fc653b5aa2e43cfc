"""The client against a real gRPC server: retries, cancellation, deadlines, streams and files."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from blockbuster import BlockBuster

from sandgate.v1 import tool_pb2, tool_service_pb2
from sandgate_agent import Endpoint, GatewayClient
from sandgate_agent.chunks import UPLOAD_CHUNK_BYTES
from sandgate_agent.deadlines import Timeouts
from sandgate_agent.errors import (
    CallTimedOut,
    CapacityExhausted,
    GatewayFault,
    GatewayUnavailable,
    Misconfigured,
    NotFound,
    ProtocolViolation,
    RequestRejected,
    TransportLimitReached,
)
from sandgate_agent.results import Outcome, Verdict
from sandgate_agent.transfers import upload_folder
from sandgate_agent.types import Finished, OutputChunk, OutputStream, Started, ToolCall


def call_of(tool: str = "bash", **fields: Any) -> ToolCall:
    """Make a call."""
    values = {"request_id": str(uuid.uuid4()), "thread": "t1", "tool": tool, "arguments_json": b"{}"}
    return ToolCall(**(values | fields))


async def test_a_result_is_read_in_full(peer: Any) -> None:
    """What the gateway says of a call arrives as typed values."""

    async def execute(call: tool_pb2.ToolCall) -> Any:
        data = tool_pb2.MatchList(matches=[tool_pb2.Match(path="/a", line_number=3, line="x")], files_searched=2)
        return peer.result(call, text="found", truncated=True, matches=data)

    peer.servicer.execute = execute
    result = await GatewayClient(peer.target).execute(call_of("grep"))

    assert (result.outcome, result.verdict, result.text, result.truncated) == (
        Outcome.COMPLETED,
        Verdict.PASS,
        "found",
        True,
    )
    assert result.data is not None
    assert result.data.matches[0].line_number == 3  # type: ignore[union-attr]  # a wrong kind fails the test as well


async def test_unavailable_is_retried_with_the_same_id(peer: Any) -> None:
    """The transport repeats a call that could not be taken, and the call runs once."""
    away = peer.Failure(grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
    peer.servicer.fail("ExecuteTool", away, away)
    call = call_of()

    result = await GatewayClient(peer.target).execute(call)

    assert result.outcome is Outcome.COMPLETED
    assert [request.call.request_id for request in peer.servicer.requests("ExecuteTool")] == [call.request_id] * 3
    assert peer.servicer.runs == {call.request_id: 1}


async def test_a_large_request_is_retried_as_well(peer: Any) -> None:
    """GRPC's own limit for what it can repeat does not leave out the largest arguments."""
    peer.servicer.fail("ExecuteTool", peer.Failure(grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN"))
    arguments = b'{"content":"' + b"x" * (1024 * 1024 - 100) + b'"}'

    assert (await GatewayClient(peer.target).execute(call_of(arguments_json=arguments))).outcome is Outcome.COMPLETED
    assert len(peer.servicer.requests("ExecuteTool")) == 2


@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED])
async def test_nothing_else_is_retried(peer: Any, code: grpc.StatusCode) -> None:
    """Another status is final at its first time."""
    peer.servicer.fail("ExecuteTool", peer.Failure(code, "INTERNAL"))

    with pytest.raises(Exception, match="no"):
        await GatewayClient(peer.target).execute(call_of())
    assert len(peer.servicer.requests("ExecuteTool")) == 1


async def test_a_call_survives_a_restart_of_the_gateway(peer: Any) -> None:
    """A gateway that is away for a moment is waited for, within the tries that the transport has."""
    client = GatewayClient(peer.target)
    await client.list_tools()
    await asyncio.to_thread(peer.stop)

    result, _ = await asyncio.gather(client.execute(call_of()), asyncio.to_thread(peer.start))

    assert result.outcome is Outcome.COMPLETED


async def test_a_gateway_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    """Nobody listens: a typed error after a few seconds of tries, not a hang."""
    client = GatewayClient(f"unix:{tmp_path}/nobody.sock")
    began = time.monotonic()

    with pytest.raises(GatewayUnavailable):
        await client.execute(call_of())
    assert time.monotonic() - began < 15


async def test_a_slow_gateway_meets_the_deadline(peer: Any) -> None:
    """A call without an answer ends at its deadline, and is ended in the gateway."""

    async def execute(_: tool_pb2.ToolCall) -> Any:
        await asyncio.sleep(60)

    peer.servicer.execute = execute
    with pytest.raises(CallTimedOut):
        await GatewayClient(peer.target, timeouts=Timeouts(execution=0.2)).execute(call_of())
    await asyncio.to_thread(peer.eventually, lambda: peer.servicer.cancelled)


async def test_the_deadline_leaves_room_for_the_tools_own_timeout(peer: Any) -> None:
    """A tool that may run long gets a call that lasts longer, so that its partial output can come."""
    await GatewayClient(peer.target).execute(call_of(execution_timeout_seconds=1200))

    ((_, remaining),) = peer.servicer.deadlines
    assert 1255 < remaining <= 1260


async def test_waiting_for_capacity_ends_at_the_limit(peer: Any) -> None:
    """A gateway that says to come back too late is not waited for."""
    full = peer.Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "CAPACITY_EXHAUSTED", retry_after_seconds=0.05)
    peer.servicer.fail("ExecuteTool", *[full] * 50)
    client = GatewayClient(peer.target, timeouts=Timeouts(capacity=0.3))
    began = time.monotonic()

    with pytest.raises(CapacityExhausted) as raised:
        await client.execute(call_of())
    assert raised.value.retry_after_seconds == pytest.approx(0.05)
    assert time.monotonic() - began < 2
    assert 1 < len(peer.servicer.requests("ExecuteTool")) < 10


async def test_a_gateway_that_says_at_once_is_not_hammered(peer: Any) -> None:
    """A wait of zero is no reason to ask some thousand times, nor to go on past the limit."""
    full = peer.Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "CAPACITY_EXHAUSTED", retry_after_seconds=0.0)
    peer.servicer.fail("ExecuteTool", *[full] * 5000)
    client = GatewayClient(peer.target, timeouts=Timeouts(capacity=0.3, execution=2.0))

    with pytest.raises(CapacityExhausted):
        await client.execute(call_of())
    assert 1 < len(peer.servicer.requests("ExecuteTool")) < 10


async def test_a_limit_of_grpc_itself_is_not_taken_for_a_full_gateway(peer: Any) -> None:
    """RESOURCE_EXHAUSTED without the gateway's reason is another error, and is not waited for."""
    peer.servicer.fail("ExecuteTool", peer.Failure(grpc.StatusCode.RESOURCE_EXHAUSTED))

    with pytest.raises(TransportLimitReached):
        await GatewayClient(peer.target).execute(call_of())
    assert len(peer.servicer.requests("ExecuteTool")) == 1


async def test_cancelling_a_method_cancels_its_call(peer: Any) -> None:
    """A cancelled task ends the call in the gateway."""

    async def execute(_: tool_pb2.ToolCall) -> Any:
        await asyncio.sleep(60)

    peer.servicer.execute = execute
    task = asyncio.create_task(GatewayClient(peer.target).execute(call_of()))
    await asyncio.to_thread(peer.eventually, lambda: peer.servicer.running)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(peer.eventually, lambda: peer.servicer.cancelled)


async def test_a_method_that_is_dropped_cancels_its_call(peer: Any) -> None:
    """As happens to one whose event loop was closed under it."""

    async def execute(_: tool_pb2.ToolCall) -> Any:
        await asyncio.sleep(60)

    peer.servicer.execute = execute
    work = GatewayClient(peer.target).execute(call_of())
    work.send(None)
    await asyncio.to_thread(peer.eventually, lambda: peer.servicer.running)
    work.close()
    await asyncio.to_thread(peer.eventually, lambda: peer.servicer.cancelled)


def test_an_abandoned_wait_cancels_its_call(peer: Any) -> None:
    """Control-C in a program that waits for a call ends the call in the gateway, and the program."""

    async def execute(_: tool_pb2.ToolCall) -> Any:
        await asyncio.sleep(60)

    peer.servicer.execute = execute
    program = f"""
import uuid
from sandgate_agent import GatewayClient
from sandgate_agent.types import ToolCall
client = GatewayClient({peer.target!r})
call = ToolCall(request_id=str(uuid.uuid4()), thread="t", tool="bash", arguments_json=b"{{}}")
try:
    client.wait(client.execute(call))
except KeyboardInterrupt:
    raise SystemExit(7)
"""
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        peer.eventually(lambda: peer.servicer.running, seconds=20)
        process.send_signal(signal.SIGINT)
        peer.eventually(lambda: peer.servicer.cancelled)
        assert process.wait(10) == 7


def test_waiting_works_in_any_thread_and_inside_a_loop(peer: Any, blockbuster: BlockBuster) -> None:
    """The blocking form works in a plain thread, and in a thread whose own loop it blocks."""
    blockbuster.deactivate()  # to block is what the caller asks for here
    client = GatewayClient(peer.target)

    async def blocks() -> int:
        return len(client.wait(client.list_tools()).tools)

    assert len(client.wait(client.list_tools()).tools) == 2
    assert asyncio.run(blocks()) == 2


async def test_waiting_in_the_connections_own_thread_is_refused(peer: Any) -> None:
    """What would wait for itself is an error, not a hang."""
    client = GatewayClient(peer.target)

    async def inside() -> None:
        client.wait(client.list_tools())

    with pytest.raises(Misconfigured, match="own thread"):
        await asyncio.to_thread(client.wait, inside())


async def test_a_stream_shows_a_call_while_it_runs(peer: Any) -> None:
    """Started, output and finished come in order, with exact bytes."""

    async def stream(call: tool_pb2.ToolCall) -> AsyncIterator[tool_service_pb2.StreamToolResponse]:
        yield tool_service_pb2.StreamToolResponse(started=tool_service_pb2.ToolStarted(audit_id="a"))
        chunk = tool_service_pb2.OutputChunk(stream=tool_service_pb2.OUTPUT_STREAM_STDERR, data=b"\xff\x00")
        yield tool_service_pb2.StreamToolResponse(output=chunk)
        yield tool_service_pb2.StreamToolResponse(finished=tool_service_pb2.ToolFinished(result=peer.result(call)))

    peer.servicer.stream = stream
    async with GatewayClient(peer.target).stream(call_of()) as events:
        seen = [event async for event in events]

    assert seen[:2] == [
        Started(audit_id="a", joined=False),
        OutputChunk(stream=OutputStream.STDERR, data=b"\xff\x00"),
    ]
    assert isinstance(seen[2], Finished)


async def test_a_stream_that_just_ends_is_an_error(peer: Any) -> None:
    """Without a last event it is not known how the call ended, and that is said."""

    async def stream(_: tool_pb2.ToolCall) -> AsyncIterator[tool_service_pb2.StreamToolResponse]:
        yield tool_service_pb2.StreamToolResponse(started=tool_service_pb2.ToolStarted(audit_id="a"))

    peer.servicer.stream = stream
    async with GatewayClient(peer.target).stream(call_of()) as events:
        assert isinstance(await anext(events), Started)
        with pytest.raises(ProtocolViolation, match="how the call ended"):
            await anext(events)


async def test_leaving_a_stream_cancels_its_call(peer: Any) -> None:
    """A reader that has seen enough ends the call in the gateway; so does one that is cancelled."""

    async def stream(_: tool_pb2.ToolCall) -> AsyncIterator[tool_service_pb2.StreamToolResponse]:
        yield tool_service_pb2.StreamToolResponse(started=tool_service_pb2.ToolStarted(audit_id="a"))
        await asyncio.sleep(60)

    peer.servicer.stream = stream
    client = GatewayClient(peer.target)
    async with client.stream(call_of()) as events:
        assert isinstance(await anext(events), Started)
    await asyncio.to_thread(peer.eventually, lambda: len(peer.servicer.cancelled) == 1)

    async def watch() -> None:
        async with client.stream(call_of()) as events:
            async for _ in events:
                pass

    task = asyncio.create_task(watch())
    await asyncio.to_thread(peer.eventually, lambda: len(peer.servicer.requests("StreamTool")) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(peer.eventually, lambda: len(peer.servicer.cancelled) == 2)


async def test_files_go_up_and_come_down_whole(peer: Any, tmp_path: Path) -> None:
    """Bytes and files of several parts arrive as they are, and an empty file is a file."""
    client = GatewayClient(peer.target)
    content = os.urandom(2 * UPLOAD_CHUNK_BYTES + 17)
    (tmp_path / "file").write_bytes(content)

    assert await client.upload(thread="t", path="/a", source=content) == len(content)
    assert await client.upload(thread="t", path="/b", source=tmp_path / "file") == len(content)
    assert await client.upload(thread="t", path="/c", source=b"") == 0

    assert await client.download(thread="t", path="/a") == content
    assert await client.download(thread="t", path="/b") == content
    assert await client.download(thread="t", path="/c") == b""


async def test_a_file_that_cannot_be_read_or_found_is_named_so(peer: Any, tmp_path: Path) -> None:
    """Here it is an OSError, in the sandbox NotFound; one above the limit is not read into memory."""
    client = GatewayClient(peer.target)
    await client.upload(thread="t", path="/a", source=b"12345")

    with pytest.raises(FileNotFoundError):
        await client.upload(thread="t", path="/x", source=tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        await client.upload(thread="t", path="/x", source=tmp_path)
    with pytest.raises(NotFound):
        await client.download(thread="t", path="/missing")
    with pytest.raises(TransportLimitReached):
        await client.download(thread="t", path="/a", max_bytes=4)


async def test_a_folder_goes_up_file_by_file(peer: Any, tmp_path: Path) -> None:
    """Ordinary files keep their places; links and deleted files are skipped; a path out of the folder is refused."""
    (tmp_path / "source/deep").mkdir(parents=True)
    (tmp_path / "source/deep/b.txt").write_text("b")
    (tmp_path / "source/a.sh").write_text("a")
    (tmp_path / "source/a.sh").chmod(0o755)
    (tmp_path / "source/link").symlink_to("/etc/passwd")
    (tmp_path / "source/out").symlink_to("/etc")
    client = GatewayClient(peer.target)

    sent = await upload_folder(
        client,
        thread="t",
        folder=tmp_path / "source",
        files=["a.sh", "deep/b.txt", "link", "gone", "out/passwd"],
        target="/mnt/user-data/uploads/r",
    )

    assert (sent.files, sent.size_bytes, sent.skipped) == (2, 2, ("gone", "link", "out/passwd"))
    assert peer.servicer.files == {
        ("t", "/mnt/user-data/uploads/r/a.sh"): b"a",
        ("t", "/mnt/user-data/uploads/r/deep/b.txt"): b"b",
    }
    assert {header.path: header.executable for header in peer.servicer.requests("UploadFile")} == {
        "/mnt/user-data/uploads/r/a.sh": True,
        "/mnt/user-data/uploads/r/deep/b.txt": False,
    }
    for files in (["../x"], ["/etc/passwd"]):
        with pytest.raises(Misconfigured, match="leaves the folder"):
            await upload_folder(client, thread="t", folder=tmp_path, files=files, target="/x")
    with pytest.raises(Misconfigured, match="more than the 1 "):
        await upload_folder(
            client, thread="t", folder=tmp_path / "source", files=["a.sh", "deep/b.txt"], target="/x", max_bytes=1
        )


async def test_the_first_file_that_fails_ends_the_upload_of_a_folder(peer: Any, tmp_path: Path) -> None:
    """One typed error comes out, not a group of them."""
    for number in range(20):
        (tmp_path / f"{number}").write_text("x")
    peer.servicer.fail("UploadFile", peer.Failure(grpc.StatusCode.FAILED_PRECONDITION, "FILE_REFUSED", "disk full"))

    with pytest.raises(Exception, match="disk full"):
        await upload_folder(
            GatewayClient(peer.target), thread="t", folder=tmp_path, files=map(str, range(20)), target="/x"
        )


async def test_a_token_travels_with_each_call(peer: Any) -> None:
    """The gateway sees the bearer token and this client's name."""
    await GatewayClient(Endpoint(peer.target, token="secret")).list_tools()

    (metadata,) = peer.servicer.metadata
    assert metadata["authorization"] == "Bearer secret"
    assert str(metadata["user-agent"]).startswith("sandgate-agent/")


async def test_a_text_that_is_no_unicode_is_refused_here(peer: Any) -> None:
    """A lone surrogate cannot travel, and the error says so."""
    with pytest.raises(RequestRejected):
        await GatewayClient(peer.target).execute(call_of(thread="\ud800"))


async def test_many_calls_share_one_channel(peer: Any) -> None:
    """A hundred calls at once come back, each with its own answer."""
    client = GatewayClient(peer.target)
    calls = [call_of(arguments_json=b'{"n":%d}' % number) for number in range(100)]

    results = await asyncio.gather(*map(client.execute, calls))

    assert [result.text for result in results] == [f'ran bash {{"n":{number}}}' for number in range(100)]


async def test_a_server_that_speaks_something_else_is_a_typed_error(tmp_path: Path) -> None:
    """Bytes that are no message, a missing method, and a server that is no gRPC at all each have their error."""
    garbage = grpc.method_handlers_generic_handler(
        "sandgate.v1.ToolService", {"ListTools": grpc.unary_unary_rpc_method_handler(_garbage)}
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([garbage])
    server.add_insecure_port(f"unix:{tmp_path}/odd.sock")
    await server.start()
    http = await asyncio.start_unix_server(_refuse_http, path=f"{tmp_path}/http.sock")
    odd = GatewayClient(f"unix:{tmp_path}/odd.sock")

    with pytest.raises(GatewayFault):
        await odd.list_tools()
    with pytest.raises(GatewayFault) as missing:
        await odd.execute(call_of())
    assert missing.value.code == "UNIMPLEMENTED"
    with pytest.raises((GatewayUnavailable, CallTimedOut)):
        await GatewayClient(f"unix:{tmp_path}/http.sock").list_tools(timeout_seconds=2)

    http.close()
    await http.wait_closed()
    await server.stop(0)


async def _garbage(_: bytes, __: Any) -> bytes:
    return b"\xff\xff"


async def _refuse_http(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()
    writer.close()
