"""Statuses become errors by a closed table."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from sandgate.v1 import error_reason_pb2
from sandgate_agent import errors
from sandgate_agent.status import BY_CODE, BY_REASON, MESSAGE_CHARACTERS, error_of


class Failure:
    """A failure as gRPC hands it out."""

    def __init__(self, code: grpc.StatusCode, *details: Any, message: str = "no", trailer: bytes | None = None) -> None:
        status = status_pb2.Status(code=code.value[0], message=message)
        for detail in details:
            packed = any_pb2.Any()
            packed.Pack(detail)
            status.details.append(packed)
        self._code, self._message = code, message
        self._trailer = status.SerializeToString() if trailer is None else trailer

    def code(self) -> grpc.StatusCode:
        """Return the code."""
        return self._code

    def details(self) -> str:
        """Return the message."""
        return self._message

    def trailing_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """Return the trailers."""
        return (("grpc-status-details-bin", self._trailer),)


def info(reason: str, domain: str = "sandgate.dev", **metadata: str) -> error_details_pb2.ErrorInfo:
    """Make an ErrorInfo."""
    return error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=metadata)


def test_every_reason_of_the_contract_has_a_class() -> None:
    """The table and the contract name the same reasons."""
    names = error_reason_pb2.ErrorReason.keys()
    assert {name.removeprefix("ERROR_REASON_") for name in names} - {"UNSPECIFIED"} == set(BY_REASON)


def test_every_status_code_has_a_class() -> None:
    """The table names every code but OK."""
    assert set(grpc.StatusCode) - {grpc.StatusCode.OK} == set(BY_CODE)


@pytest.mark.parametrize("reason", sorted(BY_REASON))
def test_a_known_reason_decides(reason: str) -> None:
    """The reason decides whatever the code, and reason, code and metadata are kept."""
    error = error_of(Failure(grpc.StatusCode.ABORTED, info(reason, audit_id="a-1")))

    assert type(error) is BY_REASON[reason]
    assert (error.reason, error.code, error.audit_id) == (reason, "ABORTED", "a-1")


@pytest.mark.parametrize("reason", ["SOMETHING_NEW", "os.system", "errors.NotFound", "SandgateError", ""])
def test_an_unknown_reason_is_the_base_class(reason: str) -> None:
    """A peer cannot choose a class: what is not in the table is the base."""
    error = error_of(Failure(grpc.StatusCode.UNAVAILABLE, info(reason)))

    assert type(error) is errors.SandgateError
    assert error.reason == reason


def test_another_domains_reason_is_not_ours() -> None:
    """A proxy's ErrorInfo decides nothing; the code does."""
    error = error_of(Failure(grpc.StatusCode.UNAVAILABLE, info("CAPACITY_EXHAUSTED", domain="proxy.example")))

    assert type(error) is errors.GatewayUnavailable


def test_the_wait_is_read_from_retry_info() -> None:
    """Seconds and nanoseconds count; without RetryInfo the wait is not known."""
    wait = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=2, nanos=500_000_000))
    full = error_of(Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, info("CAPACITY_EXHAUSTED"), wait))
    silent = error_of(Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, info("CAPACITY_EXHAUSTED")))

    assert isinstance(full, errors.CapacityExhausted)
    assert full.retry_after_seconds == 2.5
    assert isinstance(silent, errors.CapacityExhausted)
    assert silent.retry_after_seconds is None


@pytest.mark.parametrize(
    "trailer",
    [b"\xff\xff\xff", status_pb2.Status(code=3, message="other").SerializeToString(), b""],
)
def test_details_that_make_no_sense_are_left_out(trailer: bytes) -> None:
    """Broken or contradicting details leave the code to decide; nothing is raised."""
    error = error_of(Failure(grpc.StatusCode.NOT_FOUND, trailer=trailer))

    assert type(error) is errors.NotFound


def test_a_detail_that_cannot_be_read_is_passed_over() -> None:
    """One broken detail does not hide the others."""
    broken = any_pb2.Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff")
    status = status_pb2.Status(code=grpc.StatusCode.NOT_FOUND.value[0], message="no", details=[broken])
    packed = any_pb2.Any()
    packed.Pack(info("FILE_NOT_FOUND"))
    status.details.append(packed)

    assert error_of(Failure(grpc.StatusCode.NOT_FOUND, trailer=status.SerializeToString())).reason == "FILE_NOT_FOUND"


def test_what_a_peer_sends_is_bounded() -> None:
    """Messages and metadata of any size are cut."""
    metadata = {f"key-{number}": "v" * 10_000 for number in range(100)}
    failure = Failure(grpc.StatusCode.INTERNAL, info("INTERNAL", **metadata), message="m" * 10_000)

    error = error_of(failure)

    assert len(error.message) == MESSAGE_CHARACTERS
    assert len(error.metadata) == 32
    assert max(map(len, error.metadata.values())) == 256
