"""Folders that sandboxes can reach, providers that are cleaned up, and a way to run commands inside."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandgate_providers.channel.types import Command, End, Stream
from sandgate_providers.local.provider import LocalProvider
from sandgate_providers.local.sandbox import LocalSandbox
from sandgate_providers.local.settings import LocalOptions
from sandgate_providers.naming import sandbox_name
from sandgate_providers.types import Limits, SandboxKey, SandboxSpec


@dataclass(frozen=True)
class Ran:
    """What a command inside a sandbox did."""

    stdout: str
    stderr: str
    end: End


Run = Callable[..., Awaitable[Ran]]
MakeSpec = Callable[..., SandboxSpec]


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a folder that any user can reach; pytest's own temporary folders are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="sandgate-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def options(place: Path) -> LocalOptions:
    """Give plain options, with a data folder of the test's own."""
    return LocalOptions(data_dir=place / "data")


@pytest.fixture
async def provider(options: LocalOptions) -> AsyncIterator[LocalProvider]:
    """Give a provider that is started, and stop it."""
    provider = LocalProvider(options)
    await provider.start()
    yield provider
    await provider.stop()


@pytest.fixture
def make_spec() -> MakeSpec:
    """Give a function that makes the spec of a thread."""

    def make(thread: str = "one", **limits: int) -> SandboxSpec:
        key = SandboxKey(tenant="test", thread=thread)
        return SandboxSpec(key=key, name=sandbox_name("test", key), limits=Limits(**limits))

    return make


@pytest.fixture
async def sandbox(provider: LocalProvider, make_spec: MakeSpec) -> LocalSandbox:
    """Give a sandbox with the default limits."""
    return await provider.acquire(make_spec())


@pytest.fixture
def run() -> Run:
    """Give a function that runs a shell text in a sandbox, to its end."""

    async def run(sandbox: LocalSandbox, text: str, *, timeout_seconds: float = 20.0) -> Ran:
        output = {Stream.STDOUT: bytearray(), Stream.STDERR: bytearray()}
        command = Command(argv=("/bin/sh", "-c", text), timeout_seconds=timeout_seconds)
        async with sandbox.channel.open(command) as call:
            async for chunk in call.chunks():
                output[chunk.stream] += chunk.data
            end = await call.end()
        return Ran(
            stdout=output[Stream.STDOUT].decode(errors="replace"),
            stderr=output[Stream.STDERR].decode(errors="replace"),
            end=end,
        )

    return run


@pytest.fixture
def as_root() -> None:
    """Skip what only a gateway that is root does."""
    if os.geteuid() != 0:
        pytest.skip("the gateway drops to other users only when it is root")
