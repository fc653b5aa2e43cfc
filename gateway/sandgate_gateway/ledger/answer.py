"""What the ledger remembers as the answer to a request."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from sandgate_gateway.domain.result import EntryList, FileChange, FileRange, MatchList, ProcessData, ToolResult
from sandgate_gateway.domain.verdict import Outcome, Reason, Verdict

ITEM_BYTES = 512
"""A guess at what one entry, match or answer takes beside its text; the ledger's byte limit need not be exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """The end of a call, as every waiter and every repeat gets it."""

    request_id: str
    audit_id: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    sandbox: str
    """Name of the sandbox that ran it; empty when none was needed."""
    received_at: datetime
    duration_seconds: float
    result: ToolResult

    @property
    def pending(self) -> bool:
        """True when it is no answer yet: a repeat looks again."""
        return self.result.outcome is Outcome.PENDING

    @property
    def size_bytes(self) -> int:
        """Roughly what it takes in memory."""
        failure = self.result.failure
        said = _size(failure.message) + _size(failure.next_step) if failure is not None else 0
        return ITEM_BYTES + _size(self.result.text) + said + _data_size(self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """Whether a call of the agent's own process may run."""

    audit_id: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    admission: bytes = b""
    """Empty when the call may not run."""
    expires_at: datetime | None = None
    refusal: CallAnswer | None = None
    """What to tell the model when the call may not run."""

    @property
    def pending(self) -> bool:
        """True when it is no answer yet: a repeat looks again."""
        return self.refusal is not None and self.refusal.pending

    @property
    def size_bytes(self) -> int:
        """Roughly what it takes in memory."""
        return ITEM_BYTES + len(self.admission) + (self.refusal.size_bytes if self.refusal else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What the model shall see of a call that ran in the agent's own process."""

    audit_id: str
    texts: tuple[str, ...] = ()
    """In the order of the request; empty when unchanged."""
    unchanged: bool = True
    truncated: bool = False
    pending: bool = False
    """Never: a completion is an answer."""

    @property
    def size_bytes(self) -> int:
        """Roughly what it takes in memory."""
        return ITEM_BYTES + sum(map(_size, self.texts))


Answer = CallAnswer | Authorization | Completion


def _size(text: str) -> int:
    """Give what a text takes: up to four bytes a character."""
    return sys.getsizeof(text)


def _data_size(result: ToolResult) -> int:
    match result.data:
        case ProcessData() as process:
            commands = sum(ITEM_BYTES + _size(item.command) for item in process.background)
            return len(process.stdout.data) + len(process.stderr.data) + commands
        case FileRange() as part:
            return _size(part.path) + len(part.content)
        case FileChange() as change:
            return _size(change.path)
        case EntryList() as entries:
            return sum(ITEM_BYTES + _size(entry.path) for entry in entries.entries)
        case MatchList() as matches:
            return sum(ITEM_BYTES + _size(match.path) + _size(match.line) for match in matches.matches)
        case None:
            return 0
        case _:
            assert_never(result.data)
