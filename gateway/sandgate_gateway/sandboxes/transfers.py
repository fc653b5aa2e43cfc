"""Moves files into and out of a sandbox, through its runner, so that no symlink in it can lead to the host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn

from sandgate_gateway.errors import ErrorReason, GatewayError, InvalidField, NotFound, StateConflict, Unavailable
from sandgate_providers.channel.types import End, FileOperation, ProcessEnd, Stream
from sandgate_providers.contract import Call, Channel
from sandgate_providers.errors import CallRefused, ChannelClosed, SandboxLost
from sandgate_providers.types import JsonValue

RETRY_SECONDS = 1.0
"""When to try again after the sandbox died: the next request makes a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that goes in."""

    path: str
    size_bytes: int
    executable: bool
    timeout_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A part of a file that comes out."""

    path: str
    offset_bytes: int
    limit_bytes: int
    """Zero: to the end."""
    timeout_seconds: float


async def upload(
    channel: Channel, wanted: Upload, parts: AsyncIterator[bytes], record: Callable[[], Awaitable[None]]
) -> None:
    """Write a file: whole, or not at all.

    Args:
        channel: into the sandbox.
        wanted: what is announced.
        parts: the content.
        record: writes down that the file is there. It is called whenever it is, also when the caller leaves before it
            is told so.

    Raises:
        InvalidField: the parts are more or fewer bytes than announced, or the path is no path of a file.
        StateConflict: the file cannot be written (`FILE_REFUSED`).
        Unavailable: the sandbox died or did not take the file.
    """
    work = FileOperation(
        name="write",
        arguments={"path": wanted.path, "size_bytes": wanted.size_bytes, "executable": wanted.executable},
        timeout_seconds=wanted.timeout_seconds,
        with_input=True,
    )
    sent: Call | None = None
    try:
        async with channel.open(work) as call:
            await _send(call, wanted.size_bytes, parts)
            sent = call
            _check(await call.end(), wanted.path)
    except (SandboxLost, ChannelClosed, CallRefused) as error:
        raise _lost() from error
    except asyncio.CancelledError:
        if sent is not None and _succeeded(await sent.end()):  # leaving the call has ended it, one way or the other
            await record()
        raise
    await record()


async def size_of(channel: Channel, path: str, *, timeout_seconds: float) -> int:
    """Give the size of an ordinary file. Raises like `download`."""
    work = FileOperation(name="stat", arguments={"path": path}, timeout_seconds=timeout_seconds)
    try:
        async with channel.open(work) as call:
            end = await call.end()
            _check(end, path)
    except (SandboxLost, ChannelClosed, CallRefused) as error:
        raise _lost() from error
    size = end.value.get("size_bytes") if isinstance(end.value, dict) else None
    if not isinstance(size, int):
        raise _lost()
    return size


async def download(channel: Channel, wanted: Download) -> AsyncGenerator[bytes]:
    """Yield the bytes of a file, in order.

    Raises:
        NotFound: there is no such file (`FILE_NOT_FOUND`).
        StateConflict: it cannot be read (`FILE_REFUSED`).
        Unavailable: the sandbox died.
    """
    arguments: dict[str, JsonValue] = {"path": wanted.path, "offset_bytes": wanted.offset_bytes}
    if wanted.limit_bytes:
        arguments["limit_bytes"] = wanted.limit_bytes
    work = FileOperation(name="read", arguments=arguments, timeout_seconds=wanted.timeout_seconds)
    try:
        async with channel.open(work) as call:
            async for chunk in call.chunks():
                if chunk.stream is Stream.STDOUT:
                    yield chunk.data
            _check(await call.end(), wanted.path)
    except (SandboxLost, ChannelClosed, CallRefused) as error:
        raise _lost() from error


async def _send(call: Call, size_bytes: int, parts: AsyncIterator[bytes]) -> None:
    sent = 0
    async for part in parts:
        sent += len(part)
        if sent > size_bytes:
            raise InvalidField("data", f"more came than the {size_bytes} bytes that were announced")
        await call.send(part)
    if sent < size_bytes:
        raise InvalidField("data", f"{size_bytes} bytes were announced and {sent} came")
    await call.close_input()


def _check(end: End, path: str) -> None:
    """Raise what the end of a file operation says, if it says anything but success."""
    if _succeeded(end):
        return
    if end.reason is ProcessEnd.START_FAILED:
        raise Unavailable(
            ErrorReason.PROVIDER_UNAVAILABLE,
            f"The sandbox did not take the file operation ({end.error_code}).",
            retry_after_seconds=RETRY_SECONDS,
            metadata={"code": end.error_code},
        )
    if end.error_code:
        _refuse(end.error_code, end.error_message, path)
    if end.reason is ProcessEnd.TIMEOUT:
        raise Unavailable(
            ErrorReason.PROVIDER_UNAVAILABLE, "The file took too long to move.", retry_after_seconds=RETRY_SECONDS
        )
    raise _lost()


def _succeeded(end: End) -> bool:
    return end.reason is ProcessEnd.EXITED and not end.error_code


def _refuse(code: str, message: str, path: str) -> NoReturn:
    metadata = {"path": path, "code": code}
    match code:
        case "not-found":
            raise NotFound(ErrorReason.FILE_NOT_FOUND, f"There is no such file: {path}", metadata={"path": path})
        case "invalid-path":
            raise InvalidField("path", message)
        case "size-mismatch":
            raise InvalidField("size_bytes", message)
        case _:
            raise StateConflict(ErrorReason.FILE_REFUSED, message or code, metadata=metadata)


def _lost() -> GatewayError:
    return Unavailable(
        ErrorReason.SANDBOX_LOST, "The sandbox died during the transfer.", retry_after_seconds=RETRY_SECONDS
    )
