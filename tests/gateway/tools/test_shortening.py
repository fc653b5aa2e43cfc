"""Cutting text to what a model shall see."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgate_gateway.tools.shortening import Shortened, shorten_head, shorten_middle

TEXTS = st.text(alphabet=st.one_of(st.just("\n"), st.characters()), max_size=600)
SHORTEN: list[Callable[..., Shortened]] = [shorten_head, shorten_middle]


def note(_head: str, omitted: int) -> str:
    """Say how much is left out."""
    return f"[… {omitted:,} left out …]"


@pytest.mark.parametrize("shorten", SHORTEN)
@given(text=TEXTS, limit=st.integers(1, 300), limit_bytes=st.integers(1, 600))
def test_never_above_the_limits(shorten: Callable[..., Shortened], text: str, limit: int, limit_bytes: int) -> None:
    """For any text, lone surrogates included, and any limits in characters and bytes."""
    result = shorten(text, limit, note, limit_bytes=limit_bytes)
    assert len(result.text) <= limit
    assert len(result.text.encode("utf-8")) <= limit_bytes


@pytest.mark.parametrize("shorten", SHORTEN)
@given(text=st.text(alphabet="ab\nü🎈", max_size=600), limit=st.integers(1, 300))
def test_what_is_kept_is_of_the_text(shorten: Callable[..., Shortened], text: str, limit: int) -> None:
    """A text that fits is as it was; else what stands before the note begins it, and what stands behind ends it."""
    result = shorten(text, limit, note)
    if len(text) <= limit:
        assert (result.text, result.omitted) == (text, 0)
        return
    assert text.startswith(result.kept)
    assert result.omitted > 0
    line = note("", result.omitted)
    if line in result.text:
        head, _, tail = result.text.partition(line)
        assert head.removesuffix("\n") == result.kept.removesuffix("\n")
        assert text.endswith(tail.removeprefix("\n"))
        assert len(result.kept) + len(tail.removeprefix("\n")) + result.omitted == len(text)


@given(text=st.text(alphabet="ab\n", min_size=100, max_size=600), limit=st.integers(60, 90))
def test_a_head_ends_with_a_line_unless_the_first_is_too_long(text: str, limit: int) -> None:
    """So that reading can go on with the next line."""
    kept = shorten_head(text, limit, note).kept
    assert kept.endswith("\n") or "\n" not in kept


def test_a_middle_cut_keeps_whole_lines_of_both_ends() -> None:
    """Head and tail are about equal, and the note stands on a line of its own."""
    lines = [f"line {number}" for number in range(1000)]
    result = shorten_middle("\n".join(lines), 500, note)
    shown = result.text.split("\n")
    at = next(index for index, line in enumerate(shown) if line.startswith("[…"))
    assert shown[:at] == lines[:at]
    assert shown[at + 1 :] == lines[-(len(shown) - at - 1) :]
    assert len(result.text) > 450


def test_one_long_line_is_cut_where_the_limit_is() -> None:
    """Without line ends nothing is wasted."""
    result = shorten_middle("x" * 10_000, 500, note)
    assert 490 <= len(result.text) <= 500
    assert result.text.startswith("x" * 200)
    assert result.text.endswith("x" * 200)


def test_zero_leaves_the_limit_in_bytes() -> None:
    """A text may then be long, but never above 64 KiB."""
    assert shorten_head("x" * 60_000, 0, note).omitted == 0
    assert len(shorten_head("x" * 70_000, 0, note).text) <= 64 * 1024


def test_an_incomplete_text_gets_its_note_though_it_fits() -> None:
    """A beginning that was cut before is not shown as if it were all."""
    assert shorten_head("a\nb\n", 100, note, incomplete=True).text == "a\nb\n[… 0 left out …]"
    assert len(shorten_head("a" * 100, 100, note, incomplete=True).text) <= 100


@pytest.mark.parametrize("shorten", SHORTEN)
def test_a_note_may_be_longer_when_less_is_kept(shorten: Callable[..., Shortened]) -> None:
    """For example one that counts what is left out, or says that the first line is too long."""

    def counting(head: str, _omitted: int) -> str:
        return "[… cut …]" if "\n" in head else "[… the beginning of a line that is too long …]"

    result = shorten("x" * 500 + "\nsecond line\n", 200, counting)
    assert "[… " in result.text
    assert result.omitted
