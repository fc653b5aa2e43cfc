"""What was decided about a call, and how it ended."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.IntEnum):
    """What the gateway decides before anything runs; a higher number is more severe."""

    PASS = 1
    WARN = 2
    ASK = 3
    BLOCK = 4

    @property
    def word(self) -> str:
        """The word that records and people see."""
        return self.name.lower()

    @property
    def runs(self) -> bool:
        """True when a call with this verdict may run."""
        return self in (Verdict.PASS, Verdict.WARN)


class Outcome(enum.Enum):
    """How a call ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    DENIED = "denied"
    PENDING = "pending"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason for a verdict."""

    code: str
    message: str
    rule_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One stage's opinion of a call. The most severe of all opinions is the call's verdict; each is recorded."""

    stage: str
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    policy_id: str = ""
    policy_revision: str = ""
    failed_closed: bool = False
    """True when the stage could not tell and therefore refused."""
