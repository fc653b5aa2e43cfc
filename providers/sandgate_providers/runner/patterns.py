r"""Patterns for paths, as people and models write them.

    *          anything but a slash           **  as a whole part: any number of folders, also none
    ?          one character but a slash      {a,b}  either
    [a-z] [!a] one of, none of                \   takes the next character as it is

A pattern without a slash matches a name at any depth, one with a slash is a path below the root of the search. A slash
at its end means folders only. Names that begin with a dot are names like any other.
"""

from __future__ import annotations

import re

from sandgate_providers.runner.failures import OperationFailed
from sandgate_providers.runner.paths import path_text

MOST_ALTERNATIVES = 100
"""That braces may expand to."""
_TOKEN = re.compile(r"\\.|.", re.DOTALL)
_SPECIAL = re.compile(r"[*?\[\\]")


class PathPattern:
    """A pattern for paths below `root`.

    Raises:
        OperationFailed: `invalid-pattern`, with what is wrong.
    """

    def __init__(self, pattern: str, root: bytes) -> None:
        pattern = _below(pattern, path_text(root))
        self.folders_only = pattern.endswith("/")
        alternatives = [_parts(one) for one in _expand(pattern)]
        self.start = b""
        """The folder below the root in which everything that can match lies; a search begins there."""
        if len(alternatives) == 1:
            self.start = _take_start(alternatives[0])
        source = "|".join(_translate(parts) for parts in alternatives)
        try:
            self._match = re.compile(source, re.DOTALL).fullmatch
        except (re.error, OverflowError, RecursionError) as error:
            raise OperationFailed("invalid-pattern", "the pattern is not valid: {}".format(error)) from None

    def matches(self, relative: bytes) -> bool:
        """Tell whether a path below `start` matches."""
        return self._match(path_text(relative)) is not None


def _below(pattern: str, root: str) -> str:
    """Take the root off a pattern that begins with it."""
    if "\0" in pattern:
        raise OperationFailed("invalid-pattern", "the pattern holds a NUL character")
    if pattern.startswith("/"):
        prefix = root.rstrip("/") + "/"
        if not pattern.startswith(prefix):
            raise OperationFailed("invalid-pattern", "the pattern must be relative to the path that is searched")
        pattern = pattern[len(prefix) :]
    if not pattern.strip("/"):
        raise OperationFailed("invalid-pattern", "the pattern is empty")
    return pattern


def _expand(pattern: str) -> list[str]:
    """Write a pattern with braces as several without: the innermost pair first, until none is left."""
    done = []
    pending = [_TOKEN.findall(pattern)]
    while pending:
        tokens = pending.pop()
        close = tokens.index("}") if "}" in tokens else -1
        opening = max((at for at in range(close) if tokens[at] == "{"), default=-1)
        if close < 0:
            done.append("".join("\\{" if one == "{" else one for one in tokens))
            continue
        before, inside, after = tokens[: max(opening, 0)], tokens[opening + 1 : close], tokens[close + 1 :]
        if opening < 0:
            pending.append([*tokens[:close], "\\}", *after])
        elif "," not in inside:
            pending.append([*before, "\\{", *inside, "\\}", *after])
        else:
            pending.extend([*before, *option, *after] for option in _split(inside))
        if len(pending) + len(done) > MOST_ALTERNATIVES:
            raise OperationFailed(
                "invalid-pattern", "the braces of the pattern give more than {} patterns".format(MOST_ALTERNATIVES)
            )
    return done


def _split(tokens: list[str]) -> list[list[str]]:
    options: list[list[str]] = [[]]
    for one in tokens:
        if one == ",":
            options.append([])
        else:
            options[-1].append(one)
    return options


def _parts(pattern: str) -> list[str]:
    """Split at slashes; a pattern without one is for every depth."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise OperationFailed("invalid-pattern", "the pattern must not hold '..'")
    if not parts:
        raise OperationFailed("invalid-pattern", "the pattern is empty")
    return parts if "/" in pattern.rstrip("/") else ["**", *parts]


def _take_start(parts: list[str]) -> bytes:
    """Take the leading parts that are plain names off a pattern."""
    count = 0
    while count < len(parts) - 1 and parts[count] != "**" and not _SPECIAL.search(parts[count]):
        count += 1
    start = "/".join(parts[:count])
    del parts[:count]
    try:
        return start.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise OperationFailed("invalid-pattern", "the pattern holds characters that no file name can have") from None


def _translate(parts: list[str]) -> str:
    source = []
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        if part != "**":
            source.append(_translate_part(part) + ("" if last else "/"))
        elif last:
            source.append(".+")
        elif at == 0 or parts[at - 1] != "**":
            source.append("(?:[^/]+/)*")
    return "".join(source)


def _translate_part(part: str) -> str:
    source: list[str] = []
    at = 0
    while at < len(part):
        character = part[at]
        at += 1
        if character == "*":
            if source[-1:] != ["[^/]*"]:
                source.append("[^/]*")
        elif character == "?":
            source.append("[^/]")
        elif character == "[":
            end = part.find("]", at + 2 if part[at : at + 1] in ("!", "^") else at + 1)
            if end < 0:
                source.append("\\[")
            else:
                source.append(_translate_set(part[at:end]))
                at = end + 1
        elif character == "\\" and at < len(part):
            source.append(re.escape(part[at]))
            at += 1
        else:
            source.append(re.escape(character))
    return "".join(source)


def _translate_set(inside: str) -> str:
    negated = inside[0] in "!^"
    members = "".join(one if one == "-" else re.escape(one) for one in inside[negated:])
    return "(?!/)[{}{}]".format("^" if negated else "", members)
