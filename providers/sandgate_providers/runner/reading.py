"""The operation `read`, and how a file is opened so that nothing can block.

What is read goes raw to the call's output; the answer says which part of the file it is.
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO, Optional

from sandgate_providers.runner.arguments import take_number
from sandgate_providers.runner.failures import OperationFailed
from sandgate_providers.runner.paths import answer_path, parse_path, show_path
from sandgate_providers.runner.sniffing import SNIFFED_BYTES, is_binary

STEP_BYTES = 256 * 1024
"""Read and written at a time."""
DEFAULT_BYTES = 1024 * 1024
"""Of a part in lines; it is held in memory until it is cut at a line's end."""
MOST_COUNTED_BYTES = 64 * 1024 * 1024
"""Lines of larger files are not counted to the end; counting takes about a second for each GiB."""

_UPPER_BITS, _CONTINUES = 0xC0, 0x80
"""Bytes of UTF-8 that continue a character have these upper bits; there are at most three of them."""


def open_file(path: bytes, *, follow: bool = True) -> tuple[int, os.stat_result]:
    """Open an ordinary file for reading; the caller closes the descriptor.

    Anything else is refused before it is opened, since opening alone can have effects: a pipe's writer goes on, a
    device starts. `O_NONBLOCK` is for the moment between the look and the opening.

    Raises:
        OperationFailed: `is-a-directory`, `unsupported-file`.
        OSError: it cannot be opened.
    """
    _refuse_unless_file(path, os.stat(path, follow_symlinks=follow))
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        _refuse_unless_file(path, status)
        refuse_own(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


def _refuse_unless_file(path: bytes, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise OperationFailed("is-a-directory", "{}: is a directory".format(show_path(path)))
    if not stat.S_ISREG(status.st_mode):
        raise OperationFailed(
            "unsupported-file", "{}: a pipe, socket or device, not an ordinary file".format(show_path(path))
        )


def refuse_own(path: bytes, descriptor: int) -> None:
    """Refuse what the kernel shows as files of this very process, whichever way a path leads there.

    The process was forked from the runner, and its memory holds the keys of the line. To others it is closed, but
    `/proc/self` is always open for oneself.
    """
    try:
        place = os.readlink(b"/proc/self/fd/%d" % descriptor)
    except OSError:
        return  # where there is no /proc there is no such file
    if place.startswith(b"/proc/%d/" % os.getpid()):
        raise OperationFailed("unsupported-file", "{}: belongs to the sandbox's own service".format(show_path(path)))


def read_up_to(file: BinaryIO, size: int) -> bytes:
    """Read so many bytes, or fewer where the file ends; a single read of an unbuffered file may give less."""
    pieces = []
    while size > 0:
        piece = file.read(min(size, STEP_BYTES))
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def read_file(arguments: dict[str, object], _source: BinaryIO, sink: BinaryIO) -> dict[str, object]:
    """Read a part of a file.

    Arguments: `path`, and either `start_line` and `end_line`, from 1 and inclusive, with `max_bytes` (1 MiB), or
    `offset_bytes` and `limit_bytes` for a part in bytes, which is never held in memory. Without `limit_bytes` such a
    part goes to where the file ended when it was opened.

    Returns: `start_line` and `end_line` (0 for an empty part and for a part in bytes), `total_lines` (None when they
    were not counted), `total_bytes`, `offset_bytes`, `size_bytes` of the part, and `truncated`: true when `max_bytes`
    cut it, at a line's end where the first line fits.

    A file with a NUL byte in its first 8,192 bytes is `binary-file` unless a part in bytes is asked for.
    """
    path = parse_path(arguments)
    in_bytes = arguments.get("offset_bytes") is not None or arguments.get("limit_bytes") is not None
    descriptor, status = open_file(path)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if in_bytes:
            part = _copy_bytes(file, arguments, status.st_size, sink)
        else:
            part = _copy_lines(file, arguments, path, sink)
        total = os.fstat(descriptor).st_size
    return {**answer_path(path), **part, "total_bytes": total}


def _copy_bytes(file: BinaryIO, arguments: dict[str, object], total: int, sink: BinaryIO) -> dict[str, object]:
    offset = take_number(arguments, "offset_bytes", 0)
    left = take_number(arguments, "limit_bytes", max(0, total - offset))
    file.seek(offset)
    copied = 0
    while left > 0:
        piece = file.read(min(left, STEP_BYTES))
        if not piece:
            break
        sink.write(piece)
        copied += len(piece)
        left -= len(piece)
    return {
        "offset_bytes": offset,
        "size_bytes": copied,
        "start_line": 0,
        "end_line": 0,
        "total_lines": None,
        "truncated": False,
    }


def _copy_lines(file: BinaryIO, arguments: dict[str, object], path: bytes, sink: BinaryIO) -> dict[str, object]:
    start = take_number(arguments, "start_line", 1, 1)
    end = take_number(arguments, "end_line", 0)
    most = take_number(arguments, "max_bytes", DEFAULT_BYTES, 1)
    if is_binary(read_up_to(file, SNIFFED_BYTES)):
        raise OperationFailed("binary-file", "{}: a binary file".format(show_path(path)))
    offset = _skip_lines(file, start - 1)
    content = b""
    truncated = False
    if offset is not None and (end == 0 or end >= start):
        file.seek(offset)
        content = read_up_to(file, most + 1)
        if end:
            pieces = content.split(b"\n", end - start + 1)
            if len(pieces) > end - start + 1:
                content = content[: len(content) - len(pieces[-1])]
        if len(content) > most:
            truncated = True
            content = _cut(content, most)
    lines = _count(content)
    sink.write(content)
    return {
        "offset_bytes": offset or 0,
        "size_bytes": len(content),
        "start_line": start if lines else 0,
        "end_line": start + lines - 1 if lines else 0,
        "total_lines": _count_all(file),
        "truncated": truncated,
    }


def _skip_lines(file: BinaryIO, count: int) -> Optional[int]:
    """Give the offset behind so many line ends, or None when there are fewer."""
    file.seek(0)
    offset = 0
    while count > 0:
        piece = file.read(STEP_BYTES)
        if not piece:
            return None
        here = piece.count(b"\n")
        if here >= count:
            return offset + len(piece) - len(piece.split(b"\n", count)[-1])
        count -= here
        offset += len(piece)
    return offset


def _cut(content: bytes, most: int) -> bytes:
    """Cut after the last whole line, or where not even the first fits, after the last whole character."""
    end = content.rfind(b"\n", 0, most) + 1
    if end == 0:
        end = most
        while end > max(0, most - 3) and content[end] & _UPPER_BITS == _CONTINUES:
            end -= 1
    return content[:end]


def _count(content: bytes) -> int:
    return content.count(b"\n") + (1 if content and not content.endswith(b"\n") else 0)


def _count_all(file: BinaryIO) -> Optional[int]:
    """Count the lines of the whole file, if it is not too large for that."""
    file.seek(0)
    seen = lines = 0
    last = b"\n"
    while True:
        piece = file.read(STEP_BYTES)
        if not piece:
            return lines + (last != b"\n")
        seen += len(piece)
        if seen > MOST_COUNTED_BYTES:
            return None
        lines += piece.count(b"\n")
        last = piece[-1:]
