"""A call's input: what the gateway sent, waiting for the command to read it."""

from __future__ import annotations

import os
from collections import deque
from typing import Callable

from sandgate_providers.runner.loop import WRITE, Loop


class Feed:
    """The writing end of a command's standard input. At most the input window is held here."""

    def __init__(self, loop: Loop, grant: Callable[[int], None]) -> None:
        self._loop = loop
        self._grant = grant
        self._waiting: deque[memoryview] = deque()
        self._last = False
        self._watched = False
        self.held = 0
        """Bytes that wait here."""
        self.open = True
        self.reader, self.descriptor = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.descriptor, False)

    def give_reader_away(self) -> None:
        """Close our copy of the reading end once the worker holds one."""
        os.close(self.reader)
        self.reader = -1

    def add(self, data: bytes) -> None:
        """Queue input; what nobody will read any more is taken and forgotten."""
        if not self.open:
            self._grant(len(data))
            return
        self.held += len(data)
        self._waiting.append(memoryview(data))
        self._write(0)

    def end(self) -> None:
        """Close the input behind what waits."""
        self._last = True
        if self.open and not self._waiting:
            self.close()

    def close(self) -> None:
        """Close it and forget what waits. Idempotent."""
        if self._watched:
            self._loop.unwatch(self.descriptor)
            self._watched = False
        if self.open:
            self.open = False
            os.close(self.descriptor)
        if self.reader >= 0:
            self.give_reader_away()
        if self.held:
            self._grant(self.held)
            self.held = 0
            self._waiting.clear()

    def _write(self, _events: int) -> None:
        while self._waiting:
            try:
                count = os.write(self.descriptor, self._waiting[0])
            except BlockingIOError:
                break
            except BrokenPipeError:
                self.close()  # the command closed its input, as `head` does; that is no error
                return
            self.held -= count
            self._grant(count)
            rest = self._waiting[0][count:]
            if rest:
                self._waiting[0] = rest
            else:
                self._waiting.popleft()
        if self._waiting and not self._watched:
            self._loop.watch(self.descriptor, WRITE, self._write)
            self._watched = True
        elif not self._waiting:
            if self._watched:
                self._loop.unwatch(self.descriptor)
                self._watched = False
            if self._last:
                self.close()
