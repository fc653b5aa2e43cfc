"""The tool `ls`."""

from __future__ import annotations

from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.domain.result import EntryKind, EntryList, ToolResult
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.tools.answers import Answer
from sandgate_gateway.tools.arguments import clamped_argument, text_argument
from sandgate_gateway.tools.contract import ToolRun, ToolSpec
from sandgate_gateway.tools.operating import operate
from sandgate_gateway.tools.schema import tool_spec
from sandgate_gateway.tools.shortening import shorten_head
from sandgate_gateway.tools.shown import shown_text
from sandgate_providers.types import WORKSPACE

TEXT_CHARACTERS = 20_000
"""Of the text for the model; the reference's number."""
MOST_ENTRIES = 1000
"""Of the typed data; as text they would be above the limit on characters anyway."""
DEFAULT_DEPTH = 2
MOST_DEPTH = 10

_SPEC = tool_spec(
    "ls",
    "List a folder and the folders in it, two levels by default: one absolute path a line, folders with a slash at the "
    "end. Version control, packages of others, caches and virtual environments are left out; to see what is in such a "
    "folder, give its own path.",
    {
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "description": f"Absolute path of the folder. Default: {WORKSPACE}",
        },
        "depth": {
            "type": "integer",
            "description": f"How many levels, from 1 to {MOST_DEPTH}. Default: {DEFAULT_DEPTH}",
        },
    },
    required=[],
    read_only=True,
)


class Ls:
    """Lists a folder.

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
        """List the folder. A missing one is a failure, not an empty list."""
        arguments: dict[str, JsonValue] = {
            "path": text_argument(run.arguments, "path", WORKSPACE),
            "depth": clamped_argument(run.arguments, "depth", DEFAULT_DEPTH, MOST_DEPTH),
            "limit": MOST_ENTRIES,
        }
        return await operate(run, "list", arguments, self._result)

    def _result(self, answer: Answer, _output: bytes) -> ToolResult:
        entries = answer.entry_list(MOST_ENTRIES)
        lines = [_line(entry.path, entry.kind) for entry in entries.entries]
        notes = list(_notes(answer, entries))
        after = "".join(f"\n{note}" for note in notes)

        def note(head: str, _omitted: int) -> str:
            left = len(lines) - head.count("\n")
            return f"[… entries left out here: {left:,}. List a folder deeper in, or use glob. …]"

        limit = max(1, self._text_characters - len(after)) if self._text_characters else 0
        shortened = shorten_head("\n".join(lines) or "(empty)", limit, note)
        return ToolResult(
            outcome=Outcome.COMPLETED,
            text=shortened.text + after,
            truncated=entries.truncated or bool(shortened.omitted),
            data=entries,
        )


def _line(path: str, kind: EntryKind) -> str:
    return shown_text(path) + ("/" if kind is EntryKind.DIRECTORY else "")


def _notes(answer: Answer, entries: EntryList) -> list[str]:
    notes = []
    if entries.truncated:
        notes.append(
            f"(Only the first {len(entries.entries):,} entries are listed. List a folder deeper in, or use glob.)"
        )
    if ignored := answer.number("ignored"):
        notes.append(f"(Not listed because of their names, such as .git, node_modules and caches: {ignored:,})")
    if unreadable := answer.number("unreadable"):
        notes.append(f"(Folders that could not be read: {unreadable:,})")
    return notes
