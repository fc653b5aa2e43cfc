"""Reading arguments from bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgate_gateway.tools.parsing import MOST_ARGUMENTS_BYTES, parse_arguments


def test_an_object_is_given_read_only() -> None:
    """What one stage judged, another cannot change."""
    value: Any = parse_arguments('{"command": "echo ü", "n": 5, "deep": {"x": [1, 2.5, null, true]}}'.encode())
    assert dict(value) == {"command": "echo ü", "n": 5, "deep": {"x": [1, 2.5, None, True]}}
    with pytest.raises(TypeError):
        value["command"] = "other"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not JSON at character 0"),
        (b"{", "is not JSON at character 1"),
        (b'{"a": 1} x', "is not JSON at character 9"),
        (b"\xef\xbb\xbf{}", "is not JSON at character 0"),
        (b'{"a": "\xff"}', "is not UTF-8 at byte 7"),
        (b'{"a": "\n"}', "is not JSON at character 7"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"a": 1, "a": 2}', "holds the same name twice"),
        (b'{"a": {"b": 1, "b": 1}}', "holds the same name twice"),
        (b'{"a": NaN}', "holds NaN, which is no JSON"),
        (b'{"a": [-Infinity]}', "holds -Infinity, which is no JSON"),
        (b'{"a": 1e999}', "holds a number that is too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "holds a number of too many digits"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "is nested too deeply"),
        (b'{"a": "' + b"x" * MOST_ARGUMENTS_BYTES + b'"}', "has 1,048,585 bytes; at most 1,048,576 are allowed"),
    ],
)
def test_what_is_no_object_is_refused(data: bytes, message: str) -> None:
    """With what is wrong, and nothing of the value."""
    violations = parse_arguments(data)
    assert isinstance(violations, tuple)
    (violation,) = violations
    assert violation.pointer == ""
    assert violation.message.startswith(message)


@given(data=st.binary(max_size=200))
def test_any_bytes_give_an_object_or_violations(data: bytes) -> None:
    """Nothing is raised."""
    result = parse_arguments(data)
    assert isinstance(result, tuple) is not hasattr(result, "items")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(value=st.dictionaries(st.text(), VALUES, max_size=5))
def test_every_object_survives(value: dict[str, Any]) -> None:
    """Integers stay integers, text stays text."""
    parsed = parse_arguments(json.dumps(value).encode())
    assert not isinstance(parsed, tuple)
    assert dict(parsed) == value
