"""How a tool call ended: text for the model, and typed data beside it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime

from sandgate_gateway.domain.verdict import Outcome

FAILURE_MESSAGE_CHARACTERS = 500
"""A failure's message is cut to this; the reference's limit for error detail."""


class OutputStream(enum.Enum):
    """Which of a command's outputs."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class OutputChunk:
    """A piece of output, exact bytes."""

    stream: OutputStream
    data: bytes


class ProcessEnd(enum.Enum):
    """How a process ended."""

    EXITED = "exited"
    SIGNALED = "signaled"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    OOM = "oom"
    OUTPUT_LIMIT = "output-limit"
    SANDBOX_LOST = "sandbox-lost"
    START_FAILED = "start-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What was kept of one output: all of it, or its head and tail."""

    data: bytes
    total_bytes: int
    gap_bytes: int = 0
    """Where in `data` the omitted bytes belong."""

    @property
    def omitted_bytes(self) -> int:
        """How much is left out."""
        return self.total_bytes - len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundProcess:
    """A process that outlives its command."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessData:
    """What a command did."""

    end: ProcessEnd
    stdout: Capture
    stderr: Capture
    exit_code: int | None = None
    signal: int | None = None
    duration_seconds: float = 0.0
    cpu_seconds: float = 0.0
    background: tuple[BackgroundProcess, ...] = ()
    output_held: bool = False


class EntryKind(enum.Enum):
    """What a folder entry is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a folder."""

    path: str
    kind: EntryKind
    size_bytes: int
    modified_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryList:
    """Entries in order of their paths."""

    entries: tuple[Entry, ...]
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One line that matched."""

    path: str
    line_number: int
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchList:
    """Matches in order of path and line."""

    matches: tuple[Match, ...]
    truncated: bool
    files_searched: int
    files_skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """A part of a text file."""

    path: str
    start_line: int
    end_line: int
    total_bytes: int
    content: bytes
    offset_bytes: int = 0
    total_lines: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What a write changed."""

    path: str
    created: bool
    size_bytes: int
    replacements: int = 0


ToolData = ProcessData | EntryList | MatchList | FileRange | FileChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One thing that is wrong with the arguments of a call."""

    pointer: str
    """JSON pointer (RFC 6901); empty for the object as a whole."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a tool did not do what was asked. No host path, no stack trace."""

    reason: str
    """Stable kebab-case code."""
    message: str
    retryable: bool = False
    """True when the same call may succeed later without a change."""
    next_step: str = ""
    violations: tuple[Violation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The end of a tool call inside the pipeline; the audit id and times are the recorder's."""

    outcome: Outcome
    text: str
    """For the model; never empty."""
    truncated: bool = False
    data: ToolData | None = None
    failure: Failure | None = None

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("a result has text for the model")
        if self.outcome is Outcome.COMPLETED and self.failure is not None:
            raise ValueError("a completed call has no failure")
        if self.outcome is Outcome.FAILED and self.failure is None:
            raise ValueError("a failed call says why")


def failed(failure: Failure, *, outcome: Outcome = Outcome.FAILED, data: ToolData | None = None) -> ToolResult:
    """Make the result of a call that could not be done, with a text that a model can act on."""
    lines = [f"Error ({failure.reason}): {failure.message[:FAILURE_MESSAGE_CHARACTERS]}"]
    lines += [f"- {violation.pointer or '(arguments)'}: {violation.message}" for violation in failure.violations]
    if failure.retryable:
        lines.append("The same call may succeed later.")
    if failure.next_step:
        lines.append(failure.next_step)
    return ToolResult(outcome=outcome, text="\n".join(lines), failure=failure, data=data)
