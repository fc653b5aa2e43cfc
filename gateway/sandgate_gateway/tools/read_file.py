"""The tool `read_file`."""

from __future__ import annotations

from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.domain.result import Failure, FileRange, ToolResult, Violation, failed
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.tools.answers import Answer, MalformedAnswer
from sandgate_gateway.tools.arguments import number_argument, text_argument
from sandgate_gateway.tools.contract import ToolRun, ToolSpec
from sandgate_gateway.tools.failures import invalid_arguments
from sandgate_gateway.tools.operating import operate
from sandgate_gateway.tools.schema import tool_spec
from sandgate_gateway.tools.shortening import MOST_TEXT_BYTES, shorten_head
from sandgate_gateway.tools.shown import decode_output
from sandgate_providers.types import WORKSPACE

TEXT_CHARACTERS = 50_000
"""Of the text for the model; the reference's number."""
MOST_BYTES = MOST_TEXT_BYTES
"""Read at once: more could not be shown."""
MOST_LINE_NUMBER = (1 << 31) - 1
"""The contract's line numbers have 32 bits."""

_SPEC = tool_spec(
    "read_file",
    "Read a text file, whole or some of its lines. What is above 50,000 characters is cut, and the end says with which "
    "start_line to go on.",
    {
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "description": f"Absolute path, for example {WORKSPACE}/main.py",
        },
        "start_line": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_LINE_NUMBER,
            "description": "First line to read, from 1. Default: 1",
        },
        "end_line": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_LINE_NUMBER,
            "description": "Last line to read, included. Default: the last one",
        },
    },
    required=["path"],
    read_only=True,
)


class ReadFile:
    """Reads a text file.

    Args:
        text_characters: Limit of the text for the model; zero leaves 64 KiB.
    """

    def __init__(self, *, text_characters: int = TEXT_CHARACTERS) -> None:
        self._text_characters = text_characters

    @property
    def spec(self) -> ToolSpec:
        """How it is listed."""
        return _SPEC

    async def run(self, run: ToolRun) -> ToolResult:
        """Read the lines. The typed data holds exactly the lines that the text shows, the last one whole."""
        start = number_argument(run.arguments, "start_line") or 1
        end = number_argument(run.arguments, "end_line")
        if end is not None and end < start:
            return invalid_arguments(
                "read_file", Violation(pointer="/end_line", message=f"must be at least start_line, which is {start}")
            )
        arguments: dict[str, JsonValue] = {
            "path": text_argument(run.arguments, "path"),
            "start_line": start,
            "end_line": end or 0,
            "max_bytes": MOST_BYTES,
        }

        def read(answer: Answer, output: bytes) -> ToolResult:
            return self._result(answer, output, start)

        return await operate(run, "read", arguments, read, most_bytes=MOST_BYTES)

    def _result(self, answer: Answer, output: bytes, start: int) -> ToolResult:
        total_lines = answer.optional_number("total_lines")
        if answer.number("size_bytes") != len(output):
            raise MalformedAnswer("size_bytes")
        if not output:
            return _nothing(answer, start, total_lines)
        end = answer.number("end_line", MOST_LINE_NUMBER)
        total = "" if total_lines is None else f" of {total_lines:,}"

        def note(head: str, _omitted: int) -> str:
            if last := head.count("\n"):
                last += start - 1
                return f"[… lines {start:,} to {last:,}{total} are shown. Go on with start_line={last + 1}. …]"
            return (
                f"[… only the beginning of line {start:,}{total} is shown: it is too long. "
                "See the rest of it with bash, for example with cut -c or head -c. …]"
            )

        truncated = answer.flag("truncated")
        shortened = shorten_head(decode_output(output), self._text_characters, note, incomplete=truncated)
        if shortened.omitted:
            lines = max(1, shortened.kept.count("\n"))  # of a first line that is too long the text shows a part
            output = _first_lines(output, lines)
            end = start + lines - 1
        data = FileRange(
            path=answer.text("path"),
            start_line=start,
            end_line=end,
            total_bytes=answer.number("total_bytes"),
            content=output,
            offset_bytes=answer.number("offset_bytes"),
            total_lines=total_lines,
        )
        return ToolResult(
            outcome=Outcome.COMPLETED, text=shortened.text, truncated=truncated or bool(shortened.omitted), data=data
        )


def _first_lines(output: bytes, lines: int) -> bytes:
    pieces = output.split(b"\n", lines)
    return output[: len(output) - len(pieces[-1])] if len(pieces) > lines else output


def _nothing(answer: Answer, start: int, total_lines: int | None) -> ToolResult:
    """Tell an empty file from lines that there are not."""
    total_bytes = answer.number("total_bytes")
    if total_lines == 0 or total_bytes == 0:
        data = FileRange(
            path=answer.text("path"), start_line=0, end_line=0, total_bytes=total_bytes, content=b"", total_lines=0
        )
        return ToolResult(outcome=Outcome.COMPLETED, text="(empty)", data=data)
    has = "fewer lines" if total_lines is None else f"{total_lines:,} line{'' if total_lines == 1 else 's'}"
    return failed(
        Failure(
            reason="invalid-arguments",
            message=f"start_line {start:,} is past the end: the file has {has}.",
            next_step="Read from a line that the file has.",
            violations=(Violation(pointer="/start_line", message="is past the end of the file"),),
        )
    )
