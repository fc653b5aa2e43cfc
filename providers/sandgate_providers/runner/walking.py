"""A walk through everything below a folder, without recursion and without following symbolic links."""

from __future__ import annotations

import os
import stat
from typing import Iterator

from sandgate_providers.runner.ignoring import FOLDER_MARKS, is_ignored
from sandgate_providers.runner.paths import answer_path, join_path

MOST_VISITED = 1000000
"""A walk ends after so many entries; it takes some seconds and about 200 MB to come so far."""

FILE = "file"
DIRECTORY = "directory"
SYMLINK = "symlink"
OTHER = "other"


def kind_of(mode: int) -> str:
    """Name the kind of a file mode."""
    if stat.S_ISREG(mode):
        return FILE
    if stat.S_ISDIR(mode):
        return DIRECTORY
    if stat.S_ISLNK(mode):
        return SYMLINK
    return OTHER


def answer_entry(path: bytes, status: os.stat_result) -> dict[str, object]:
    """Give an entry as it is answered: `path`, `kind`, `size_bytes` of a file, `modified_ns` since 1970."""
    kind = kind_of(status.st_mode)
    return {
        **answer_path(path),
        "kind": kind,
        "size_bytes": status.st_size if kind == FILE else 0,
        "modified_ns": status.st_mtime_ns,
    }


class Walk:
    """Gives the relative path and the kind of each entry below `root`: a folder, then what is in it, sorted by name.

    Raises OSError when the root cannot be read. What lies deeper and cannot be read is counted and passed over.
    """

    def __init__(self, root: bytes, depth: int = 0) -> None:
        self.root = root
        self.ignored = 0
        """Entries passed over because of their names or marks."""
        self.unreadable = 0
        """Folders that could not be read."""
        self.exhausted = False
        """True when the walk ended early, after `MOST_VISITED` entries."""
        self._depth = depth
        self._visited = 0

    def __iter__(self) -> Iterator[tuple[bytes, str]]:
        levels = [iter(self._scan(b""))]
        while levels:
            entry = next(levels[-1], None)
            if entry is None:
                levels.pop()
                continue
            yield entry
            relative, kind = entry
            if kind == DIRECTORY and len(levels) != self._depth and not self.exhausted:
                try:
                    levels.append(iter(self._scan(relative)))
                except OSError:
                    self.unreadable += 1

    def _scan(self, folder: bytes) -> list[tuple[bytes, str]]:
        found = []
        prefix = folder + b"/" if folder else b""
        with os.scandir(join_path(self.root, folder)) as entries:
            for entry in entries:
                if folder and entry.name in FOLDER_MARKS:
                    self.ignored += 1
                    return []
                self._visited += 1
                if self._visited > MOST_VISITED:
                    self.exhausted = True
                    break
                kind = _kind_of_entry(entry)
                if is_ignored(entry.name, is_file=kind == FILE):
                    self.ignored += 1
                else:
                    found.append((prefix + entry.name, kind))
        found.sort()
        return found


def _kind_of_entry(entry: os.DirEntry[bytes]) -> str:
    try:
        if entry.is_symlink():
            return SYMLINK
        if entry.is_dir(follow_symlinks=False):
            return DIRECTORY
        if entry.is_file(follow_symlinks=False):
            return FILE
    except OSError:
        return OTHER  # it went away, or nothing may be known about it
    return OTHER
