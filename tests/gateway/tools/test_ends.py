"""Every way in which a call can end, played by the scripted provider."""

from __future__ import annotations

from typing import Any

import pytest

from sandgate_gateway.domain.result import ProcessData, ToolResult
from sandgate_gateway.domain.result import ProcessEnd as ResultEnd
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.tools.bash import Bash
from sandgate_gateway.tools.contract import Tool, ToolRun
from sandgate_gateway.tools.edit import StrReplace, WriteFile
from sandgate_gateway.tools.ls import Ls
from sandgate_gateway.tools.read_file import ReadFile
from sandgate_gateway.tools.search import Glob, Grep
from sandgate_providers.channel.types import End, ProcessEnd, Stream
from sandgate_providers.errors import ChannelClosed, SandboxLost
from sandgate_providers.fake import FakeCall, FakeChannel

FILE_TOOLS: list[tuple[Tool, dict[str, Any]]] = [
    (Ls(), {}),
    (Glob(), {"pattern": "*"}),
    (Grep(), {"pattern": "x"}),
    (ReadFile(), {"path": "/f"}),
    (WriteFile(), {"path": "/f", "content": "x"}),
    (StrReplace(), {"path": "/f", "old_str": "x", "new_str": "y"}),
]


async def play(tool: Tool, arguments: dict[str, Any], end: End, output: bytes = b"") -> ToolResult:
    """Run a tool whose call writes and ends as told."""

    async def script(_work: object, call: FakeCall) -> End:
        if output:
            await call.emit(output, Stream.STDOUT)
        return end

    return await tool.run(ToolRun(arguments=arguments, channel=FakeChannel(script), timeout_seconds=5))


@pytest.mark.parametrize(
    ("reason", "outcome", "failure"),
    [
        (ProcessEnd.EXITED, Outcome.COMPLETED, None),
        (ProcessEnd.SIGNALED, Outcome.COMPLETED, None),
        (ProcessEnd.TIMEOUT, Outcome.TIMED_OUT, "timed-out"),
        (ProcessEnd.CANCELLED, Outcome.CANCELLED, "cancelled"),
        (ProcessEnd.OOM, Outcome.FAILED, "out-of-memory"),
        (ProcessEnd.OUTPUT_LIMIT, Outcome.FAILED, "output-limit"),
        (ProcessEnd.SANDBOX_LOST, Outcome.LOST, "sandbox-lost"),
        (ProcessEnd.START_FAILED, Outcome.FAILED, "start-failed"),
    ],
)
async def test_each_end_of_a_command(reason: ProcessEnd, outcome: Outcome, failure: str | None) -> None:
    """Each has its outcome and reason, says so in the text, and keeps the output that there was."""
    result = await play(
        Bash(), {"command": "x"}, End(reason=reason, exit_code=None, error_message="no bash"), b"partial"
    )
    assert result.outcome is outcome
    assert (result.failure.reason if result.failure else None) == failure
    assert "partial" in result.text
    assert isinstance(result.data, ProcessData)
    assert result.data.end is ResultEnd(reason.value)
    assert result.data.stdout.data == b"partial"
    if failure and reason is not ProcessEnd.TIMEOUT:
        assert result.text.startswith(f"Error ({failure}): ")


@pytest.mark.parametrize("tool", FILE_TOOLS, ids=lambda tool: tool[0].spec.name)
@pytest.mark.parametrize("reason", [end for end in ProcessEnd if end is not ProcessEnd.EXITED])
async def test_each_end_of_an_operation(reason: ProcessEnd, tool: tuple[Tool, dict[str, Any]]) -> None:
    """An operation that did not end by itself is never a success."""
    result = await play(*tool, End(reason=reason))
    assert result.outcome is not Outcome.COMPLETED
    assert result.failure is not None
    assert result.text.startswith(f"Error ({result.failure.reason}): ")


@pytest.mark.parametrize("tool", FILE_TOOLS, ids=lambda tool: tool[0].spec.name)
@pytest.mark.parametrize(
    "value",
    [None, 7, [], {}, {"path": "/f"}, {"entries": 1, "matches": 1, "created": 1, "size_bytes": "x"}],
)
async def test_an_answer_that_makes_no_sense(value: Any, tool: tuple[Tool, dict[str, Any]]) -> None:
    """It comes from inside a sandbox: it is a failure, and breaks nothing."""
    result = await play(*tool, End(reason=ProcessEnd.EXITED, exit_code=0, value=value))
    assert result.outcome is Outcome.FAILED
    assert result.failure is not None
    assert result.failure.reason == "io-error"


@pytest.mark.parametrize("tool", FILE_TOOLS, ids=lambda tool: tool[0].spec.name)
async def test_a_failed_operation_keeps_its_code(tool: tuple[Tool, dict[str, Any]]) -> None:
    """The code is the reason, and the message stays on one line whatever a path holds."""
    end = End(
        reason=ProcessEnd.EXITED, exit_code=1, error_code="no-space", error_message="/f\nError (x): y: No space left"
    )
    result = await play(*tool, end)
    assert result.outcome is Outcome.FAILED
    assert result.text.split("\n") == [
        "Error (no-space): /f\\nError (x): y: No space left",
        "Remove what is no longer needed, then try again.",
    ]


async def test_more_content_than_was_asked_for_is_refused() -> None:
    """What a read gives beyond its bound is dropped, and then does not fit its own answer."""
    value: Any = {
        "path": "/f", "start_line": 1, "end_line": 1, "total_lines": 1, "total_bytes": 200_000, "offset_bytes": 0,
        "size_bytes": 200_000, "truncated": False,
    }  # fmt: skip
    end = End(reason=ProcessEnd.EXITED, exit_code=0, value=value)
    result = await play(ReadFile(), {"path": "/f"}, end, b"x" * 200_000)
    assert result.outcome is Outcome.FAILED


@pytest.mark.parametrize("tool", [(Bash(), {"command": "x"}), *FILE_TOOLS], ids=lambda tool: tool[0].spec.name)
async def test_a_dead_sandbox_and_a_closed_line_are_raised(tool: tuple[Tool, dict[str, Any]]) -> None:
    """Nothing ran, so the pipeline may try again with a new sandbox."""

    async def script(_work: object, _call: FakeCall) -> End:
        raise AssertionError("nothing may run")

    lost, closed = FakeChannel(script), FakeChannel(script)
    await lost.lose()
    await closed.close()
    with pytest.raises(SandboxLost):
        await tool[0].run(ToolRun(arguments=tool[1], channel=lost, timeout_seconds=5))
    with pytest.raises(ChannelClosed):
        await tool[0].run(ToolRun(arguments=tool[1], channel=closed, timeout_seconds=5))
