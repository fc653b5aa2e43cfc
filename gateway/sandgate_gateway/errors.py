"""What can go wrong in the gateway itself, split by what the caller can do next. A tool's outcome is never an error.

    GatewayError                    reason (closed set), message, metadata
    ├── RequestRejected             the request is wrong; sending it again does not help
    │   └── InvalidField            one field of it is missing or out of range
    ├── NotFound                    no such thing, or none that the caller may see
    ├── StateConflict               right request, wrong moment; a change is needed first
    ├── TryAgainLater               waiting helps; `retry_after_seconds` says how long
    │   ├── CapacityExhausted       every place is taken
    │   └── Unavailable             something that the gateway needs is away
    └── DeadlineTooShort            the remaining time is not enough to start

    Misconfigured                   the configuration cannot work; an operator must act (never sent to a client)

`rpc.status` alone turns these into gRPC statuses; reasons are those of `sandgate.v1.ErrorReason` without the prefix.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType


class ErrorReason(enum.Enum):
    """Stable reasons; a test holds them equal to the contract's."""

    MALFORMED_REQUEST = "MALFORMED_REQUEST"
    REQUEST_TOO_LARGE = "REQUEST_TOO_LARGE"
    INVALID_FIELD = "INVALID_FIELD"
    REQUEST_ID_REUSED = "REQUEST_ID_REUSED"
    REQUEST_ID_EXPIRED = "REQUEST_ID_EXPIRED"
    DEADLINE_TOO_SHORT = "DEADLINE_TOO_SHORT"
    ADMISSION_INVALID = "ADMISSION_INVALID"
    ADMISSION_EXPIRED = "ADMISSION_EXPIRED"
    ADMISSION_COMPLETED = "ADMISSION_COMPLETED"
    SANDBOX_NOT_FOUND = "SANDBOX_NOT_FOUND"
    FILE_NOT_FOUND = "FILE_NOT_FOUND"
    FILE_REFUSED = "FILE_REFUSED"
    CAPACITY_EXHAUSTED = "CAPACITY_EXHAUSTED"
    PROVIDER_UNAVAILABLE = "PROVIDER_UNAVAILABLE"
    SANDBOX_LOST = "SANDBOX_LOST"
    AUDIT_UNAVAILABLE = "AUDIT_UNAVAILABLE"
    SHUTTING_DOWN = "SHUTTING_DOWN"
    PAGE_TOKEN_INVALID = "PAGE_TOKEN_INVALID"  # noqa: S105 - a reason, not a password
    INTERNAL = "INTERNAL"
    UNKNOWN_FIELD = "UNKNOWN_FIELD"
    UNAUTHENTICATED = "UNAUTHENTICATED"


class GatewayError(Exception):
    """Base of all errors of the gateway."""

    def __init__(self, reason: ErrorReason, message: str, *, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.metadata: Mapping[str, str] = MappingProxyType(dict(metadata or {}))
        """Every variable part of the message, for programs."""


class RequestRejected(GatewayError):
    """The request is wrong; sending it again does not help."""


class InvalidField(RequestRejected):
    """One field of the request is missing or out of range."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(ErrorReason.INVALID_FIELD, f"{field}: {message}", metadata={"field": field})
        self.field = field
        self.description = message


class NotFound(GatewayError):
    """No such thing, or none that the caller may see; the two are the same in every byte."""


class StateConflict(GatewayError):
    """The request is right but the moment is not; something must change first."""


class TryAgainLater(GatewayError):
    """Waiting helps."""

    def __init__(
        self,
        reason: ErrorReason,
        message: str,
        *,
        retry_after_seconds: float,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(reason, message, metadata=metadata)
        self.retry_after_seconds = retry_after_seconds


class CapacityExhausted(TryAgainLater):
    """Every place for a sandbox, a call or a queue is taken."""

    def __init__(self, message: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(ErrorReason.CAPACITY_EXHAUSTED, message, retry_after_seconds=retry_after_seconds)


class Unavailable(TryAgainLater):
    """Something that the gateway needs is away: the provider, a sandbox, the audit's store."""


class DeadlineTooShort(GatewayError):
    """The remaining time of the RPC is not enough to start."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorReason.DEADLINE_TOO_SHORT, message)


class Misconfigured(Exception):
    """The configuration cannot work; the message names the key and what to write instead."""
