"""What the model and the program are told about a tool call: the messages of LangChain made from results."""

from __future__ import annotations

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolCall as ModelCall
from langgraph.types import Command

from sandgate_agent.errors import CapacityExhausted, RequestRejected, RequestTooLarge, SandgateError
from sandgate_agent.results import Outcome, Plain, Reason, ToolResult, Verdict, artifact_of, plain
from sandgate_agent.state import sandbox_id_of
from sandgate_agent.types import Authorization, Completion

MISSING_CALL_ID = "missing_tool_call_id"
"""LangChain's messages need an id, and a model may give none."""

KEY = "sandgate"
"""Where a message carries what the gateway said, in `additional_kwargs`."""

Answer = ToolMessage | Command[object]


def message_of(call: ModelCall, result: ToolResult) -> ToolMessage:
    """Make the message for the end of a call. Only a completed call is a success, whatever a command's exit code."""
    return ToolMessage(
        content=result.text,
        name=call["name"],
        tool_call_id=call["id"] or MISSING_CALL_ID,
        status="success" if result.outcome is Outcome.COMPLETED else "error",
        artifact=artifact_of(result),
        additional_kwargs={
            KEY: facts(
                audit_id=result.audit_id,
                outcome=result.outcome.value,
                verdict=result.verdict,
                sandbox=result.sandbox,
                reasons=result.reasons,
                truncated=result.truncated,
            )
        },
    )


def with_sandbox(message: ToolMessage, result: ToolResult, state: object) -> Answer:
    """Report the sandbox to the graph when its state knows none or another one."""
    if not result.sandbox or result.sandbox == sandbox_id_of(state):
        return message
    return Command(update={"sandbox": {"sandbox_id": result.sandbox}, "messages": [message]})


def marked(message: ToolMessage, authorization: Authorization, completion: Completion, outcome: Outcome) -> ToolMessage:
    """Note on the message of the agent's own tool what the gateway said of the call."""
    note = facts(
        audit_id=completion.audit_id or authorization.audit_id,
        outcome=outcome.value,
        verdict=authorization.verdict,
        sandbox="",
        reasons=authorization.reasons,
        truncated=completion.truncated,
    )
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, KEY: note}})


def error_message(call: ModelCall, text: str, error: SandgateError | None = None) -> ToolMessage:
    """Make the message for a call that the gateway did not answer, or that never reached it."""
    note: dict[str, Plain] = {"outcome": Outcome.FAILED.value, "audit_id": "" if error is None else error.audit_id}
    if error is not None:
        note |= {"error": type(error).__name__, "error_reason": error.reason}
    return ToolMessage(
        content=text,
        name=call["name"],
        tool_call_id=call["id"] or MISSING_CALL_ID,
        status="error",
        additional_kwargs={KEY: note},
    )


def capacity_text(error: CapacityExhausted) -> str:
    """Tell the model that the gateway is full, and when to come back."""
    wait = error.retry_after_seconds
    when = "later" if wait is None else f"in {max(1, round(wait))} seconds or later"
    return (
        f"Error (capacity-exhausted): no place was free for this call and nothing ran. Try the same call again {when}, "
        "or go on with work that needs no tool."
    )


def too_large_text(error: RequestTooLarge) -> str:
    """Tell the model that its arguments are too large."""
    limit = error.metadata.get("limit_bytes", "")
    return (
        f"Error (request-too-large): the arguments are larger than the gateway takes{limit and f' ({limit} bytes)'}, "
        "and nothing ran. Send less at once, for example in several `write_file` calls that append."
    )


def rejected_text(error: RequestRejected) -> str:
    """Tell the model what is wrong with the name or the arguments that it chose."""
    return f"Error (invalid-request): the call was not taken, and nothing ran: {error.message}"


def outage_text() -> str:
    """Tell the model that the gateway is away."""
    return (
        "Error (gateway-unavailable): the service that runs tools does not answer, so it is not known whether this "
        "call ran. Tools cannot be used now: tell the user, and finish without them."
    )


def facts(
    *, audit_id: str, outcome: str, verdict: Verdict, sandbox: str, reasons: tuple[Reason, ...], truncated: bool
) -> dict[str, Plain]:
    """Write down what the gateway said, in types that every serializer knows."""
    return {
        "audit_id": audit_id,
        "outcome": outcome,
        "verdict": verdict.word,
        "sandbox": sandbox,
        "reasons": plain(reasons),
        "truncated": truncated,
    }
