"""Start a program that becomes a sandbox, watch for its end, and end it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from sandgate_providers.errors import ProviderUnavailable
from sandgate_providers.local import strays
from sandgate_providers.local.stream import SocketStream

KEPT_BYTES = 4096
"""How much of a program's complaints is kept, the end of them."""

END_SECONDS = 5.0
"""How long the kernel may take to end a sandbox that was killed; some milliseconds, unless a disk hangs."""

_UMASK = 0o022

_DROP = """\
import os, sys
user = int(sys.argv[1])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"{sys.argv[2]} cannot be started as user {user}: {error}")
"""
"""Becomes an unprivileged user for good, then the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to start, and as whom."""

    arguments: tuple[str, ...]
    """The first is the program, an absolute path."""
    uid: int | None
    """Host user, and group of the same number, without any other group; None: as the gateway."""
    folder: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """All of it; nothing of the gateway's own is added."""
    descriptors: tuple[int, ...] = ()
    """Open files that the program gets under the same numbers."""


class PipeReader:
    """Reads a pipe to its end and keeps the last part.

    Not a transport of the loop's: those of uvloop and the file object that they are made of both close the descriptor,
    and another thread may have been given its number in between.
    """

    def __init__(self, descriptor: int) -> None:
        """Read from the reading end of a pipe, which belongs to it from now on."""
        self._descriptor = descriptor
        self._data = bytearray()
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    @property
    def text(self) -> str:
        """What was read and kept so far."""
        return self._data.decode("utf-8", "replace").strip()

    async def until(self, ending: str) -> str:
        """Wait until the text ends like that, or the pipe is at its end; give the text."""
        while self._descriptor >= 0 and not (ending and self.text.endswith(ending)):
            self._changed.clear()
            await self._changed.wait()
        return self.text

    def close(self) -> None:
        """Stop reading. Idempotent."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            self._changed.set()

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, KEPT_BYTES)
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        self._data += data
        del self._data[:-KEPT_BYTES]
        self._changed.set()


class SandboxProcess:
    """A program that was started here: its line, its complaints and its end.

    Made by `start`. The process is reaped as soon as it has ended, whoever waits or not.
    """

    def __init__(self, program: subprocess.Popen[bytes], stream: SocketStream, complaints: PipeReader) -> None:
        self._program = program
        self._stream = stream
        self._complaints = complaints
        self._ended = asyncio.Event()
        self._watched = os.pidfd_open(program.pid)
        self._inner = -1
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._watched, self._reap)

    @classmethod
    async def start(cls, launch: Launch) -> SandboxProcess:
        """Start the program, with the line as its standard input and output.

        Raises:
            ProviderUnavailable: it could not be started.
        """
        ours, theirs = socket.socketpair()
        complaints, complain = os.pipe()
        with contextlib.ExitStack() as opened:
            opened.callback(theirs.close)
            opened.callback(os.close, complain)
            reader = PipeReader(complaints)
            try:
                stream = await SocketStream.over(ours)
            except BaseException:
                # A stream that exists ends by itself, with its other end.
                reader.close()
                raise
            try:
                program = _spawn(launch, theirs, complain)
            except BaseException:
                reader.close()
                await stream.close()
                raise
        try:
            return cls(program, stream, reader)
        except OSError as error:
            program.kill()
            program.wait()
            reader.close()
            await stream.close()
            message = f"{launch.arguments[0]} cannot be watched (this needs Linux 5.3): {error}"
            raise ProviderUnavailable(message) from error

    @property
    def pid(self) -> int:
        """Its process id on the host."""
        return self._program.pid

    @property
    def stream(self) -> SocketStream:
        """The line to it."""
        return self._stream

    @property
    def complaints(self) -> str:
        """The end of what it wrote to its standard error; for operators, it may name host paths."""
        return self._complaints.text

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return not self._ended.is_set()

    @property
    def exit_code(self) -> int | None:
        """Its exit code, or the negative number of the signal that ended it; None while it runs."""
        return self._program.returncode

    def hold_inner(self, pid: int) -> None:
        """Remember the sandbox's first process, so that `kill` ends that one, by a handle that no other can get.

        Raises:
            ProcessLookupError: it has ended already.
        """
        self._inner = os.pidfd_open(pid)

    def kill(self) -> None:
        """Send KILL, to the sandbox's first process where it is known, else to the program itself.

        The end of a first process is the end of its process namespace, and the program ends after it; the program alone
        would leave that to the kernel, to be done after `wait` said that all is over.
        """
        if self._inner >= 0:
            try:
                signal.pidfd_send_signal(self._inner, signal.SIGKILL)
            except ProcessLookupError:
                self._program.kill()
        else:
            self._program.kill()

    async def end(self) -> bool:
        """Kill it, wait for that, and let go of everything; true when it is gone. Idempotent."""
        try:
            if self._inner < 0 and self.running:
                # What bubblewrap has forked by now does not die with it yet: it would wait for it for ever.
                await asyncio.to_thread(strays.end_descendants, self.pid)
            self.kill()
            if not await self.wait(END_SECONDS):
                self._program.kill()
                await self.wait(END_SECONDS)
        finally:
            await self.close()
        return not self.running

    async def wait(self, seconds: float) -> bool:
        """Wait for its end, at most so long; true when it has ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        return not self.running

    async def last_words(self, seconds: float) -> str:
        """Wait until its standard error is closed, at most so long; give the end of it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._complaints.until("")
        return self._complaints.text

    async def close(self) -> None:
        """Let go of the line and the handles. Idempotent; kills nothing."""
        await self._stream.close()
        self._complaints.close()
        if self._inner >= 0:
            os.close(self._inner)
            self._inner = -1

    def _reap(self) -> None:
        self._loop.remove_reader(self._watched)
        os.close(self._watched)
        self._program.poll()
        self._ended.set()


def _spawn(launch: Launch, line: socket.socket, complain: int) -> subprocess.Popen[bytes]:
    """Start the program from this very thread, which is the event loop's.

    Bubblewrap's `--die-with-parent` is bound to the thread that forked, not to the process: from a worker thread of a
    pool a sandbox would die with that worker. The loop's thread lives as long as the gateway. It is held up for the
    one or two milliseconds until the program has been loaded.

    A user to drop to is not given to `Popen`, which would then fork with all that gRPC does in a forked child (it was
    seen to break one sandbox in some hundreds); a small program of its own drops, after a vfork that does nothing else.
    """
    arguments = launch.arguments
    if launch.uid is not None:
        arguments = (sys.executable, "-I", "-S", "-c", _DROP, str(launch.uid), *arguments)
    try:
        return subprocess.Popen(  # noqa: S603 - bubblewrap or the runner's Python, both found by us
            arguments,
            stdin=line.fileno(),
            stdout=line.fileno(),
            stderr=complain,
            cwd=launch.folder,
            env=dict(launch.environment),
            pass_fds=launch.descriptors,
            # Away from the gateway's terminal: Ctrl-C there asks the gateway to stop, not its sandboxes to die.
            start_new_session=True,
            umask=_UMASK,
        )
    except (OSError, subprocess.SubprocessError) as error:
        whom = "" if launch.uid is None else f" as user {launch.uid}"
        message = f"{launch.arguments[0]} cannot be started{whom}: {error}"
        raise ProviderUnavailable(message) from error
