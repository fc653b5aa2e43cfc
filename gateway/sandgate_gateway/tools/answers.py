"""Reads what a file operation answered, and trusts nothing of it: it comes from inside a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.domain.result import Entry, EntryKind, EntryList, FileChange, Match, MatchList
from sandgate_gateway.tools.shown import clean_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_NUMBER = (1 << 63) - 1
_MOST_LINE_NUMBER = (1 << 31) - 1


class MalformedAnswer(ValueError):
    """An answer that no operation of ours gives."""


class Answer:
    """The answer of an operation, field by field. Each method raises MalformedAnswer."""

    def __init__(self, value: JsonValue) -> None:
        if not isinstance(value, dict):
            raise MalformedAnswer("not an object")
        self._fields: Mapping[str, JsonValue] = value

    def text(self, name: str) -> str:
        """Take a text."""
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise MalformedAnswer(name)
        return clean_text(value)

    def number(self, name: str, most: int = _MOST_NUMBER) -> int:
        """Take a whole number that is not negative."""
        value = self._fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise MalformedAnswer(name)
        return value

    def optional_number(self, name: str, most: int = _MOST_NUMBER) -> int | None:
        """Take a whole number, or None."""
        return None if self._fields.get(name) is None else self.number(name, most)

    def flag(self, name: str) -> bool:
        """Take a truth value."""
        value = self._fields.get(name)
        if not isinstance(value, bool):
            raise MalformedAnswer(name)
        return value

    def items(self, name: str, most: int) -> list[Answer]:
        """Take a list of answers, not longer than was asked for."""
        value = self._fields.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise MalformedAnswer(name)
        return [Answer(item) for item in value]

    def time(self, name: str) -> datetime:
        """Take a time in nanoseconds since 1970; one that no calendar has becomes the nearest that it has."""
        value = self._fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise MalformedAnswer(name)
        try:
            return _EPOCH + timedelta(microseconds=value // 1000)
        except OverflowError:
            return datetime.max.replace(tzinfo=UTC) if value > 0 else _EPOCH

    def entry_list(self, limit: int) -> EntryList:
        """Take the entries of `list` and `glob`."""
        return EntryList(
            entries=tuple(item.to_entry() for item in self.items("entries", limit)), truncated=self.flag("truncated")
        )

    def match_list(self, limit: int) -> MatchList:
        """Take the matches of `grep`."""
        return MatchList(
            matches=tuple(item.to_match() for item in self.items("matches", limit)),
            truncated=self.flag("truncated"),
            files_searched=self.number("files_searched", _MOST_LINE_NUMBER),
            files_skipped=self.number("files_skipped", _MOST_LINE_NUMBER),
        )

    def file_change(self, *, replacements: bool = False) -> FileChange:
        """Take the change that `write` or `replace` made."""
        return FileChange(
            path=self.text("path"),
            created=self.flag("created"),
            size_bytes=self.number("size_bytes"),
            replacements=self.number("replacements", _MOST_LINE_NUMBER) if replacements else 0,
        )

    def to_entry(self) -> Entry:
        """Take it as one entry."""
        try:
            kind = EntryKind(self.text("kind"))
        except ValueError:
            raise MalformedAnswer("kind") from None
        return Entry(
            path=self.text("path"),
            kind=kind,
            size_bytes=self.number("size_bytes"),
            modified_at=self.time("modified_ns"),
        )

    def to_match(self) -> Match:
        """Take it as one match."""
        return Match(
            path=self.text("path"),
            line_number=self.number("line_number", _MOST_LINE_NUMBER),
            line=self.text("line"),
        )
