"""The tool `bash`."""

from __future__ import annotations

from collections.abc import Iterator

from sandgate_gateway.domain.call import Sink
from sandgate_gateway.domain.result import (
    BackgroundProcess,
    Failure,
    OutputChunk,
    OutputStream,
    ProcessData,
    ProcessEnd,
    ToolResult,
    Violation,
)
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.tools.arguments import number_argument, text_argument
from sandgate_gateway.tools.capture import OutputCapture
from sandgate_gateway.tools.contract import ToolRun, ToolSpec
from sandgate_gateway.tools.failures import ended_early, invalid_arguments
from sandgate_gateway.tools.process_text import process_text
from sandgate_gateway.tools.schema import tool_spec
from sandgate_gateway.tools.shown import clean_text
from sandgate_providers.channel.types import Chunk, Command, End, Stream
from sandgate_providers.channel.types import ProcessEnd as ChannelEnd
from sandgate_providers.errors import CallRefused

TEXT_CHARACTERS = 20_000
"""Of the text for the model; the reference's number."""
MOST_COMMAND_BYTES = 100_000
"""The kernel takes 128 KiB as one argument."""
MOST_OUTPUT_BYTES = 4 << 30
"""A command that writes more is ended: nobody reads so much, and what runs wild must not hold the line until its
timeout."""
MOST_CHUNK_BYTES = 256 * 1024
"""Of one piece of output on its way to a reader; the contract's limit."""

_STREAMS = {Stream.STDOUT: OutputStream.STDOUT, Stream.STDERR: OutputStream.STDERR}

_SPEC = tool_spec(
    "bash",
    "Run a bash command in the sandbox and get what it writes, with its exit code. It starts in "
    "/mnt/user-data/workspace; uploaded files are in /mnt/user-data/uploads, and files for the user belong into "
    "/mnt/user-data/outputs. Each call is a new shell: variables and the working directory are not kept, files and "
    "background processes are. There is no terminal and no input. A long output is cut in its middle. Start a server "
    "or other long work in the background with its output in a file (command > log.txt 2>&1 &).",
    {
        "command": {
            "type": "string",
            "minLength": 1,
            "maxLength": MOST_COMMAND_BYTES,
            "description": "The command, as for `bash -c`.",
        },
        "timeout_seconds": {
            "type": "integer",
            "minimum": 1,
            "description": "End the command and all that it started after so many seconds. At most what the gateway "
            "allows; that is also the default.",
        },
    },
    required=["command"],
)


class Bash:
    """Runs a command.

    Args:
        text_characters: Limit of the text for the model; zero leaves 64 KiB.
        most_output_bytes: A command that writes more is ended; zero: no limit.
    """

    def __init__(self, *, text_characters: int = TEXT_CHARACTERS, most_output_bytes: int = MOST_OUTPUT_BYTES) -> None:
        self._text_characters = text_characters
        self._most_output_bytes = most_output_bytes

    @property
    def spec(self) -> ToolSpec:
        """How it is listed."""
        return _SPEC

    async def run(self, run: ToolRun) -> ToolResult:
        """Run the command to its end. It is completed whatever its exit code is."""
        command = text_argument(run.arguments, "command")
        if refusal := _refusal(command):
            return refusal
        wanted = number_argument(run.arguments, "timeout_seconds")
        seconds = run.timeout_seconds if wanted is None else max(0.0, min(wanted, run.timeout_seconds))
        work = Command(
            argv=("bash", "-c", _as_operand(command)),
            timeout_seconds=seconds,
            output_limit_bytes=self._most_output_bytes,
        )
        captures = {Stream.STDOUT: OutputCapture(), Stream.STDERR: OutputCapture()}
        try:
            async with run.channel.open(work) as call:
                async for chunk in call.chunks():
                    captures[chunk.stream].add(chunk.data)
                    if run.sink is not None:
                        await _pass_on(run.sink, chunk)
                end = await call.end()
        except CallRefused as error:
            if error.reason != "too-large":
                raise
            return _too_long()
        return self._result(_process_data(end, captures), end, seconds)

    def _result(self, data: ProcessData, end: End, seconds: float) -> ToolResult:
        if end.reason in (ChannelEnd.EXITED, ChannelEnd.SIGNALED):
            text, truncated = process_text(data, self._text_characters)
            return ToolResult(outcome=Outcome.COMPLETED, text=text, truncated=truncated, data=data)
        outcome, failure = ended_early(end, seconds, "The command")
        next_step = failure.next_step
        opening = f"Error ({failure.reason}): {failure.message} Output so far:"
        if end.reason is ChannelEnd.TIMEOUT:
            opening = f"Timed out after {seconds:g} s; the whole process tree was ended. Output so far:"
            next_step = "Run long work in the background (command > log.txt 2>&1 &) and look at its output later."
        text, truncated = process_text(data, self._text_characters, opening=opening, closing=next_step)
        failure = Failure(
            reason=failure.reason, message=failure.message, retryable=failure.retryable, next_step=next_step
        )
        return ToolResult(outcome=outcome, text=text, truncated=truncated, data=data, failure=failure)


def _refusal(command: str) -> ToolResult | None:
    if not command.strip():
        return invalid_arguments("bash", Violation(pointer="/command", message="must not be empty"))
    if "\0" in command:
        return invalid_arguments("bash", Violation(pointer="/command", message="holds a NUL character"))
    if len(command.encode("utf-8", "surrogatepass")) > MOST_COMMAND_BYTES:
        return _too_long()
    return None


def _too_long() -> ToolResult:
    return invalid_arguments(
        "bash",
        Violation(pointer="/command", message=f"must have at most {MOST_COMMAND_BYTES:,} bytes"),
        next_step="Write a script with write_file, then run it.",
    )


def _as_operand(command: str) -> str:
    """Keep bash from reading a command that begins with a minus or plus as options; the space means nothing to it."""
    return f" {command}" if command[0] in "-+" else command


async def _pass_on(sink: Sink, chunk: Chunk) -> None:
    for piece in _pieces(chunk.data):
        await sink(OutputChunk(_STREAMS[chunk.stream], piece))


def _pieces(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), MOST_CHUNK_BYTES):
        yield data[at : at + MOST_CHUNK_BYTES]


def _process_data(end: End, captures: dict[Stream, OutputCapture]) -> ProcessData:
    return ProcessData(
        end=ProcessEnd(end.reason.value),
        stdout=captures[Stream.STDOUT].result(),
        stderr=captures[Stream.STDERR].result(),
        exit_code=end.exit_code,
        signal=end.signal,
        duration_seconds=end.duration_seconds,
        cpu_seconds=end.cpu_seconds,
        background=tuple(
            BackgroundProcess(pid=process.pid, command=clean_text(process.command)) for process in end.background
        ),
        output_held=end.output_held,
    )
