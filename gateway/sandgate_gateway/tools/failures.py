"""How a call that did not end by itself, or whose file operation failed, is told to a model."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from sandgate_gateway.domain.result import Failure, ToolResult, Violation, failed
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.tools.shown import shown_text
from sandgate_providers.channel.types import End, ProcessEnd
from sandgate_providers.types import WORKSPACE

NEXT_STEPS = MappingProxyType(
    {
        "not-found": "Look with ls or glob for the right path.",
        "not-a-directory": "Give the path of a folder, or use read_file for a file.",
        "is-a-directory": "Give the path of a file, or use ls for a folder.",
        "permission-denied": "Choose another path, or change the permissions with chmod.",
        "no-space": "Remove what is no longer needed, then try again.",
        "too-large": "Use bash on the file, for example head, tail, sed or grep.",
        "not-unique": "Give more of the text around the place, so that it is there only once, or set replace_all.",
        "no-match": "Read the file again and copy the text exactly, spaces and line ends included.",
        "binary-file": "Look at it with bash, for example with file, xxd or strings.",
        "invalid-pattern": "Correct the pattern; literal takes it as plain text.",
        "invalid-path": f"Give an absolute path, for example {WORKSPACE}/file.txt.",
        "size-mismatch": "Send the content again.",
        "unsupported-file": "Give the path of an ordinary file.",
    }
)
"""By the code of a failed file operation."""

LOST_NEXT_STEP = (
    "Files below /mnt/user-data are kept; processes and /tmp are gone. "
    "Check what the call had done before you repeat it: the next call gets a new sandbox."
)


def invalid_arguments(tool: str, *violations: Violation, next_step: str = "") -> ToolResult:
    """Say what is wrong with arguments in a way that no schema can say."""
    return failed(
        Failure(
            reason="invalid-arguments",
            message=f"The arguments of {tool} are not valid; nothing ran.",
            violations=violations,
            next_step=next_step or "Correct the arguments and call the tool again.",
        )
    )


def operation_failure(end: End, path: str) -> ToolResult:
    """Say why a file operation could not be done."""
    code = end.error_code
    next_step = NEXT_STEPS.get(code, "")
    if code == "invalid-path" and path and not path.startswith("/"):
        next_step = f"Paths are absolute; did you mean {WORKSPACE}/{shown_text(path.removeprefix('./'), 200)}?"
    return failed(
        Failure(
            reason=code,
            message=shown_text(end.error_message) or code,
            next_step=next_step,
            retryable=code == "io-error",
        )
    )


@dataclass(frozen=True, slots=True)
class _Early:
    outcome: Outcome
    reason: str
    message: str
    retryable: bool = False
    next_step: str = ""


_EARLY = MappingProxyType(
    {
        ProcessEnd.TIMEOUT: _Early(
            Outcome.TIMED_OUT,
            "timed-out",
            "{subject} did not end within {seconds:g} s; its whole process tree was ended.",
        ),
        ProcessEnd.CANCELLED: _Early(
            Outcome.CANCELLED, "cancelled", "{subject} was cancelled and ended.", retryable=True
        ),
        ProcessEnd.OOM: _Early(
            Outcome.FAILED,
            "out-of-memory",
            "{subject} was ended because the memory limit of the sandbox was reached.",
            next_step="Work on less at a time.",
        ),
        ProcessEnd.OUTPUT_LIMIT: _Early(
            Outcome.FAILED,
            "output-limit",
            "{subject} wrote more than it may; its whole process tree was ended.",
            next_step="Send the output into a file, or use head, tail or grep.",
        ),
        ProcessEnd.SANDBOX_LOST: _Early(
            Outcome.LOST,
            "sandbox-lost",
            "The sandbox ended while the call ran; how far it came is not known.",
            retryable=True,
            next_step=LOST_NEXT_STEP,
        ),
        ProcessEnd.START_FAILED: _Early(Outcome.FAILED, "start-failed", "{subject} could not be started: {message}"),
        # Only a file operation is asked about these: it ends with an answer or not at all.
        ProcessEnd.SIGNALED: _Early(
            Outcome.FAILED, "io-error", "{subject} was ended by something in the sandbox.", retryable=True
        ),
        ProcessEnd.EXITED: _Early(Outcome.FAILED, "io-error", "{subject} ended without an answer.", retryable=True),
    }
)


def ended_early(end: End, seconds: float, subject: str) -> tuple[Outcome, Failure]:
    """Say why a call did not end by itself.

    Args:
        end: Any end but one that the tool knows how to tell.
        seconds: The time that it had.
        subject: What ran, as the first words of a sentence: "The command".
    """
    early = _EARLY[end.reason]
    message = shown_text(end.error_message) or "no reason was given"
    return early.outcome, Failure(
        reason=early.reason,
        message=early.message.format(subject=subject, seconds=seconds, message=message),
        retryable=early.retryable,
        next_step=early.next_step,
    )
