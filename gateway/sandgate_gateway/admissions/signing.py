"""Signs admissions and checks them."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable

from sandgate_gateway.admissions.admission import Admission, decode, encode
from sandgate_gateway.admissions.keys import KeyRing
from sandgate_gateway.domain.principal import Principal
from sandgate_gateway.errors import ErrorReason, RequestRejected, StateConflict

DIGEST = "sha256"
SEAL_BYTES = 32
MAX_ADMISSION_BYTES = 8192
"""Above any that we make: run and tool call id are at most 256 bytes each, six times that when escaped, and so on."""


class AdmissionSigner:
    """Makes and checks signed admissions: length of the key id, key id, HMAC-SHA256, payload.

    The HMAC is over the key id and the payload, so that no key can be made to vouch for another one's.
    """

    def __init__(self, ring: KeyRing, *, clock: Callable[[], float] = time.time) -> None:
        self._ring = ring
        self._clock = clock

    def sign(self, admission: Admission) -> bytes:
        """Give the ticket that travels."""
        key_id = self._ring.signing_id
        payload = encode(admission)
        return bytes([len(key_id)]) + key_id.encode("ascii") + self._seal(key_id, payload) + payload

    def check(self, ticket: bytes, principal: Principal) -> Admission:
        """Read a ticket.

        Whether it has run out is not checked here, because a repeat of a completion that was in time gets its answer.

        Raises:
            RequestRejected: forged, changed, signed with a key that was taken out, or another principal's; all the same
                for the caller (`ADMISSION_INVALID`).
        """
        key_id, seal, payload = _split(ticket)
        if key_id not in self._ring.keys or not hmac.compare_digest(seal, self._seal(key_id, payload)):
            raise _invalid()
        try:
            admission = decode(payload)
        except ValueError as error:  # ours by its signature, so a newer gateway made it
            raise _invalid() from error
        if (admission.tenant, admission.agent) != (principal.tenant, principal.agent):
            raise _invalid()
        return admission

    def require_current(self, admission: Admission) -> None:
        """Refuse an admission that has run out.

        Raises:
            StateConflict: it has (`ADMISSION_EXPIRED`).
        """
        if admission.expires_at <= self._clock():
            raise self.expired()

    @staticmethod
    def expired() -> StateConflict:
        """Say that an admission has run out."""
        return StateConflict(ErrorReason.ADMISSION_EXPIRED, "The admission ran out before its call was completed.")

    def _seal(self, key_id: str, payload: bytes) -> bytes:
        return hmac.digest(self._ring.keys[key_id], key_id.encode("ascii") + b"\0" + payload, DIGEST)


def _split(ticket: bytes) -> tuple[str, bytes, bytes]:
    if not 0 < len(ticket) <= MAX_ADMISSION_BYTES:
        raise _invalid()
    start = 1 + ticket[0]
    key_id = ticket[1:start].decode("ascii", "replace")
    return key_id, ticket[start : start + SEAL_BYTES], ticket[start + SEAL_BYTES :]


def _invalid() -> RequestRejected:
    return RequestRejected(
        ErrorReason.ADMISSION_INVALID, "The admission is not one of this gateway's for this principal."
    )
