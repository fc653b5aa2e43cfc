"""The gateway, as a program calls it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import grpc

from sandgate.v1 import audit_service_pb2, sandbox_service_pb2, tool_service_pb2
from sandgate_agent import codec
from sandgate_agent.calls import AnswerStream, Reply, answer_of
from sandgate_agent.catalogue import Catalogue
from sandgate_agent.chunks import chunks_of
from sandgate_agent.connection import PROCESS, Connection
from sandgate_agent.deadlines import Deadline, Timeouts, with_capacity
from sandgate_agent.endpoint import Endpoint
from sandgate_agent.errors import ProtocolViolation, SandgateError, TransportLimitReached
from sandgate_agent.results import ToolResult
from sandgate_agent.types import (
    Authorization,
    Completion,
    Finished,
    MiddlewareEvent,
    Report,
    StreamEvent,
    ToolCall,
    ToolSpec,
)

EXECUTION_MARGIN_SECONDS = 60.0
"""How much longer than a tool's own timeout its call may take: the time to make a sandbox and to end the command."""

DOWNLOAD_BYTES = 64 * 1024 * 1024
"""The largest file that is read into memory unless the caller says otherwise."""

_PAGE_SIZE = 1_000
_MAX_PAGES = 100
_CATALOGUE_TRIES = 3

_log = logging.getLogger(__name__)

T = TypeVar("T")
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class GatewayClient:
    """A client of one gateway.

    Its methods can be awaited from any event loop; `wait` runs one of them from a thread without a loop. Clients of one
    gateway share the process's one channel to it, which closes when the process ends. Every call has a deadline.
    Cancelling a method cancels its call, at the gateway too.

    Each method raises a `SandgateError` of the class that says what can be done next.

    Args:
        endpoint: the gateway, or its target.
        timeouts: how long calls may take.
    """

    def __init__(self, endpoint: Endpoint | str, *, timeouts: Timeouts | None = None) -> None:
        self.endpoint = Endpoint(endpoint) if isinstance(endpoint, str) else endpoint
        self.timeouts = timeouts or Timeouts()

    def wait(self, work: Coroutine[object, object, T]) -> T:
        """Run a method of this client and block until it has ended: `client.wait(client.list_tools())`.

        Abandoning the wait (KeyboardInterrupt) cancels the call. Not for the thread of an event loop.
        """
        return self._connection.background.wait(work)

    def detach(self, work: Coroutine[object, object, object], *, doing: str) -> None:
        """Run a method of this client without waiting for its end; an error is logged.

        For a caller that must not wait, because it is being cancelled for example. When the process ends it gives such
        work two seconds to finish.

        Args:
            work: what to run.
            doing: what it does, for the log: `reporting the end of a call`.
        """
        self._connection.background.spawn(_logged(work, doing))

    async def list_tools(self, *, timeout_seconds: float | None = None) -> Catalogue:
        """Get the tools that the gateway offers.

        Raises:
            ProtocolViolation: a tool is not usable, or the pages have no end.
        """
        deadline = Deadline(timeout_seconds or self.timeouts.control)
        for _ in range(_CATALOGUE_TRIES):
            tools: list[ToolSpec] = []
            digests: set[str] = set()
            token = ""
            for _ in range(_MAX_PAGES):
                reply = await self._ask(
                    lambda connection: connection.tools.ListTools,
                    tool_service_pb2.ListToolsRequest(page_size=_PAGE_SIZE, page_token=token),
                    deadline.remaining_seconds,
                )
                tools += map(codec.tool_from_message, reply.tools)
                digests.add(reply.catalogue_digest)
                token = reply.next_page_token
                if not token:
                    break
            else:
                raise ProtocolViolation(f"the gateway's list of tools has more than {_MAX_PAGES} pages")
            if len(digests) == 1:
                return Catalogue(tools=tuple(tools), digest=digests.pop())
        raise ProtocolViolation("the gateway's tools changed each time while they were listed")

    async def execute(self, call: ToolCall) -> ToolResult:
        """Run one call of a gateway's tool to its end. A repeat with the same request id never runs twice."""
        reply = await self._ask(
            lambda connection: connection.tools.ExecuteTool,
            tool_service_pb2.ExecuteToolRequest(call=codec.call_to_message(call)),
            self._execution_seconds(call),
        )
        return codec.result_from_message(reply.result)

    @asynccontextmanager
    async def stream(self, call: ToolCall) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Run one call and watch it: `async with client.stream(call) as events: async for event in events: …`.

        The last event is `Finished`, exactly once; a stream without it raises. Leaving the context before the end
        cancels the call. The gateway waits for a slow reader.
        """
        request = tool_service_pb2.StreamToolRequest(call=codec.call_to_message(call))
        connection = self._connection
        with connection.calling():
            replies = connection.tools.StreamTool(
                request, timeout=self._execution_seconds(call), metadata=self.endpoint.metadata
            )
            async with AnswerStream(replies) as answers:
                yield _events(answers)

    async def authorize(self, call: ToolCall) -> Authorization:
        """Ask whether a tool of the agent's own process may run."""
        reply = await self._ask(
            lambda connection: connection.tools.AuthorizeToolCall,
            tool_service_pb2.AuthorizeToolCallRequest(call=codec.call_to_message(call)),
            self.timeouts.control,
        )
        return codec.authorization_from_message(reply, request_id=call.request_id)

    async def complete(self, admission: bytes, report: Report) -> Completion:
        """Tell the gateway how an authorized call ended; get what the model shall see. The first completion wins."""
        reply = await self._ask(
            lambda connection: connection.tools.CompleteToolCall,
            codec.report_to_message(admission, report),
            self.timeouts.control,
        )
        return codec.completion_from_message(reply, sent=report.texts)

    async def release(self, *, thread: str, lease: str, timeout_seconds: float | None = None) -> bool:
        """End a lease. True when the gateway knew it."""
        reply = await self._ask(
            lambda connection: connection.sandboxes.ReleaseSandbox,
            sandbox_service_pb2.ReleaseSandboxRequest(thread=thread, lease=lease),
            timeout_seconds or self.timeouts.control,
        )
        return reply.released

    async def record_events(self, events: Sequence[MiddlewareEvent]) -> int:
        """Record decisions of the agent's middlewares, at most 100 at once. Returns how many were new."""
        reply = await self._ask(
            lambda connection: connection.audit.RecordEvents,
            audit_service_pb2.RecordEventsRequest(events=map(codec.middleware_event_to_message, events)),
            self.timeouts.control,
        )
        return reply.recorded_count

    async def upload(self, *, thread: str, path: str, source: bytes | Path, executable: bool = False) -> int:
        """Write one file into a thread's sandbox: it appears whole or not at all. Returns its size in bytes.

        Args:
            thread: whose sandbox gets it.
            path: absolute, inside the sandbox; folders on the way are made.
            source: the bytes, or a file of this machine, which must not change meanwhile.
            executable: lets its owner execute it.

        Raises:
            OSError: the file of this machine cannot be read; nothing was written.
        """
        size = len(source) if isinstance(source, bytes) else (await asyncio.to_thread(source.stat)).st_size
        header = codec.upload_header_to_message(thread=thread, path=path, size_bytes=size, executable=executable)
        unread: list[OSError] = []

        def parts() -> Iterator[sandbox_service_pb2.UploadFileRequest]:
            # gRPC runs this in a thread of its own and asks for the next part when the last is on its way.
            yield header
            try:
                yield from map(codec.upload_data_to_message, chunks_of(source))
            except OSError as error:
                unread.append(error)
                raise

        try:
            reply = await self._ask_with(
                lambda connection, timeout: connection.sandboxes.UploadFile.future(
                    parts(), timeout=timeout, metadata=self.endpoint.metadata
                ),
                self.timeouts.transfer,
            )
        except SandgateError:
            if unread:
                # gRPC reports only that the parts ended early; this is why.
                raise unread[0] from None
            raise
        return reply.size_bytes

    async def download(self, *, thread: str, path: str, max_bytes: int = DOWNLOAD_BYTES) -> bytes:
        """Read one file of a thread's sandbox.

        Raises:
            NotFound: there is no such file.
            TransportLimitReached: it is larger than `max_bytes`.
            ProtocolViolation: the stream ended before the file did.
        """
        request = sandbox_service_pb2.DownloadFileRequest(thread=thread, path=path)
        connection = self._connection
        content = bytearray()
        total: int | None = None
        with connection.calling():
            replies = connection.sandboxes.DownloadFile(
                request, timeout=self.timeouts.transfer, metadata=self.endpoint.metadata
            )
            async with AnswerStream(replies) as answers:
                async for answer in answers:
                    total = answer.total_bytes if total is None else total
                    content += answer.data
                    if max(total, len(content)) > max_bytes:
                        raise TransportLimitReached(f"{path} is larger than {max_bytes} bytes")
        if len(content) != (total or 0):
            raise ProtocolViolation(f"{path} has {total} bytes, and {len(content)} of them came")
        return bytes(content)

    @property
    def _connection(self) -> Connection:
        return PROCESS.to(self.endpoint)

    def _execution_seconds(self, call: ToolCall) -> float:
        if not call.execution_timeout_seconds:
            return self.timeouts.execution
        return max(self.timeouts.execution, call.execution_timeout_seconds + EXECUTION_MARGIN_SECONDS)

    async def _ask(
        self,
        method: Callable[[Connection], grpc.UnaryUnaryMultiCallable[RequestT, ResponseT]],
        request: RequestT,
        timeout_seconds: float,
    ) -> ResponseT:
        return await self._ask_with(
            lambda connection, timeout: method(connection).future(
                request, timeout=timeout, metadata=self.endpoint.metadata
            ),
            timeout_seconds,
        )

    async def _ask_with(
        self, start: Callable[[Connection, float], Reply[ResponseT]], timeout_seconds: float
    ) -> ResponseT:
        async def attempt(deadline: Deadline) -> ResponseT:
            connection = self._connection
            with connection.calling():
                return await answer_of(start(connection, deadline.remaining_seconds))

        return await with_capacity(attempt, deadline=Deadline(timeout_seconds), patience=self.timeouts.capacity)


async def _logged(work: Coroutine[object, object, object], doing: str) -> None:
    try:
        await work
    except SandgateError as error:
        _log.warning("%s failed: %s", doing, error)


async def _events(answers: AsyncIterator[tool_service_pb2.StreamToolResponse]) -> AsyncIterator[StreamEvent]:
    finished = False
    async for answer in answers:
        event = codec.event_from_message(answer)
        if finished:
            raise ProtocolViolation("the gateway sent an event after the last one")
        if event is not None:
            finished = isinstance(event, Finished)
            yield event
    if not finished:
        raise ProtocolViolation("the gateway ended a stream without saying how the call ended")
