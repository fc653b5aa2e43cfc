"""Files in and out over scripted sandboxes: callers who leave, who stop, and what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from sandgate.v1 import sandbox_service_pb2
from sandgate_providers.channel.types import End, FileOperation, ProcessEnd
from sandgate_providers.fake import FakeCall, FakeProvider, Work, exited

Agent = Any  # the conftest's; test modules do not import each other

LONG_PATH = "/mnt/user-data/" + "/".join(["é" * 100] * 20)
"""About 4,000 bytes, of which each takes three in a status' text."""


class Files:
    """Plays a runner's file operations."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.written = asyncio.Event()

    async def __call__(self, work: Work, call: FakeCall) -> End:
        """Have no file; take one, and say so only when the caller does not wait for it any more."""
        assert isinstance(work, FileOperation)
        if str(work.arguments["path"]).endswith("/full"):
            return End(reason=ProcessEnd.START_FAILED, error_code="full", error_message="256 calls run")
        if work.name != "write":
            message = f"{work.arguments['path']} is not there"
            return End(reason=ProcessEnd.EXITED, exit_code=1, error_code="not-found", error_message=message)
        reading = asyncio.create_task(self._read(call))
        leaving = asyncio.create_task(call.cancelled.wait())
        await asyncio.wait([reading, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            reading.cancel()
            return End(reason=ProcessEnd.CANCELLED)
        self.written.set()
        await leaving
        return exited()

    async def _read(self, call: FakeCall) -> None:
        while await call.read_input():
            self.begun.set()


@pytest.fixture
def files() -> Files:
    """Give the file operations."""
    return Files()


@pytest.fixture
def provider(files: Files) -> FakeProvider:
    """Give a provider whose sandboxes only move files."""
    return FakeProvider(files)


def header(size_bytes: int) -> sandbox_service_pb2.UploadFileRequest:
    """Announce a file."""
    return sandbox_service_pb2.UploadFileRequest(
        header=sandbox_service_pb2.UploadHeader(thread="thread", path="/mnt/user-data/x", size_bytes=size_bytes)
    )


async def whole_file() -> AsyncIterator[sandbox_service_pb2.UploadFileRequest]:
    """Send one file."""
    yield header(1)
    yield sandbox_service_pb2.UploadFileRequest(data=b"x")


async def test_a_file_is_recorded_though_its_caller_left(agent: Agent, files: Files) -> None:
    """Who leaves between the last byte and the answer cannot get a file in without a record of it."""
    uploading = agent.sandboxes.UploadFile(whole_file(), timeout=20)
    await files.written.wait()
    uploading.cancel()
    async with asyncio.timeout(5):
        while not [record for record in await agent.records() if record["event"] == "sandbox.file.uploaded"]:  # noqa: ASYNC110 - the gateway is told of the cancellation in its own time
            await asyncio.sleep(0.01)


async def test_a_file_that_was_not_sent_whole_is_not_recorded(agent: Agent, files: Files) -> None:
    """Who leaves before the last byte has written nothing, and the records say nothing else."""

    async def half() -> AsyncIterator[sandbox_service_pb2.UploadFileRequest]:
        yield header(2)
        yield sandbox_service_pb2.UploadFileRequest(data=b"x")
        await asyncio.Event().wait()

    uploading = agent.sandboxes.UploadFile(half(), timeout=20)
    await files.begun.wait()
    uploading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await uploading
    request = sandbox_service_pb2.ListSandboxesRequest()
    async with asyncio.timeout(5):
        while any(view.call_count for view in (await agent.sandboxes.ListSandboxes(request, timeout=5)).sandboxes):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    assert not files.written.is_set()
    assert "sandbox.file.uploaded" not in [record["event"] for record in await agent.records()]


async def test_a_busy_sandbox_is_no_refused_file(agent: Agent) -> None:
    """When the sandbox does not take the operation, waiting helps, and the status says so."""
    request = sandbox_service_pb2.DownloadFileRequest(thread="thread", path="/mnt/user-data/full")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in agent.sandboxes.DownloadFile(request, timeout=20):
            pass
    refusal = agent.read_refusal(caught.value)
    assert refusal.code is grpc.StatusCode.UNAVAILABLE
    assert refusal.retry_seconds > 0
    assert "died" not in refusal.message


async def test_an_error_about_a_long_path_arrives(agent: Agent) -> None:
    """A status is small enough for every client, whatever the caller's own words in it are."""
    request = sandbox_service_pb2.DownloadFileRequest(thread="thread", path=LONG_PATH)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in agent.sandboxes.DownloadFile(request, timeout=20):
            pass
    refusal = agent.read_refusal(caught.value)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "FILE_NOT_FOUND")
    assert refusal.message.startswith("There is no such file: /mnt/user-data/é")
