"""Whether a host user may get to a path, told from the permission bits on the way."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def blocked_at(path: Path, uid: int | None) -> Path | None:
    """Find what keeps a user from reading (and running, or entering) a path.

    Args:
        path: Absolute, without symbolic links.
        uid: The user, in a group of the same number and in no other; None: the gateway itself, which is not blocked.

    Returns:
        The first folder that cannot be passed, the path itself when it cannot be read, None when nothing is in the way.

    Raises:
        OSError: the path does not exist.
    """
    if uid is None:
        return None
    folder = impassable(path, uid)
    if folder is not None:
        return folder
    status = path.stat()
    runs = stat.S_ISDIR(status.st_mode) or status.st_mode & 0o111
    needed = stat.S_IROTH | stat.S_IXOTH if runs else stat.S_IROTH
    return None if _allows(status, uid, needed) else path


def impassable(path: Path, uid: int) -> Path | None:
    """Find the first folder above a path that a user cannot pass; None when all can be."""
    for folder in reversed(path.parents):
        if not _allows(folder.stat(), uid, stat.S_IXOTH):
            return folder
    return None


def _allows(status: os.stat_result, uid: int, bits: int) -> bool:
    """Check permission bits, given as those of "others", in the class that the user falls into."""
    if status.st_uid == uid:
        bits <<= 6
    elif status.st_gid == uid:
        bits <<= 3
    return status.st_mode & bits == bits
