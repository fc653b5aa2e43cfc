"""The agent's side of Sandgate: a client for the gateway, and the middleware that sends every tool call through it.

Here live the values that an agent sees, the connection to the gateway, and what LangChain and LangGraph need. Policy,
sandboxes and audit live in the gateway, which this package never imports: the two share only `sandgate.v1`. Agents
import this package; nothing of ours does.

The public names are loaded when they are first used, so that a program that only wants `GatewayClient` does not pay for
LangChain.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

# A process that forks while calls run can use gRPC in the child only when this is set before gRPC is loaded; without it
# the child crashes. Every module of this package is imported after this line. An operator's own choice wins.
if "grpc" not in sys.modules:
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")

if TYPE_CHECKING:
    from sandgate_agent.catalogue import Catalogue
    from sandgate_agent.client import GatewayClient
    from sandgate_agent.endpoint import Endpoint
    from sandgate_agent.errors import (
        AccessDenied,
        AdmissionCompleted,
        AdmissionExpired,
        AdmissionInvalid,
        CallTimedOut,
        CapacityExhausted,
        ForkUnsupported,
        GatewayFault,
        GatewayUnavailable,
        Misconfigured,
        NameClash,
        NotFound,
        ProtocolViolation,
        RequestIdExpired,
        RequestIdReused,
        RequestRejected,
        RequestTooLarge,
        SandgateError,
        StateConflict,
        TransportLimitReached,
        TryAgainLater,
    )
    from sandgate_agent.gateway_middleware import GatewayMiddleware
    from sandgate_agent.types import Claims

__all__ = [
    "AccessDenied",
    "AdmissionCompleted",
    "AdmissionExpired",
    "AdmissionInvalid",
    "CallTimedOut",
    "CapacityExhausted",
    "Catalogue",
    "Claims",
    "Endpoint",
    "ForkUnsupported",
    "GatewayClient",
    "GatewayFault",
    "GatewayMiddleware",
    "GatewayUnavailable",
    "Misconfigured",
    "NameClash",
    "NotFound",
    "ProtocolViolation",
    "RequestIdExpired",
    "RequestIdReused",
    "RequestRejected",
    "RequestTooLarge",
    "SandgateError",
    "StateConflict",
    "TransportLimitReached",
    "TryAgainLater",
]

_HOMES = {
    "Catalogue": "catalogue",
    "Claims": "types",
    "Endpoint": "endpoint",
    "GatewayClient": "client",
    "GatewayMiddleware": "gateway_middleware",
}
"""The module of each public name that is no error."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
