"""The runner as a whole: the loop, the lines, the calls, and the processes that nobody else waits for."""

from __future__ import annotations

import json
import os
import secrets
import signal
import time

from sandgate_providers.runner import frames, kernel, probe, tree
from sandgate_providers.runner.line import Line, LineOwner
from sandgate_providers.runner.loop import READ, Loop
from sandgate_providers.runner.pool import Pool
from sandgate_providers.runner.table import Table

REFILL_SECONDS = 0.005
SWEEP_SECONDS = 0.01
END_SECONDS = 1.0


class Runner:
    """Serves calls until its line is gone, it is told to end, or nobody speaks to it any more."""

    def __init__(self) -> None:
        self._loop = Loop()
        self._pool = Pool(self._loop)
        self._boot = secrets.token_hex(16)
        self._key = b""
        self._configured = False
        self._dead_man_seconds = 0.0
        self._refilling = False
        self._sweeping = False
        self._last_frame = time.monotonic()
        self._table = Table(self._loop, self._pool, self._boot, self._give_up, self._sweep_soon)
        self._lines: list[Line] = []

    def serve(self, source: int, sink: int) -> None:
        """Serve one line whose end is the sandbox's end."""
        kernel.refuse_tracing()
        kernel.adopt_orphans()
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # as process 1 it then cannot be interrupted from inside
        self._watch_children()
        owner = LineOwner(self._boot, self._key_for, self._line_says, self._table.resume, self._line_closed)
        line = Line(self._loop, source, sink, owner)
        self._lines.append(line)
        self._loop.each_round(line.flush)
        line.flush()
        self._loop.run()
        self._end()

    def _key_for(self, offered: bytes) -> bytes:
        if offered and not self._key:
            self._key = offered
        if not self._key or (offered and offered != self._key):
            raise frames.FrameError("no key, or another one")
        return self._key

    def _line_says(self, line: Line, kind: int, call: bytes, payload: bytes) -> None:
        self._last_frame = time.monotonic()
        if kind == frames.PING:
            line.speak(frames.PONG, call, payload)
        elif kind == frames.CONFIGURE:
            self._configure(line, payload)
        elif not self._configured:
            raise frames.FrameError("not configured")
        elif kind in (frames.EXEC, frames.OPERATE):
            self._table.begin(call, payload, line.speak)
        elif kind == frames.ACK:
            self._table.acknowledge(call)
        elif kind == frames.VOID:
            self._table.void(call)
        elif kind in (frames.INPUT, frames.INPUT_END, frames.WINDOW, frames.CANCEL):
            self._steer(kind, call, payload)
        else:
            raise frames.FrameError("unknown kind {}".format(kind))

    def _steer(self, kind: int, number: bytes, payload: bytes) -> None:
        call = self._table.find(number)
        if call is None:
            return  # it has ended; what was under way for it is late, not wrong
        if kind == frames.WINDOW:
            call.credit(frames.AMOUNT.unpack(payload)[0] if len(payload) == frames.AMOUNT.size else 0)
        elif kind == frames.CANCEL:
            call.cancel("cancelled")
        elif call.feed is None:
            raise frames.FrameError("input for a call that takes none")
        elif kind == frames.INPUT_END:
            call.feed.end()
        elif call.feed.held + len(payload) > frames.INPUT_WINDOW_BYTES:
            raise frames.FrameError("more input than the window allows")
        else:
            call.feed.add(payload)

    def _configure(self, line: Line, payload: bytes) -> None:
        if not self._configured:
            settings = json.loads(payload)
            self._configured = True
            self._dead_man_seconds = float(settings["dead_man_seconds"])
            self._table.configure(settings["environment"], int(settings["max_calls"]))
            facts = probe.facts(settings)
            self._pool.configure(settings, int(settings["idle_workers"]))
            self._loop.each_round(self._refill_soon)
            if self._dead_man_seconds > 0:
                self._loop.after(self._dead_man_seconds, self._check_dead_man)
        else:
            facts = []
        line.speak(frames.READY, frames.NO_CALL, json.dumps({"facts": facts}).encode("ascii"))

    def _refill_soon(self) -> None:
        """Fork when nothing else is to do: a fork takes some milliseconds, and calls must not wait for it."""
        if not self._refilling and self._pool.lacks():
            self._refilling = True
            self._loop.after(REFILL_SECONDS, self._refill)

    def _refill(self) -> None:
        self._refilling = False
        self._pool.refill()

    def _check_dead_man(self) -> None:
        left = self._last_frame + self._dead_man_seconds - time.monotonic()
        if left <= 0:
            self._loop.stop()
        else:
            self._loop.after(left, self._check_dead_man)

    def _watch_children(self) -> None:
        wake, signalled = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)

        def reap(_events: int) -> None:
            try:
                os.read(wake, 4096)
            except BlockingIOError:
                return
            self._reap()

        self._loop.watch(wake, READ, reap)

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._pool.forget(pid)

    def _sweep_soon(self) -> None:
        """Sweep at the end of this round, once for however many workers it found dead."""
        if not self._sweeping:
            self._sweeping = True
            self._loop.after(0, self._sweep)

    def _sweep(self) -> None:
        """Kill what dead workers left: our children that are no workers have no other parent any more.

        A worker's socket closes a moment before its children become ours, so that they may be missed until the worker
        itself could be waited for.
        """
        self._reap()
        dying = self._pool.dying()
        self._sweeping = bool(tree.kill(os.getpid(), self._pool.pids)) or dying
        if self._sweeping:
            self._loop.after(SWEEP_SECONDS, self._sweep)

    def _line_closed(self, line: Line) -> None:
        self._lines.remove(line)
        self._loop.stop()

    def _give_up(self) -> None:
        self._loop.stop()

    def _end(self) -> None:
        """End with everything below. As process 1 our own end kills the rest; elsewhere we kill it ourselves."""
        if os.getpid() != 1:
            deadline = time.monotonic() + END_SECONDS
            while tree.kill(os.getpid()) and time.monotonic() < deadline:
                self._reap()
        os._exit(0)
