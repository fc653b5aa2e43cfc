"""The border that every request passes, behind a real server."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from sandgate.v1 import sandbox_service_pb2, sandbox_service_pb2_grpc
from sandgate_gateway.rpc.boundary import Boundary
from sandgate_gateway.rpc.request import Request

SERVICE = sandbox_service_pb2.DESCRIPTOR.services_by_name["SandboxService"]


class Patient:
    """A servicer that waits for its callers, however long they take."""

    def __init__(self) -> None:
        self.parts = 0

    async def upload_file(
        self, messages: AsyncIterator[sandbox_service_pb2.UploadFileRequest], _request: Request
    ) -> sandbox_service_pb2.UploadFileResponse:
        """Read everything."""
        async for _ in messages:
            self.parts += 1
        return sandbox_service_pb2.UploadFileResponse(size_bytes=self.parts)

    async def download_file(
        self, _message: sandbox_service_pb2.DownloadFileRequest, _request: Request
    ) -> AsyncIterator[sandbox_service_pb2.DownloadFileResponse]:
        """Send more than a caller takes who does not read."""
        while True:
            yield sandbox_service_pb2.DownloadFileResponse(data=b"x" * (256 << 10))

    async def get_sandbox(
        self, _message: sandbox_service_pb2.GetSandboxRequest, _request: Request
    ) -> sandbox_service_pb2.GetSandboxResponse:
        """Answer at once."""
        return sandbox_service_pb2.GetSandboxResponse()

    list_sandboxes = acquire_sandbox = release_sandbox = delete_sandbox = get_sandbox


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder whose path is short enough for a socket."""
    made = Path(tempfile.mkdtemp(prefix="sgb", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def boundary() -> Boundary:
    """Give a border that grants 0.3 s to who sets no deadline."""
    return Boundary(max_seconds=0.3)


@pytest.fixture
async def stub(folder: Path, boundary: Boundary) -> AsyncIterator[Any]:
    """Give a client of a server behind the border."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((boundary.handlers(SERVICE, Patient()),))
    server.add_insecure_port(f"unix:{folder}/s")
    await server.start()
    async with grpc.aio.insecure_channel(f"unix:{folder}/s") as channel:
        yield sandbox_service_pb2_grpc.SandboxServiceStub(channel)
    await server.stop(0)


async def test_who_stops_sending_does_not_stay(stub: Any, boundary: Boundary) -> None:
    """A caller without a deadline that sends a part and no more ends when its granted time is over."""

    async def one_part() -> AsyncIterator[sandbox_service_pb2.UploadFileRequest]:
        yield sandbox_service_pb2.UploadFileRequest(data=b"x")
        await asyncio.Event().wait()

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async with asyncio.timeout(5):
            await stub.UploadFile(one_part())
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    async with asyncio.timeout(5):
        await boundary.idle()


async def test_who_stops_reading_does_not_stay(stub: Any, boundary: Boundary) -> None:
    """A caller without a deadline that does not read ends when its granted time is over."""
    call = stub.DownloadFile(sandbox_service_pb2.DownloadFileRequest())
    assert await call.read()
    async with asyncio.timeout(5):
        await boundary.idle()
    call.cancel()


async def test_requests_in_time_are_not_cut_short(stub: Any) -> None:
    """Who is done in time gets the answer, with and without a deadline."""
    for seconds in (None, 5.0):
        assert await stub.GetSandbox(sandbox_service_pb2.GetSandboxRequest(), timeout=seconds) is not None
