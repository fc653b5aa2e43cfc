"""Paths in arguments and in answers."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any

import pytest

from sandgate_providers.runner import operations
from sandgate_providers.runner.failures import OperationFailed


@pytest.mark.parametrize("name", sorted(operations.OPERATIONS))
@pytest.mark.parametrize("path", ["", "relative", "./x", "~/x", "/a\0b", "/\ud800", "/" + "x" * 5000, None, 7, ["/"]])
def test_a_path_that_is_none_is_refused_by_every_operation(name: str, path: object) -> None:
    """Relative paths, NUL, text that no name can be, and other types are `invalid-path` before anything is done."""
    with pytest.raises(OperationFailed) as caught:
        operations.run(name, {"path": path}, io.BytesIO(), io.BytesIO())
    assert caught.value.code == "invalid-path"
    str(caught.value).encode("utf-8")


def test_a_name_that_is_not_utf8_goes_both_ways(tmp_path: Path, operate: Any) -> None:
    """A byte outside UTF-8 is an escape in an argument, U+FFFD and the exact bytes in an answer."""
    odd = os.fsencode(tmp_path) + b"/odd-\xff.txt"
    other = os.fsencode(tmp_path) + b"/odd-\xfe.txt"
    for path in (odd, other):
        operate.write(path, b"needle in " + path[-5:-4])
    answer = operate("read", odd)
    assert operate.output == b"needle in \xff"
    assert answer["path"].endswith("odd-\ufffd.txt")
    assert base64.b64decode(answer["path_base64"]) == odd
    for name, arguments, field in (
        ("list", {}, "entries"),
        ("glob", {"pattern": "*.txt"}, "entries"),
        ("grep", {"pattern": "needle"}, "matches"),
    ):
        found = operate(name, tmp_path, **arguments)[field]
        assert [base64.b64decode(entry["path_base64"]) for entry in found] == [other, odd]
    operate.fails("no-match", "replace", odd, content=b"\0\0\0\1zq")
    operate.fails("not-a-directory", "list", odd)


def test_a_plain_name_has_no_second_form(tmp_path: Path, operate: Any) -> None:
    """`path_base64` is there only when the text does not say it all."""
    operate.write(tmp_path / "grün 🎈.txt", b"")
    (entry,) = operate("list", tmp_path)["entries"]
    assert entry["path"] == f"{tmp_path}/grün 🎈.txt"
    assert "path_base64" not in entry


def test_an_unknown_operation_is_a_failure(operate: Any) -> None:
    """A name that is not in the table does nothing."""
    operate.fails("io-error", "remove", "/tmp")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list", {"depth": "2"}),
        ("list", {"depth": -1}),
        ("list", {"limit": True}),
        ("glob", {"pattern": 7}),
        ("grep", {"pattern": "x", "literal": "yes"}),
        ("read", {"offset_bytes": 1 << 63}),
        ("write", {}),
        ("write", {"size_bytes": -1}),
    ],
)
def test_arguments_of_another_type_are_refused(
    name: str, arguments: dict[str, object], tmp_path: Path, operate: Any
) -> None:
    """The gateway's mistakes are seen as such and change nothing."""
    path = tmp_path / "file" if name in ("read", "write") else tmp_path
    if name == "read":
        path.write_text("x")
    operate.fails("io-error", name, path, **arguments)
