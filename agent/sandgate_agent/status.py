"""Turns gRPC statuses into the errors of this package. The only module that reads a status.

The reason of the gateway's `google.rpc.ErrorInfo` decides, through a closed table; a reason that is not in it becomes
the base class. A status without one (the gateway is away, gRPC itself refused) is decided by its code. Nothing in a
status ever names a class that is built.
"""

from __future__ import annotations

from typing import TypeVar

import grpc
from google.protobuf import duration_pb2, message
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from sandgate_agent.errors import (
    AccessDenied,
    AdmissionCompleted,
    AdmissionExpired,
    AdmissionInvalid,
    CallTimedOut,
    CapacityExhausted,
    GatewayFault,
    GatewayUnavailable,
    NotFound,
    RequestIdExpired,
    RequestIdReused,
    RequestRejected,
    RequestTooLarge,
    SandgateError,
    StateConflict,
    TransportLimitReached,
    TryAgainLater,
)
from sandgate_agent.rpc_error import RpcFailure

DOMAIN = "sandgate.dev"
"""The domain of every ErrorInfo of the gateway; another domain's says nothing to us."""

MESSAGE_CHARACTERS = 500
"""A peer's message is cut to this, as everywhere in Sandgate."""

METADATA_CHARACTERS = 256
"""A metadata value is cut to this."""

METADATA_ENTRIES = 32

BY_REASON: dict[str, type[SandgateError]] = {
    "MALFORMED_REQUEST": RequestRejected,
    "REQUEST_TOO_LARGE": RequestTooLarge,
    "INVALID_FIELD": RequestRejected,
    "REQUEST_ID_REUSED": RequestIdReused,
    "REQUEST_ID_EXPIRED": RequestIdExpired,
    "DEADLINE_TOO_SHORT": CallTimedOut,
    "ADMISSION_INVALID": AdmissionInvalid,
    "ADMISSION_EXPIRED": AdmissionExpired,
    "ADMISSION_COMPLETED": AdmissionCompleted,
    "SANDBOX_NOT_FOUND": NotFound,
    "FILE_NOT_FOUND": NotFound,
    "FILE_REFUSED": StateConflict,
    "CAPACITY_EXHAUSTED": CapacityExhausted,
    "PROVIDER_UNAVAILABLE": GatewayUnavailable,
    "SANDBOX_LOST": GatewayUnavailable,
    "AUDIT_UNAVAILABLE": GatewayUnavailable,
    "SHUTTING_DOWN": GatewayUnavailable,
    "PAGE_TOKEN_INVALID": RequestRejected,
    "INTERNAL": GatewayFault,
    "UNKNOWN_FIELD": RequestRejected,
    "UNAUTHENTICATED": AccessDenied,
}
"""Every reason of `sandgate.v1.ErrorReason`; a test holds the two equal."""

BY_CODE: dict[grpc.StatusCode, type[SandgateError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: RequestRejected,
    grpc.StatusCode.OUT_OF_RANGE: RequestRejected,
    grpc.StatusCode.ALREADY_EXISTS: StateConflict,
    grpc.StatusCode.FAILED_PRECONDITION: StateConflict,
    grpc.StatusCode.ABORTED: StateConflict,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.PERMISSION_DENIED: AccessDenied,
    grpc.StatusCode.UNAUTHENTICATED: AccessDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: TransportLimitReached,
    grpc.StatusCode.UNAVAILABLE: GatewayUnavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: CallTimedOut,
    grpc.StatusCode.CANCELLED: GatewayUnavailable,
    grpc.StatusCode.INTERNAL: GatewayFault,
    grpc.StatusCode.UNKNOWN: GatewayFault,
    grpc.StatusCode.DATA_LOSS: GatewayFault,
    grpc.StatusCode.UNIMPLEMENTED: GatewayFault,
}
"""Every code but OK. CANCELLED stands with the outages: our own cancellation never comes here, so the peer hung up."""

DetailT = TypeVar("DetailT", bound=message.Message)


def error_of(failure: RpcFailure) -> SandgateError:
    """Make the error of a call that ended in a status other than OK. Never raises, whatever the peer sent."""
    code = failure.code()
    details = _details(failure)
    info = _first(details, error_details_pb2.ErrorInfo)
    text = (failure.details() or f"the call ended with {code.name}")[:MESSAGE_CHARACTERS]
    if info is None or info.domain != DOMAIN:
        kind, reason, metadata = BY_CODE.get(code, SandgateError), "", {}
    else:
        kind, reason = BY_REASON.get(info.reason, SandgateError), info.reason[:METADATA_CHARACTERS]
        metadata = {
            key[:METADATA_CHARACTERS]: value[:METADATA_CHARACTERS]
            for key, value in sorted(info.metadata.items())[:METADATA_ENTRIES]
        }
    if issubclass(kind, TryAgainLater):
        return kind(text, reason=reason, code=code.name, metadata=metadata, retry_after_seconds=_retry_after(details))
    return kind(text, reason=reason, code=code.name, metadata=metadata)


def _details(failure: RpcFailure) -> list[message.Message]:
    try:
        status = rpc_status.from_call(failure)
    except (ValueError, message.DecodeError):
        # A status whose details contradict its code, or that are no details: only the code counts then.
        return []
    return [] if status is None else list(status.details)


def _first(details: list[message.Message], kind: type[DetailT]) -> DetailT | None:
    for packed in details:
        detail = kind()
        try:
            if packed.Unpack(detail):  # type: ignore[attr-defined]  # google.protobuf.Any, which has no stub here
                return detail
        except message.DecodeError:
            continue
    return None


def _retry_after(details: list[message.Message]) -> float | None:
    info = _first(details, error_details_pb2.RetryInfo)
    if info is None or not info.HasField("retry_delay"):
        return None
    delay: duration_pb2.Duration = info.retry_delay
    return max(0.0, delay.seconds + delay.nanos / 1e9)
