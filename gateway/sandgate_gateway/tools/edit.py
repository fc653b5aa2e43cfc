"""The tools `write_file` and `str_replace`."""

from __future__ import annotations

from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.domain.result import Failure, ToolResult, Violation, failed
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.tools.answers import Answer
from sandgate_gateway.tools.arguments import flag_argument, text_argument
from sandgate_gateway.tools.contract import ToolRun, ToolSpec
from sandgate_gateway.tools.failures import invalid_arguments
from sandgate_gateway.tools.operating import operate
from sandgate_gateway.tools.schema import tool_spec
from sandgate_gateway.tools.shown import shown_text
from sandgate_providers.types import WORKSPACE

MOST_WRITTEN_BYTES = 81_920
"""Of the content of one call that does not append; the reference's number."""

_PATH: dict[str, JsonValue] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 4096,
    "description": f"Absolute path, for example {WORKSPACE}/main.py",
}

_REPLACE_SPEC = tool_spec(
    "str_replace",
    "Replace a text in a file. The old text must be in the file exactly once, unless replace_all is set; give enough "
    "of what is around it.",
    {
        "path": _PATH,
        "old_str": {
            "type": "string",
            "minLength": 1,
            "description": "The text to replace, exactly as it is in the file, spaces and line ends included.",
        },
        "new_str": {"type": "string", "description": "The text to put in its place; may be empty."},
        "replace_all": {"type": "boolean", "description": "Replace each place where it is. Default: false"},
    },
    required=["path", "old_str", "new_str"],
)


def _write_spec(most_bytes: int) -> ToolSpec:
    limit = f" One call takes at most {most_bytes:,} bytes, append the rest." if most_bytes else ""
    return tool_spec(
        "write_file",
        "Write a text file, whole or not at all: it is made or replaced, or the content is appended to it. Folders "
        f"that are missing are made.{limit}",
        {
            "path": _PATH,
            "content": {"type": "string", "description": "What the file shall hold, or what is appended."},
            "append": {"type": "boolean", "description": "Add to the end of the file. Default: false"},
        },
        required=["path", "content"],
    )


class WriteFile:
    """Writes a text file.

    Args:
        most_bytes: Of the content of one call that does not append; zero: no limit but that of all arguments.
    """

    def __init__(self, *, most_bytes: int = MOST_WRITTEN_BYTES) -> None:
        self._most_bytes = most_bytes
        self._spec = _write_spec(most_bytes)

    @property
    def spec(self) -> ToolSpec:
        """How it is listed."""
        return self._spec

    async def run(self, run: ToolRun) -> ToolResult:
        """Write or append."""
        content = text_argument(run.arguments, "content").encode("utf-8")
        append = flag_argument(run.arguments, "append")
        if self._most_bytes and len(content) > self._most_bytes and not append:
            return failed(
                Failure(
                    reason="too-large",
                    message=f"The content has {len(content):,} bytes; one call takes {self._most_bytes:,}.",
                    next_step="Write the first part, then add the others with append set to true.",
                )
            )
        arguments: dict[str, JsonValue] = {
            "path": text_argument(run.arguments, "path"),
            "size_bytes": len(content),
            "append": append,
        }

        def read(answer: Answer, _output: bytes) -> ToolResult:
            change = answer.file_change()
            verb = "appended" if append else "written"
            state = "new file" if change.created else f"it has {change.size_bytes:,} now" if append else "replaced"
            text = f"OK: {len(content):,} bytes {verb} to {shown_text(change.path)} ({state})."
            return ToolResult(outcome=Outcome.COMPLETED, text=text, data=change)

        return await operate(run, "write", arguments, read, content=content)


class StrReplace:
    """Replaces a text in a file."""

    @property
    def spec(self) -> ToolSpec:
        """How it is listed."""
        return _REPLACE_SPEC

    async def run(self, run: ToolRun) -> ToolResult:
        """Replace it where it is unique, or everywhere."""
        old = text_argument(run.arguments, "old_str").encode("utf-8")
        new = text_argument(run.arguments, "new_str").encode("utf-8")
        if not old:
            return invalid_arguments("str_replace", Violation(pointer="/old_str", message="must not be empty"))
        if old == new:
            return invalid_arguments(
                "str_replace", Violation(pointer="/new_str", message="is the same as old_str, so nothing would change")
            )
        arguments: dict[str, JsonValue] = {
            "path": text_argument(run.arguments, "path"),
            "replace_all": flag_argument(run.arguments, "replace_all"),
        }

        def read(answer: Answer, _output: bytes) -> ToolResult:
            change = answer.file_change(replacements=True)
            places = f"{change.replacements:,} place{'' if change.replacements == 1 else 's'}"
            text = f"OK: replaced {places} in {shown_text(change.path)}."
            return ToolResult(outcome=Outcome.COMPLETED, text=text, data=change)

        return await operate(run, "replace", arguments, read, content=len(old).to_bytes(4, "big") + old + new)
