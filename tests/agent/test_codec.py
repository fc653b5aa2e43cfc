"""Messages and values, both ways."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from sandgate.v1 import tool_pb2, tool_service_pb2, verdict_pb2
from sandgate_agent import codec
from sandgate_agent.errors import ProtocolViolation
from sandgate_agent.results import Outcome, ProcessEnd, Verdict, artifact_of
from sandgate_agent.types import Claims, MiddlewareEvent, Report, ToolCall

DATA: list[tuple[dict[str, Any], str]] = [
    (
        {
            "process": tool_pb2.ProcessData(
                end=tool_pb2.PROCESS_END_SIGNALED,
                signal=9,
                stdout=b"\xff",
                stdout_bytes=5,
                stdout_omitted_bytes=4,
                background_processes=[tool_pb2.BackgroundProcess(pid=7, command="serve")],
                output_held=True,
            )
        },
        "process",
    ),
    ({"entries": tool_pb2.EntryList(entries=[tool_pb2.Entry(path="/a", kind=tool_pb2.ENTRY_KIND_FILE)])}, "entries"),
    ({"matches": tool_pb2.MatchList(matches=[tool_pb2.Match(path="/a", line_number=1, line="x")])}, "matches"),
    ({"file_range": tool_pb2.FileRange(path="/a", start_line=1, end_line=2, content=b"x")}, "file_range"),
    ({"file_change": tool_pb2.FileChange(path="/a", created=True, size_bytes=3)}, "file_change"),
]


def message(**fields: Any) -> tool_pb2.ToolResult:
    """Make a result."""
    values: dict[str, Any] = {"text": "t", "outcome": 1, "verdict": 1} | fields
    return tool_pb2.ToolResult(**values)


@pytest.mark.parametrize(("data", "kind"), DATA)
def test_each_kind_of_data_becomes_plain_values(data: dict[str, Any], kind: str) -> None:
    """The artifact of each kind holds only what every checkpointer can store."""
    artifact = artifact_of(codec.result_from_message(message(**data)))

    assert artifact is not None
    assert artifact["kind"] == kind
    json.dumps(artifact, default=lambda value: {"bytes": value.hex()})


def test_a_process_keeps_what_was_set_apart_from_what_was_not() -> None:
    """A signal is no exit code, and a missing exit code is not zero."""
    data = codec.result_from_message(message(**DATA[0][0])).data

    assert data.exit_code is None  # type: ignore[union-attr]  # a wrong kind fails the test as well
    assert data.signal == 9  # type: ignore[union-attr]
    assert data.stdout.omitted_bytes == 4  # type: ignore[union-attr]
    assert data.background[0].command == "serve"  # type: ignore[union-attr]


def test_unknown_enum_values_are_the_safest() -> None:
    """A verdict of the future blocks, an outcome of the future failed, an end of the future is unknown."""
    process = tool_pb2.ProcessData(end=99)  # type: ignore[arg-type]  # a value of a later version
    read = codec.result_from_message(message(outcome=99, verdict=99, process=process))

    assert (read.outcome, read.verdict) == (Outcome.FAILED, Verdict.BLOCK)
    assert read.data.end is ProcessEnd.UNKNOWN  # type: ignore[union-attr]  # a wrong kind fails the test as well


def test_a_result_without_data_or_failure_has_no_artifact() -> None:
    """Nothing to say is None, not an empty object."""
    assert artifact_of(codec.result_from_message(message())) is None


def test_a_result_without_text_is_a_violation() -> None:
    """The model is never shown an empty answer."""
    with pytest.raises(ProtocolViolation):
        codec.result_from_message(tool_pb2.ToolResult())


def test_a_call_is_written_in_full() -> None:
    """Every field arrives; a zero timeout stays unset."""
    call = ToolCall(
        request_id="r",
        thread="t",
        tool="x",
        arguments_json=b"{}",
        tool_call_id="c",
        run="run",
        lease="l",
        execution_timeout_seconds=1.9999999999,
        claims=Claims(agent_name="a", agent_instance="i", on_behalf_of="o"),
    )
    written = codec.call_to_message(call)

    assert written == tool_pb2.ToolCall(
        request_id="r",
        thread="t",
        tool="x",
        arguments_json=b"{}",
        tool_call_id="c",
        run="run",
        lease="l",
        execution_timeout=Duration(seconds=2),
        claims=tool_pb2.AgentClaims(agent_name="a", agent_instance="i", on_behalf_of="o"),
    )
    untimed = ToolCall(request_id="r", thread="t", tool="x", arguments_json=b"{}")
    assert not codec.call_to_message(untimed).HasField("execution_timeout")


def test_an_admission_is_needed_to_run() -> None:
    """A pass without an admission cannot be completed, so it is a violation."""
    with pytest.raises(ProtocolViolation):
        codec.authorization_from_message(
            tool_service_pb2.AuthorizeToolCallResponse(verdict=verdict_pb2.VERDICT_PASS), request_id="r"
        )


@pytest.mark.parametrize("seconds", [-(2**40), 2**40])
def test_a_time_out_of_the_calendar_is_no_time(seconds: int) -> None:
    """A gateway with a broken clock does not break the agent."""
    reply = tool_service_pb2.AuthorizeToolCallResponse(
        verdict=verdict_pb2.VERDICT_PASS, admission=b"a", expire_time=Timestamp(seconds=seconds)
    )
    assert codec.authorization_from_message(reply, request_id="r").expires_at is None


def test_a_completion_has_as_many_texts_as_were_sent() -> None:
    """Otherwise it is not known which text replaces which."""
    reply = tool_service_pb2.CompleteToolCallResponse(texts=["a"])
    assert codec.completion_from_message(reply, sent=["x"]).texts == ("a",)
    with pytest.raises(ProtocolViolation):
        codec.completion_from_message(reply, sent=["x", "y"])
    unchanged = tool_service_pb2.CompleteToolCallResponse(unchanged=True)
    assert codec.completion_from_message(unchanged, sent=["x", "y"]).texts == ("x", "y")


def test_the_same_arguments_are_the_same_bytes() -> None:
    """The order in which a model or a checkpointer lists keys does not change the digest."""
    assert codec.json_bytes({"b": 1, "a": "ä"}) == codec.json_bytes({"a": "ä", "b": 1}) == '{"a":"ä","b":1}'.encode()


def test_reports_and_events_are_written() -> None:
    """The agent's side of a completion, and a middleware's event, arrive as they are."""
    report = Report(outcome=Outcome.TIMED_OUT, texts=("a", "b"), failure_reason="slow")
    written = codec.report_to_message(b"adm", report)
    assert (written.admission, written.outcome, list(written.texts), written.failure_reason) == (
        b"adm",
        verdict_pb2.OUTCOME_TIMED_OUT,
        ["a", "b"],
        "slow",
    )
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    event = MiddlewareEvent(event_id="e", event="middleware:x", thread="t", occurred_at=moment, attributes={"n": 1})
    sent = codec.middleware_event_to_message(event)
    assert sent.attributes_json == b'{"n":1}'
    assert sent.occur_time.ToDatetime(UTC) == moment


@pytest.mark.parametrize("schema", [b"", b"[]", b"{", b"[" * 100_000, b"\xff"])
def test_a_schema_that_is_none_is_the_gateways_fault(schema: bytes) -> None:
    """Whatever a broken gateway sends is one typed error, also what is nested too deeply to be read."""
    with pytest.raises(ProtocolViolation):
        codec.tool_from_message(tool_pb2.Tool(name="bash", arguments_schema_json=schema))
