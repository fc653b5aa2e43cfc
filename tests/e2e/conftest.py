"""A whole gateway behind a Unix socket, and an agent that speaks gRPC to it.

Most tests run over the scripted provider, whose sandboxes understand a few commands (see `play`); those marked `local`
run over real sandboxes.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2_grpc
from grpc_status import rpc_status

from sandgate.v1 import (
    audit_service_pb2,
    audit_service_pb2_grpc,
    sandbox_service_pb2_grpc,
    tool_pb2,
    tool_service_pb2,
    tool_service_pb2_grpc,
)
from sandgate_gateway.bootstrap import Gateway, running_gateway
from sandgate_gateway.configuration.listening import listen_address
from sandgate_gateway.settings import Settings
from sandgate_providers.channel.types import Command, End, ProcessEnd, Stream
from sandgate_providers.contract import SandboxProvider
from sandgate_providers.fake import FakeCall, FakeProvider, Work, exited

DEADLINE_SECONDS = 20.0


class Refusal:
    """A status of the gateway, read as a client reads it."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        status = rpc_status.from_call(error)
        assert isinstance(status, status_pb2.Status), f"a bare status: {error.code()} {error.details()}"
        self.code = error.code()
        self.message = status.message
        self.retry_seconds = 0.0
        self.fields: list[str] = []
        infos = []
        for detail in status.details:
            for kind in (error_details_pb2.ErrorInfo, error_details_pb2.RetryInfo, error_details_pb2.BadRequest):
                value: Any = kind()
                if not detail.Unpack(value):
                    continue
                if kind is error_details_pb2.ErrorInfo:
                    infos.append(value)
                elif kind is error_details_pb2.RetryInfo:
                    self.retry_seconds = value.retry_delay.ToTimedelta().total_seconds()
                else:
                    self.fields = [violation.field for violation in value.field_violations]
        [info] = infos
        assert info.domain == "sandgate.dev"
        self.reason = info.reason
        self.metadata = dict(info.metadata)


class Agent:
    """Speaks to a gateway."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        # The stubs' types know an asynchronous twin of each, which does not exist at run time.
        self.tools = cast("tool_service_pb2_grpc.ToolServiceAsyncStub", tool_service_pb2_grpc.ToolServiceStub(channel))
        self.sandboxes = cast(
            "sandbox_service_pb2_grpc.SandboxServiceAsyncStub", sandbox_service_pb2_grpc.SandboxServiceStub(channel)
        )
        self.audit = cast(
            "audit_service_pb2_grpc.AuditServiceAsyncStub", audit_service_pb2_grpc.AuditServiceStub(channel)
        )
        self.health = health_pb2_grpc.HealthStub(channel)

    @staticmethod
    def call(command: str = "echo hello", **fields: object) -> tool_pb2.ToolCall:
        """Make a call of bash, unless the fields say otherwise."""
        values: dict[str, object] = {
            "request_id": str(uuid.uuid4()),
            "thread": "thread",
            "tool": "bash",
            "arguments_json": json.dumps({"command": command}).encode(),
        }
        return tool_pb2.ToolCall(**{**values, **fields})  # type: ignore[arg-type]  # a test writes what it means

    async def run(self, call: tool_pb2.ToolCall, *, seconds: float = DEADLINE_SECONDS) -> tool_pb2.ToolResult:
        """Run a call to its end."""
        reply = await self.tools.ExecuteTool(tool_service_pb2.ExecuteToolRequest(call=call), timeout=seconds)
        return reply.result

    async def bash(self, command: str = "echo hello", **fields: object) -> tool_pb2.ToolResult:
        """Run a command to its end."""
        return await self.run(self.call(command, **fields))

    def stream(
        self, call: tool_pb2.ToolCall, *, seconds: float = DEADLINE_SECONDS
    ) -> grpc.aio.UnaryStreamCall[tool_service_pb2.StreamToolRequest, tool_service_pb2.StreamToolResponse]:
        """Run a call and watch it."""
        return self.tools.StreamTool(tool_service_pb2.StreamToolRequest(call=call), timeout=seconds)

    async def records(self, **wanted: str) -> list[dict[str, Any]]:
        """Read records, oldest first."""
        request = audit_service_pb2.QueryEventsRequest(
            filter=audit_service_pb2.EventFilter(**wanted),  # type: ignore[arg-type]  # texts only
            page_size=1000,
        )
        reply = await self.audit.QueryEvents(request, timeout=DEADLINE_SECONDS)
        return [json.loads(event.record_json) for event in reversed(reply.events)]

    async def refusal(self, attempt: Awaitable[object]) -> Refusal:
        """Await something that must end in a status of the gateway."""
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await attempt
        return self.read_refusal(caught.value)

    @staticmethod
    def read_refusal(error: grpc.aio.AioRpcError) -> Refusal:
        """Read the status of the gateway."""
        return Refusal(error)

    async def raw(self, method: str, data: bytes, *, seconds: float | None = DEADLINE_SECONDS) -> bytes:
        """Send bytes that need be no message."""
        send: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(method)
        return await send(data, timeout=seconds)


Start = Callable[..., Awaitable[tuple[Agent, Gateway]]]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder whose path is short enough for a socket, and open to the users of sandboxes."""
    made = Path(tempfile.mkdtemp(prefix="sge", dir="/tmp"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
async def start(folder: Path) -> AsyncIterator[Start]:
    """Start gateways with settings of their own; all end with the test."""
    async with AsyncExitStack() as stack:

        async def begin(provider: SandboxProvider | None = None, **settings: object) -> tuple[Agent, Gateway]:
            name = uuid.uuid4().hex[:8]
            values: dict[str, object] = {
                "data_dir": folder / "data",
                "listen": (listen_address(f"unix:{folder / name}.sock"),),
                "server": {"shutdown_grace": 1},
            }
            chosen = Settings(**{**values, **settings})  # type: ignore[arg-type]  # a test writes what it means
            gateway = await stack.enter_async_context(running_gateway(chosen, provider=provider))
            channel = grpc.aio.insecure_channel(gateway.addresses[0], options=(("grpc.use_local_subchannel_pool", 1),))
            await stack.enter_async_context(channel)
            return Agent(channel), gateway

        yield begin


@pytest.fixture
def speak() -> Callable[[grpc.aio.Channel], Agent]:
    """Make an agent for a channel of the test's own."""
    return Agent


@pytest.fixture
def provider() -> FakeProvider:
    """Give a provider whose sandboxes play a few commands."""
    return FakeProvider(play)


@pytest.fixture
async def agent(start: Start, provider: FakeProvider) -> Agent:
    """Give an agent of a gateway over the scripted provider."""
    made, _ = await start(provider)
    return made


@pytest.fixture
async def local(start: Start) -> Agent:
    """Give an agent of a gateway over real sandboxes; for tests marked `local`."""
    made, _ = await start()
    return made


async def play(work: Work, call: FakeCall) -> End:
    """Play `echo TEXT`, `err TEXT`, `exit CODE`, `flood BYTES` and `wait`, which waits until it is cancelled."""
    if not isinstance(work, Command):
        return exited()
    verb, _, rest = work.argv[-1].strip().partition(" ")
    match verb:
        case "echo":
            await call.emit(rest.encode() + b"\n")
        case "err":
            await call.emit(rest.encode() + b"\n", Stream.STDERR)
        case "exit":
            return exited(int(rest))
        case "flood":
            for _ in range(int(rest) // 65536):
                await call.emit(b"x" * 65536)
        case "wait":
            await call.emit(b"waiting\n")
            await call.cancelled.wait()
            return End(reason=ProcessEnd.CANCELLED)
    return exited()


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Wait until something is the case."""

    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():  # noqa: ASYNC110 - what is waited for happens in processes and other tasks
                await asyncio.sleep(0.01)

    return wait
