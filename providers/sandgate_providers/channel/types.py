"""What is sent through a channel, and what comes back."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sandgate_providers.types import WORKSPACE, JsonValue

GRACE_SECONDS = 0.3
"""Between TERM and KILL. A timed out tree must be gone within one second, and the kill itself takes a part of that."""


class Stream(enum.Enum):
    """Which of a call's outputs."""

    STDOUT = "stdout"
    STDERR = "stderr"


class ProcessEnd(enum.Enum):
    """Why a call ended; the words of the contract."""

    EXITED = "exited"
    SIGNALED = "signaled"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    OOM = "oom"
    OUTPUT_LIMIT = "output-limit"
    SANDBOX_LOST = "sandbox-lost"
    START_FAILED = "start-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to run. `argv[0]` is looked up in the PATH of its environment."""

    argv: tuple[str, ...]
    timeout_seconds: float
    """By the runner's own clock; then TERM to the whole tree, the grace, KILL."""
    working_directory: str = WORKSPACE
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Beside what the sandbox gives every command."""
    with_input: bool = False
    """True when the caller will send input; else standard input is empty."""
    output_limit_bytes: int = 0
    """End the call after so much output of both streams; zero: no limit."""
    grace_seconds: float = GRACE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOperation:
    """One of the runner's file operations; see `runner.operations` for names and arguments.

    Content to write is sent as the call's input; content that is read comes as its standard output.
    """

    name: str
    arguments: Mapping[str, JsonValue]
    timeout_seconds: float
    with_input: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of output, exact bytes."""

    stream: Stream
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """A process that outlives its command."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a call ended. Exactly one comes for every call that was opened."""

    reason: ProcessEnd
    exit_code: int | None = None
    signal: int | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    duration_seconds: float = 0.0
    cpu_seconds: float = 0.0
    output_held: bool = False
    """A background process still holds the outputs; what it writes is discarded."""
    background: tuple[Background, ...] = ()
    value: JsonValue = None
    """The answer of a file operation that exited with 0."""
    error_code: str = ""
    """Of a file operation that failed, and of START_FAILED."""
    error_message: str = ""
