"""What the pipeline's tests share: the whole pipeline over a scripted provider, with a list for an audit log."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from sandgate_gateway.admissions.keys import KeyRing
from sandgate_gateway.admissions.signing import AdmissionSigner
from sandgate_gateway.audit.digests import Digests
from sandgate_gateway.audit.disclosure import Disclosure, DisclosureLevel
from sandgate_gateway.audit.event import AuditEvent
from sandgate_gateway.domain.call import JsonValue, Sink, ToolCall
from sandgate_gateway.domain.principal import LOCAL_DEVELOPER, Origin
from sandgate_gateway.domain.result import OutputChunk, OutputStream, ToolResult, Violation
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.errors import ErrorReason, Unavailable
from sandgate_gateway.ledger.memory import MemoryLedger
from sandgate_gateway.ledger.table import RequestTable
from sandgate_gateway.pipeline.assemble import Pipeline, standard_stages
from sandgate_gateway.pipeline.authorizing import AdmissionDesk, AdmissionPolicy
from sandgate_gateway.pipeline.calls import CallRunner, IncomingCall
from sandgate_gateway.pipeline.dispatch import Dispatch, Timeouts
from sandgate_gateway.pipeline.recorder import Recorder
from sandgate_gateway.pipeline.stage import Stage
from sandgate_gateway.sandboxes.events import SandboxEvent
from sandgate_gateway.sandboxes.manager import SandboxManager
from sandgate_gateway.sandboxes.policy import SandboxPolicy
from sandgate_gateway.tools.contract import Tool, ToolRun, ToolSpec
from sandgate_providers.channel.types import Command, Stream
from sandgate_providers.fake import FakeProvider


class ListedLog:
    """An audit log that is a list, and breaks when a test says so."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []
        self.broken = False
        self.held: asyncio.Event | None = None
        """While it is set and not released, writes wait."""

    async def write(self, event: AuditEvent) -> None:
        """Keep an event."""
        if self.held is not None:
            await self.held.wait()
        if self.broken:
            raise Unavailable(ErrorReason.AUDIT_UNAVAILABLE, "broken", retry_after_seconds=5)
        self.events.append(event)

    def names(self) -> list[str]:
        """List the events by stage, or by name where they have none."""
        return [event.code.stage.value or event.event for event in self.events]


class ShellTool:
    """A tool that runs one command and gives what it wrote; a test may replace what it does."""

    spec = ToolSpec(name="shell", description="Runs a command.", arguments_schema={"type": "object"}, read_only=False)

    def __init__(self) -> None:
        self.runs: list[ToolRun] = []
        self.body: Callable[[ToolRun], Awaitable[ToolResult]] = self._command

    async def run(self, run: ToolRun) -> ToolResult:
        """Run it."""
        self.runs.append(run)
        return await self.body(run)

    async def _command(self, run: ToolRun) -> ToolResult:
        command = Command(argv=("sh", "-c", str(run.arguments["command"])), timeout_seconds=run.timeout_seconds)
        output = b""
        async with run.channel.open(command) as call:
            async for chunk in call.chunks():
                if run.sink is not None:
                    stream = OutputStream.STDOUT if chunk.stream is Stream.STDOUT else OutputStream.STDERR
                    await run.sink(OutputChunk(stream, chunk.data))
                output += chunk.data
            end = await call.end()
        return ToolResult(outcome=Outcome.COMPLETED, text=output.decode() or f"ended: {end.reason.value}")


class ListedTools:
    """The catalogue of one tool."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    @property
    def names(self) -> Sequence[str]:
        """Give the one name."""
        return (self._tool.spec.name,)

    def find(self, name: str) -> Tool | None:
        """Give the one tool."""
        return self._tool if name == self._tool.spec.name else None

    def check(self, _name: str, arguments: Mapping[str, JsonValue]) -> tuple[Violation, ...]:
        """Want a command."""
        return () if "command" in arguments else (Violation(pointer="/command", message="is missing"),)


@dataclass
class World:
    """A pipeline and everything around it."""

    log: ListedLog = field(default_factory=ListedLog)
    provider: FakeProvider = field(default_factory=FakeProvider)
    tool: ShellTool = field(default_factory=ShellTool)
    now: float = 1_000_000.0
    """Wall clock of admissions, in seconds since the epoch."""
    stages: list[Stage] = field(default_factory=list)
    """More stages, outside of error handling; add them before the first use."""
    limits: AdmissionPolicy = field(default_factory=AdmissionPolicy)

    def __post_init__(self) -> None:
        self.recorder = Recorder(self.log, Disclosure(DisclosureLevel.METADATA, Digests(b"k" * 32)))
        policy = SandboxPolicy(installation="test", queue_seconds=0.05)
        self.sandboxes = SandboxManager(self.provider, policy, self._emit)
        self.table = RequestTable(MemoryLedger())
        self.sandbox_events: list[SandboxEvent] = []

    @property
    def pipeline(self) -> Pipeline:
        """Assemble it."""
        lease, errors = standard_stages(self.sandboxes)
        dispatch = Dispatch(ListedTools(self.tool), self.recorder, Timeouts(default_seconds=60, max_seconds=600))
        return Pipeline(self.recorder, (lease, *self.stages, errors), dispatch)

    @property
    def calls(self) -> CallRunner:
        """Give who runs calls."""
        return CallRunner(self.table, self.pipeline.execute)

    def desk(self, key: bytes = b"s" * 32) -> AdmissionDesk:
        """Make a desk; two of one key are two replicas."""
        signer = AdmissionSigner(KeyRing(signing_id="k", keys={"k": key}), clock=lambda: self.now)
        return AdmissionDesk(self.table, self.pipeline, self.recorder, signer, self.limits, clock=lambda: self.now)

    def incoming(self, *, seconds: float = 100.0, **fields: object) -> IncomingCall:
        """Make a call of the shell tool that has so many seconds."""
        values: dict[str, object] = {
            "request_id": str(uuid.uuid4()),
            "thread": "thread",
            "tool": "shell",
            "arguments_json": b'{"command":"x"}',
        }
        arguments = fields.pop("arguments", {"command": "x"})
        return IncomingCall(
            call=ToolCall(**{**values, **fields}),  # type: ignore[arg-type]  # a test writes what it means
            arguments=arguments,  # type: ignore[arg-type]  # likewise
            principal=LOCAL_DEVELOPER,
            origin=Origin(peer="unix:"),
            audit_id=str(uuid.uuid4()),
            received_at=datetime.now(UTC),
            deadline=asyncio.get_running_loop().time() + seconds,
        )

    async def execute(self, sink: Sink | None = None, **fields: object) -> ToolResult:
        """Run one call and give its result."""
        with self.calls.attach(self.incoming(**fields), sink) as attachment:  # type: ignore[arg-type]  # likewise
            answer = await attachment.answer()
        return answer.result  # type: ignore[union-attr]  # calls have call answers

    async def _emit(self, event: SandboxEvent) -> None:
        self.sandbox_events.append(event)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Give a world, and end what is in it."""
    made = World()
    yield made
    await made.table.close()
    await made.sandboxes.close()
