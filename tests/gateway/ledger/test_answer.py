"""What answers count for in the ledger's limit of bytes."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from sandgate_gateway.domain.result import (
    BackgroundProcess,
    Capture,
    Entry,
    EntryKind,
    EntryList,
    Failure,
    FileChange,
    Match,
    MatchList,
    ProcessData,
    ProcessEnd,
    ToolData,
    failed,
)
from sandgate_gateway.ledger.answer import CallAnswer, Completion

LONG = "é" * 2000
WIDE = "\N{GRINNING FACE}" * 1000
EMPTY = Capture(data=b"", total_bytes=0)

LARGE = (
    EntryList(
        entries=tuple(
            Entry(path=f"{LONG}{number}", kind=EntryKind.FILE, size_bytes=1, modified_at=datetime.now(UTC))
            for number in range(100)
        ),
        truncated=False,
    ),
    MatchList(
        matches=tuple(Match(path=f"{LONG}{number}", line_number=1, line=f"{number}{WIDE}") for number in range(100)),
        truncated=False,
        files_searched=1,
        files_skipped=0,
    ),
    ProcessData(
        end=ProcessEnd.EXITED,
        stdout=EMPTY,
        stderr=EMPTY,
        background=tuple(BackgroundProcess(pid=number, command=f"{number}{LONG}") for number in range(100)),
    ),
    FileChange(path=LONG * 100, created=True, size_bytes=1),
)


def taken(value: object) -> int:
    """Add up the texts and bytes in a value, as the interpreter keeps them."""
    if isinstance(value, str | bytes):
        return sys.getsizeof(value)
    if isinstance(value, dict):
        return sum(map(taken, value.values()))
    if isinstance(value, tuple):
        return sum(map(taken, value))
    return 0


@pytest.mark.parametrize("data", LARGE, ids=lambda data: type(data).__name__)
def test_large_answers_count_in_full(answer: Callable[..., CallAnswer], data: ToolData) -> None:
    """Long paths, lines and commands count, so that no kind of answer takes many times the limit."""
    made = answer(WIDE)
    made = dataclasses.replace(made, result=dataclasses.replace(made.result, data=data))
    in_memory = taken(dataclasses.asdict(made.result))
    assert in_memory <= made.size_bytes <= in_memory * 2


def test_what_failures_say_counts(answer: Callable[..., CallAnswer]) -> None:
    """A failure's own text is beside the text for the model."""
    result = failed(Failure(reason="x", message=LONG * 100))
    assert dataclasses.replace(answer(), result=result).size_bytes > sys.getsizeof(LONG * 100)


def test_texts_of_completions_count() -> None:
    """By what they take, not by their characters."""
    assert Completion(audit_id="a", texts=(WIDE,), unchanged=False).size_bytes > sys.getsizeof(WIDE)
