"""Signed admissions."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgate_gateway.admissions.admission import Admission, decode, encode
from sandgate_gateway.admissions.keys import KeyRing
from sandgate_gateway.admissions.signing import AdmissionSigner
from sandgate_gateway.domain.principal import LOCAL_DEVELOPER
from sandgate_gateway.errors import ErrorReason, RequestRejected, StateConflict

OLD, NEW = b"o" * 32, b"n" * 32

ADMISSION = Admission(
    audit_id="00000000-0000-0000-0000-000000000001",
    tenant=LOCAL_DEVELOPER.tenant,
    agent=LOCAL_DEVELOPER.agent,
    request_id="00000000-0000-0000-0000-000000000002",
    thread="thréad",
    run="run",
    tool_call_id="call",
    tool="web_search",
    argument_digest="hmac-sha256:00",
    verdict=1,
    policy_revision="",
    received_at=1000.5,
    expires_at=2000.25,
)


def ring(*ids: str) -> KeyRing:
    """Make a ring; the last id signs."""
    keys = {"old": OLD, "new": NEW}
    return KeyRing(signing_id=ids[-1], keys={name: keys[name] for name in ids})


def test_an_admission_comes_back_as_it_went() -> None:
    """Signing and checking give the same values, text beyond ASCII included."""
    signer = AdmissionSigner(ring("new"), clock=lambda: 1500.0)
    admission = signer.check(signer.sign(ADMISSION), LOCAL_DEVELOPER)
    assert admission == ADMISSION
    signer.require_current(admission)


def test_equal_admissions_are_equal_bytes() -> None:
    """The payload is canonical, so that the HMAC is over one form only."""
    assert encode(ADMISSION) == encode(decode(encode(ADMISSION)))


@given(st.integers(min_value=0, max_value=10_000), st.integers(min_value=1, max_value=255))
def test_no_byte_can_be_changed(place: int, difference: int) -> None:
    """A flip of any byte makes the ticket invalid."""
    signer = AdmissionSigner(ring("new"))
    ticket = bytearray(signer.sign(ADMISSION))
    ticket[place % len(ticket)] ^= difference
    with pytest.raises(RequestRejected) as caught:
        signer.check(bytes(ticket), LOCAL_DEVELOPER)
    assert caught.value.reason is ErrorReason.ADMISSION_INVALID


@given(st.binary(max_size=300))
def test_garbage_is_refused(ticket: bytes) -> None:
    """No bytes that we did not sign get through, and none raise anything else."""
    with pytest.raises(RequestRejected):
        AdmissionSigner(ring("new")).check(ticket, LOCAL_DEVELOPER)


def test_a_ticket_cannot_be_cut_or_extended() -> None:
    """Every other length is refused, an absurd one too."""
    signer = AdmissionSigner(ring("new"))
    ticket = signer.sign(ADMISSION)
    for other in (ticket[:-1], ticket + b"x", ticket[:40], b"", b"x" * 100_000):
        with pytest.raises(RequestRejected):
            signer.check(other, LOCAL_DEVELOPER)


@pytest.mark.parametrize("change", [{"tenant": "other"}, {"agent": "other"}])
def test_only_the_same_principal_may_use_it(change: dict[str, str]) -> None:
    """Another tenant's or agent's ticket looks like a forged one."""
    signer = AdmissionSigner(ring("new"))
    with pytest.raises(RequestRejected) as caught:
        signer.check(signer.sign(ADMISSION), dataclasses.replace(LOCAL_DEVELOPER, **change))
    assert caught.value.reason is ErrorReason.ADMISSION_INVALID


def test_keys_rotate_by_id() -> None:
    """What the old key signed stays good while that key is on the ring, and no longer."""
    ticket = AdmissionSigner(ring("old")).sign(ADMISSION)
    assert AdmissionSigner(ring("old", "new")).check(ticket, LOCAL_DEVELOPER) == ADMISSION
    with pytest.raises(RequestRejected):
        AdmissionSigner(ring("new")).check(ticket, LOCAL_DEVELOPER)


def test_an_admission_runs_out() -> None:
    """At its very end it is over."""
    with pytest.raises(StateConflict) as caught:
        AdmissionSigner(ring("new"), clock=lambda: ADMISSION.expires_at).require_current(ADMISSION)
    assert caught.value.reason is ErrorReason.ADMISSION_EXPIRED


def test_the_ring_hides_its_keys() -> None:
    """A ring in a log shows no key."""
    assert "nnnn" not in repr(ring("new"))
