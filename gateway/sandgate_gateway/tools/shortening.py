"""Cuts text to what a model shall see. The result is never longer than the limit, whatever the text is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sandgate_gateway.tools.shown import clean_text

MOST_TEXT_BYTES = 64 * 1024
"""Of any result's text, in UTF-8; the contract's limit."""

Note = Callable[[str, int], str]
"""Says in one line what was left out and how to get it, from the beginning that is kept and the number of characters
that are not. It is longest either for the whole text or for none of it."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text within its limits."""

    text: str
    kept: str
    """The beginning that is kept; all of it when nothing was left out."""
    omitted: int
    """How many characters are left out."""


def shorten_head(
    text: str, limit: int, note: Note, *, limit_bytes: int = MOST_TEXT_BYTES, incomplete: bool = False
) -> Shortened:
    """Keep the beginning of a text, to the end of a line unless not even the first line fits.

    Args:
        text: Any text.
        limit: In characters, the note included; zero leaves only the limit in bytes.
        note: What stands behind the cut.
        limit_bytes: In UTF-8.
        incomplete: The text is a beginning already, and gets the note though nothing more is cut.
    """
    text = clean_text(text)
    limit = limit or limit_bytes
    if not incomplete and _fits(text, limit, limit_bytes):
        return Shortened(text, text, 0)
    if incomplete:
        noted = _joined(text, note(text, 0), "")
        if _fits(noted, limit, limit_bytes):
            return Shortened(noted, text, 0)
    room, room_bytes = _room(text, note, limit, limit_bytes)
    if min(room, room_bytes) > 0:
        head = _prefix(text, room, room_bytes)
        head = head[: head.rfind("\n") + 1] or head
        shortened = _joined(head, note(head, len(text) - len(head)), "")
        if _fits(shortened, limit, limit_bytes):
            return Shortened(shortened, head, len(text) - len(head))
    return _without_note(text, limit, limit_bytes)


def shorten_middle(text: str, limit: int, note: Note, *, limit_bytes: int = MOST_TEXT_BYTES) -> Shortened:
    """Keep the beginning and the end of a text, each to a line's border where there is one near. See `shorten_head`."""
    text = clean_text(text)
    limit = limit or limit_bytes
    if _fits(text, limit, limit_bytes):
        return Shortened(text, text, 0)
    room, room_bytes = _room(text, note, limit, limit_bytes)
    if min(room, room_bytes) > 0:
        head = _end_at_line(_prefix(text, -(-room // 2), -(-room_bytes // 2)))
        tail = _begin_at_line(_suffix(text[len(head) :], room // 2, room_bytes // 2))
        omitted = len(text) - len(head) - len(tail)
        shortened = _joined(head, note(head, omitted), tail)
        if _fits(shortened, limit, limit_bytes):
            return Shortened(shortened, head, omitted)
    return _without_note(text, limit, limit_bytes)


def _room(text: str, note: Note, limit: int, limit_bytes: int) -> tuple[int, int]:
    """Give what the text may have beside its note and two line ends, in characters and bytes."""
    # A note can be longer when less is kept: it counts more entries, or says that a line is too long.
    notes = (note(text, len(text)), note("", len(text)))
    return limit - max(map(len, notes)) - 2, limit_bytes - max(map(_size, notes)) - 2


def _joined(head: str, note: str, tail: str) -> str:
    border = "" if head.endswith("\n") or not head else "\n"
    return f"{head}{border}{note}" + (f"\n{tail}" if tail else "")


def _without_note(text: str, limit: int, limit_bytes: int) -> Shortened:
    """Cut where not even the note has room."""
    head = _prefix(text, limit, limit_bytes)
    return Shortened(head, head, len(text) - len(head))


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def _fits(text: str, limit: int, limit_bytes: int) -> bool:
    return len(text) <= limit and _size(text) <= limit_bytes


def _prefix(text: str, characters: int, size: int) -> str:
    piece = text[:characters]
    return piece if _size(piece) <= size else piece.encode("utf-8")[:size].decode("utf-8", "ignore")


def _suffix(text: str, characters: int, size: int) -> str:
    piece = text[max(0, len(text) - characters) :]
    if _size(piece) <= size:
        return piece
    data = piece.encode("utf-8")
    return data[len(data) - size :].decode("utf-8", "ignore")


def _end_at_line(head: str) -> str:
    end = head.rfind("\n") + 1
    return head[:end] if end > len(head) // 2 else head


def _begin_at_line(tail: str) -> str:
    begin = tail.find("\n") + 1
    return tail[begin:] if 0 < begin <= len(tail) // 2 else tail
