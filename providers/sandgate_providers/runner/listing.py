"""The operations `stat` and `list`."""

from __future__ import annotations

import os
from typing import BinaryIO, Iterable

from sandgate_providers.runner.answers import BoundedList
from sandgate_providers.runner.arguments import take_flag, take_number
from sandgate_providers.runner.paths import join_path, parse_path
from sandgate_providers.runner.walking import Walk, answer_entry

DEFAULT_DEPTH = 2
DEFAULT_ENTRIES = 1000


def stat_path(arguments: dict[str, object], _source: BinaryIO, _sink: BinaryIO) -> dict[str, object]:
    """Say what a path is.

    Arguments: `path`; `no_follow`, true to look at a symbolic link itself.

    Returns: the entry (`path`, `kind`, `size_bytes`, `modified_ns`) and `executable`.
    """
    path = parse_path(arguments)
    status = os.stat(path, follow_symlinks=not take_flag(arguments, "no_follow"))
    return {**answer_entry(path, status), "executable": bool(status.st_mode & 0o111)}


def list_folder(arguments: dict[str, object], _source: BinaryIO, _sink: BinaryIO) -> dict[str, object]:
    """List what is in a folder and in its folders.

    Arguments: `path`; `depth`, how many levels (2; 0 is all); `limit`, how many entries (1,000).

    Returns: `entries`, `truncated`, and how many were passed over: `ignored` by name, `unreadable` folders.

    Each folder is followed by what is in it; names are in the order of their bytes. Symbolic links are listed and not
    followed, except the path itself.
    """
    root = parse_path(arguments)
    walk = Walk(root, take_number(arguments, "depth", DEFAULT_DEPTH))
    found = (join_path(root, relative) for relative, _ in walk)
    return answer_entries(found, walk, take_number(arguments, "limit", DEFAULT_ENTRIES))


def answer_entries(paths: Iterable[bytes], walk: Walk, limit: int) -> dict[str, object]:
    """Answer with the entries of paths that a walk finds, up to a limit; no more are taken from it than that needs."""
    entries = BoundedList(limit)
    for path in paths:
        try:
            status = os.lstat(path)
        except OSError:
            continue  # it went away while we looked
        if not entries.add(answer_entry(path, status)):
            break
    return {
        "entries": entries.items,
        "truncated": entries.truncated or walk.exhausted,
        "ignored": walk.ignored,
        "unreadable": walk.unreadable,
    }
