"""Reading answers that come from inside a sandbox."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgate_gateway.domain.result import EntryKind
from sandgate_gateway.tools.answers import Answer, MalformedAnswer

ENTRY: dict[str, Any] = {"path": "/f", "kind": "file", "size_bytes": 5, "modified_ns": 1_700_000_000_123_456_789}


def test_an_entry_is_read() -> None:
    """All of its fields, the time to the microsecond."""
    (entry,) = Answer({"entries": [ENTRY], "truncated": False}).entry_list(1).entries
    assert (entry.path, entry.kind, entry.size_bytes) == ("/f", EntryKind.FILE, 5)
    assert entry.modified_at == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)


@pytest.mark.parametrize("nanoseconds", [-(1 << 63), -1, 0, 1 << 62, (1 << 63) - 1, 1 << 100])
def test_a_time_that_no_calendar_has_is_moved(nanoseconds: int) -> None:
    """A file may have any time that a hostile `touch` gives it."""
    assert Answer({**ENTRY, "modified_ns": nanoseconds}).to_entry().modified_at.tzinfo is UTC


@pytest.mark.parametrize(
    "change",
    [
        {"entries": None},
        {"entries": [ENTRY, ENTRY]},
        {"entries": [7]},
        {"entries": [{**ENTRY, "kind": "door"}]},
        {"entries": [{**ENTRY, "path": 7}]},
        {"entries": [{**ENTRY, "size_bytes": -1}]},
        {"entries": [{**ENTRY, "size_bytes": True}]},
        {"entries": [{**ENTRY, "size_bytes": 1 << 64}]},
        {"entries": [{**ENTRY, "modified_ns": "now"}]},
        {"truncated": 1},
    ],
)
def test_an_answer_of_another_shape_is_refused(change: dict[str, Any]) -> None:
    """Nothing of it gets any further."""
    with pytest.raises(MalformedAnswer):
        Answer({"entries": [ENTRY], "truncated": False, **change}).entry_list(1)


@given(path=st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\0\ud800\udfff"))))
def test_text_of_an_answer_can_be_sent_on(path: str) -> None:
    """Lone surrogates and NUL are replaced."""
    shown = Answer({**ENTRY, "path": path}).to_entry().path
    shown.encode("utf-8")
    assert "\0" not in shown
