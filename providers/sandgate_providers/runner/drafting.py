"""Files that appear whole or not at all: written under no name, then given the name of the file that they replace."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import Iterator

from sandgate_providers.runner.failures import OperationFailed
from sandgate_providers.runner.paths import show_path
from sandgate_providers.runner.reading import STEP_BYTES

_PERMISSIONS = 0o1777


class Draft:
    """A file that is not there yet, in the folder where it shall be.

    It has no name where the kernel and the file system can do that, so that a process which is killed leaves nothing
    behind; else a hidden one.
    """

    def __init__(self, folder: bytes, *, nameless: bool = True) -> None:
        self._folder = folder
        self._name = b""
        self._descriptor = -1
        if nameless and hasattr(os, "O_TMPFILE") and os.path.isdir(b"/proc/self/fd"):
            try:
                # Read as well as written: an append copies from it.
                self._descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
            except OSError:
                self._descriptor = -1  # this file system cannot; what else is wrong shows below
        if self._descriptor < 0:
            self._name = self._new_name()
            self._descriptor = os.open(self._name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)

    def __enter__(self) -> Draft:  # noqa: PYI034 - typing.Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
        if self._name:
            try:
                os.unlink(self._name)
            except OSError:
                pass  # it went with its folder

    def _new_name(self) -> bytes:
        return os.path.join(self._folder, b".sandgate-" + os.urandom(8).hex().encode("ascii"))

    def write(self, data: bytes) -> None:
        """Add bytes at its end."""
        write_all(self._descriptor, data)

    def pieces(self) -> Iterator[bytes]:
        """Give what was written."""
        offset = 0
        while True:
            piece = os.pread(self._descriptor, STEP_BYTES, offset)
            if not piece:
                return
            yield piece
            offset += len(piece)

    def publish(self, target: bytes, *, mode: int, executable: bool = False) -> None:
        """Let it take the place of the target, at once. `mode` is that of the file that it replaces, or zero."""
        permissions = mode & _PERMISSIONS if mode else os.fstat(self._descriptor).st_mode & _PERMISSIONS
        os.fchmod(self._descriptor, executable_mode(permissions) if executable else permissions)
        if not self._name:
            name = self._new_name()
            # Only with a folder descriptor does Python ask the kernel to follow the link to the file.
            source = b"/proc/self/fd/%d" % self._descriptor
            try:
                os.link(source, name, src_dir_fd=self._descriptor, follow_symlinks=True)
            except OSError:
                self._publish_copy(target, mode, executable=executable)
                return
            self._name = name
        os.rename(self._name, target)
        self._name = b""

    def _publish_copy(self, target: bytes, mode: int, *, executable: bool) -> None:
        """Do without a nameless file: one can be made here but not be named, for example under another user map."""
        with Draft(self._folder, nameless=False) as copy:
            for piece in self.pieces():
                copy.write(piece)
            copy.publish(target, mode=mode, executable=executable)


def executable_mode(permissions: int) -> int:
    """Let everybody who may read it run it too."""
    return permissions | (permissions & 0o444) >> 2


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however many steps that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextmanager
def locked_folder(folder: bytes) -> Iterator[None]:
    """Keep other operations of ours from changing files in this folder, so that none undoes the change of another.

    A lock on the file would not do: each change replaces the file. Commands know nothing of the lock, and where the
    file system has none the change goes on without.
    """
    descriptor = -1
    try:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            pass  # not readable, or no locks here; whether the change can be made shows next
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def make_folders(folder: bytes) -> None:
    """Make a folder and those above it that are missing, one by one: `os.makedirs` would recurse.

    Raises:
        OperationFailed: `not-a-directory`: something on the way is a file.
    """
    missing = []
    while not os.path.isdir(folder):
        # Asked again, in this order: another operation may have made it since.
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise OperationFailed("not-a-directory", "{}: not a directory".format(show_path(folder)))
        missing.append(folder)
        folder = os.path.dirname(folder)
    while missing:
        try:
            os.mkdir(missing[-1])
        except FileExistsError:
            if not os.path.isdir(missing[-1]):
                raise
        missing.pop()
