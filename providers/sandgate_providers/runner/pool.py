"""Workers as the runner sees them: forked ahead of need, lent to one call at a time, replaced when spent or dead."""

from __future__ import annotations

import array
import errno
import marshal
import os
import signal
import socket
import sys
from typing import Any, Callable, Optional

from sandgate_providers.runner import tree, worker
from sandgate_providers.runner.loop import READ, Loop

MOST_WORK = 200
"""A worker is replaced after so much work, so that nothing that it gathers grows and the processor time that it uses up
itself stays far below the limit that its commands inherit."""
OPERATION_WORK = 4
"""A file operation runs in the worker itself and counts for more than a command."""


class WorkerGone(Exception):
    """The worker ended; something inside the sandbox killed it."""


class LentWorker:
    """The runner's hold on a worker."""

    def __init__(self, pid: int, peer: socket.socket, loop: Loop, idle: Callable[[LentWorker], None]) -> None:
        self.pid = pid
        self.work = 0
        self.spent = False
        """True when it shall not be used again."""
        self.listener: Optional[Callable[[], None]] = None
        """Called when the worker says something; None while it is idle, when the pool listens."""
        self._peer = peer
        self._loop = loop
        self._idle = idle
        loop.watch(peer.fileno(), READ, self._ready)

    def give(self, job: worker.Job, descriptors: list[int]) -> None:
        """Hand over a job with its three descriptors.

        Raises:
            WorkerGone: it ended before; the job was not taken.
            OSError: the job is too large for a datagram (EMSGSIZE).
        """
        message = marshal.dumps(job)
        if len(message) > worker.MESSAGE_BYTES:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))  # the kernel might take it, the worker cuts it
        self.work += OPERATION_WORK if "operation" in job else 1
        self._wake()
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        try:
            self._peer.sendmsg([message], ancillary)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise WorkerGone from error

    def hear(self) -> tuple[Any, ...] | None:
        """Take its next message, or None when there is none.

        Raises:
            WorkerGone: it ended.
        """
        try:
            message = self._peer.recv(worker.MESSAGE_BYTES)
        except BlockingIOError:
            return None
        except ConnectionResetError as error:
            raise WorkerGone from error
        if not message:
            raise WorkerGone
        heard = marshal.loads(message)  # noqa: S302 - from our own fork, over a socket pair that only we hold
        return heard if isinstance(heard, tuple) else None

    def close(self) -> None:
        """Let it end: a worker that waits for work ends when its socket closes. Idempotent."""
        if self._peer.fileno() >= 0:
            self._wake()
            self._loop.unwatch(self._peer.fileno())
            self._peer.close()

    def _wake(self) -> None:
        """Let it go on if a command stopped it while it waited: it would neither work nor end."""
        tree.send([self.pid], signal.SIGCONT)

    def _ready(self, _events: int) -> None:
        if self.listener is not None:
            self.listener()
        else:
            self._idle(self)


class Pool:
    """Idle workers."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._configuration: dict[str, object] = {}
        self._idle: list[LentWorker] = []
        self._wanted = 0
        self.pids: set[int] = set()
        """Every worker that was not waited for yet, idle, lent or dead."""
        self._dying: set[int] = set()

    def configure(self, configuration: dict[str, object], wanted: int) -> None:
        """Say what workers shall be like, before the first is forked, and how many shall wait."""
        self._configuration = configuration
        self._wanted = wanted

    def take(self) -> LentWorker:
        """Lend a worker; fork one when none waits. Raises OSError when no process can be made."""
        return self._idle.pop() if self._idle else self._fork()

    def give_back(self, lent: LentWorker) -> None:
        """Take a worker back that has nothing left to do."""
        if lent.spent or lent.work >= MOST_WORK or len(self._idle) >= self._wanted:
            lent.close()
        else:
            self._idle.append(lent)

    def lacks(self) -> bool:
        """Give whether too few wait: less than half, so that one call after the other forks nobody."""
        return len(self._idle) < (self._wanted + 1) // 2

    def refill(self) -> None:
        """Fork one worker. Where there is no room for so many, calls fork their own, and say so if they cannot."""
        try:
            self._idle.append(self._fork())
        except OSError:
            self._wanted = max(0, self._wanted - 1)

    def bury(self, lent: LentWorker) -> None:
        """Take back a worker that was killed.

        Every idle one goes too: what killed it may have killed all, and a dying one would still take a job.
        """
        lent.close()
        if lent.pid in self.pids:
            self._dying.add(lent.pid)
        for idle in self._idle:
            idle.close()
        self._idle.clear()

    def dying(self) -> bool:
        """Give whether a worker that was killed could not be waited for yet."""
        return bool(self._dying)

    def forget(self, pid: int) -> None:
        """Note that a process of ours ended."""
        self.pids.discard(pid)
        self._dying.discard(pid)

    def _idle_spoke(self, lent: LentWorker) -> None:
        """An idle worker has nothing to say: it was killed, or it is none of ours any more."""
        self._idle.remove(lent)
        lent.close()

    def _fork(self) -> LentWorker:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stderr.flush()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            worker.main(theirs, self._configuration)
        theirs.close()
        ours.settimeout(0)
        self.pids.add(pid)
        return LentWorker(pid, ours, self._loop, self._idle_spoke)
