"""Frames on a line: length, authentication code, body. Used by both ends.

    frame := length:u32  code:16 bytes  body          length counts code and body
    body  := kind:u8  call:16 bytes  payload

The code is an HMAC-SHA256, cut to 16 bytes, over a counter of this direction and the body. Keys are derived for each
line and direction, so a frame can be replayed neither later, nor on another line, nor back to its sender. Framing needs
neither half-close nor message borders.

A line begins with two open frames whose code is zero: HELLO from the runner (its boot nonce and a salt), then KEY from
the gateway (a salt and, on the first line of a runner's life, the key). From then on every frame carries its code.
"""

from __future__ import annotations

import hashlib
import hmac
import struct

VERSION = 1
CODE_BYTES = 16
CALL_BYTES = 16
KEY_BYTES = 32
SALT_BYTES = 16
NO_CALL = bytes(CALL_BYTES)
HEADER = struct.Struct("!I")
COUNTER = struct.Struct("!Q")
AMOUNT = struct.Struct("!I")

CHUNK_BYTES = 64 * 1024
"""Most output bytes in a frame: what a pipe holds, and small enough to interleave calls fairly."""
MAX_BODY_BYTES = 256 * 1024
"""Larger frames are refused by both ends."""
WINDOW_BYTES = 1024 * 1024
"""Output of a call that may be under way before its reader asks for more."""
INPUT_WINDOW_BYTES = 256 * 1024
"""Input of a call that may be under way before the command takes it."""

# From the gateway.
KEY = 1
CONFIGURE = 2
EXEC = 3
OPERATE = 4
INPUT = 5
INPUT_END = 6
WINDOW = 7
CANCEL = 8
ACK = 9
VOID = 10
PING = 11

# From the runner.
HELLO = 33
READY = 34
STDOUT = 35
STDERR = 36
END = 37
INPUT_WINDOW = 38
REFUSED = 39
PONG = 40


class FrameError(Exception):
    """A frame is forged, out of order, too large or malformed. The line it came on is of no more use."""


def session_keys(key: bytes, runner_salt: bytes, gateway_salt: bytes) -> tuple[bytes, bytes]:
    """Derive the two keys of a line: from the gateway to the runner, and back."""
    salts = runner_salt + gateway_salt
    down = hmac.new(key, b"sandgate line down" + salts, hashlib.sha256).digest()
    up = hmac.new(key, b"sandgate line up" + salts, hashlib.sha256).digest()
    return down, up


def open_frame(kind: int, payload: bytes) -> bytes:
    """Make one of the two frames that begin a line and carry no code."""
    return (
        HEADER.pack(CODE_BYTES + 1 + CALL_BYTES + len(payload)) + bytes(CODE_BYTES) + bytes([kind]) + NO_CALL + payload
    )


class Sealer:
    """Makes the frames of one direction of a line."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._counter = 0

    def seal(self, kind: int, call: bytes, payload: bytes = b"") -> bytes:
        """Make the next frame."""
        body = b"".join((bytes((kind,)), call, payload))
        code = hmac.digest(self._key, COUNTER.pack(self._counter) + body, "sha256")[:CODE_BYTES]
        self._counter += 1
        return b"".join((HEADER.pack(CODE_BYTES + len(body)), code, body))


class Opener:
    """Takes bytes of one direction of a line and gives its frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._key = b""
        self._counter = 0

    def start(self, key: bytes) -> None:
        """Check the code of each frame from now on."""
        self._key = key
        self._counter = 0

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        self._buffer += data

    def next(self) -> tuple[int, bytes, bytes] | None:
        """Give the next whole frame as kind, call and payload, or None.

        Raises:
            FrameError: it is too large, too small, or its code is wrong.
        """
        buffer = self._buffer
        if len(buffer) < HEADER.size:
            return None
        (length,) = HEADER.unpack_from(buffer)
        if not CODE_BYTES + 1 + CALL_BYTES <= length <= CODE_BYTES + MAX_BODY_BYTES:
            raise FrameError("frame of {} bytes".format(length))
        end = HEADER.size + length
        if len(buffer) < end:
            return None
        start = HEADER.size + CODE_BYTES
        code = bytes(buffer[HEADER.size : start])
        body = bytes(buffer[start:end])
        del buffer[:end]
        if self._key:
            expected = hmac.digest(self._key, COUNTER.pack(self._counter) + body, "sha256")[:CODE_BYTES]
            if not hmac.compare_digest(code, expected):
                raise FrameError("wrong code")
            self._counter += 1
        elif code != bytes(CODE_BYTES):
            raise FrameError("code before key")
        return body[0], body[1 : 1 + CALL_BYTES], body[1 + CALL_BYTES :]
