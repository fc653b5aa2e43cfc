"""Keeping head and tail of an output."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from sandgate_gateway.tools.capture import HEAD_BYTES, TAIL_BYTES, OutputCapture


@given(pieces=st.lists(st.binary(max_size=60), max_size=30), head=st.integers(0, 100), tail=st.integers(0, 100))
def test_bytes_and_counts_are_exact(pieces: list[bytes], head: int, tail: int) -> None:
    """However the output is cut into pieces: all of it, or its exact first and last bytes, and its exact length."""
    capture = OutputCapture(head, tail)
    for piece in pieces:
        capture.add(piece)
    whole = b"".join(pieces)
    kept = capture.result()
    assert kept.total_bytes == len(whole)
    assert kept.omitted_bytes == max(0, len(whole) - head - tail)
    if kept.omitted_bytes:
        assert kept.gap_bytes == head
        assert kept.data[:head] == whole[:head]
        assert kept.data[head:] == whole[len(whole) - tail :]
    else:
        assert (kept.data, kept.gap_bytes) == (whole, 0)


def test_memory_is_bounded() -> None:
    """A gigabyte's worth of pieces takes no more than the head and some tails."""
    capture = OutputCapture()
    piece = bytes(64 * 1024)
    tracemalloc.start()
    for _ in range(2000):
        capture.add(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < HEAD_BYTES + 4 * TAIL_BYTES
    assert capture.result().total_bytes == 2000 * len(piece)
