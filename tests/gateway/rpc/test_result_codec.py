"""Results as they go onto the wire."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from sandgate.v1 import sandbox_pb2, tool_pb2, tool_service_pb2, verdict_pb2
from sandgate_gateway.domain.result import (
    BackgroundProcess,
    Capture,
    Entry,
    EntryKind,
    EntryList,
    Failure,
    FileChange,
    FileRange,
    Match,
    MatchList,
    OutputStream,
    ProcessData,
    ProcessEnd,
    ToolData,
    ToolResult,
    Violation,
    failed,
)
from sandgate_gateway.domain.verdict import Outcome, Reason, Verdict
from sandgate_gateway.ledger.answer import CallAnswer
from sandgate_gateway.rpc import result_codec, sandbox_codec
from sandgate_gateway.sandboxes.place import SandboxState
from sandgate_providers.types import FactSource

TIME = datetime(2031, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC)


def encode(result: ToolResult, sandbox: str = "") -> tool_pb2.ToolResult:
    """Put a result onto the wire and take it off again."""
    answer = CallAnswer(
        request_id="r",
        audit_id="a",
        verdict=Verdict.WARN,
        reasons=(Reason(code="c", message="m", rule_id="i"),),
        sandbox=sandbox,
        received_at=TIME,
        duration_seconds=1.25,
        result=result,
    )
    return tool_pb2.ToolResult.FromString(result_codec.tool_result(answer).SerializeToString())


def done(data: ToolData | None = None) -> ToolResult:
    """Make a completed result."""
    return ToolResult(outcome=Outcome.COMPLETED, text="text", data=data)


@pytest.mark.parametrize(
    ("domain", "table", "wire"),
    [
        (Outcome, result_codec.OUTCOMES, verdict_pb2.Outcome),
        (Verdict, result_codec.VERDICTS, verdict_pb2.Verdict),
        (ProcessEnd, result_codec.PROCESS_ENDS, tool_pb2.ProcessEnd),
        (EntryKind, result_codec.ENTRY_KINDS, tool_pb2.EntryKind),
        (OutputStream, result_codec.STREAMS, tool_service_pb2.OutputStream),
        (SandboxState, sandbox_codec.STATES, sandbox_pb2.SandboxState),
        (FactSource, sandbox_codec.FACT_SOURCES, sandbox_pb2.FactSource),
    ],
)
def test_every_word_has_its_number(
    domain: type[enum.Enum], table: Mapping[enum.Enum, int], wire: enum.EnumMeta
) -> None:
    """Each table has every member of both enums under one name; of the contract's all but *unspecified*."""
    assert set(table) == set(domain)
    numbers = set(wire.values()) - {0}  # type: ignore[attr-defined]  # protobuf's enums have it
    assert set(table.values()) == numbers
    for member, number in table.items():
        assert wire.Name(number).endswith(f"_{member.name}")  # type: ignore[attr-defined]  # likewise


def test_the_frame_of_a_result() -> None:
    """Ids, verdict, reasons, times and the sandbox's resource name arrive."""
    message = encode(done(), sandbox="sg-1")
    assert (message.audit_id, message.request_id, message.sandbox) == ("a", "r", "sandboxes/sg-1")
    assert (message.outcome, message.verdict) == (verdict_pb2.OUTCOME_COMPLETED, verdict_pb2.VERDICT_WARN)
    assert [(reason.code, reason.rule_id, reason.message) for reason in message.reasons] == [("c", "i", "m")]
    assert message.start_time.ToDatetime(tzinfo=UTC) == TIME
    assert message.duration.ToTimedelta().total_seconds() == 1.25
    assert message.WhichOneof("data") is None
    assert not message.HasField("failure")


def test_a_process_arrives_with_its_exact_bytes() -> None:
    """Output that is no UTF-8, a gap in it, exit code zero, and what still runs."""
    data = ProcessData(
        end=ProcessEnd.EXITED,
        stdout=Capture(data=b"\xff\x00ab", total_bytes=100, gap_bytes=2),
        stderr=Capture(data=b"", total_bytes=0),
        exit_code=0,
        duration_seconds=0.5,
        cpu_seconds=0.25,
        background=(BackgroundProcess(pid=7, command="python -m http.server"),),
        output_held=True,
    )
    process = encode(done(data)).process
    assert process.stdout == b"\xff\x00ab"
    assert (process.stdout_bytes, process.stdout_omitted_bytes, process.stdout_gap_bytes) == (100, 96, 2)
    assert process.HasField("exit_code")
    assert process.exit_code == 0
    assert not process.HasField("signal")
    assert process.cpu_time.ToTimedelta().total_seconds() == 0.25
    assert [(item.pid, item.command) for item in process.background_processes] == [(7, "python -m http.server")]
    assert process.output_held


def test_a_killed_process_has_a_signal_and_no_exit_code() -> None:
    """Unknown is unset, never zero or minus one."""
    capture = Capture(data=b"", total_bytes=0)
    process = encode(done(ProcessData(end=ProcessEnd.SIGNALED, stdout=capture, stderr=capture, signal=9))).process
    assert process.signal == 9
    assert not process.HasField("exit_code")


def test_lists_arrive_even_when_empty() -> None:
    """An empty list of entries or matches is an answer, not the lack of one."""
    assert encode(done(EntryList(entries=(), truncated=False))).WhichOneof("data") == "entries"
    matches = MatchList(matches=(), truncated=False, files_searched=0, files_skipped=0)
    assert encode(done(matches)).WhichOneof("data") == "matches"


def test_entries_and_matches_arrive_in_order() -> None:
    """With kind, size, time; with line number and line."""
    entry = Entry(path="/mnt/user-data/\udcff", kind=EntryKind.SYMLINK, size_bytes=3, modified_at=TIME)
    [shown] = encode(done(EntryList(entries=(entry,), truncated=True))).entries.entries
    assert (shown.path, shown.kind, shown.size_bytes) == ("/mnt/user-data/?", tool_pb2.ENTRY_KIND_SYMLINK, 3)
    assert shown.modify_time.ToDatetime(tzinfo=UTC) == TIME
    match = Match(path="/a", line_number=3, line="x")
    message = encode(done(MatchList(matches=(match,), truncated=True, files_searched=2, files_skipped=1))).matches
    assert [(item.path, item.line_number, item.line) for item in message.matches] == [("/a", 3, "x")]
    assert (message.truncated, message.files_searched, message.files_skipped) == (True, 2, 1)


@pytest.mark.parametrize("total_lines", [None, 0, 9])
def test_a_file_range_knows_what_it_does_not_know(total_lines: int | None) -> None:
    """Lines that were not counted are unset; zero lines are zero."""
    data = FileRange(
        path="/a", start_line=1, end_line=2, total_bytes=9, content=b"\xff", offset_bytes=4, total_lines=total_lines
    )
    message = encode(done(data)).file_range
    assert message.HasField("total_lines") is (total_lines is not None)
    assert message.total_lines == (total_lines or 0)
    assert (message.content, message.offset_bytes, message.start_line, message.end_line) == (b"\xff", 4, 1, 2)


def test_a_file_change_arrives() -> None:
    """Created, size, replacements."""
    message = encode(done(FileChange(path="/a", created=True, size_bytes=5, replacements=2))).file_change
    assert (message.path, message.created, message.size_bytes, message.replacements) == ("/a", True, 5, 2)


def test_a_failure_arrives_with_its_violations() -> None:
    """Reason, message, whether to try again, what to do, and which arguments."""
    violations = (Violation(pointer="/a", message="is missing"),)
    failure = Failure(reason="invalid-arguments", message="m", retryable=True, next_step="n", violations=violations)
    message = encode(failed(failure))
    assert message.outcome == verdict_pb2.OUTCOME_FAILED
    assert (message.failure.reason, message.failure.message) == ("invalid-arguments", "m")
    assert (message.failure.retryable, message.failure.next_step) == (True, "n")
    assert [(item.pointer, item.message) for item in message.failure.violations] == [("/a", "is missing")]


def test_lone_surrogates_cannot_break_a_reply() -> None:
    """Text that UTF-8 cannot say is replaced; other text beyond ASCII is left as it is."""
    assert encode(ToolResult(outcome=Outcome.COMPLETED, text="é \udcff")).text == "é ?"
