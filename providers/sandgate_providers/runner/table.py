"""Every call that this runner ever took: what runs, what waits for its ack, and what may never run again."""

from __future__ import annotations

import errno
import json
import os
import resource
from typing import Callable, Optional

from sandgate_providers.runner import frames
from sandgate_providers.runner.calls import RunningCall, Surroundings
from sandgate_providers.runner.loop import Loop
from sandgate_providers.runner.pool import LentWorker, Pool, WorkerGone
from sandgate_providers.runner.worker import Job

MOST_TRIES = 8
"""So many workers in a row may turn out to be dead before a call is refused."""
OWN_DESCRIPTORS = 32
"""What the runner keeps for itself: its line, its loop, idle workers, and what it opens in passing."""
CALL_DESCRIPTORS = 4
"""Of each call: its worker, two outputs, an input."""

Speak = Callable[[int, bytes, bytes], bool]


class Table:
    """Takes calls and gives each to a worker. A call id is good for one call in the runner's whole life."""

    def __init__(
        self, loop: Loop, pool: Pool, boot: str, give_up: Callable[[], None], orphaned: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._pool = pool
        self._boot = boot
        self._give_up = give_up
        self._orphaned = orphaned
        self._nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self._environment: dict[str, str] = {}
        self._most = 0
        self._running: dict[bytes, RunningCall] = {}
        self._finished: dict[bytes, bytes] = {}
        self._seen: set[bytes] = set()
        self._void: set[bytes] = set()

    def configure(self, environment: dict[str, str], most: int) -> None:
        """Say what commands find in their environment, and how many calls there may be at once.

        There are fewer where there are too few descriptors: without one the runner could not even end a call.
        """
        _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._environment = environment
        self._most = most
        if limit != resource.RLIM_INFINITY:
            self._most = max(1, min(most, (limit - OWN_DESCRIPTORS) // CALL_DESCRIPTORS))

    def begin(self, number: bytes, payload: bytes, speak: Speak) -> None:
        """Take a call, or say REFUSED and why. A call that ended and waits for its ack says its END again."""
        if number in self._finished:
            speak(frames.END, number, self._finished[number])
            return
        try:
            job = self._read(number, payload)
            self._start(number, job, speak)
        except Refused as refusal:
            answer = {"reason": refusal.reason, "message": str(refusal)}
            speak(frames.REFUSED, number, json.dumps(answer).encode("ascii"))

    def find(self, number: bytes) -> Optional[RunningCall]:
        """Give a call that has not ended."""
        call = self._running.get(number)
        return None if call is None or call.ended else call

    def acknowledge(self, number: bytes) -> None:
        """Forget the result of a call that its caller holds now."""
        self._finished.pop(number, None)

    def void(self, number: bytes) -> None:
        """Never run this call: refuse it if it comes later, end it if it runs."""
        self._void.add(number)
        self._finished.pop(number, None)
        call = self.find(number)
        if call is not None:
            call.cancel("cancelled")

    def resume(self) -> None:
        """Read all pipes again after a congestion."""
        for call in self._running.values():
            call.resume()

    def _read(self, number: bytes, payload: bytes) -> Job:
        if number in self._void:
            raise Refused("void", "the call was given up before")
        if number in self._seen:
            raise Refused("repeated", "the call id was used before")
        if len(self._running) + len(self._finished) >= self._most:
            raise Refused("full", "{} calls run or wait for their ack".format(self._most))
        try:
            job: Job = json.loads(payload)
            if job["boot"] != self._boot:
                raise Refused("other-boot", "this runner is not the one that was meant")
            job["timeout"] = max(0.0, float(job["timeout"]))
            job["output_limit"] = max(0, int(job.get("output_limit", 0)))
            if "argv" in job:
                job["argv"] = words(job["argv"])
                job["cwd"] = text(job["cwd"])
                job["grace"] = max(0.0, float(job["grace"]))
                extra = {variable(name): text(value) for name, value in job["environment"].items()}
                job["environment"] = {**self._environment, **extra}
            else:
                text(job["operation"])
                dict(job["arguments"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Refused("malformed", "the call cannot be read ({})".format(type(error).__name__)) from error
        return job

    def _start(self, number: bytes, job: Job, speak: Speak) -> None:
        def ended(call: RunningCall, report: bytes) -> None:
            if call.number not in self._void:
                self._finished[call.number] = report
            speak(frames.END, call.number, report)

        around = Surroundings(self._loop, speak, ended, self._free, self._gone, self._give_up)
        try:
            call = RunningCall(number, job, around)
        except OSError as error:
            raise Refused("no-descriptors", "no pipe can be made: {}".format(error.strerror)) from error
        try:
            self._hand_over(call)
        except OSError as error:
            call.abandon()
            if error.errno == errno.EMSGSIZE:
                raise Refused("too-large", "the call's arguments and environment are too large") from error
            raise Refused("no-process", "no process can be made: {}".format(error.strerror)) from error
        self._seen.add(number)
        self._running[number] = call

    def _hand_over(self, call: RunningCall) -> None:
        for _ in range(MOST_TRIES):
            lent = self._pool.take()
            try:
                call.start(lent, self._nothing)
            except WorkerGone:
                lent.close()  # something inside killed it while it waited; the next one may live
            except OSError:
                self._pool.give_back(lent)
                raise
            else:
                return
        raise OSError(errno.EAGAIN, "workers are killed as fast as they are made")

    def _free(self, lent: LentWorker, *, alive: bool) -> None:
        if alive:
            self._pool.give_back(lent)
        else:
            self._pool.bury(lent)
            self._orphaned()

    def _gone(self, call: RunningCall) -> None:
        self._running.pop(call.number, None)


class Refused(Exception):
    """A call is not taken; nothing ran."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def words(value: object) -> list[str]:
    """Check an argument list: at least the program."""
    if not isinstance(value, list) or not value:
        raise ValueError("not a list of words")
    return [text(word) for word in value]


def variable(value: object) -> str:
    """Check that a word can be the name of an environment's variable."""
    name = text(value)
    if not name or "=" in name:
        raise ValueError("not a name")
    return name


def text(value: object) -> str:
    """Check that a word of a call can be handed to the kernel."""
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("not a word")
    os.fsencode(value)
    return value
