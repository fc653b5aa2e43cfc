"""The operation `glob`."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from sandgate_providers.runner.answers import BoundedList
from sandgate_providers.runner.arguments import take_flag, take_number, take_text
from sandgate_providers.runner.failures import OperationFailed
from sandgate_providers.runner.paths import join_path, parse_path, show_path
from sandgate_providers.runner.patterns import PathPattern
from sandgate_providers.runner.walking import DIRECTORY, Walk, answer_entry

DEFAULT_PATHS = 200


def glob_paths(arguments: dict[str, object], _source: BinaryIO, _sink: BinaryIO) -> dict[str, object]:
    """Find paths by a pattern (see `patterns`).

    Arguments: `path`, the folder to search; `pattern`; `include_dirs`; `limit` (200).

    Returns: `entries`, `truncated`, `ignored` and `unreadable`, as `list` does. Truncated is true only when there is
    more than the limit.
    """
    root = parse_path(arguments)
    if not stat.S_ISDIR(os.stat(root).st_mode):
        raise OperationFailed("not-a-directory", "{}: not a directory".format(show_path(root)))
    pattern = PathPattern(take_text(arguments, "pattern"), root)
    include_dirs = take_flag(arguments, "include_dirs") or pattern.folders_only
    entries = BoundedList(take_number(arguments, "limit", DEFAULT_PATHS))
    base = join_path(root, pattern.start)
    walk = Walk(base)
    for relative, kind in walk if os.path.isdir(base) else ():
        is_folder = kind == DIRECTORY
        if (is_folder and not include_dirs) or (pattern.folders_only and not is_folder):
            continue
        if not pattern.matches(relative):
            continue
        path = join_path(base, relative)
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
