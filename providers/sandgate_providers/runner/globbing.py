"""The operation `glob`."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO, Iterator

from sandgate_providers.runner.arguments import take_flag, take_number, take_text
from sandgate_providers.runner.failures import OperationFailed
from sandgate_providers.runner.listing import answer_entries
from sandgate_providers.runner.paths import join_path, parse_path, show_path
from sandgate_providers.runner.patterns import PathPattern
from sandgate_providers.runner.walking import DIRECTORY, Walk

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
    base = join_path(root, pattern.start)
    walk = Walk(base)

    def wanted() -> Iterator[bytes]:
        for relative, kind in walk if os.path.isdir(base) else ():
            allowed = include_dirs if kind == DIRECTORY else not pattern.folders_only
            if allowed and pattern.matches(relative):
                yield join_path(base, relative)

    return answer_entries(wanted(), walk, take_number(arguments, "limit", DEFAULT_PATHS))
