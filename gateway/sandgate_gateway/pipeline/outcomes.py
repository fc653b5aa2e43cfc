"""Results that the pipeline itself makes, with texts that a model can act on."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from sandgate_gateway.domain.call import CallContext
from sandgate_gateway.domain.result import Failure, ToolResult, Violation, failed
from sandgate_gateway.domain.verdict import Outcome

LOST_NEXT_STEP = (
    "Files below /mnt/user-data are kept; processes and /tmp are gone. "
    "Check what the call had done before you repeat it: the next call gets a new sandbox."
)


def unknown_tool(name: str, known: Sequence[str]) -> ToolResult:
    """Say that there is no such tool, and which one may be meant."""
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Available: {', '.join(known)}."
    return failed(Failure(reason="unknown-tool", message=f"There is no tool named {name[:64]!r}.", next_step=hint))


def invalid_arguments(tool: str, violations: tuple[Violation, ...]) -> ToolResult:
    """Say what is wrong with the arguments."""
    return failed(
        Failure(
            reason="invalid-arguments",
            message=f"The arguments of {tool} are not valid; nothing ran.",
            next_step="Correct the arguments and call the tool again.",
            violations=violations,
        )
    )


def denied(context: CallContext) -> ToolResult:
    """Say that the verdict forbids the call, and why."""
    reasons = context.reasons
    message = " ".join(reason.message for reason in reasons) or "The gateway's policy does not allow this call."
    return failed(
        Failure(reason=reasons[0].code if reasons else "denied", message=message, next_step="Nothing ran."),
        outcome=Outcome.DENIED,
    )


def cancelled() -> ToolResult:
    """Say that the caller went away."""
    return failed(
        Failure(
            reason="cancelled",
            message="The call was cancelled, and everything that it had started was ended.",
            retryable=True,
        ),
        outcome=Outcome.CANCELLED,
    )


def lost(message: str) -> ToolResult:
    """Say that the sandbox died under the call."""
    return failed(
        Failure(reason="sandbox-lost", message=message, retryable=True, next_step=LOST_NEXT_STEP), outcome=Outcome.LOST
    )


def unanswered() -> ToolResult:
    """Say that the sandbox did not report the end of the call in time."""
    return failed(
        Failure(
            reason="no-answer",
            message="The sandbox did not say in time how the call ended; what it had started was ended.",
            retryable=True,
        ),
        outcome=Outcome.TIMED_OUT,
    )


def interrupted() -> ToolResult:
    """Say that the gateway failed under the call."""
    return failed(
        Failure(
            reason="gateway-failed",
            message="The gateway failed while the call ran, so its end is not known.",
            next_step="Check what the call had done before you repeat it.",
        ),
        outcome=Outcome.INTERRUPTED,
    )


def internal_error(tool: str) -> ToolResult:
    """Say that a tool of ours has a bug. The exception's own text may name host paths, so it stays in the log."""
    return failed(
        Failure(
            reason="internal-error",
            message=f"The tool {tool} failed by a fault of its own; the operator finds the details in the log.",
            next_step="Try another way to do this.",
        )
    )


def refused(reason: str, message: str) -> ToolResult:
    """Say that the sandbox did not take the call."""
    return failed(
        Failure(
            reason="call-refused", message=f"The sandbox did not take the call ({reason}): {message}", retryable=True
        )
    )
