"""Checks of single fields; each error names the field."""

from __future__ import annotations

import posixpath
import re
from datetime import UTC, datetime

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from sandgate_gateway.errors import ErrorReason, InvalidField, RequestRejected

ID_BYTES = 256
"""The contract's limit for threads, runs, leases, names and claims."""

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1000

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_SANDBOX_NAME = re.compile(r"sandboxes/([a-z0-9][a-z0-9-]{0,62})")


def identifier(field: str, value: str, *, required: bool = False) -> str:
    """Check an id that people and agents choose: at most 256 bytes, no control characters."""
    if not value:
        if required:
            raise InvalidField(field, "must not be empty")
        return value
    if len(value) > ID_BYTES or (not value.isascii() and len(value.encode()) > ID_BYTES):
        raise InvalidField(field, f"has more than {ID_BYTES} bytes")
    if _CONTROL.search(value):
        raise InvalidField(field, "holds a control character")
    return value


def uuid_text(field: str, value: str) -> str:
    """Check a UUID; upper and lower case are the same id."""
    if not _UUID.fullmatch(value):
        raise InvalidField(field, "must be a UUID such as 123e4567-e89b-12d3-a456-426614174000")
    return value.lower()


def sandbox_name(value: str) -> str:
    """Take the sandbox out of a resource name."""
    match = _SANDBOX_NAME.fullmatch(value)
    if match is None:
        raise InvalidField("name", "must have the form sandboxes/{sandbox}")
    return match[1]


def path_below(field: str, value: str, root: str) -> str:
    """Check an absolute path inside the sandbox that stays below a folder, also after its dots are resolved."""
    if not value.startswith("/") or "\0" in value:
        raise InvalidField(field, "must be an absolute path")
    if len(value.encode()) > 4096:  # noqa: PLR2004 - the kernel's limit for a path
        raise InvalidField(field, "is longer than 4096 bytes")
    if not posixpath.normpath(value).startswith(root + "/"):
        raise InvalidField(field, f"must be below {root}")
    return value


def not_negative(field: str, value: int) -> int:
    """Check a size or an offset."""
    if value < 0:
        raise InvalidField(field, "must not be negative")
    return value


def seconds(field: str, value: Duration) -> float:
    """Check a span of time."""
    span = value.seconds + value.nanos / 1e9
    if span < 0:
        raise InvalidField(field, "must not be negative")
    return span


def moment(field: str, value: Timestamp) -> datetime:
    """Check a point in time."""
    try:
        return value.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidField(field, "is no time between the years 1 and 9999") from error


def page_size(value: int) -> int:
    """Clamp the size of a page; zero means the default."""
    if value < 0:
        raise InvalidField("page_size", "must not be negative")
    return min(value or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)


def page_token_invalid() -> RequestRejected:
    """Say that a page token is none of ours."""
    return RequestRejected(ErrorReason.PAGE_TOKEN_INVALID, "The page token was not made by this query.")
