"""One call: its worker, its pipes, its clock, and its one end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Callable, Optional, Protocol

from sandgate_providers.runner import frames, tree
from sandgate_providers.runner.ending import Ending
from sandgate_providers.runner.feeding import Feed
from sandgate_providers.runner.loop import Loop, Timer
from sandgate_providers.runner.output import Pipe
from sandgate_providers.runner.pool import LentWorker, WorkerGone
from sandgate_providers.runner.worker import Job

DRAIN_SECONDS = 0.1
"""Output may come for so long after the exit from pipes that a background process holds open. What was in them at the
exit is always delivered."""
_FAILED = 1 << 8
"""The wait status of a process that exited with 1."""
DISCARD_BYTES = 1024 * 1024
"""After so much of background processes' output the runner pauses for `DISCARD_SECONDS`: 20 MiB/s at most."""
DISCARD_SECONDS = 0.05
MOST_BACKGROUND = 32
"""So many processes left behind are listed."""


class Free(Protocol):
    """Takes a worker back from a call."""

    def __call__(self, lent: LentWorker, *, alive: bool) -> None:
        """Called once, when no process of the call is left."""


class Surroundings:
    """What a call needs of the runner."""

    def __init__(
        self,
        loop: Loop,
        speak: Callable[[int, bytes, bytes], bool],
        ended: Callable[[RunningCall, bytes], None],
        free: Free,
        gone: Callable[[RunningCall], None],
        give_up: Callable[[], None],
    ) -> None:
        self.loop = loop
        self.speak = speak
        """Send a frame; false when the line is congested and pipes should not be read."""
        self.ended = ended
        """Called once, with the payload of END."""
        self.free = free
        self.gone = gone
        """Called once, when the call has ended and no process of it is left."""
        self.give_up = give_up
        """End the whole sandbox."""


class RunningCall:
    """A call from its first frame until the last process that it left behind is gone."""

    def __init__(self, number: bytes, job: Job, around: Surroundings) -> None:
        self.number = number
        self.window = frames.WINDOW_BYTES
        self.ended = False
        self._job = job
        self._around = around
        self._is_command = "argv" in job
        loop = around.loop
        with contextlib.ExitStack() as made:  # closes what there is when a later one cannot be made
            self.stdout = made.enter_context(contextlib.closing(Pipe(loop, frames.STDOUT, self._take)))
            self.stderr = made.enter_context(contextlib.closing(Pipe(loop, frames.STDERR, self._take)))
            self.feed = Feed(loop, self._grant) if job.get("input") else None
            made.pop_all()
        self._lent: Optional[LentWorker] = None
        self._begun = time.monotonic()
        self._duration = 0.0
        self._reason = ""
        self._status: Optional[int] = None
        self._cpu = 0.0
        self._error = ("", "")
        self._empty = False
        self._settled = False
        self._discarded = 0
        self._drained = False
        self._owed = {self.stdout: 0, self.stderr: 0}
        self._timer: Optional[Timer] = None
        self._ending: Optional[Ending] = None

    def start(self, lent: LentWorker, nothing: int) -> None:
        """Hand the job to a worker. Raises WorkerGone and OSError as `LentWorker.give`; then nothing was started."""
        reader = self.feed.reader if self.feed else nothing
        lent.give(self._job, [reader, self.stdout.writer, self.stderr.writer])
        self._lent = lent
        if self.feed:
            self.feed.give_reader_away()
        self.stdout.give_writer_away()
        self.stderr.give_writer_away()
        self.stdout.resume()
        self.stderr.resume()
        lent.listener = self._hear
        self._timer = self._around.loop.after(self._job["timeout"], self._time_out)

    def abandon(self) -> None:
        """Close the pipes of a call that could not be started."""
        self._close_pipes()

    def credit(self, amount: int) -> None:
        """The reader took so many bytes; more may come."""
        self.window = min(self.window + amount, frames.WINDOW_BYTES)
        self.resume()

    def resume(self) -> None:
        """Read the pipes again, if the window allows."""
        if self.window > 0 or self.ended:
            self.stdout.resume()
            self.stderr.resume()

    def cancel(self, reason: str, *, grace: bool = True) -> None:
        """End the whole tree, unless the command ended first. A second cancel ends the grace."""
        if self._status is not None or self._empty or self._lent is None:
            return
        if self._ending is not None:
            self._ending.hurry()
            return
        self._reason = self._reason or reason
        seconds = self._job["grace"] if grace and self._is_command else 0.0
        self._ending = Ending(self._around.loop, self._lent.pid, seconds, self._around.give_up)
        if not self._is_command:
            tree.send([self._lent.pid], signal.SIGKILL)  # it may be gone already, before its socket said so

    def _time_out(self) -> None:
        self.cancel("timeout")

    def _grant(self, amount: int) -> None:
        self._around.speak(frames.INPUT_WINDOW, self.number, frames.AMOUNT.pack(amount))

    def _take(self, pipe: Pipe) -> None:
        if self.ended:
            self._discard(pipe)
            return
        data = pipe.read(min(self.window, frames.CHUNK_BYTES))
        if data:
            pipe.total += len(data)
            self._owed[pipe] -= len(data)
            self.window -= len(data)
            flowing = self._around.speak(pipe.kind, self.number, data)
            if self.window <= 0 or not flowing:
                self.stdout.pause()
                self.stderr.pause()
            most = self._job.get("output_limit", 0)
            if most and self.stdout.total + self.stderr.total > most:
                self.cancel("output-limit", grace=False)
        self._maybe_end()

    def _discard(self, pipe: Pipe) -> None:
        """Take what a background process still writes, so that it lives on, but not faster than is good for others."""
        self._discarded += len(pipe.read(frames.CHUNK_BYTES))
        if self._discarded >= DISCARD_BYTES:
            self._discarded = 0
            self.stdout.pause()
            self.stderr.pause()
            self._around.loop.after(DISCARD_SECONDS, self.resume)

    def _hear(self) -> None:
        lent = self._lent
        while lent is not None and not self._empty:
            try:
                message = lent.hear()
            except WorkerGone:
                self._worker_gone()
                return
            if message is None:
                return
            what, *more = message
            if what == "exit":
                status, cpu, left = more
                self._exited(status, cpu)
            elif what == "failed":
                self._error = (more[0], more[1])
                self._exited(_FAILED, 0.0)
                left = 0
            else:  # idle: what the command left behind is gone
                left = 0
            if not left:
                self._leave_worker(alive=True)
            self._maybe_end()

    def _exited(self, status: int, cpu: float) -> None:
        self._status = status
        self._cpu = cpu
        self._duration = time.monotonic() - self._begun
        if self._timer is not None:
            self._timer.cancel()
        if self.feed:
            self.feed.close()
        for pipe in self._owed:
            self._owed[pipe] = pipe.waiting()
        self._around.loop.after(DRAIN_SECONDS, self._drain)

    def _worker_gone(self) -> None:
        """Something inside killed the worker: the runner inherits and kills what was below it."""
        if self._status is None and not self._is_command and not self._reason:
            self._error = ("io-error", "the operation ended early")
        if self._status is None:
            self._exited(signal.SIGKILL, 0.0)
        self._leave_worker(alive=False)
        self._maybe_end()

    def _leave_worker(self, *, alive: bool) -> None:
        self._empty = True
        if self._ending is not None:
            self._ending.cancel()
        if self._lent is not None:
            # What was ended by force may have been killed a moment ago, and a dying worker would still take a job.
            self._lent.spent = self._ending is not None
            self._lent.listener = None
            self._around.free(self._lent, alive=alive)
        self._lent = None
        self._settle()

    def _settle(self) -> None:
        if self.ended and self._empty and not self._settled:
            self._settled = True
            self._close_pipes()
            self._around.gone(self)

    def _drain(self) -> None:
        self._drained = True
        self._maybe_end()
        if not self.ended:
            self._around.loop.after(DRAIN_SECONDS, self._drain)  # the reader is slow, or a thief empties the pipe

    def _delivered(self, pipe: Pipe) -> bool:
        """Give whether all that was in a pipe at the exit was read, by us or by a process that took it away."""
        return self._owed[pipe] <= 0 or pipe.waiting() == 0

    def _maybe_end(self) -> None:
        if self.ended or self._status is None or (self._reason and not self._empty):
            return
        held = self.stdout.open or self.stderr.open
        if held and not (self._drained and all(map(self._delivered, self._owed))):
            return
        self.ended = True
        self._around.ended(self, self._report(held=held))
        self.resume()
        self._settle()

    def _report(self, *, held: bool) -> bytes:
        status = self._status or 0
        code = signaled = None
        if self._error[0]:
            reason = "start-failed" if self._is_command else "exited"
            code = None if self._is_command else 1
        elif self._reason:
            reason = self._reason
        elif os.WIFSIGNALED(status):
            reason, signaled = "signaled", os.WTERMSIG(status)
        else:
            reason, code = "exited", os.WEXITSTATUS(status)
        left = [] if self._empty or self._lent is None else tree.descendants(self._lent.pid)
        report = {
            "reason": reason,
            "exit_code": code,
            "signal": signaled,
            "stdout_bytes": self.stdout.total,
            "stderr_bytes": self.stderr.total,
            "duration": self._duration,
            "cpu": self._cpu,
            "held": held and not self._empty,
            "background": [[pid, tree.command_line(pid)] for pid in left[:MOST_BACKGROUND]],
            "error": self._error,
        }
        return json.dumps(report).encode("ascii")

    def _close_pipes(self) -> None:
        self.stdout.close()
        self.stderr.close()
        if self.feed:
            self.feed.close()
