r"""The operation `grep`.

A regular expression is matched against text, line by line, so that `.` and `\w` mean characters and not bytes. One
that never comes to an end is stopped from outside: the process that runs this is killed when the call's time is over.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
from typing import BinaryIO, Callable, Optional

from sandgate_providers.runner.answers import BoundedList
from sandgate_providers.runner.arguments import take_flag, take_number, take_text
from sandgate_providers.runner.failures import OperationFailed
from sandgate_providers.runner.paths import answer_path, join_path, parse_path, show_path
from sandgate_providers.runner.patterns import PathPattern
from sandgate_providers.runner.reading import open_file, read_up_to
from sandgate_providers.runner.sniffing import is_binary
from sandgate_providers.runner.walking import FILE, Walk

DEFAULT_MATCHES = 100
MOST_FILE_BYTES = 1000000
"""Larger files are skipped; the reference's number."""
MOST_LINE_CHARACTERS = 2000
"""Longer lines are skipped: such a line is data or machine-made."""
SHOWN_CHARACTERS = 200
"""Of a line that matched."""
_CUT = "…"


def grep_files(arguments: dict[str, object], _source: BinaryIO, _sink: BinaryIO) -> dict[str, object]:
    """Find lines by a pattern.

    Arguments: `path`, a folder or one file; `pattern`, a regular expression of Python; `literal`, to take it as plain
    text; `case_sensitive`; `glob`, which files of a folder to search; `limit` (100).

    Returns: `matches` (`path`, `line_number` from 1, `line`), `truncated`, `files_searched`, `files_skipped` (binary,
    too large or unreadable), `ignored` and `unreadable` as `list` does.

    One file that was asked for by name and cannot be searched is a failure: `binary-file`, `too-large`.
    """
    root = parse_path(arguments)
    search = Search(
        take_text(arguments, "pattern"),
        literal=take_flag(arguments, "literal"),
        case_sensitive=take_flag(arguments, "case_sensitive"),
        limit=take_number(arguments, "limit", DEFAULT_MATCHES),
    )
    if not stat.S_ISDIR(os.stat(root).st_mode):
        search.search_named_file(root)
        return search.answer(None)
    glob = take_text(arguments, "glob")
    pattern = PathPattern(glob, root) if glob else None
    base = join_path(root, pattern.start) if pattern else root
    walk = Walk(base)
    for relative, kind in walk if os.path.isdir(base) else ():
        if kind != FILE or (pattern and not pattern.matches(relative)):
            continue
        if not search.search_found_file(join_path(base, relative)):
            break
    return search.answer(walk)


class Search:
    """One search, over one file after the other."""

    def __init__(self, pattern: str, *, literal: bool, case_sensitive: bool, limit: int) -> None:
        self._matches = BoundedList(limit)
        self._searched = 0
        self._skipped = 0
        self._find = _compile(pattern, literal=literal, case_sensitive=case_sensitive)
        # A text without special meaning is either in the file or in none of its lines.
        self._may_be_in: Callable[[str], object] = self._find if literal else lambda _text: True

    def search_named_file(self, path: bytes) -> None:
        """Search a file that was asked for by name."""
        descriptor, _ = open_file(path)
        data = _read(descriptor)
        if len(data) > MOST_FILE_BYTES:
            raise OperationFailed("too-large", "{}: larger than {} bytes".format(show_path(path), MOST_FILE_BYTES))
        if is_binary(data):
            raise OperationFailed("binary-file", "{}: a binary file".format(show_path(path)))
        self._search(path, data)

    def search_found_file(self, path: bytes) -> bool:
        """Search a file that a walk found; false when there are enough matches."""
        try:
            descriptor, status = open_file(path, follow=False)
        except (OSError, OperationFailed):
            self._skipped += 1
            return True
        if status.st_size > MOST_FILE_BYTES:
            os.close(descriptor)
            self._skipped += 1
            return True
        try:
            data = _read(descriptor)
        except OSError:
            self._skipped += 1
            return True
        if len(data) > MOST_FILE_BYTES or is_binary(data):
            self._skipped += 1
            return True
        return self._search(path, data)

    def _search(self, path: bytes, data: bytes) -> bool:
        self._searched += 1
        text = data.decode("utf-8-sig", "replace")  # a byte order mark is no part of the first line
        if not self._may_be_in(text):
            return True
        find = self._find
        for number, raw in enumerate(text.split("\n"), 1):
            line = raw[:-1] if raw.endswith("\r") else raw
            if len(line) > MOST_LINE_CHARACTERS:
                continue
            match = find(line)
            if match is None:
                continue
            found = {**answer_path(path), "line_number": number, "line": _show(line, match.start())}
            if not self._matches.add(found):
                return False
        return True

    def answer(self, walk: Optional[Walk]) -> dict[str, object]:
        """Give what was found."""
        return {
            "matches": self._matches.items,
            "truncated": self._matches.truncated or (walk is not None and walk.exhausted),
            "files_searched": self._searched,
            "files_skipped": self._skipped,
            "ignored": walk.ignored if walk else 0,
            "unreadable": walk.unreadable if walk else 0,
        }


def _read(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        return read_up_to(file, MOST_FILE_BYTES + 1)


def _compile(pattern: str, *, literal: bool, case_sensitive: bool) -> Callable[[str], Optional[re.Match[str]]]:
    if not pattern:
        raise OperationFailed("invalid-pattern", "the pattern is empty")
    if literal and ("\n" in pattern or "\r" in pattern):
        raise OperationFailed("invalid-pattern", "a pattern is matched within one line and cannot hold a line end")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what may change in a later Python is no concern of one search
        try:
            compiled = re.compile(re.escape(pattern) if literal else pattern, 0 if case_sensitive else re.IGNORECASE)
        except (re.error, OverflowError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise OperationFailed("invalid-pattern", "not a valid regular expression: {}".format(reason)) from None
    return compiled.search


def _show(line: str, at: int) -> str:
    """Cut a line to what is shown, so that the match can be seen."""
    if len(line) <= SHOWN_CHARACTERS:
        return line
    begin = 0 if at < SHOWN_CHARACTERS * 3 // 4 else min(at - SHOWN_CHARACTERS // 4, len(line) - SHOWN_CHARACTERS + 1)
    room = SHOWN_CHARACTERS - (1 if begin else 0)
    shown = line[begin : begin + room]
    if begin + room < len(line):
        shown = shown[:-1] + _CUT
    return (_CUT if begin else "") + shown
