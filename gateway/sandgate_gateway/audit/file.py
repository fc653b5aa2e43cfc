"""The audit file: one writer, whole lines, one chain for each life of the gateway.

Everything here blocks; `log.AuditLog` calls it from its own thread. A failed write leaves no half record behind: the
file is cut back to its last whole one, so that a later success continues an unbroken file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sandgate_gateway.audit.blocks import Record
from sandgate_gateway.audit.codes import Code
from sandgate_gateway.audit.event import AuditEvent
from sandgate_gateway.audit.rendering import Emitter, Line, Renderer
from sandgate_gateway.errors import Misconfigured

FILE_MODE = 0o600
FOLDER_MODE = 0o700
CHUNK_BYTES = 1 << 16
"""How much is read at once when the end of the last record is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest record that is stored."""

    end_bytes: int
    """Where in the file it ends."""
    sequence: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What became of some records that were to be written together."""

    lines: Sequence[Line | None]
    """In order; None for a record that is not stored."""
    bugs: Sequence[tuple[int, Exception]]
    """Places of records that could not be rendered, with the reason."""
    error: OSError | None
    """Why the rest is not stored."""


class AuditFile:
    """The open file, with its place in the chain."""

    def __init__(self, path: Path, emitter: Emitter) -> None:
        self.path = path
        self._name = str(path)
        self.chain = uuid.uuid4().hex
        """Id of this life's chain."""
        self._renderer = Renderer(emitter, self.chain)
        self._descriptor = -1
        self._identity = (0, 0)
        self._size = 0
        self._sequence = 0
        self._digest = ""
        self._torn = False

    @property
    def head(self) -> Head:
        """The newest record."""
        return Head(end_bytes=self._size, sequence=self._sequence, digest=self._digest)

    def open(self) -> None:
        """Open the file, made when missing (mode 0600), move half a record at its end aside, and open a chain.

        Raises:
            Misconfigured: another process writes it, or it cannot be opened or written.
        """
        try:
            self.path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self.path, flags, FILE_MODE)
            self._lock()
            status = os.fstat(self._descriptor)  # not before the lock: a gateway that ends may still have written
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is no ordinary file")  # noqa: TRY301 - one place turns all of these into words
            self._identity = (status.st_dev, status.st_ino)
            self._size = status.st_size
            first = [self._opening()]
            if (repair := self._repair()) is not None:
                first.append(repair)
            self._digest = self._last_line_digest()
            appended = self.append([event.to_record() for event in first])
        except OSError as error:
            self.close()
            raise Misconfigured(f"audit.file: {self.path} cannot be used: {_why(error)}") from error
        if appended.error is not None:
            self.close()
            raise Misconfigured(f"audit.file: {self.path} cannot be written: {_why(appended.error)}")

    def append(self, records: Sequence[Record]) -> Appended:
        """Write records as one piece. What fits is kept, whole records only."""
        lines: list[Line | None] = []
        bugs: list[tuple[int, Exception]] = []
        sequence, digest = self._sequence, self._digest
        for place, record in enumerate(records):
            try:
                line = self._renderer.render(record, sequence=sequence + 1, previous_digest=digest)
            except (TypeError, ValueError, RecursionError) as error:
                lines.append(None)
                bugs.append((place, error))
                continue
            lines.append(line)
            sequence, digest = sequence + 1, line.digest
        data = b"".join(line.data for line in lines if line is not None)
        written, failure = self._write(data)
        if failure is None:
            self._sequence, self._digest = sequence, digest
            self._size += len(data)
        else:
            self._keep_whole(lines, written)
        return Appended(lines=lines, bugs=bugs, error=failure)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, data: bytes) -> tuple[int, OSError | None]:
        """Write; give how many bytes went into the file, and why it was not all of them."""
        written = 0
        try:
            self._check_place()
            if self._torn:
                os.ftruncate(self._descriptor, self._size)
                self._torn = False
            while written < len(data):
                written += os.write(self._descriptor, data[written:] if written else data)
        except OSError as error:
            return written, error
        return written, None

    def _check_place(self) -> None:
        """Raise when the path no longer leads to the open file: records in a deleted file are lost at its close."""
        status = os.stat(self._name, follow_symlinks=False)  # noqa: PTH116 - pathlib takes three times as long
        if (status.st_dev, status.st_ino) != self._identity:
            raise OSError(errno.ESTALE, "the audit file was moved or replaced while it was open")
        if status.st_size != self._size and not self._torn:
            # Somebody else wrote to it or cut it. `verify` shows that; new records go to its end, each on its own line.
            self._size = status.st_size
            if self._size and os.pread(self._descriptor, 1, self._size - 1) != b"\n":
                self._size += os.write(self._descriptor, b"\n")

    def _keep_whole(self, lines: list[Line | None], written: int) -> None:
        """After a failed write, keep the records that are in the file as a whole and cut the rest off."""
        room = written
        for place, line in enumerate(lines):
            if line is None:
                continue
            if room < len(line.data):
                lines[place] = None
                room = 0
                continue
            room -= len(line.data)
            self._size += len(line.data)
            self._sequence += 1
            self._digest = line.digest
        if written:
            self._torn = True
            with contextlib.suppress(OSError):  # done again, and insisted on, before the next write
                os.ftruncate(self._descriptor, self._size)
                self._torn = False

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OSError(error.errno, "another gateway writes it; give each gateway its own data_dir") from error

    def _repair(self) -> AuditEvent | None:
        """Move half a record at the end aside. Only a crash of the machine or a full disk leaves one."""
        end = self._line_start(self._size)
        torn = self._size - end
        if not torn:
            return None
        now = datetime.now(UTC)
        aside = self.path.with_name(f"{self.path.name}.torn-{now:%Y%m%dT%H%M%S.%f}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        with os.fdopen(descriptor, "wb") as copy:
            copy.writelines(self._pieces(end))
        os.ftruncate(self._descriptor, end)
        self._size = end
        return AuditEvent(
            code=Code.TAIL_REPAIRED,
            occurred_at=now,
            annotations={"audit/torn_bytes": torn, "audit/moved_to": aside.name},
        )

    def _opening(self) -> AuditEvent:
        return AuditEvent(code=Code.CHAIN_OPENED, occurred_at=datetime.now(UTC))

    def _line_start(self, end: int) -> int:
        """Give the offset behind the last line feed before `end`; zero when there is none."""
        while end > 0:
            start = max(0, end - CHUNK_BYTES)
            found = os.pread(self._descriptor, end - start, start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return 0

    def _last_line_digest(self) -> str:
        if not self._size:
            return ""
        digest = hashlib.sha256()
        for piece in self._pieces(self._line_start(self._size - 1)):
            digest.update(piece)
        return digest.hexdigest()

    def _pieces(self, start: int) -> Iterator[bytes]:
        for offset in range(start, self._size, CHUNK_BYTES):
            yield os.pread(self._descriptor, min(CHUNK_BYTES, self._size - offset), offset)


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__
