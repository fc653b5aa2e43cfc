"""How a tool call ended, as an agent sees it: text for the model, and typed data beside it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass

Plain = None | bool | int | float | str | bytes | list["Plain"] | dict[str, "Plain"]
"""What every serializer of a checkpointer can write."""


class Verdict(enum.IntEnum):
    """What the gateway decided before anything ran; a higher number is more severe."""

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
    """How a call ended. Only `completed` means that the tool did its work, whatever a command's exit code."""

    COMPLETED = "completed"
    FAILED = "failed"
    DENIED = "denied"
    PENDING = "pending"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    LOST = "lost"


class ProcessEnd(enum.Enum):
    """How a process ended; `unknown` is an end that this version does not know."""

    UNKNOWN = "unknown"
    EXITED = "exited"
    SIGNALED = "signaled"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    OOM = "oom"
    OUTPUT_LIMIT = "output-limit"
    SANDBOX_LOST = "sandbox-lost"
    START_FAILED = "start-failed"


class EntryKind(enum.Enum):
    """What a folder entry is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason for a verdict."""

    code: str
    message: str
    rule_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What was kept of one output: all of it, or its head and tail."""

    data: bytes
    total_bytes: int
    omitted_bytes: int = 0
    """How much is left out of the middle."""
    gap_bytes: int = 0
    """Where in `data` the omitted bytes belong."""


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
    """True when a process that was left behind still holds the output; what it writes from now on is discarded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a folder."""

    path: str
    kind: EntryKind
    size_bytes: int
    modified_seconds: float
    """Seconds since 1970, UTC."""


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

_KINDS: Mapping[type, str] = {
    ProcessData: "process",
    EntryList: "entries",
    MatchList: "matches",
    FileRange: "file_range",
    FileChange: "file_change",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One thing that is wrong with the arguments of a call."""

    pointer: str
    """JSON pointer (RFC 6901); empty for the object as a whole."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a tool did not do what was asked."""

    reason: str
    message: str
    retryable: bool = False
    next_step: str = ""
    violations: tuple[Violation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The end of a tool call."""

    audit_id: str
    request_id: str
    outcome: Outcome
    verdict: Verdict
    text: str
    """For the model; never empty."""
    truncated: bool = False
    sandbox: str = ""
    """Resource name of the sandbox that ran the call; empty when none was needed."""
    failure: Failure | None = None
    reasons: tuple[Reason, ...] = ()
    duration_seconds: float = 0.0
    data: ToolData | None = None


def plain(value: object) -> Plain:
    """Turn values of this module into what a checkpointer can store: dictionaries, lists, text, bytes and numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.word if isinstance(value, Verdict) else plain(value.value)
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    raise TypeError(f"{type(value).__name__} is not a value of a result")


def artifact_of(result: ToolResult) -> dict[str, Plain] | None:
    """Make the program's half of a tool message: `kind`, then the fields of the data; None when nothing ran."""
    data = None if result.data is None else {"kind": _KINDS[type(result.data)], **_fields(result.data)}
    failure = None if result.failure is None else plain(result.failure)
    if data is None and failure is None:
        return None
    return {**(data or {"kind": "failure"}), "failure": failure, "duration_in_gateway_seconds": result.duration_seconds}


def _fields(data: ToolData) -> dict[str, Plain]:
    return {field.name: plain(getattr(data, field.name)) for field in dataclasses.fields(data)}
