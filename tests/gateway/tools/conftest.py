"""Tools at work in real local sandboxes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sandgate_gateway.domain.call import Notice, Sink
from sandgate_gateway.domain.result import OutputChunk, ToolResult
from sandgate_gateway.tools.contract import Tool, ToolRun
from sandgate_gateway.tools.schema import ArgumentsSchema
from sandgate_gateway.tools.shortening import MOST_TEXT_BYTES
from sandgate_providers import registry
from sandgate_providers.contract import Sandbox
from sandgate_providers.naming import sandbox_name
from sandgate_providers.types import WORKSPACE, SandboxKey, SandboxSpec


@pytest.fixture
async def sandbox(open_folder: Path) -> AsyncIterator[Sandbox]:
    """Give a fresh sandbox."""
    provider = registry.create("local", {"data_dir": str(open_folder / "data")}, installation="tools")
    await provider.start()
    key = SandboxKey(tenant="tools", thread=uuid.uuid4().hex)
    yield await provider.acquire(SandboxSpec(key=key, name=sandbox_name("tools", key)))
    await provider.stop()


class Bench:
    """Runs tools as dispatch does, and checks what holds for each result."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.channel = sandbox.channel

    async def __call__(
        self, tool: Tool, *, allowed_seconds: float = 20.0, sink: Sink | None = None, **arguments: Any
    ) -> ToolResult:
        """Run a tool whose arguments are right."""
        assert ArgumentsSchema(tool.spec.arguments_schema).check(arguments) == ()
        return await self.unchecked(tool, allowed_seconds=allowed_seconds, sink=sink, **arguments)

    async def unchecked(
        self, tool: Tool, *, allowed_seconds: float = 20.0, sink: Sink | None = None, **arguments: Any
    ) -> ToolResult:
        """Run a tool without its schema."""
        run = ToolRun(arguments=arguments, channel=self.channel, timeout_seconds=allowed_seconds, sink=sink)
        result = await tool.run(run)
        assert 0 < len(result.text.encode("utf-8")) <= MOST_TEXT_BYTES
        assert "\0" not in result.text
        return result


@pytest.fixture
def use(sandbox: Sandbox) -> Bench:
    """Give what runs tools."""
    return Bench(sandbox)


class Collected:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.chunks: list[OutputChunk] = []
        self.came = asyncio.Event()

    async def __call__(self, item: OutputChunk | Notice) -> None:
        """Take output."""
        assert isinstance(item, OutputChunk)
        self.chunks.append(item)
        self.came.set()


@pytest.fixture
def sink() -> Collected:
    """Give a sink."""
    return Collected()


@pytest.fixture
def workspace() -> str:
    """Give the folder where commands start."""
    return WORKSPACE
