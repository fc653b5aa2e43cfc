"""The closed table of audit codes.

A code never changes its meaning and is never used again for something else. It is `SG`, a letter for the family, three
digits, and the severity: I (information), W (somebody may want to look), E (somebody should look). Whatever can fail
has a code of its own for failure, so that a reader can filter without knowing the fields.
"""

from __future__ import annotations

import enum
from typing import assert_never

from sandgate_gateway.domain.verdict import Outcome, Verdict


class Severity(enum.Enum):
    """The last letter of a code."""

    INFORMATION = "I"
    WARNING = "W"
    ERROR = "E"


class Stage(enum.Enum):
    """Where in a call's life a record was made."""

    NONE = ""
    """The record belongs to no call."""
    DECIDED = "decided"
    """Just before anything runs."""
    FINISHED = "finished"
    """The call has ended; a refused call has this record only."""
    ABORTED = "aborted"
    """A bug ended the call."""


class Code(enum.Enum):
    """Every kind of record. The value is: code, name of the event, stage, outcome (empty when there is none)."""

    CALL_DECIDED = ("SGT100I", "tool.call.decided", Stage.DECIDED, "")
    """The verdict was pass; the call runs next."""
    CALL_DECIDED_WARN = ("SGT101W", "tool.call.decided", Stage.DECIDED, "")
    """The verdict was warn; the call runs next."""

    CALL_COMPLETED = ("SGT110I", "tool.call.finished", Stage.FINISHED, "completed")
    """The tool ran to its end."""
    CALL_FAILED = ("SGT111W", "tool.call.finished", Stage.FINISHED, "failed")
    """The tool could not do what was asked."""
    CALL_DENIED = ("SGT112W", "tool.call.finished", Stage.FINISHED, "denied")
    """The verdict was block; nothing ran."""
    CALL_PENDING = ("SGT113I", "tool.call.finished", Stage.FINISHED, "pending")
    """The verdict was ask; nothing ran yet."""
    CALL_TIMED_OUT = ("SGT114W", "tool.call.finished", Stage.FINISHED, "timed_out")
    """The execution timeout ended the tool."""
    CALL_CANCELLED = ("SGT115I", "tool.call.finished", Stage.FINISHED, "cancelled")
    """The caller went away; what ran was ended."""
    CALL_INTERRUPTED = ("SGT116E", "tool.call.finished", Stage.FINISHED, "interrupted")
    """The gateway died while the call ran; its end is not known."""
    CALL_LOST = ("SGT117E", "tool.call.finished", Stage.FINISHED, "lost")
    """The sandbox died while the call ran."""
    CALL_ABANDONED = ("SGT118W", "tool.call.finished", Stage.FINISHED, "abandoned")
    """An authorized call was never completed; its admission ran out."""
    CALL_REFUSED = ("SGT119W", "tool.call.finished", Stage.FINISHED, "")
    """The gateway could not do its job and answered with a status; `error_reason` says why."""
    CALL_ABORTED = ("SGT120E", "tool.call.aborted", Stage.ABORTED, "")
    """A bug in the gateway ended the call."""

    SANDBOX_CREATED = ("SGS200I", "sandbox.created", Stage.NONE, "")
    """A sandbox is ready for its first call."""
    SANDBOX_CREATE_FAILED = ("SGS201E", "sandbox.create.failed", Stage.NONE, "")
    """A sandbox could not be made."""
    SANDBOX_ENDED = ("SGS202I", "sandbox.ended", Stage.NONE, "")
    """The gateway ended a sandbox: idle, deleted, or at shutdown."""
    SANDBOX_LOST = ("SGS203E", "sandbox.lost", Stage.NONE, "")
    """A sandbox died by itself."""
    FILE_UPLOADED = ("SGS210I", "sandbox.file.uploaded", Stage.NONE, "")
    """A caller wrote a file into a sandbox."""
    FILE_DOWNLOADED = ("SGS211I", "sandbox.file.downloaded", Stage.NONE, "")
    """A caller read a file out of a sandbox."""

    MIDDLEWARE_EVENT = ("SGM300I", "middleware:", Stage.NONE, "")
    """An agent's own middleware decided something. The agent says so; the name of the event goes on after the colon."""

    GATEWAY_STARTED = ("SGG400I", "gateway.started", Stage.NONE, "")
    """The gateway takes calls."""
    GATEWAY_STOPPED = ("SGG401I", "gateway.stopped", Stage.NONE, "")
    """The gateway was stopped in order; the last record of its chain."""

    CHAIN_OPENED = ("SGA500I", "audit.chain.opened", Stage.NONE, "")
    """The first record of every life of a gateway."""
    TAIL_REPAIRED = ("SGA501W", "audit.tail.repaired", Stage.NONE, "")
    """The file ended in half a record, which was moved aside."""
    WRITES_RESUMED = ("SGA502E", "audit.writes.resumed", Stage.NONE, "")
    """Records can be written again; `refused` counts those that could not."""

    def __init__(self, code: str, event: str, stage: Stage, outcome: str) -> None:
        self.code = code
        """What the record says, for example `SGT110I`."""
        self.event = event
        """Name of the event, without variable parts."""
        self.stage = stage
        """Where in a call's life it belongs."""
        self.outcome = outcome
        """How the call ended; empty when the code does not say."""

    @property
    def severity(self) -> Severity:
        """How much it matters."""
        return Severity(self.code[-1])


def decided_code(verdict: Verdict) -> Code:
    """Give the code of a *decided* record; only calls that may run have one."""
    if not verdict.runs:
        raise ValueError(f"a call with the verdict {verdict.word} does not run, so it has no decided record")
    return Code.CALL_DECIDED if verdict is Verdict.PASS else Code.CALL_DECIDED_WARN


def finished_code(outcome: Outcome) -> Code:  # noqa: PLR0911 - one return an outcome is the plainest table that mypy checks
    """Give the code of a *finished* record."""
    match outcome:
        case Outcome.COMPLETED:
            return Code.CALL_COMPLETED
        case Outcome.FAILED:
            return Code.CALL_FAILED
        case Outcome.DENIED:
            return Code.CALL_DENIED
        case Outcome.PENDING:
            return Code.CALL_PENDING
        case Outcome.TIMED_OUT:
            return Code.CALL_TIMED_OUT
        case Outcome.CANCELLED:
            return Code.CALL_CANCELLED
        case Outcome.INTERRUPTED:
            return Code.CALL_INTERRUPTED
        case Outcome.LOST:
            return Code.CALL_LOST
        case _:
            assert_never(outcome)
