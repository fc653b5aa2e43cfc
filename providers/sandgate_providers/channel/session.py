"""The beginning of a line, and its frames in and out, as the gateway sees them."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable

from sandgate_providers.channel.configuration import RunnerConfiguration
from sandgate_providers.channel.transport import ByteStream
from sandgate_providers.errors import SandboxLost
from sandgate_providers.runner import frames
from sandgate_providers.types import FactSource, IsolationFact

Frame = tuple[int, bytes, bytes]


class Session:
    """An authenticated line: both keys are derived, and every frame from now on carries its code."""

    def __init__(self, stream: ByteStream, opener: frames.Opener, sealer: frames.Sealer, boot: str) -> None:
        self.boot = boot
        """The runner's boot nonce: another one means another runner, which knows nothing of our calls."""
        self._stream = stream
        self._opener = opener
        self._sealer = sealer

    @classmethod
    async def begin(cls, stream: ByteStream, key: bytes) -> Session:
        """Read HELLO, answer with KEY. Raises SandboxLost when the other end is gone or speaks otherwise."""
        opener = frames.Opener()
        kind, _, payload = await _next(stream, opener)
        try:
            hello = json.loads(payload)
            boot, salt, version = str(hello["boot"]), bytes.fromhex(hello["salt"]), hello["version"]
        except (ValueError, KeyError, TypeError) as error:
            raise SandboxLost("the runner's first frame cannot be read") from error
        if kind != frames.HELLO or len(salt) != frames.SALT_BYTES:
            raise SandboxLost("the line did not begin with the runner's hello")
        if version != frames.VERSION:
            raise SandboxLost(f"the runner speaks version {version}, this gateway {frames.VERSION}")
        ours = secrets.token_bytes(frames.SALT_BYTES)
        down, up = frames.session_keys(key, salt, ours)
        stream.write(frames.open_frame(frames.KEY, ours + key))
        opener.start(up)
        return cls(stream, opener, frames.Sealer(down), boot)

    async def configure(self, configuration: RunnerConfiguration) -> tuple[IsolationFact, ...]:
        """Send the configuration; give what the runner found out about its surroundings before the first command."""
        self.send(frames.CONFIGURE, frames.NO_CALL, json.dumps(configuration.to_json()).encode("ascii"))
        kind, _, payload = await _next(self._stream, self._opener)
        if kind != frames.READY:
            raise SandboxLost("the runner did not take its configuration")
        return tuple(
            IsolationFact(
                name=str(fact["name"]),
                enforced=fact["enforced"] is True,
                detail=str(fact["detail"]),
                source=FactSource.PROBE,
            )
            for fact in json.loads(payload)["facts"]
        )

    def send(self, kind: int, call: bytes, payload: bytes = b"") -> None:
        """Queue a frame."""
        self._stream.write(self._sealer.seal(kind, call, payload))

    def send_all(self, frames_to_send: Iterable[Frame]) -> None:
        """Queue several frames with one write, which wakes the runner once."""
        self._stream.write(b"".join([self._sealer.seal(*frame) for frame in frames_to_send]))

    async def receive(self) -> list[Frame]:
        """Wait for frames; none: the line is gone. Raises FrameError for a forged or broken one."""
        while True:
            data = await self._stream.read()
            if not data:
                return []
            self._opener.feed(data)
            received = []
            frame = self._opener.next()
            while frame is not None:
                received.append(frame)
                frame = self._opener.next()
            if received:
                return received

    async def close(self) -> None:
        """Close the line."""
        await self._stream.close()


async def _next(stream: ByteStream, opener: frames.Opener) -> Frame:
    """Wait for one frame while the line is being set up, when each side waits for the other in turn."""
    while True:
        try:
            frame = opener.next()
        except frames.FrameError as error:
            raise SandboxLost(f"the line to the runner is broken: {error}") from error
        if frame is not None:
            return frame
        data = await stream.read()
        if not data:
            raise SandboxLost("the sandbox ended before its runner was ready")
        opener.feed(data)


async def begin_within(
    stream: ByteStream, key: bytes, configuration: RunnerConfiguration, seconds: float
) -> tuple[Session, tuple[IsolationFact, ...]]:
    """Set a line up, or raise SandboxLost when that takes too long."""
    try:
        async with asyncio.timeout(seconds):
            session = await Session.begin(stream, key)
            return session, await session.configure(configuration)
    except TimeoutError as error:
        raise SandboxLost(f"the runner was not ready within {seconds:g} s") from error
