"""One line to a gateway: its bytes in and out, its beginning, and the frames that it may carry."""

from __future__ import annotations

import json
import os
import secrets
from collections import deque
from typing import Callable, Optional

from sandgate_providers.runner import frames
from sandgate_providers.runner.loop import READ, WRITE, Loop

READ_BYTES = 256 * 1024
CONGESTED_BYTES = 1024 * 1024
"""Pipes are not read while so much waits to be sent."""


class Line:
    """A duplex line over two descriptors. Nothing is believed before it carries the right code."""

    def __init__(self, loop: Loop, source: int, sink: int, owner: LineOwner) -> None:
        self._loop = loop
        self._source = source
        self._sink = sink
        self._owner = owner
        self._opener = frames.Opener()
        self._sealer: Optional[frames.Sealer] = None
        self._salt = secrets.token_bytes(frames.SALT_BYTES)
        self._out: deque[memoryview] = deque()
        self._out_bytes = 0
        self._watched = False
        self._alive = True
        os.set_blocking(source, False)
        os.set_blocking(sink, False)
        loop.watch(source, READ, self._readable)
        hello = {"version": frames.VERSION, "boot": owner.boot, "salt": self._salt.hex()}
        self._send(frames.open_frame(frames.HELLO, json.dumps(hello).encode("ascii")))

    def speak(self, kind: int, call: bytes, payload: bytes) -> bool:
        """Send a frame; false when more should wait. What is said on a dead line is lost, the calls are not."""
        if self._alive and self._sealer is not None:
            self._send(self._sealer.seal(kind, call, payload))
        return self._out_bytes < CONGESTED_BYTES

    def close(self) -> None:
        """Close it, from either side. Idempotent."""
        if not self._alive:
            return
        self._alive = False
        self._loop.unwatch(self._source)
        if self._watched:
            self._loop.unwatch(self._sink)
        self._out.clear()
        self._out_bytes = 0
        self._owner.line_closed(self)

    def flush(self) -> None:
        """Write what this round produced."""
        if self._out and not self._watched:
            self._writable(0)

    def _send(self, data: bytes) -> None:
        self._out.append(memoryview(data))
        self._out_bytes += len(data)

    def _writable(self, _events: int) -> None:
        congested = self._out_bytes >= CONGESTED_BYTES
        try:
            while self._out:
                count = os.writev(self._sink, list(self._out)[:64])
                self._out_bytes -= count
                while self._out and count >= len(self._out[0]):
                    count -= len(self._out.popleft())
                if count:
                    self._out[0] = self._out[0][count:]
        except BlockingIOError:
            pass  # the pipe is full: wait for the event below
        except OSError:
            self.close()
            return
        if bool(self._out) != self._watched:
            self._watched = bool(self._out)
            if self._watched:
                self._loop.watch(self._sink, WRITE, self._writable)
            else:
                self._loop.unwatch(self._sink)
        if congested and self._out_bytes < CONGESTED_BYTES:
            self._owner.line_flows()

    def _readable(self, _events: int) -> None:
        try:
            data = os.read(self._source, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._opener.feed(data)
        try:
            frame = self._opener.next()
            while frame is not None and self._alive:
                self._take(*frame)
                frame = self._opener.next()
        except (frames.FrameError, ValueError, KeyError, TypeError, RecursionError):
            self.close()  # a forged or broken frame costs this line, nothing else

    def _take(self, kind: int, call: bytes, payload: bytes) -> None:
        if self._sealer is not None:
            self._owner.line_says(self, kind, call, payload)
            return
        if kind != frames.KEY or len(payload) not in (frames.SALT_BYTES, frames.SALT_BYTES + frames.KEY_BYTES):
            raise frames.FrameError("a line begins with KEY")
        key = self._owner.key_for(payload[frames.SALT_BYTES :])
        down, up = frames.session_keys(key, self._salt, payload[: frames.SALT_BYTES])
        self._opener.start(down)
        self._sealer = frames.Sealer(up)


class LineOwner:
    """What a line needs of the runner."""

    def __init__(
        self,
        boot: str,
        key_for: Callable[[bytes], bytes],
        line_says: Callable[[Line, int, bytes, bytes], None],
        line_flows: Callable[[], None],
        line_closed: Callable[[Line], None],
    ) -> None:
        self.boot = boot
        self.key_for = key_for
        """Give the key of this runner's life; takes one that is offered only if there is none yet."""
        self.line_says = line_says
        self.line_flows = line_flows
        self.line_closed = line_closed
