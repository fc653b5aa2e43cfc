"""The operation `replace`."""

from __future__ import annotations

import os
from typing import BinaryIO

from sandgate_providers.runner.arguments import take_flag
from sandgate_providers.runner.drafting import Draft, locked_folder
from sandgate_providers.runner.failures import OperationFailed
from sandgate_providers.runner.paths import answer_path, parse_path, show_path
from sandgate_providers.runner.reading import open_file, read_up_to
from sandgate_providers.runner.writing import find_target

LENGTH_BYTES = 4
"""Of the old text's length, at the start of the input."""
MOST_REPLACED_BYTES = 64 * 1024 * 1024
"""Of the file before and after: both are held in memory."""
SHOWN_LINES = 5
"""So many places of a text that is not unique are named."""
MOST_TRIES = 5
"""The file may change between reading and replacing; then all begins anew."""


def replace_text(arguments: dict[str, object], source: BinaryIO, _sink: BinaryIO) -> dict[str, object]:
    """Replace a text in a file, whole or not at all.

    Arguments: `path`; `replace_all`. Input: the length of the old text as four bytes, most significant first, the old
    text, the new text, all in UTF-8. The file is taken as bytes and need not be text.

    Returns: `created` (false), `replacements`, and `size_bytes` of the file now.

    Raises:
        OperationFailed: `invalid-pattern` for an empty old text, `no-match`, `not-unique` when it is there more than
            once and not all shall be replaced, `too-large` above 64 MiB.
    """
    path = parse_path(arguments)
    replace_all = take_flag(arguments, "replace_all")
    old, new = _read_texts(source)
    for _ in range(MOST_TRIES):
        target, _ = find_target(path)
        with locked_folder(os.path.dirname(target)):
            target, _ = find_target(path)
            descriptor, before = open_file(target)
            with os.fdopen(descriptor, "rb", buffering=0) as file:
                data = read_up_to(file, MOST_REPLACED_BYTES + 1)
            count = _count(path, data, old, replace_all=replace_all)
            if len(data) + count * (len(new) - len(old)) > MOST_REPLACED_BYTES:
                raise OperationFailed("too-large", "{}: above {} bytes".format(show_path(path), MOST_REPLACED_BYTES))
            with Draft(os.path.dirname(target)) as draft:
                draft.write(data.replace(old, new))
                now = os.stat(target)
                if (now.st_ino, now.st_size, now.st_mtime_ns) != (before.st_ino, before.st_size, before.st_mtime_ns):
                    continue
                draft.publish(target, mode=before.st_mode)
                return {
                    **answer_path(path),
                    "created": False,
                    "replacements": count,
                    "size_bytes": os.lstat(target).st_size,
                }
    raise OperationFailed("io-error", "{}: something else keeps changing the file".format(show_path(path)))


def _read_texts(source: BinaryIO) -> tuple[bytes, bytes]:
    content = read_up_to(source, MOST_REPLACED_BYTES + 1)
    length = int.from_bytes(content[:LENGTH_BYTES], "big")
    end = LENGTH_BYTES + length
    if len(content) < LENGTH_BYTES or len(content) < end:
        raise OperationFailed("size-mismatch", "the input ended before the old text did")
    if len(content) > MOST_REPLACED_BYTES:
        raise OperationFailed("too-large", "the texts are larger than {} bytes".format(MOST_REPLACED_BYTES))
    if length == 0:
        raise OperationFailed("invalid-pattern", "the old text is empty; there is no place to replace")
    return content[LENGTH_BYTES:end], content[end:]


def _count(path: bytes, data: bytes, old: bytes, *, replace_all: bool) -> int:
    if len(data) > MOST_REPLACED_BYTES:
        raise OperationFailed("too-large", "{}: larger than {} bytes".format(show_path(path), MOST_REPLACED_BYTES))
    first = data.find(old)
    if first < 0:
        message = "{}: the old text is not in the file; it must match exactly, spaces and line ends included"
        if b"\r\n" in data and old.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") in data:
            message = "{}: the old text is in the file only with CRLF line ends"
        raise OperationFailed("no-match", message.format(show_path(path)))
    count = data.count(old)
    # Two places may overlap, and then a count does not see the second; which one is meant is open all the same.
    if not replace_all and data.find(old, first + 1) >= 0:
        raise OperationFailed(
            "not-unique",
            "{}: the old text is there {} times, beginning on line {}{}".format(
                show_path(path), max(count, 2), *_lines(data, old, first)
            ),
        )
    return count


def _lines(data: bytes, old: bytes, first: int) -> tuple[str, str]:
    """Name the lines of the first places, and say whether there are more."""
    lines: list[str] = []
    at, line, done = first, 1, 0
    while at >= 0 and len(lines) < SHOWN_LINES:
        line += data.count(b"\n", done, at)
        done = at
        lines.append(str(line))
        at = data.find(old, at + 1)
    return ", ".join(lines), " and on" if at >= 0 else ""
