"""What an admission says, and the bytes that are signed."""

from __future__ import annotations

import json
from dataclasses import dataclass

FORMAT = 1
"""First field of the payload; raised when an older gateway would misread a newer payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A ticket for one call that runs in the agent's own process. It grants nothing by itself.

    It carries all that is needed to close the call's record, so that any replica can complete it.
    """

    audit_id: str
    tenant: str
    agent: str
    """The principal's; only the same one may complete the call."""
    request_id: str
    thread: str
    run: str
    tool_call_id: str
    tool: str
    argument_digest: str
    verdict: int
    policy_revision: str
    """Of the most severe decision; empty when no policy had a say."""
    received_at: float
    """Seconds since the epoch."""
    expires_at: float
    """Seconds since the epoch."""


_FIELDS = tuple(Admission.__dataclass_fields__)


def encode(admission: Admission) -> bytes:
    """Give the canonical bytes: a JSON array in a fixed order, in plain ASCII. Equal admissions are equal bytes."""
    values = [getattr(admission, field) for field in _FIELDS]
    return json.dumps([FORMAT, *values], ensure_ascii=True, separators=(",", ":")).encode("ascii")


def decode(payload: bytes) -> Admission:
    """Read what `encode` wrote. Only for bytes whose signature was checked.

    Raises:
        ValueError: another format.
    """
    values = json.loads(payload)
    if values[0] != FORMAT or len(values) != len(_FIELDS) + 1:
        raise ValueError("an admission of another format")
    return Admission(**dict(zip(_FIELDS, values[1:], strict=True)))
