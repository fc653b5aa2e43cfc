"""The statuses that errors become."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from sandgate.v1 import error_reason_pb2
from sandgate_gateway import errors
from sandgate_gateway.errors import ErrorReason, GatewayError
from sandgate_gateway.rpc import status
from sandgate_gateway.rpc.identity import Unauthenticated

REASON = ErrorReason.AUDIT_UNAVAILABLE


def parse(answer: grpc.Status) -> status_pb2.Status:
    """Read a status as a client does."""
    [(key, value)] = answer.trailing_metadata
    assert key == "grpc-status-details-bin"
    parsed = status_pb2.Status.FromString(value)
    assert parsed.code == answer.code.value[0]
    assert parsed.message == answer.details
    return parsed


def test_reasons_are_the_contracts() -> None:
    """Our enum and the contract's hold the same names."""
    names = {name.removeprefix("ERROR_REASON_") for name, _ in error_reason_pb2.ErrorReason.items()}
    assert names - {"UNSPECIFIED"} == {reason.value for reason in ErrorReason}


@pytest.mark.parametrize("character", ["x", "é", "\N{GRINNING FACE}", "\udc80", "\n"])
def test_a_status_is_small_whatever_its_words_are(character: str) -> None:
    """Clients refuse trailers above 8 KiB; long words are cut, and such that UTF-8 cannot say are replaced."""
    words = character * 10_000
    for error in (
        errors.InvalidField("path", words),
        errors.StateConflict(ErrorReason.FILE_REFUSED, words, metadata={"path": words, "code": words}),
    ):
        answer = status.to_status(error, "a" * 36)
        parsed = parse(answer)
        assert len(parsed.message) <= status.MAX_MESSAGE_BYTES
        assert parsed.message.endswith("…")
        percent_encoded = 3 * len(parsed.message.encode())
        assert percent_encoded + 4 * len(parsed.SerializeToString()) // 3 < 8 << 10


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.RequestRejected(ErrorReason.MALFORMED_REQUEST, "x"), grpc.StatusCode.INVALID_ARGUMENT),
        (errors.InvalidField("call.thread", "must not be empty"), grpc.StatusCode.INVALID_ARGUMENT),
        (errors.NotFound(ErrorReason.SANDBOX_NOT_FOUND, "x"), grpc.StatusCode.NOT_FOUND),
        (errors.StateConflict(ErrorReason.ADMISSION_EXPIRED, "x"), grpc.StatusCode.FAILED_PRECONDITION),
        (errors.CapacityExhausted("x", retry_after_seconds=1.5), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (errors.Unavailable(REASON, "x", retry_after_seconds=5), grpc.StatusCode.UNAVAILABLE),
        (errors.DeadlineTooShort("x"), grpc.StatusCode.DEADLINE_EXCEEDED),
        (Unauthenticated(), grpc.StatusCode.UNAUTHENTICATED),
    ],
)
def test_every_error_has_its_code_and_one_error_info(error: GatewayError, code: grpc.StatusCode) -> None:
    """Each status carries exactly one ErrorInfo with our domain, the reason, and the audit id."""
    answer = status.to_status(error, "audit-1")
    assert answer.code is code
    infos = []
    for detail in parse(answer).details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
            infos.append(info)
    [info] = infos
    assert (info.domain, info.reason) == ("sandgate.dev", error.reason.value)
    assert info.metadata["audit_id"] == "audit-1"
    assert dict(error.metadata).items() <= dict(info.metadata).items()


def test_who_may_try_again_learns_when() -> None:
    """RetryInfo holds the advice, to the fraction of a second."""
    answer = status.to_status(errors.CapacityExhausted("x", retry_after_seconds=1.5), "a")
    detail = parse(answer).details[1]
    retry = error_details_pb2.RetryInfo()
    assert detail.Unpack(retry)
    assert retry.retry_delay.ToMilliseconds() == 1500


def test_a_wrong_field_is_named() -> None:
    """BadRequest holds the field and what is wrong with it."""
    detail = parse(status.to_status(errors.InvalidField("call.thread", "must not be empty"), "a")).details[1]
    bad = error_details_pb2.BadRequest()
    assert detail.Unpack(bad)
    assert [(item.field, item.description) for item in bad.field_violations] == [("call.thread", "must not be empty")]


def test_a_bug_shows_nothing_but_its_audit_id() -> None:
    """INTERNAL has one ErrorInfo whose metadata is the audit id and nothing else."""
    answer = status.internal("audit-1")
    assert answer.code is grpc.StatusCode.INTERNAL
    [detail] = parse(answer).details
    info = error_details_pb2.ErrorInfo()
    detail.Unpack(info)
    assert (info.reason, dict(info.metadata)) == ("INTERNAL", {"audit_id": "audit-1"})
