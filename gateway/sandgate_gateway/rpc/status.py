"""The only builder of gRPC statuses: an error of the gateway becomes one status with one ErrorInfo, and hints."""

from __future__ import annotations

from typing import cast

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from sandgate_gateway.errors import (
    CapacityExhausted,
    DeadlineTooShort,
    ErrorReason,
    GatewayError,
    InvalidField,
    NotFound,
    RequestRejected,
    StateConflict,
    TryAgainLater,
)
from sandgate_gateway.rpc.identity import Unauthenticated

DOMAIN = "sandgate.dev"

MAX_MESSAGE_BYTES = 1024
"""Of a message; it may hold the caller's own words, such as a path. Clients refuse trailers above 8 KiB, and a message
is in there twice: as text that takes up to three bytes for each of its own, and in the details."""

MAX_VALUE_BYTES = 512
"""Of each value of an error's metadata, for the same reason."""

_CUT = "…".encode()

_CODES: tuple[tuple[type[GatewayError], grpc.StatusCode], ...] = (
    (RequestRejected, grpc.StatusCode.INVALID_ARGUMENT),
    (NotFound, grpc.StatusCode.NOT_FOUND),
    (StateConflict, grpc.StatusCode.FAILED_PRECONDITION),
    (CapacityExhausted, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (TryAgainLater, grpc.StatusCode.UNAVAILABLE),
    (DeadlineTooShort, grpc.StatusCode.DEADLINE_EXCEEDED),
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
)
"""Looked up in order, so a class comes before its base."""


def code_of(error: GatewayError) -> grpc.StatusCode:
    """Give the status code of an error; a class that is not listed is a bug of ours."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def to_status(error: GatewayError, audit_id: str) -> grpc.Status:
    """Build the status of an error."""
    metadata = {name: _shortened(value, MAX_VALUE_BYTES) for name, value in error.metadata.items()}
    info = error_details_pb2.ErrorInfo(
        reason=error.reason.value, domain=DOMAIN, metadata={**metadata, "audit_id": audit_id}
    )
    status = status_pb2.Status(code=code_of(error).value[0], message=_shortened(error.message, MAX_MESSAGE_BYTES))
    _add(status, info)
    if isinstance(error, TryAgainLater):
        _add(status, error_details_pb2.RetryInfo(retry_delay=_duration(error.retry_after_seconds)))
    if isinstance(error, InvalidField):
        description = _shortened(error.description, MAX_MESSAGE_BYTES)
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.field, description=description)
        _add(status, error_details_pb2.BadRequest(field_violations=[violation]))
    return cast("grpc.Status", rpc_status.to_status(status))  # that package has no types


def internal(audit_id: str) -> grpc.Status:
    """Build the status of a bug: nothing but the audit id, under which the log holds the rest."""
    message = f"The gateway failed; the operator finds the details in its log under {audit_id}."
    return to_status(GatewayError(ErrorReason.INTERNAL, message), audit_id)


def _shortened(text: str, limit_bytes: int) -> str:
    """Cut a text that is too long, and replace what UTF-8 cannot say."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return data.decode()
    return data[: limit_bytes - len(_CUT)].decode("utf-8", "ignore") + _CUT.decode()


def _add(
    status: status_pb2.Status,
    detail: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo | error_details_pb2.BadRequest,
) -> None:
    packed = Any()
    packed.Pack(detail)
    status.details.append(packed)


def _duration(seconds: float) -> Duration:
    whole = int(seconds)
    return Duration(seconds=whole, nanos=int((seconds - whole) * 1e9))
