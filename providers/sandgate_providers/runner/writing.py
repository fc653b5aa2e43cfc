"""The operation `write`."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO, Iterator, Optional

from sandgate_providers.runner.arguments import take_flag, take_number
from sandgate_providers.runner.drafting import Draft, executable_mode, locked_folder, make_folders, write_all
from sandgate_providers.runner.failures import OperationFailed
from sandgate_providers.runner.paths import answer_path, parse_path, show_path
from sandgate_providers.runner.reading import STEP_BYTES, read_up_to, refuse_own

MOST_HELD_BYTES = 1024 * 1024
"""Content up to this is held in memory until it is complete; more is kept in a file without a name."""


def find_target(path: bytes) -> tuple[bytes, Optional[os.stat_result]]:
    """Give the file that a write to a path changes, behind all symbolic links, and what it is now, if it is there.

    Raises:
        OperationFailed: `is-a-directory`, `unsupported-file`, `permission-denied` when the file is read-only.
        OSError: the path leads nowhere: a file on the way, a loop of links.
    """
    if path.endswith(b"/"):
        raise OperationFailed(
            "is-a-directory", "{}: a path with a slash at its end is a directory's".format(show_path(path))
        )
    try:
        status: Optional[os.stat_result] = os.stat(path)
    except FileNotFoundError:
        status = None
    target = os.path.realpath(path)
    if status is not None:
        if stat.S_ISDIR(status.st_mode):
            raise OperationFailed("is-a-directory", "{}: is a directory".format(show_path(path)))
        if not stat.S_ISREG(status.st_mode):
            raise OperationFailed(
                "unsupported-file", "{}: a pipe, socket or device, not an ordinary file".format(show_path(path))
            )
        if not os.access(target, os.W_OK):
            raise OperationFailed("permission-denied", "{}: the file is read-only".format(show_path(path)))
    return target, status


def write_file(arguments: dict[str, object], source: BinaryIO, _sink: BinaryIO) -> dict[str, object]:
    """Write a file, whole or not at all, or append to it.

    Arguments: `path`; `size_bytes`, how much the input must hold; `append`; `executable`.

    Returns: `created`, and `size_bytes` of the file now.

    Folders that are missing are made. A file that exists keeps its permissions; a symbolic link stays, and the file
    that it leads to is changed. Other hard links of a file that is replaced keep the old content. Input of another size
    is `size-mismatch`, and nothing changes. An append never reads the file, and other writers' appends stay whole.
    """
    path = parse_path(arguments)
    size = take_number(arguments, "size_bytes", -1)
    if size < 0:
        raise OperationFailed("io-error", "argument size_bytes is missing")
    append = take_flag(arguments, "append")
    executable = take_flag(arguments, "executable")
    target, _ = find_target(path)
    if size <= MOST_HELD_BYTES:
        content = read_up_to(source, size + 1)
        _check_size(path, size, len(content))
        make_folders(os.path.dirname(target))
        if append:
            return _append(path, target, iter((content,)), executable=executable)
        with Draft(os.path.dirname(target)) as draft:
            draft.write(content)
            return _publish(draft, path, target, executable=executable)
    make_folders(os.path.dirname(target))
    with Draft(os.path.dirname(target)) as draft:
        taken = 0
        while taken <= size:
            piece = source.read(min(STEP_BYTES, size + 1 - taken))
            if not piece:
                break
            draft.write(piece)
            taken += len(piece)
        _check_size(path, size, taken)
        if append:
            return _append(path, target, draft.pieces(), executable=executable)
        return _publish(draft, path, target, executable=executable)


def _check_size(path: bytes, wanted: int, came: int) -> None:
    if came != wanted:
        more = "more" if came > wanted else str(came)
        raise OperationFailed(
            "size-mismatch", "{}: {} bytes were announced, {} came".format(show_path(path), wanted, more)
        )


def _publish(draft: Draft, path: bytes, target: bytes, *, executable: bool) -> dict[str, object]:
    with locked_folder(os.path.dirname(target)):
        target, status = find_target(path)
        draft.publish(target, mode=status.st_mode if status else 0, executable=executable)
        return {**answer_path(path), "created": status is None, "size_bytes": os.lstat(target).st_size}


def _append(path: bytes, target: bytes, pieces: Iterator[bytes], *, executable: bool) -> dict[str, object]:
    flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with locked_folder(os.path.dirname(target)):
        try:
            descriptor = os.open(target, flags | os.O_CREAT | os.O_EXCL, 0o666)
            created = True
        except FileExistsError:
            descriptor = os.open(target, flags)
            created = False
        written = 0
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OperationFailed("unsupported-file", "{}: not an ordinary file".format(show_path(path)))
            refuse_own(path, descriptor)
            for piece in pieces:
                write_all(descriptor, piece)
                written += len(piece)
            status = os.fstat(descriptor)
            if executable:
                os.fchmod(descriptor, executable_mode(stat.S_IMODE(status.st_mode)))
        finally:
            os.close(descriptor)
    return {**answer_path(path), "created": created, "size_bytes": status.st_size}
