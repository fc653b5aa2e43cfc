"""What a ledger promises, whatever it is kept in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sandgate_gateway.ledger.answer import Answer
from sandgate_gateway.ledger.request import RequestKey


@dataclass(frozen=True, slots=True)
class Started:
    """The request is new, or its last answer was *pending*: the caller runs it."""


@dataclass(frozen=True, slots=True)
class Running:
    """Somebody runs it already; look again."""

    audit_id: str


@dataclass(frozen=True, slots=True)
class Answered:
    """It ran; this is what was answered."""

    answer: Answer


Standing = Started | Running | Answered


class Ledger(Protocol):
    """Remembers requests for 24 hours, so that none runs twice."""

    async def begin(self, key: RequestKey, digest: bytes, audit_id: str) -> Standing:
        """Look a request up, and mark it as running when it is to run. That mark is kept before this returns.

        Raises:
            RequestRejected: the id was used for other content (`REQUEST_ID_REUSED`).
            StateConflict: the id is older than the ledger remembers (`REQUEST_ID_EXPIRED`).
            CapacityExhausted: no room, and everything that is remembered still runs.
        """
        ...

    async def finish(self, key: RequestKey, answer: Answer) -> None:
        """Keep the answer. Called before anybody is told."""
        ...

    async def suspend(self, key: RequestKey) -> None:
        """Note that the request waits for an approval: a repeat with the same content starts again."""
        ...

    async def forget(self, key: RequestKey) -> None:
        """Drop a request of which nothing ran, so that a repeat may run."""
        ...
