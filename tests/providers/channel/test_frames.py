"""Frames keep their borders and refuse what was changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgate_providers.runner import frames

CALL = bytes(16)
PAYLOADS = st.lists(st.tuples(st.integers(1, 255), st.binary(max_size=2000)), max_size=8)


@given(payloads=PAYLOADS, cuts=st.lists(st.integers(1, 500), max_size=40))
def test_frames_survive_any_cutting(payloads: list[tuple[int, bytes]], cuts: list[int]) -> None:
    """However the bytes are split on their way, the same frames come out in order."""
    key = bytes(32)
    sealer, opener = frames.Sealer(key), frames.Opener()
    opener.start(key)
    data = b"".join(sealer.seal(kind, CALL, payload) for kind, payload in payloads)
    got = []
    for size in [*cuts, len(data) + 1]:
        opener.feed(data[:size])
        data = data[size:]
        while (frame := opener.next()) is not None:
            got.append((frame[0], frame[2]))
    assert got == payloads


@given(payload=st.binary(min_size=1, max_size=200), place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_changed_bit_is_noticed(payload: bytes, place: int, bit: int) -> None:
    """No bit of a frame can be changed without the frame being refused or still waited for."""
    key = bytes(32)
    data = bytearray(frames.Sealer(key).seal(1, CALL, payload))
    data[place % len(data)] ^= 1 << bit
    opener = frames.Opener()
    opener.start(key)
    opener.feed(bytes(data))
    try:
        assert opener.next() is None
    except frames.FrameError:
        return


def test_frames_cannot_be_replayed() -> None:
    """The same frame a second time is refused, for its counter has passed."""
    key = bytes(32)
    data = frames.Sealer(key).seal(1, CALL, b"x")
    opener = frames.Opener()
    opener.start(key)
    opener.feed(data + data)
    assert opener.next() == (1, CALL, b"x")
    with pytest.raises(frames.FrameError):
        opener.next()


def test_directions_and_lines_have_their_own_keys() -> None:
    """A frame cannot be sent back to its maker, nor used on another line."""
    down, up = frames.session_keys(b"k" * 32, b"a" * 16, b"b" * 16)
    other = frames.session_keys(b"k" * 32, b"a" * 16, b"c" * 16)
    assert len({down, up, *other}) == 4
