"""Reads the results of tool calls from the contract's messages: the half of `codec` that deals with what tools give."""

from __future__ import annotations

from sandgate.v1 import tool_pb2
from sandgate_agent.results import (
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
    ProcessData,
    ProcessEnd,
    ToolData,
    Violation,
)

_ENDS: dict[int, ProcessEnd] = {
    tool_pb2.PROCESS_END_EXITED: ProcessEnd.EXITED,
    tool_pb2.PROCESS_END_SIGNALED: ProcessEnd.SIGNALED,
    tool_pb2.PROCESS_END_TIMEOUT: ProcessEnd.TIMEOUT,
    tool_pb2.PROCESS_END_CANCELLED: ProcessEnd.CANCELLED,
    tool_pb2.PROCESS_END_OOM: ProcessEnd.OOM,
    tool_pb2.PROCESS_END_OUTPUT_LIMIT: ProcessEnd.OUTPUT_LIMIT,
    tool_pb2.PROCESS_END_SANDBOX_LOST: ProcessEnd.SANDBOX_LOST,
    tool_pb2.PROCESS_END_START_FAILED: ProcessEnd.START_FAILED,
}

_KINDS: dict[int, EntryKind] = {
    tool_pb2.ENTRY_KIND_FILE: EntryKind.FILE,
    tool_pb2.ENTRY_KIND_DIRECTORY: EntryKind.DIRECTORY,
    tool_pb2.ENTRY_KIND_SYMLINK: EntryKind.SYMLINK,
    tool_pb2.ENTRY_KIND_OTHER: EntryKind.OTHER,
}


def data_from_message(message: tool_pb2.ToolResult) -> ToolData | None:
    """Read the typed half of a result; None when there is none, or one of a kind that this version does not know."""
    match message.WhichOneof("data"):
        case "process":
            return _process(message.process)
        case "entries":
            return EntryList(entries=tuple(map(_entry, message.entries.entries)), truncated=message.entries.truncated)
        case "matches":
            matches = message.matches
            return MatchList(
                matches=tuple(
                    Match(path=match.path, line_number=match.line_number, line=match.line) for match in matches.matches
                ),
                truncated=matches.truncated,
                files_searched=matches.files_searched,
                files_skipped=matches.files_skipped,
            )
        case "file_range":
            part = message.file_range
            return FileRange(
                path=part.path,
                start_line=part.start_line,
                end_line=part.end_line,
                total_lines=part.total_lines if part.HasField("total_lines") else None,
                total_bytes=part.total_bytes,
                content=part.content,
                offset_bytes=part.offset_bytes,
            )
        case "file_change":
            change = message.file_change
            return FileChange(
                path=change.path,
                created=change.created,
                size_bytes=change.size_bytes,
                replacements=change.replacements,
            )
        case _:
            return None


def failure_from_message(message: tool_pb2.ToolResult) -> Failure | None:
    """Read why a tool did not do what was asked; None when the result says nothing of it."""
    if not message.HasField("failure"):
        return None
    failure = message.failure
    return Failure(
        reason=failure.reason,
        message=failure.message,
        retryable=failure.retryable,
        next_step=failure.next_step,
        violations=tuple(Violation(pointer=item.pointer, message=item.message) for item in failure.violations),
    )


def _process(message: tool_pb2.ProcessData) -> ProcessData:
    return ProcessData(
        end=_ENDS.get(message.end, ProcessEnd.UNKNOWN),
        exit_code=message.exit_code if message.HasField("exit_code") else None,
        signal=message.signal if message.HasField("signal") else None,
        stdout=Capture(
            data=message.stdout,
            total_bytes=message.stdout_bytes,
            omitted_bytes=message.stdout_omitted_bytes,
            gap_bytes=message.stdout_gap_bytes,
        ),
        stderr=Capture(
            data=message.stderr,
            total_bytes=message.stderr_bytes,
            omitted_bytes=message.stderr_omitted_bytes,
            gap_bytes=message.stderr_gap_bytes,
        ),
        duration_seconds=message.duration.seconds + message.duration.nanos / 1e9,
        cpu_seconds=message.cpu_time.seconds + message.cpu_time.nanos / 1e9,
        background=tuple(
            BackgroundProcess(pid=process.pid, command=process.command) for process in message.background_processes
        ),
        output_held=message.output_held,
    )


def _entry(message: tool_pb2.Entry) -> Entry:
    return Entry(
        path=message.path,
        kind=_KINDS.get(message.kind, EntryKind.OTHER),
        size_bytes=message.size_bytes,
        modified_seconds=message.modify_time.seconds + message.modify_time.nanos / 1e9,
    )
