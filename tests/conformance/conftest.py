"""Sandboxes of every provider, for one suite of promises."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandgate_providers import registry
from sandgate_providers.contract import Sandbox, SandboxProvider
from sandgate_providers.naming import sandbox_name
from sandgate_providers.types import Limits, SandboxKey, SandboxSpec


@pytest.fixture(params=[pytest.param("local", marks=pytest.mark.local)])
async def provider(request: pytest.FixtureRequest, open_folder: Path) -> AsyncIterator[SandboxProvider]:
    """Give a started provider."""
    made = registry.create(request.param, {"data_dir": str(open_folder / "data")}, installation="conformance")
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def sandbox(provider: SandboxProvider) -> AsyncIterator[Sandbox]:
    """Give a fresh sandbox."""
    made = await provider.acquire(spec())
    yield made
    await made.destroy()


def spec(thread: str = "", limits: Limits | None = None) -> SandboxSpec:
    """Describe a sandbox for a thread, or for one of its own."""
    key = SandboxKey(tenant="conformance", thread=thread or uuid.uuid4().hex)
    return SandboxSpec(key=key, name=sandbox_name("conformance", key), limits=limits or Limits())
