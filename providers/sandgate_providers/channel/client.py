"""The gateway's end of a line: many calls at once over one stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator

from sandgate_providers.channel.call import RunnerCall, lost_before_start
from sandgate_providers.channel.configuration import RunnerConfiguration
from sandgate_providers.channel.session import Frame, Session, begin_within
from sandgate_providers.channel.transport import ByteStream
from sandgate_providers.channel.types import Command, FileOperation
from sandgate_providers.errors import CallRefused, ChannelClosed, SandboxLost
from sandgate_providers.runner import frames
from sandgate_providers.types import IsolationFact, JsonValue

PING_SECONDS = 15.0
"""Between signs of life, which also feed the runner's dead-man timer."""
SILENCE_SECONDS = 5.0
"""A line that does not answer a ping within this is dead."""
ACK_SECONDS = 0.05
"""An ack travels with the next call, or after this: on its own it would only wake the runner for nothing."""
MOST_ACKS = 32
"""So many acks are sent at once, before the runner's table of results fills up."""
END_MARGIN_SECONDS = 3.0
"""A cancelled tree is gone within its grace and one second; who says nothing after this has lost its sandbox."""

_log = logging.getLogger(__name__)


class RunnerChannel:
    """Implements `contract.Channel` over a byte stream whose other end is a runner."""

    def __init__(self, session: Session, facts: tuple[IsolationFact, ...]) -> None:
        self._session = session
        self._facts = facts
        self._calls: dict[bytes, RunnerCall] = {}
        self._pongs: dict[bytes, asyncio.Future[None]] = {}
        self._closed = asyncio.Event()
        self._closed_by_us = False
        self._acks: list[bytes] = []
        self._ack_timer: asyncio.TimerHandle | None = None
        self._reader = asyncio.create_task(self._read(), name="channel reader")
        self._pinger = asyncio.create_task(self._keep_alive(), name="channel keepalive")

    @classmethod
    async def connect(
        cls,
        stream: ByteStream,
        *,
        key: bytes,
        configuration: RunnerConfiguration,
        timeout_seconds: float = 10.0,
    ) -> RunnerChannel:
        """Set up the line to a fresh runner: exchange keys, configure it, learn what it sees around it.

        Raises:
            SandboxLost: the runner ended, does not speak our version, or was not ready in time. The stream is closed.
        """
        try:
            session, facts = await begin_within(stream, key, configuration, timeout_seconds)
        except BaseException:
            await stream.close()
            raise
        return cls(session, facts)

    @property
    def facts(self) -> tuple[IsolationFact, ...]:
        """What the runner saw around it before the first command."""
        return self._facts

    @property
    def alive(self) -> bool:
        """True while the line stands."""
        return not self._closed.is_set()

    @contextlib.asynccontextmanager
    async def open(self, work: Command | FileOperation) -> AsyncIterator[RunnerCall]:
        """Start a call; leaving before its end cancels it and waits until its tree is gone."""
        self._check_open()
        number = uuid.uuid4().bytes
        payload = json.dumps(_job(work, self._session.boot), ensure_ascii=False).encode("utf-8", "surrogatepass")
        kind = frames.EXEC if isinstance(work, Command) else frames.OPERATE
        if len(payload) > frames.MAX_BODY_BYTES - frames.CALL_BYTES - 1:
            raise CallRefused("too-large", "the call's arguments and environment are too large")
        call = RunnerCall(number, self._session.send, operation=kind == frames.OPERATE, with_input=work.with_input)
        self._calls[number] = call
        try:
            self._session.send_all([*self._take_acks(), (kind, number, payload)])
            yield call
            call.check()
        finally:
            await self._leave(call, work)

    async def ping(self) -> float:
        """Measure one round trip."""
        self._check_open()
        number = uuid.uuid4().bytes
        pong = self._pongs[number] = asyncio.get_running_loop().create_future()
        begun = time.perf_counter()
        try:
            self._session.send(frames.PING, number)
            async with asyncio.timeout(SILENCE_SECONDS):
                await pong
        except TimeoutError as error:
            raise SandboxLost(f"the runner did not answer within {SILENCE_SECONDS:g} s") from error
        finally:
            del self._pongs[number]
        return time.perf_counter() - begun

    async def wait_closed(self) -> None:
        """Wait until the line is closed."""
        await self._closed.wait()

    async def close(self) -> None:
        """Close the line and everything that waits on it. Idempotent."""
        self._closed_by_us = True
        self._pinger.cancel()
        await self._session.close()
        self._reader.cancel()
        await asyncio.wait([self._pinger, self._reader])
        self._shut()

    def _check_open(self) -> None:
        if self._closed_by_us:
            raise ChannelClosed("the channel was closed")
        if self._closed.is_set():
            raise lost_before_start()

    async def _leave(self, call: RunnerCall, work: Command | FileOperation) -> None:
        """End a call whose caller leaves, in a step that the caller's own cancellation does not cut short."""
        try:
            if call.ended is None:
                grace = work.grace_seconds if isinstance(work, Command) else 0.0
                await _finish(asyncio.ensure_future(self._end(call, grace + END_MARGIN_SECONDS)))
        finally:
            self._forget(call)

    def _forget(self, call: RunnerCall) -> None:
        del self._calls[call.number]
        self._acks.append(call.number)
        if len(self._acks) >= MOST_ACKS:
            self._flush_acks()
        elif self._ack_timer is None:
            self._ack_timer = asyncio.get_running_loop().call_later(ACK_SECONDS, self._flush_acks)

    def _take_acks(self) -> list[Frame]:
        acks, self._acks = self._acks, []
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        return [(frames.ACK, number, b"") for number in acks]

    def _flush_acks(self) -> None:
        acks = self._take_acks()
        if self.alive and acks:
            self._session.send_all(acks)

    async def _end(self, call: RunnerCall, seconds: float) -> None:
        await call.cancel()
        try:
            async with asyncio.timeout(seconds):
                await call.end()
        except TimeoutError:
            _log.error("a cancelled call did not end within %g s; its sandbox is given up", seconds)
            await self._session.close()
            self._shut()

    async def _read(self) -> None:
        try:
            while received := await self._session.receive():
                for kind, number, payload in received:
                    self._take(kind, number, payload)
        except frames.FrameError as error:
            _log.error("a line to a sandbox is given up: %s", error)
            await self._session.close()
        finally:
            self._shut()

    def _take(self, kind: int, number: bytes, payload: bytes) -> None:
        if kind == frames.PONG:
            pong = self._pongs.get(number)
            if pong is not None and not pong.done():
                pong.set_result(None)
            return
        call = self._calls.get(number)
        if call is not None:
            call.take(kind, payload)
        elif kind not in (frames.STDOUT, frames.STDERR, frames.INPUT_WINDOW):
            raise frames.FrameError(f"kind {kind} for no call of ours")

    def _shut(self) -> None:
        self._closed.set()
        self._take_acks()
        for call in self._calls.values():
            call.lose()
        for pong in self._pongs.values():
            if not pong.done():
                pong.set_exception(SandboxLost("the sandbox ended"))

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            try:
                await self.ping()
            except SandboxLost as error:
                if self.alive:
                    _log.error("a line to a sandbox is given up: %s", error)
                    await self._session.close()
                    self._shut()
                return


async def _finish(task: asyncio.Future[None]) -> None:
    """Wait for a bounded step to its end even when cancelled meanwhile; the cancellation is passed on afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


def _job(work: Command | FileOperation, boot: str) -> dict[str, JsonValue]:
    """Say what to do as the runner reads it."""
    if isinstance(work, Command):
        return {
            "boot": boot,
            "argv": list(work.argv),
            "cwd": work.working_directory,
            "environment": dict(work.environment),
            "timeout": work.timeout_seconds,
            "grace": work.grace_seconds,
            "input": work.with_input,
            "output_limit": work.output_limit_bytes,
        }
    return {
        "boot": boot,
        "operation": work.name,
        "arguments": dict(work.arguments),
        "timeout": work.timeout_seconds,
        "input": work.with_input,
    }
