"""Providers by name, imported only when one is made, so that no provider's libraries are needed by another's users."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol, cast

from sandgate_providers.contract import SandboxProvider
from sandgate_providers.errors import ProviderMisconfigured
from sandgate_providers.types import JsonValue


class ProviderFactory(Protocol):
    """Makes a provider from its part of the configuration."""

    def __call__(self, options: Mapping[str, JsonValue], *, installation: str) -> SandboxProvider:
        """Check the options and make the provider, without touching the machine: that is what its `start` is for.

        Raises:
            ProviderMisconfigured: with the key that is wrong.
        """
        ...


BUILT_IN: Mapping[str, str] = MappingProxyType({"local": "sandgate_providers.local.provider:create"})
"""Our own providers: `module:function` of each one's factory."""

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def create(provider: str, options: Mapping[str, JsonValue], *, installation: str) -> SandboxProvider:
    """Make the provider that a configuration names.

    Args:
        provider: A name from `BUILT_IN`, or `module:function` of a third party's factory.
        options: That provider's own settings.
        installation: Tells this installation's sandboxes from those of others on the same engine; not empty.

    Raises:
        ProviderMisconfigured: no such provider, it cannot be imported, or its options are wrong.
    """
    if not installation:
        message = "installation: must not be empty; sandboxes of two installations could not be told apart"
        raise ProviderMisconfigured(message)
    return _factory(provider)(options, installation=installation)


def _factory(provider: str) -> ProviderFactory:
    path = BUILT_IN.get(provider, provider)
    if not _DOTTED.fullmatch(path):
        known = ", ".join(sorted(BUILT_IN))
        message = f"provider: {provider!r} is not known; known are {known}, or module:function of one of your own"
        raise ProviderMisconfigured(message)
    module_name, _, function_name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        message = f"provider: {provider!r} cannot be imported: {error}"
        raise ProviderMisconfigured(message) from error
    factory: object = getattr(module, function_name, None)
    if not callable(factory):
        message = f"provider: {module_name} has no function {function_name}"
        raise ProviderMisconfigured(message)
    return cast("ProviderFactory", factory)
