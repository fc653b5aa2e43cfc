"""One call as the gateway sees it: output as it comes, its input, its one end."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable

from sandgate_providers.channel.types import Background, Chunk, End, ProcessEnd, Stream
from sandgate_providers.errors import CallRefused, ProviderError, SandboxLost
from sandgate_providers.runner import frames
from sandgate_providers.types import JsonValue

MOST_VALUE_BYTES = 8 * 1024 * 1024
"""Longest answer of a file operation that is taken from a sandbox."""
_CREDIT_BYTES = frames.WINDOW_BYTES // 4
"""Credit is given in portions, so that it costs one frame for several chunks."""
_MOST_CHUNKS = 1024
"""So many pieces wait unread at most: one that holds a single byte takes as much room as a hundred."""

Send = Callable[[int, bytes, bytes], None]


class RunnerCall:
    """Implements `contract.Call`. At most the window (1 MiB) of unread output is held."""

    def __init__(self, number: bytes, send: Send, *, operation: bool, with_input: bool) -> None:
        self.number = number
        self.ended: End | None = None
        self._send = send
        self._operation = operation
        self._value = bytearray()
        self._chunks: deque[Chunk] = deque()
        self._held = 0
        self._discard = False
        self._owed = 0
        self._input_window = frames.INPUT_WINDOW_BYTES
        self._with_input = with_input
        self._input_open = with_input
        self._error: ProviderError | None = None
        self._changed: list[asyncio.Future[None]] = []

    async def chunks(self) -> AsyncIterator[Chunk]:
        """Yield output until the end."""
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                yield chunk
                self._release(chunk)
            if self.ended is not None:
                return
            await self._change()

    async def end(self) -> End:
        """Wait for the end; unread output is discarded."""
        self._discard = True
        while self._chunks:
            self._release(self._chunks.popleft())
        while self.ended is None:
            await self._change()
        return self.ended

    async def send(self, data: bytes) -> None:
        """Send input within the command's window. Raises ValueError for a call that was opened without input."""
        if not self._with_input:
            raise ValueError("the call was opened without input")
        view = memoryview(data)
        while view and self.ended is None:
            if self._input_window <= 0:
                await self._change()
                continue
            piece = view[: min(self._input_window, frames.CHUNK_BYTES)]
            self._input_window -= len(piece)
            self._send(frames.INPUT, self.number, bytes(piece))
            view = view[len(piece) :]

    async def close_input(self) -> None:
        """End the input. Idempotent."""
        if self._input_open and self.ended is None:
            self._input_open = False
            self._send(frames.INPUT_END, self.number, b"")

    async def cancel(self) -> None:
        """Ask for the end of the tree."""
        if self.ended is None:
            self._send(frames.CANCEL, self.number, b"")

    def take(self, kind: int, payload: bytes) -> None:
        """Take a frame of this call from the line. Raises FrameError when it is none that may come."""
        if self.ended is not None:
            raise frames.FrameError("a frame behind the end")
        if kind == frames.STDOUT:
            self._take_output(Stream.STDOUT, payload)
        elif kind == frames.STDERR:
            self._take_output(Stream.STDERR, payload)
        elif kind == frames.INPUT_WINDOW and len(payload) == frames.AMOUNT.size:
            self._input_window += frames.AMOUNT.unpack(payload)[0]
        elif kind == frames.END:
            self.ended = self._read_end(payload)
        elif kind == frames.REFUSED:
            self._refuse(payload)
        else:
            raise frames.FrameError(f"kind {kind} for a call")
        self._wake()

    def lose(self) -> None:
        """The sandbox is gone: this is how the call ended."""
        if self.ended is None:
            self.ended = End(reason=ProcessEnd.SANDBOX_LOST)
            self._wake()

    def check(self) -> None:
        """Raise what speaks against the call having been taken at all."""
        if self._error is not None:
            raise self._error

    def _take_output(self, stream: Stream, data: bytes) -> None:
        if self._operation and stream is Stream.STDERR:
            self._value += data
            if len(self._value) > MOST_VALUE_BYTES:
                raise frames.FrameError("an answer that is too long")
            self._credit(len(data))
        elif self._discard:
            self._credit(len(data))
        else:
            self._held += len(data)
            if self._held > frames.WINDOW_BYTES:
                raise frames.FrameError("more output than the window allows")
            self._chunks.append(Chunk(stream, data))
            if len(self._chunks) >= _MOST_CHUNKS:
                self._join_chunks()

    def _join_chunks(self) -> None:
        """Make few large pieces of many small ones; how the two streams took turns is lost, each stays in order."""
        chunks, self._chunks = self._chunks, deque()
        for stream in Stream:
            data = b"".join([chunk.data for chunk in chunks if chunk.stream is stream])
            for at in range(0, len(data), frames.CHUNK_BYTES):
                self._chunks.append(Chunk(stream, data[at : at + frames.CHUNK_BYTES]))

    def _release(self, chunk: Chunk) -> None:
        self._held -= len(chunk.data)
        self._credit(len(chunk.data))

    def _credit(self, amount: int) -> None:
        self._owed += amount
        if self._owed >= _CREDIT_BYTES and self.ended is None:
            self._send(frames.WINDOW, self.number, frames.AMOUNT.pack(self._owed))
            self._owed = 0

    def _refuse(self, payload: bytes) -> None:
        try:
            answer = json.loads(payload)
            self._error = CallRefused(str(answer["reason"]), str(answer["message"]))
        except (ValueError, KeyError, TypeError) as error:
            raise frames.FrameError("a refusal that cannot be read") from error
        self.ended = End(reason=ProcessEnd.START_FAILED, error_code=self._error.reason, error_message=str(self._error))

    def _read_end(self, payload: bytes) -> End:
        try:
            report = json.loads(payload)
            code, message = report["error"]
            value: JsonValue = json.loads(bytes(self._value)) if self._value and not code else None
            return End(
                reason=ProcessEnd(report["reason"]),
                exit_code=None if report["exit_code"] is None else int(report["exit_code"]),
                signal=None if report["signal"] is None else int(report["signal"]),
                stdout_bytes=int(report["stdout_bytes"]),
                stderr_bytes=0 if self._operation else int(report["stderr_bytes"]),
                duration_seconds=float(report["duration"]),
                cpu_seconds=float(report["cpu"]),
                output_held=report["held"] is True,
                background=tuple(Background(pid=int(pid), command=str(line)) for pid, line in report["background"]),
                value=value,
                error_code=str(code),
                error_message=str(message),
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise frames.FrameError("an end that cannot be read") from error

    async def _change(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._changed.append(future)
        try:
            await future
        finally:
            if future in self._changed:  # who stops waiting leaves nothing behind
                self._changed.remove(future)

    def _wake(self) -> None:
        waiting, self._changed = self._changed, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


def lost_before_start() -> SandboxLost:
    """Say that a call could not even be sent."""
    return SandboxLost("the sandbox was gone before the call; nothing ran")
