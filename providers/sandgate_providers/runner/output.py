"""A call's output pipes: read as far as the reader's window allows, to the end or until the command is done."""

from __future__ import annotations

import array
import fcntl
import os
import termios
from typing import Callable

from sandgate_providers.runner import frames
from sandgate_providers.runner.loop import READ, Loop


class Pipe:
    """The reading end of one output of a command."""

    def __init__(self, loop: Loop, kind: int, take: Callable[[Pipe], None]) -> None:
        self.kind = kind
        """`frames.STDOUT` or `frames.STDERR`."""
        self.total = 0
        """Bytes that came before the end of the call."""
        self.open = True
        self._loop = loop
        self._take = take
        self._watched = False
        self.descriptor, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.descriptor, False)

    def give_writer_away(self) -> None:
        """Close our copy of the writing end once the worker holds one."""
        os.close(self.writer)
        self.writer = -1

    def resume(self) -> None:
        """Read when there is something."""
        if self.open and not self._watched:
            self._loop.watch(self.descriptor, READ, self._ready)
            self._watched = True

    def pause(self) -> None:
        """Leave it in the pipe, so that the command waits."""
        if self._watched:
            self._loop.unwatch(self.descriptor)
            self._watched = False

    def read(self, most: int) -> bytes:
        """Read what is there; empty at the end, and then closed, or when a command read it first through /proc."""
        try:
            data = os.read(self.descriptor, min(most, frames.CHUNK_BYTES))
        except BlockingIOError:
            return b""
        if not data:
            self.close()
        return data

    def waiting(self) -> int:
        """Give how many bytes are in the pipe."""
        if not self.open:
            return 0
        answer = array.array("i", [0])
        fcntl.ioctl(self.descriptor, termios.FIONREAD, answer)
        return answer[0]

    def close(self) -> None:
        """Close it. Idempotent."""
        self.pause()
        if self.open:
            self.open = False
            os.close(self.descriptor)
        if self.writer >= 0:
            self.give_writer_away()

    def _ready(self, _events: int) -> None:
        self._take(self)
