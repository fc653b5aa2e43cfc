"""The tools `glob` and `grep`."""

from __future__ import annotations

from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.domain.result import EntryKind, EntryList, MatchList, ToolResult
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.tools.answers import Answer
from sandgate_gateway.tools.arguments import clamped_argument, flag_argument, text_argument
from sandgate_gateway.tools.contract import ToolRun, ToolSpec
from sandgate_gateway.tools.operating import operate
from sandgate_gateway.tools.schema import tool_spec
from sandgate_gateway.tools.shortening import shorten_head
from sandgate_gateway.tools.shown import shown_text
from sandgate_providers.types import WORKSPACE

TEXT_CHARACTERS = 50_000
"""Of the text for the model; the most that any tool of the reference shows."""
DEFAULT_PATHS = 200
MOST_PATHS = 1000
DEFAULT_MATCHES = 100
MOST_MATCHES = 500
MOST_PATTERN_CHARACTERS = 10_000

_PATTERN: dict[str, JsonValue] = {"type": "string", "minLength": 1, "maxLength": MOST_PATTERN_CHARACTERS}
_GLOB_HELP = (
    "`**` crosses folders, {a,b} means either, and a pattern without a slash matches a name at any depth "
    "(*.py, src/**/*.ts, **/test_*.{js,ts})."
)

_GLOB_SPEC = tool_spec(
    "glob",
    "Find files by a pattern for their paths. Version control, packages of others, caches and virtual environments are "
    "left out, unless the path or the pattern begins with such a folder.",
    {
        "pattern": {**_PATTERN, "description": f"Relative to path. {_GLOB_HELP}"},
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "description": f"Absolute path of the folder to search. Default: {WORKSPACE}",
        },
        "include_dirs": {"type": "boolean", "description": "Find folders too. Default: false"},
        "max_results": {
            "type": "integer",
            "description": f"From 1 to {MOST_PATHS:,}. Default: {DEFAULT_PATHS}",
        },
    },
    required=["pattern"],
    read_only=True,
)

_GREP_SPEC = tool_spec(
    "grep",
    "Find lines in text files by a regular expression. Binary files, files above 1,000,000 bytes, lines above 2,000 "
    "characters, version control, packages of others, caches and virtual environments are passed over.",
    {
        "pattern": {**_PATTERN, "description": "A regular expression of Python, matched within one line."},
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "description": f"Absolute path of the folder or the one file to search. Default: {WORKSPACE}",
        },
        "glob": {**_PATTERN, "description": f"Search only files whose paths match. {_GLOB_HELP}"},
        "literal": {"type": "boolean", "description": "Take the pattern as plain text. Default: false"},
        "case_sensitive": {"type": "boolean", "description": "Tell upper from lower case. Default: false"},
        "max_results": {
            "type": "integer",
            "description": f"From 1 to {MOST_MATCHES}. Default: {DEFAULT_MATCHES}",
        },
    },
    required=["pattern"],
    read_only=True,
)


class Glob:
    """Finds files by their paths."""

    @property
    def spec(self) -> ToolSpec:
        """How it is listed."""
        return _GLOB_SPEC

    async def run(self, run: ToolRun) -> ToolResult:
        """Search the folder."""
        limit = clamped_argument(run.arguments, "max_results", DEFAULT_PATHS, MOST_PATHS)
        arguments: dict[str, JsonValue] = {
            "path": text_argument(run.arguments, "path", WORKSPACE),
            "pattern": text_argument(run.arguments, "pattern"),
            "include_dirs": flag_argument(run.arguments, "include_dirs"),
            "limit": limit,
        }

        def read(answer: Answer, _output: bytes) -> ToolResult:
            found = answer.entry_list(limit)
            return _result(found, len(found.entries), _glob_lines(found), _passed_over(answer))

        return await operate(run, "glob", arguments, read)


class Grep:
    """Finds lines by what is in them."""

    @property
    def spec(self) -> ToolSpec:
        """How it is listed."""
        return _GREP_SPEC

    async def run(self, run: ToolRun) -> ToolResult:
        """Search the folder or file. A pattern that takes too long is ended by the call's timeout."""
        limit = clamped_argument(run.arguments, "max_results", DEFAULT_MATCHES, MOST_MATCHES)
        arguments: dict[str, JsonValue] = {
            "path": text_argument(run.arguments, "path", WORKSPACE),
            "pattern": text_argument(run.arguments, "pattern"),
            "glob": text_argument(run.arguments, "glob"),
            "literal": flag_argument(run.arguments, "literal"),
            "case_sensitive": flag_argument(run.arguments, "case_sensitive"),
            "limit": limit,
        }

        def read(answer: Answer, _output: bytes) -> ToolResult:
            found = answer.match_list(limit)
            searched = f"{_count(found.files_searched, 'file')} searched"
            skipped = found.files_skipped + answer.number("unreadable")
            if skipped:
                searched += f", {skipped:,} passed over: binary, too large or unreadable"
            return _result(found, len(found.matches), _grep_lines(found), f"({searched})")

        return await operate(run, "grep", arguments, read)


def _result(found: EntryList | MatchList, count: int, lines: list[str], closing: str) -> ToolResult:
    what = "match" if isinstance(found, MatchList) else "path"
    opening = f"Found {_count(count, what)}" if count else f"Found no {what if what == 'match' else 'paths'}"
    if found.truncated:
        opening += "; there are more. Narrow the search, or ask for more results."
    after = f"\n{closing}" if closing else ""

    def note(head: str, _omitted: int) -> str:
        return f"[… {count - max(0, head.count(chr(10)) - 1):,} more are left out. Narrow the search. …]"

    shortened = shorten_head("\n".join([opening, *lines]), TEXT_CHARACTERS - len(after), note)
    return ToolResult(
        outcome=Outcome.COMPLETED,
        text=shortened.text + after,
        truncated=found.truncated or bool(shortened.omitted),
        data=found,
    )


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "es" if what == "match" else "s")


def _glob_lines(found: EntryList) -> list[str]:
    return [
        f"{number}. {shown_text(entry.path)}{'/' if entry.kind is EntryKind.DIRECTORY else ''}"
        for number, entry in enumerate(found.entries, 1)
    ]


def _grep_lines(found: MatchList) -> list[str]:
    return [f"{shown_text(match.path)}:{match.line_number}: {match.line}" for match in found.matches]


def _passed_over(answer: Answer) -> str:
    """Say what was not searched, where that may be why nothing was found."""
    unreadable = answer.number("unreadable")
    return f"(Folders that could not be read: {unreadable:,})" if unreadable else ""
