"""Sizes, times, counts and words: what is taken, and what is said of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgate_gateway.configuration.quantities import (
    Count,
    Duration,
    Size,
    Word,
    absolute_path,
    shown,
    size_text,
    switch,
    time_text,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1), ("1", 1), ("1B", 1), ("1KiB", 1024), ("512MiB", 512 << 20), ("1.5GiB", 3 << 29), ("2TiB", 2 << 40),
        ("1kb", 1000), ("10MB", 10**7), ("3 GB", 3 * 10**9), (" 1 mib ", 1 << 20),
    ],
)  # fmt: skip
def test_sizes(value: object, expected: int) -> None:
    """Binary and decimal units, and plain bytes."""
    assert Size()(value) == expected


@pytest.mark.parametrize(
    "value", ["1 GBB", "", "MiB", "-1", "1e3", "0x10", "1,5GiB", "\u0661MiB", True, None, 1.5, [1], "1K"]
)
def test_what_is_no_size(value: object) -> None:
    """It is shown as written, with an example."""
    with pytest.raises(ValueError, match="is no size; write for example 512MiB"):
        Size()(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (30, 30), (0.5, 0.5), ("30", 30), ("0.25", 0.25), ("30s", 30), ("10m", 600), ("1h30m", 5400), ("1h 30m", 5400),
        ("2d", 172800), ("500ms", 0.5), (" 1s ", 1),
    ],
)  # fmt: skip
def test_times(value: object, expected: float) -> None:
    """Units, several of them, and plain seconds."""
    assert Duration()(value) == expected


@pytest.mark.parametrize("value", ["", "x", "10 minutes", "-1s", "1e3s", "s", "1m30", True, None, ["1s"], "inf", "nan"])
def test_what_is_no_time(value: object) -> None:
    """It is shown as written, with an example."""
    with pytest.raises(ValueError, match="is no time; write for example 30s"):
        Duration()(value)


def test_ranges_are_told_in_units() -> None:
    """Zero, less than nothing and far too much are out of range; the message gives both ends."""
    with pytest.raises(ValueError, match="0 is out of range; from 1MiB to 1GiB"):
        Size(at_least=1 << 20, at_most=1 << 30)(0)
    with pytest.raises(ValueError, match='"2d" is out of range; from 500ms to 1d'):
        Duration(at_least=0.5, at_most=86400)("2d")
    with pytest.raises(ValueError, match="-1 is out of range"):
        Duration()(-1)
    for number in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="out of range"):
            Duration()(number)
    with pytest.raises(ValueError, match="0 is out of range; from 1 to 5"):
        Count(at_most=5)(0)


@pytest.mark.parametrize("value", [True, "5", 1.0, None, []])
def test_what_is_no_whole_number(value: object) -> None:
    """A truth value counts as a number in Python, and not here."""
    with pytest.raises(ValueError, match="is no whole number"):
        Count()(value)


def test_words_truth_values_and_paths() -> None:
    """Each says what is possible."""
    assert Word(("a", "b"))("a") == "a"
    with pytest.raises(ValueError, match='"c" is not possible; write a or b'):
        Word(("a", "b"))("c")
    assert switch(True) is True  # noqa: FBT003 - that is what is checked
    with pytest.raises(ValueError, match='"true" is neither true nor false'):
        switch("true")
    for bad in ("relative", "", 5, None, "/a\0b"):
        with pytest.raises(ValueError, match="is no absolute path"):
            absolute_path(bad)


@given(st.integers(min_value=1, max_value=1 << 45))
def test_a_size_written_is_the_size_read(size: int) -> None:
    """What is shown to people can be written into a file again."""
    assert Size()(size_text(size)) == size


@given(st.integers(min_value=1, max_value=366 * 86400 * 1000))
def test_a_time_written_is_the_time_read(milliseconds: int) -> None:
    """What is shown to people can be written into a file again."""
    seconds = milliseconds / 1000
    assert Duration()(time_text(seconds)) == pytest.approx(seconds)


@given(st.text(max_size=300) | st.integers() | st.floats() | st.none() | st.lists(st.text()))
def test_values_are_shown_short_and_on_one_line(value: object) -> None:
    """Whatever was written, a message stays one line of printable text."""
    text = shown(value)
    assert len(text) <= 60
    assert text.isprintable()
