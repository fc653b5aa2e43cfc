"""The registry of providers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sandgate_providers import registry
from sandgate_providers.contract import Sandbox, SandboxProvider
from sandgate_providers.errors import ProviderMisconfigured
from sandgate_providers.local.provider import LocalProvider
from sandgate_providers.local.sandbox import LocalSandbox
from sandgate_providers.local.settings import LocalOptions


def test_local_is_known_by_its_name() -> None:
    """The name in the configuration is enough."""
    provider = registry.create("local", {"data_dir": "/nowhere"}, installation="test")
    assert isinstance(provider, LocalProvider)
    assert provider.name == "local"


def test_the_contract_is_kept() -> None:
    """The type checker compares every member; this line is where it does."""
    provider: SandboxProvider = LocalProvider(LocalOptions(data_dir=Path("/nowhere")))
    sandbox_of: Callable[[LocalSandbox], Sandbox] = lambda sandbox: sandbox  # noqa: E731 - only its type matters
    assert provider.name == "local"
    assert callable(sandbox_of)


def test_a_third_party_is_known_by_its_path() -> None:
    """Anybody's factory can be named as module:function."""
    path = "sandgate_providers.local.provider:create"
    assert isinstance(registry.create(path, {"data_dir": "/nowhere"}, installation="test"), LocalProvider)


def test_options_are_checked_by_the_factory() -> None:
    """A wrong option is refused before anything is started."""
    with pytest.raises(ProviderMisconfigured, match="max_sandboxes"):
        registry.create("local", {"data_dir": "/nowhere", "max_sandboxes": -1}, installation="test")


def test_an_unknown_name_lists_the_known_ones() -> None:
    """A typing error in the configuration is answered with what can be written there."""
    with pytest.raises(ProviderMisconfigured, match="known are local"):
        registry.create("lokal", {}, installation="test")


@pytest.mark.parametrize("path", ["no_such_module:create", "sandgate_providers.naming:no_such", "json:__name__"])
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    """A missing module, a missing function and a thing that cannot be called are configuration errors."""
    with pytest.raises(ProviderMisconfigured, match="provider"):
        registry.create(path, {}, installation="test")


def test_an_installation_needs_a_name() -> None:
    """Without one, two installations would share their sandboxes."""
    with pytest.raises(ProviderMisconfigured, match="installation"):
        registry.create("local", {"data_dir": "/nowhere"}, installation="")


def test_importing_the_registry_imports_no_provider() -> None:
    """Nobody pays for a provider, nor needs its libraries, before it is made."""
    code = (
        "import sys, sandgate_providers.registry; "
        "print([name for name in sys.modules if name.startswith(('sandgate_providers.local', 'docker', 'kubernetes'))])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert answer.stdout.strip() == "[]"
