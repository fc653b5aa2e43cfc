"""Results of tool calls: from the domain onto the wire."""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from sandgate.v1 import tool_pb2, tool_service_pb2, verdict_pb2
from sandgate_gateway.domain.result import (
    Capture,
    EntryKind,
    EntryList,
    Failure,
    FileChange,
    FileRange,
    MatchList,
    OutputStream,
    ProcessData,
    ProcessEnd,
)
from sandgate_gateway.domain.verdict import Outcome, Reason, Verdict
from sandgate_gateway.ledger.answer import CallAnswer

OUTCOMES = {
    Outcome.COMPLETED: verdict_pb2.OUTCOME_COMPLETED,
    Outcome.FAILED: verdict_pb2.OUTCOME_FAILED,
    Outcome.DENIED: verdict_pb2.OUTCOME_DENIED,
    Outcome.PENDING: verdict_pb2.OUTCOME_PENDING,
    Outcome.TIMED_OUT: verdict_pb2.OUTCOME_TIMED_OUT,
    Outcome.CANCELLED: verdict_pb2.OUTCOME_CANCELLED,
    Outcome.INTERRUPTED: verdict_pb2.OUTCOME_INTERRUPTED,
    Outcome.LOST: verdict_pb2.OUTCOME_LOST,
}

VERDICTS = {
    Verdict.PASS: verdict_pb2.VERDICT_PASS,
    Verdict.WARN: verdict_pb2.VERDICT_WARN,
    Verdict.ASK: verdict_pb2.VERDICT_ASK,
    Verdict.BLOCK: verdict_pb2.VERDICT_BLOCK,
}

PROCESS_ENDS = {
    ProcessEnd.EXITED: tool_pb2.PROCESS_END_EXITED,
    ProcessEnd.SIGNALED: tool_pb2.PROCESS_END_SIGNALED,
    ProcessEnd.TIMEOUT: tool_pb2.PROCESS_END_TIMEOUT,
    ProcessEnd.CANCELLED: tool_pb2.PROCESS_END_CANCELLED,
    ProcessEnd.OOM: tool_pb2.PROCESS_END_OOM,
    ProcessEnd.OUTPUT_LIMIT: tool_pb2.PROCESS_END_OUTPUT_LIMIT,
    ProcessEnd.SANDBOX_LOST: tool_pb2.PROCESS_END_SANDBOX_LOST,
    ProcessEnd.START_FAILED: tool_pb2.PROCESS_END_START_FAILED,
}

ENTRY_KINDS = {
    EntryKind.FILE: tool_pb2.ENTRY_KIND_FILE,
    EntryKind.DIRECTORY: tool_pb2.ENTRY_KIND_DIRECTORY,
    EntryKind.SYMLINK: tool_pb2.ENTRY_KIND_SYMLINK,
    EntryKind.OTHER: tool_pb2.ENTRY_KIND_OTHER,
}

STREAMS = {
    OutputStream.STDOUT: tool_service_pb2.OUTPUT_STREAM_STDOUT,
    OutputStream.STDERR: tool_service_pb2.OUTPUT_STREAM_STDERR,
}


def tool_result(answer: CallAnswer) -> tool_pb2.ToolResult:
    """Put the end of a call onto the wire."""
    result = answer.result
    message = tool_pb2.ToolResult(
        audit_id=answer.audit_id,
        request_id=answer.request_id,
        outcome=OUTCOMES[result.outcome],
        verdict=VERDICTS[answer.verdict],
        text=clean(result.text),
        truncated=result.truncated,
        sandbox=f"sandboxes/{answer.sandbox}" if answer.sandbox else "",
        reasons=reasons(answer.reasons),
        start_time=timestamp(answer.received_at),
        duration=duration(answer.duration_seconds),
    )
    if result.failure is not None:
        message.failure.CopyFrom(_failure(result.failure))
    match result.data:
        case None:
            pass
        case ProcessData() as data:
            _put_process(message.process, data)
        case EntryList() as data:
            _put_entries(message.entries, data)
        case MatchList() as data:
            _put_matches(message.matches, data)
        case FileRange() as data:
            _put_file_range(message.file_range, data)
        case FileChange() as data:
            _put_file_change(message.file_change, data)
        case _:
            assert_never(result.data)
    return message


def reasons(values: tuple[Reason, ...]) -> list[verdict_pb2.Reason]:
    """Put the reasons of a verdict onto the wire."""
    return [verdict_pb2.Reason(code=item.code, rule_id=item.rule_id, message=clean(item.message)) for item in values]


def clean(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot say. They come from file names that are no UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def timestamp(value: datetime) -> Timestamp:
    """Put a time onto the wire, to the microsecond."""
    return Timestamp(seconds=int(value.timestamp() // 1), nanos=value.microsecond * 1000)


def duration(value: float) -> Duration:
    """Put a span of seconds onto the wire."""
    whole = int(value)
    return Duration(seconds=whole, nanos=int((value - whole) * 1e9))


def _failure(failure: Failure) -> tool_pb2.ToolFailure:
    return tool_pb2.ToolFailure(
        reason=failure.reason,
        message=clean(failure.message),
        retryable=failure.retryable,
        next_step=clean(failure.next_step),
        violations=[
            tool_pb2.ArgumentViolation(pointer=clean(item.pointer), message=clean(item.message))
            for item in failure.violations
        ],
    )


def _put_process(message: tool_pb2.ProcessData, data: ProcessData) -> None:
    message.end = PROCESS_ENDS[data.end]
    if data.exit_code is not None:
        message.exit_code = data.exit_code
    if data.signal is not None:
        message.signal = data.signal
    _put_capture(message, "stdout", data.stdout)
    _put_capture(message, "stderr", data.stderr)
    message.duration.CopyFrom(duration(data.duration_seconds))
    message.cpu_time.CopyFrom(duration(data.cpu_seconds))
    for item in data.background:
        message.background_processes.add(pid=item.pid, command=clean(item.command))
    message.output_held = data.output_held


def _put_capture(message: tool_pb2.ProcessData, name: str, capture: Capture) -> None:
    setattr(message, name, capture.data)
    setattr(message, f"{name}_bytes", capture.total_bytes)
    if capture.omitted_bytes:
        setattr(message, f"{name}_omitted_bytes", capture.omitted_bytes)
        setattr(message, f"{name}_gap_bytes", capture.gap_bytes)


def _put_entries(message: tool_pb2.EntryList, data: EntryList) -> None:
    message.SetInParent()
    message.truncated = data.truncated
    for item in data.entries:
        message.entries.add(
            path=clean(item.path),
            kind=ENTRY_KINDS[item.kind],
            size_bytes=item.size_bytes,
            modify_time=timestamp(item.modified_at),
        )


def _put_matches(message: tool_pb2.MatchList, data: MatchList) -> None:
    message.SetInParent()
    message.truncated = data.truncated
    message.files_searched = data.files_searched
    message.files_skipped = data.files_skipped
    for item in data.matches:
        message.matches.add(path=clean(item.path), line_number=item.line_number, line=clean(item.line))


def _put_file_range(message: tool_pb2.FileRange, data: FileRange) -> None:
    message.path = clean(data.path)
    message.start_line = data.start_line
    message.end_line = data.end_line
    if data.total_lines is not None:
        message.total_lines = data.total_lines
    message.total_bytes = data.total_bytes
    message.content = data.content
    message.offset_bytes = data.offset_bytes


def _put_file_change(message: tool_pb2.FileChange, data: FileChange) -> None:
    message.path = clean(data.path)
    message.created = data.created
    message.size_bytes = data.size_bytes
    message.replacements = data.replacements
