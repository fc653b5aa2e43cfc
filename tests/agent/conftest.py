"""A gateway of the tests: a real gRPC server that speaks the contract, in a thread and an event loop of its own."""

# ruff: noqa: N802, D102 - the methods of the servicer have the names and the meaning of the contract

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from sandgate.v1 import (
    audit_service_pb2,
    audit_service_pb2_grpc,
    sandbox_service_pb2,
    sandbox_service_pb2_grpc,
    tool_pb2,
    tool_service_pb2,
    tool_service_pb2_grpc,
    verdict_pb2,
)

T = TypeVar("T")

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


@dataclass
class Failure:
    """A status that the next calls of a method end in."""

    code: grpc.StatusCode
    reason: str = ""
    message: str = "no"
    retry_after_seconds: float | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    domain: str = "sandgate.dev"


def result(call: tool_pb2.ToolCall, **fields: Any) -> tool_pb2.ToolResult:
    """Make the result of a call: completed, unless said otherwise."""
    values: dict[str, Any] = {
        "audit_id": f"audit-{call.request_id[:8]}",
        "request_id": call.request_id,
        "outcome": verdict_pb2.OUTCOME_COMPLETED,
        "verdict": verdict_pb2.VERDICT_PASS,
        "text": f"ran {call.tool} {call.arguments_json.decode()}",
        "sandbox": f"sandboxes/{call.thread}",
    }
    return tool_pb2.ToolResult(**(values | fields))


class Servicer(
    tool_service_pb2_grpc.ToolServiceServicer,
    sandbox_service_pb2_grpc.SandboxServiceServicer,
    audit_service_pb2_grpc.AuditServiceServicer,
):
    """Keeps the promises of the contract that an agent relies on, and notes what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.deadlines: list[tuple[str, float | None]] = []
        self.failures: dict[str, list[Failure]] = {}
        self.runs: Counter[str] = Counter()
        self.answers: dict[str, tool_pb2.ToolResult] = {}
        self.cancelled: list[str] = []
        self.running: set[str] = set()
        self.tools = [
            tool_pb2.Tool(name=name, description=f"Runs {name}.", arguments_schema_json=json.dumps(SCHEMA).encode())
            for name in ("bash", "read_file")
        ]
        self.digest = "digest-1"
        self.execute: Callable[[tool_pb2.ToolCall], Awaitable[tool_pb2.ToolResult]] = self._run
        self.authorize: Callable[[tool_pb2.ToolCall], tool_service_pb2.AuthorizeToolCallResponse] = self._admit
        self.shape: Callable[[Sequence[str]], Sequence[str] | None] = lambda _: None
        self.completions: dict[bytes, tuple[bytes, tool_service_pb2.CompleteToolCallResponse]] = {}
        self.files: dict[tuple[str, str], bytes] = {}
        self.metadata: list[dict[str, str | bytes]] = []
        self.stream: Callable[[tool_pb2.ToolCall], AsyncIterator[tool_service_pb2.StreamToolResponse]] | None = None

    def fail(self, method: str, *failures: Failure) -> None:
        """Let the next calls of a method end in these, in order."""
        self.failures.setdefault(method, []).extend(failures)

    def requests(self, method: str) -> list[Any]:
        """List the requests of a method."""
        return [request for name, request in self.calls if name == method]

    async def ListTools(self, request: Any, context: Any) -> tool_service_pb2.ListToolsResponse:
        await self._enter("ListTools", request, context)
        start = int(request.page_token or 0)
        size = request.page_size or 100
        following = str(start + size) if start + size < len(self.tools) else ""
        return tool_service_pb2.ListToolsResponse(
            tools=self.tools[start : start + size], next_page_token=following, catalogue_digest=self.digest
        )

    async def ExecuteTool(self, request: Any, context: Any) -> tool_service_pb2.ExecuteToolResponse:
        await self._enter("ExecuteTool", request, context)
        call = request.call
        if call.request_id not in self.answers:
            self.runs[call.request_id] += 1
            self.running.add(call.request_id)
            try:
                self.answers[call.request_id] = await self.execute(call)
            except asyncio.CancelledError:
                self.cancelled.append(call.request_id)
                raise
            finally:
                self.running.discard(call.request_id)
        return tool_service_pb2.ExecuteToolResponse(result=self.answers[call.request_id])

    async def StreamTool(self, request: Any, context: Any) -> AsyncIterator[tool_service_pb2.StreamToolResponse]:
        await self._enter("StreamTool", request, context)
        assert self.stream is not None
        try:
            async for event in self.stream(request.call):
                yield event
        except asyncio.CancelledError:
            self.cancelled.append(request.call.request_id)
            raise

    async def AuthorizeToolCall(self, request: Any, context: Any) -> tool_service_pb2.AuthorizeToolCallResponse:
        await self._enter("AuthorizeToolCall", request, context)
        return self.authorize(request.call)

    async def CompleteToolCall(self, request: Any, context: Any) -> tool_service_pb2.CompleteToolCallResponse:
        await self._enter("CompleteToolCall", request, context)
        content = request.SerializeToString(deterministic=True)
        if request.admission in self.completions:
            first, answer = self.completions[request.admission]
            if first != content:
                await abort(context, Failure(grpc.StatusCode.INVALID_ARGUMENT, "ADMISSION_COMPLETED"))
            return answer
        texts = self.shape(request.texts)
        answer = tool_service_pb2.CompleteToolCallResponse(
            audit_id=f"audit-{request.admission.decode()[:8]}", texts=texts or (), unchanged=texts is None
        )
        self.completions[request.admission] = (content, answer)
        return answer

    async def ReleaseSandbox(self, request: Any, context: Any) -> sandbox_service_pb2.ReleaseSandboxResponse:
        await self._enter("ReleaseSandbox", request, context)
        return sandbox_service_pb2.ReleaseSandboxResponse(released=True)

    async def UploadFile(self, requests: Any, context: Any) -> sandbox_service_pb2.UploadFileResponse:
        parts = [request async for request in requests]
        header = parts[0].header
        await self._enter("UploadFile", header, context)
        content = b"".join(part.data for part in parts[1:])
        if len(content) != header.size_bytes:
            await abort(context, Failure(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", "another size"))
        self.files[(header.thread, header.path)] = content
        return sandbox_service_pb2.UploadFileResponse(path=header.path, size_bytes=len(content))

    async def DownloadFile(self, request: Any, context: Any) -> AsyncIterator[sandbox_service_pb2.DownloadFileResponse]:
        await self._enter("DownloadFile", request, context)
        content = self.files.get((request.thread, request.path))
        if content is None:
            await abort(context, Failure(grpc.StatusCode.NOT_FOUND, "FILE_NOT_FOUND"))
        assert content is not None
        yield sandbox_service_pb2.DownloadFileResponse(data=content[:1000], total_bytes=len(content))
        for start in range(1000, len(content), 1000):
            yield sandbox_service_pb2.DownloadFileResponse(data=content[start : start + 1000])

    async def RecordEvents(self, request: Any, context: Any) -> audit_service_pb2.RecordEventsResponse:
        await self._enter("RecordEvents", request, context)
        return audit_service_pb2.RecordEventsResponse(recorded_count=len(request.events))

    async def _enter(self, method: str, request: Any, context: Any) -> None:
        self.calls.append((method, request))
        self.deadlines.append((method, context.time_remaining()))
        self.metadata.append(dict(context.invocation_metadata()))
        if waiting := self.failures.get(method):
            await abort(context, waiting.pop(0))

    async def _run(self, call: tool_pb2.ToolCall) -> tool_pb2.ToolResult:
        return result(call)

    def _admit(self, call: tool_pb2.ToolCall) -> tool_service_pb2.AuthorizeToolCallResponse:
        return tool_service_pb2.AuthorizeToolCallResponse(
            verdict=verdict_pb2.VERDICT_PASS,
            admission=call.request_id.encode(),
            audit_id=f"audit-{call.request_id[:8]}",
        )


async def abort(context: Any, failure: Failure) -> None:
    """End a call in a status, as the gateway does."""
    details: list[any_pb2.Any] = []
    for detail in _details(failure):
        packed = any_pb2.Any()
        packed.Pack(detail)
        details.append(packed)
    status = status_pb2.Status(code=failure.code.value[0], message=failure.message, details=details)
    trailers = (("grpc-status-details-bin", status.SerializeToString()),) if details else ()
    await context.abort(failure.code, failure.message, trailers)


def _details(failure: Failure) -> Iterator[Any]:
    if failure.reason:
        yield error_details_pb2.ErrorInfo(reason=failure.reason, domain=failure.domain, metadata=failure.metadata)
    if failure.retry_after_seconds is not None:
        delay = duration_pb2.Duration()
        delay.FromNanoseconds(round(failure.retry_after_seconds * 1e9))
        yield error_details_pb2.RetryInfo(retry_delay=delay)


class Peer:
    """A server that can be stopped and started again at the same place."""

    def __init__(self, address: str) -> None:
        self.target = address
        # Methods that no agent calls are left out.
        self.servicer: Any = type("Peer", (Servicer,), {"__abstractmethods__": frozenset()})()
        self.Failure = Failure
        self.result = result
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: grpc.aio.Server | None = None

    def start(self) -> None:
        """Listen."""
        self._run(self._start())

    def stop(self) -> None:
        """Cut all lines."""
        self._run(self._stop())

    def close(self) -> None:
        """Stop, and end the thread."""
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def eventually(self, condition: Callable[[], Any], *, seconds: float = 5.0) -> None:
        """Wait for something to become true."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not become true in time"
            time.sleep(0.005)

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _start(self) -> None:
        server = grpc.aio.server()
        tool_service_pb2_grpc.add_ToolServiceServicer_to_server(self.servicer, server)
        sandbox_service_pb2_grpc.add_SandboxServiceServicer_to_server(self.servicer, server)
        audit_service_pb2_grpc.add_AuditServiceServicer_to_server(self.servicer, server)
        server.add_insecure_port(self.target)
        await server.start()
        self._server = server

    async def _stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    """A gateway that listens on a Unix socket."""
    peer = Peer(f"unix:{tmp_path}/gateway.sock")
    peer.start()
    yield peer
    peer.close()


class ScriptedModel(BaseChatModel):
    """Says the lines of a script, one at each turn."""

    script: list[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Take note of nothing: the script knows the tools."""
        del tools
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> ChatResult:
        del stop, run_manager
        last_human = max(index for index, message in enumerate(messages) if message.type == "human")
        turn = sum(isinstance(message, AIMessage) for message in messages[last_human:])
        message = self.script[turn].model_copy(update={"id": None})
        return ChatResult(generations=[ChatGeneration(message=message)])


@pytest.fixture
def script() -> Callable[..., ScriptedModel]:
    """Make a model from what it shall say: `(tool, arguments)` pairs that are called at once, or its last words."""

    def make(*turns: Any) -> ScriptedModel:
        lines = []
        number = 0
        for turn in turns:
            if isinstance(turn, str):
                lines.append(AIMessage(turn))
                continue
            calls = []
            for name, arguments in turn if isinstance(turn, list) else [turn]:
                number += 1
                calls.append({"name": name, "args": arguments, "id": f"call-{number}"})
            lines.append(AIMessage("", tool_calls=calls))
        return ScriptedModel(script=lines)

    return make
