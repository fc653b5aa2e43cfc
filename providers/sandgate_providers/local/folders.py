"""The folders of threads on the host: made and checked through descriptors, never through a link.

While a sandbox lives, everything below its folder is under its control. So nothing here follows a symbolic link below
`data_dir/threads`, and nothing trusts what an earlier life left there.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandgate_providers.errors import ProviderMisconfigured, ProviderUnavailable
from sandgate_providers.local.reach import impassable
from sandgate_providers.local.users import UserRange
from sandgate_providers.types import OUTPUTS, UPLOADS, WORKSPACE

_log = logging.getLogger(__name__)

PARTS = tuple(Path(path).name for path in (WORKSPACE, UPLOADS, OUTPUTS))
"""What every thread's folder holds."""

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_PASSABLE = 0o711
"""Others may pass, to get to their own folder, and may not list."""

_PRIVATE = 0o700

_PLAIN = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFolder:
    """One thread's folder, and the host user that owns it and runs its sandbox."""

    path: Path
    uid: int
    gid: int


class ThreadFolders:
    """All threads' folders below one `data_dir`, which it holds for this process alone while it is open.

    Every method blocks on the file system and may be called from any thread.
    """

    def __init__(self, data_dir: Path, users: UserRange | None) -> None:
        """Remember where; `users` is None when every thread runs as the gateway's own user."""
        self._data_dir = data_dir
        self._users = users
        self._lock = threading.Lock()
        self._owners: dict[int, set[str]] = {}
        """Names of the folders of each user, as last seen; more than one is a mistake of somebody's."""
        self._held = -1

    @property
    def data_dir(self) -> Path:
        """The folder that was given; without symbolic links once it is open."""
        return self._data_dir

    @property
    def root(self) -> Path:
        """Where the folders are."""
        return self._data_dir / "threads"

    def open(self) -> None:
        """Make what is missing, take the lock, and see who owns what.

        Raises:
            ProviderMisconfigured: the folder cannot be used like this, or another gateway uses it.
        """
        try:
            self._data_dir.parent.mkdir(parents=True, exist_ok=True)
            _make_folder(self._data_dir, _PASSABLE)
            self._data_dir = self._data_dir.resolve(strict=True)
            self._hold()
            _make_folder(self.root, _PASSABLE)
            self._check_root()
            with self._lock, self._opened() as root:
                self._look(root)
        except OSError as error:
            self.close()
            message = f"data_dir: {self._data_dir} cannot be used: {error}"
            raise ProviderMisconfigured(message) from error
        except ProviderMisconfigured:
            self.close()
            raise

    def close(self) -> None:
        """Let another gateway have the folder. Idempotent."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def prepare(self, name: str) -> ThreadFolder:
        """Make a thread's folder, or take the one that exists, with its three parts.

        Must not be called while a sandbox lives in it.

        Args:
            name: The sandbox's name; one path component.

        Raises:
            ProviderUnavailable: something else is in the folder's place, or it belongs to someone else.
            CapacityExhausted: no host user is free.
        """
        with self._lock:
            try:
                return self._prepare(name)
            except OSError as error:
                message = f"the folder of {name} in {self.root} cannot be used: {error}"
                raise ProviderUnavailable(message) from error

    def probe_folder(self) -> Path:
        """Give an empty folder, of nobody's in particular, for a first try of the jail."""
        folder = self._data_dir / "probe"
        _make_folder(folder, _PLAIN)
        return folder

    def _hold(self) -> None:
        descriptor = os.open(self._data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            message = f"data_dir: {self._data_dir} is used by another gateway that runs; give each its own"
            raise ProviderMisconfigured(message) from error
        self._held = descriptor

    def _check_root(self) -> None:
        for folder in (self._data_dir, self.root):
            status = folder.lstat()
            if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                message = f"data_dir: {folder} must belong to the gateway's user and be writable by nobody else"
                raise ProviderMisconfigured(message)
        # Any user of the range will do: none of them owns a folder on the way, so the bits for others decide.
        blocked = impassable(self.root / "any", self._users.first) if self._users else None
        if blocked is not None:
            message = (
                f"data_dir: sandboxes run as users of their own and cannot get through {blocked}; "
                f"allow it (chmod o+x {blocked}) or set data_dir to another place, such as /var/lib/sandgate"
            )
            raise ProviderMisconfigured(message)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        descriptor = os.open(self.root, _OPEN_FOLDER)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _look(self, root: int) -> None:
        """See which user owns which folder."""
        self._owners.clear()
        with os.scandir(root) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    self._owners.setdefault(status.st_uid, set()).add(entry.name)

    def _prepare(self, name: str) -> ThreadFolder:
        with self._opened() as root:
            try:
                os.mkdir(name, _PRIVATE, dir_fd=root)
            except FileExistsError:
                self._reopen(name, root)
            folder = os.open(name, _OPEN_FOLDER, dir_fd=root)
            try:
                uid, gid = self._owner(name, folder, root)
                for part in PARTS:
                    _make_part(folder, part, uid, gid)
                # The sandbox can have opened it to others; and the owner is set last, so that a folder that belongs
                # to a thread is complete.
                os.fchmod(folder, _PRIVATE)
                os.fchown(folder, uid, gid)
            finally:
                os.close(folder)
        return ThreadFolder(path=self.root / name, uid=uid, gid=gid)

    def _reopen(self, name: str, root: int) -> None:
        """Make our own folder readable again, in case its sandbox shut it; root needs no such thing.

        By name, but safe: only the gateway's user may change entries of the root, and a link was ruled out.
        """
        status = os.stat(name, dir_fd=root, follow_symlinks=False)
        if self._users is None and stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
            os.chmod(name, _PRIVATE, dir_fd=root)

    def _owner(self, name: str, folder: int, root: int) -> tuple[int, int]:
        owner = os.fstat(folder).st_uid
        if self._users is None:
            if owner != os.geteuid():
                message = f"{self.root / name} belongs to user {owner}, not to the gateway's"
                raise ProviderUnavailable(message)
            return owner, os.getegid()
        if owner == os.geteuid():
            # New, or left unfinished by a gateway that died in between. Owners are looked at anew, for folders may have
            # come and gone, and a wrong guess would mix two threads.
            self._look(root)
            owner = self._users.free(self._owners)
            self._owners[owner] = {name}
        elif owner not in self._users:
            message = f"{self.root / name} belongs to user {owner}, which is not in uid_range"
            raise ProviderUnavailable(message)
        elif self._owners.get(owner) != {name}:
            self._look(root)
            others = sorted(self._owners.get(owner, set()) - {name})
            if others:
                message = f"{self.root / name} belongs to user {owner}, as does the folder of {others[0]}"
                raise ProviderUnavailable(message)
        return owner, owner


def _make_folder(path: Path, mode: int) -> None:
    """Make a folder when it is missing, with exactly that mode, whatever the umask."""
    try:
        path.mkdir()
    except FileExistsError:
        return
    path.chmod(mode)


def _make_part(folder: int, name: str, uid: int, gid: int) -> None:
    """Make one of the three folders; whatever else a sandbox put in its place is moved aside, not followed."""
    try:
        os.mkdir(name, _PLAIN, dir_fd=folder)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            aside = _free_name(folder, name)
            _log.warning("%s of a thread was not a folder; it is now %s", name, aside)
            os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
            os.mkdir(name, _PLAIN, dir_fd=folder)
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if status.st_uid == uid and status.st_mode & _PRIVATE == _PRIVATE:
        return
    # A sandbox can have shut it even from its owner. Root opens it all the same and never goes by the name, which could
    # have become a link; who is not root can only harm files of its own.
    if status.st_uid == os.geteuid() != 0:
        os.chmod(name, _PLAIN, dir_fd=folder)
    descriptor = os.open(name, _OPEN_FOLDER, dir_fd=folder)
    try:
        os.fchmod(descriptor, _PLAIN)
        os.fchown(descriptor, uid, gid)
    finally:
        os.close(descriptor)


def _free_name(folder: int, name: str) -> str:
    taken = set(os.listdir(folder))
    number = 1
    while f"{name}.replaced-{number}" in taken:
        number += 1
    return f"{name}.replaced-{number}"
