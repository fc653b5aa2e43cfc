"""Serves `sandgate.v1.SandboxService`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from functools import partial

from sandgate.v1 import sandbox_service_pb2
from sandgate_gateway.audit.codes import Code
from sandgate_gateway.audit.event import Target
from sandgate_gateway.errors import InvalidField
from sandgate_gateway.pipeline.recorder import Recorder
from sandgate_gateway.pipeline.records import file_record
from sandgate_gateway.rpc import fields
from sandgate_gateway.rpc.output_relay import MAX_CHUNK_BYTES
from sandgate_gateway.rpc.paging import page
from sandgate_gateway.rpc.request import Request
from sandgate_gateway.rpc.sandbox_codec import sandbox
from sandgate_gateway.sandboxes.lease import BoundLease
from sandgate_gateway.sandboxes.manager import SandboxManager
from sandgate_gateway.sandboxes.transfers import Download, Upload, download, size_of, upload
from sandgate_providers.types import USER_DATA, SandboxKey

MAX_DATA_BYTES = 1 << 20
"""Of one part of an upload; the contract's limit."""

STAT_SECONDS = 10.0


class SandboxService:
    """Shows and ends sandboxes, and moves files."""

    def __init__(self, sandboxes: SandboxManager, recorder: Recorder) -> None:
        self._sandboxes = sandboxes
        self._recorder = recorder

    async def get_sandbox(
        self, message: sandbox_service_pb2.GetSandboxRequest, request: Request
    ) -> sandbox_service_pb2.GetSandboxResponse:
        """Show one sandbox."""
        view = self._sandboxes.get(request.principal.tenant, fields.sandbox_name(message.name))
        return sandbox_service_pb2.GetSandboxResponse(sandbox=sandbox(view))

    async def list_sandboxes(
        self, message: sandbox_service_pb2.ListSandboxesRequest, request: Request
    ) -> sandbox_service_pb2.ListSandboxesResponse:
        """List the caller's sandboxes."""
        views = self._sandboxes.list(request.principal.tenant)
        shown, token = page(views, lambda view: view.name, size=message.page_size, token=message.page_token)
        return sandbox_service_pb2.ListSandboxesResponse(
            sandboxes=[sandbox(view) for view in shown], next_page_token=token
        )

    async def acquire_sandbox(
        self, message: sandbox_service_pb2.AcquireSandboxRequest, request: Request
    ) -> sandbox_service_pb2.AcquireSandboxResponse:
        """Make a thread's sandbox ready."""
        key = _key(request, "thread", message.thread)
        lease = fields.identifier("lease", message.lease)
        view = await self._sandboxes.acquire(key, lease, deadline=request.deadline)
        return sandbox_service_pb2.AcquireSandboxResponse(sandbox=sandbox(view))

    async def release_sandbox(
        self, message: sandbox_service_pb2.ReleaseSandboxRequest, request: Request
    ) -> sandbox_service_pb2.ReleaseSandboxResponse:
        """End a lease."""
        key = _key(request, "thread", message.thread)
        lease = fields.identifier("lease", message.lease, required=True)
        return sandbox_service_pb2.ReleaseSandboxResponse(released=self._sandboxes.release(key, lease))

    async def delete_sandbox(
        self, message: sandbox_service_pb2.DeleteSandboxRequest, request: Request
    ) -> sandbox_service_pb2.DeleteSandboxResponse:
        """End a sandbox."""
        await self._sandboxes.delete(request.principal.tenant, fields.sandbox_name(message.name))
        return sandbox_service_pb2.DeleteSandboxResponse()

    async def upload_file(
        self, messages: AsyncIterator[sandbox_service_pb2.UploadFileRequest], request: Request
    ) -> sandbox_service_pb2.UploadFileResponse:
        """Write one file."""
        first = await anext(messages, None)
        if first is None or first.WhichOneof("part") != "header":
            raise InvalidField("header", "must come first")
        header = first.header
        key = _key(request, "header.thread", header.thread)
        wanted = Upload(
            path=fields.path_below("header.path", header.path, USER_DATA),
            size_bytes=fields.not_negative("header.size_bytes", header.size_bytes),
            executable=header.executable,
            timeout_seconds=_remaining(request),
        )
        self._recorder.require_writable()  # the record is written once the file is there
        with closing(self._sandboxes.bind(key, "")) as lease:
            channel = await lease.open(deadline=request.deadline)
            record = partial(self._record, Code.FILE_UPLOADED, request, lease, wanted.path, wanted.size_bytes)
            await upload(channel, wanted, _data(messages), record)
        return sandbox_service_pb2.UploadFileResponse(path=wanted.path, size_bytes=wanted.size_bytes)

    async def download_file(
        self, message: sandbox_service_pb2.DownloadFileRequest, request: Request
    ) -> AsyncIterator[sandbox_service_pb2.DownloadFileResponse]:
        """Read one file. It is recorded before the first byte leaves."""
        key = _key(request, "thread", message.thread)
        wanted = Download(
            path=fields.path_below("path", message.path, USER_DATA),
            offset_bytes=fields.not_negative("offset_bytes", message.offset_bytes),
            limit_bytes=fields.not_negative("limit_bytes", message.limit_bytes),
            timeout_seconds=_remaining(request),
        )
        with closing(self._sandboxes.bind(key, "")) as lease:
            channel = await lease.open(deadline=request.deadline)
            total = await size_of(channel, wanted.path, timeout_seconds=min(STAT_SECONDS, wanted.timeout_seconds))
            async with aclosing(download(channel, wanted)) as pieces:
                first = await anext(pieces, b"")  # so that a file that cannot be read is not recorded as read
                await self._record(Code.FILE_DOWNLOADED, request, lease, wanted.path, total)
                yield sandbox_service_pb2.DownloadFileResponse(data=first[:MAX_CHUNK_BYTES], total_bytes=total)
                for part in _split(first[MAX_CHUNK_BYTES:]):
                    yield sandbox_service_pb2.DownloadFileResponse(data=part)
                async for piece in pieces:
                    for part in _split(piece):
                        yield sandbox_service_pb2.DownloadFileResponse(data=part)

    async def _record(self, code: Code, request: Request, lease: BoundLease, path: str, size_bytes: int) -> None:
        await self._recorder.write(
            file_record(
                code,
                request.principal,
                request.origin,
                thread=lease.key.thread,
                target=Target(provider=lease.provider, sandbox=lease.sandbox),
                path=path,
                size_bytes=size_bytes,
            )
        )


async def _data(messages: AsyncIterator[sandbox_service_pb2.UploadFileRequest]) -> AsyncIterator[bytes]:
    async for message in messages:
        if message.WhichOneof("part") != "data":
            raise InvalidField("data", "must follow the header, and nothing else may")
        if len(message.data) > MAX_DATA_BYTES:
            raise InvalidField("data", f"has more than {MAX_DATA_BYTES} bytes in one part")
        yield message.data


def _split(data: bytes) -> list[bytes]:
    return [data[start : start + MAX_CHUNK_BYTES] for start in range(0, len(data), MAX_CHUNK_BYTES)]


def _key(request: Request, field: str, thread: str) -> SandboxKey:
    return SandboxKey(tenant=request.principal.tenant, thread=fields.identifier(field, thread, required=True))


def _remaining(request: Request) -> float:
    return max(0.0, request.deadline - asyncio.get_running_loop().time())
