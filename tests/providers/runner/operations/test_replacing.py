"""The operation `replace`."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def names(folder: Path) -> list[str]:
    """Give what is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_one_place_is_replaced(tmp_path: Path, operate: Any) -> None:
    """The rest of the file, its permissions and its links stay."""
    (tmp_path / "f").write_bytes(b"one\r\ntwo\xff\nthree")
    (tmp_path / "f").chmod(0o750)
    (tmp_path / "link").symlink_to("f")
    answer = operate.replace(tmp_path / "link", b"two", "zwei ü".encode())
    assert answer == {"path": str(tmp_path / "link"), "created": False, "replacements": 1, "size_bytes": 19}
    assert (tmp_path / "f").read_bytes() == "one\r\nzwei ü".encode() + b"\xff\nthree"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o750
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path) == ["f", "link"]


def test_text_may_be_removed(tmp_path: Path, operate: Any) -> None:
    """A new text that is empty is fine."""
    (tmp_path / "f").write_bytes(b"abc")
    assert operate.replace(tmp_path / "f", b"b", b"")["size_bytes"] == 2


def test_a_text_that_is_not_unique_is_refused_with_its_places(tmp_path: Path, operate: Any) -> None:
    """Nothing is guessed: the count and the first lines are told, and the file stays as it is."""
    (tmp_path / "f").write_bytes(b"x\ny = 1\n\ny = 1\nz y = 1 y = 1\n")
    message = operate.fails("not-unique", "replace", tmp_path / "f", content=b"\0\0\0\5y = 1y = 2")
    assert "4 times" in message
    assert "line 2, 4, 5, 5" in message
    assert (tmp_path / "f").read_bytes().count(b"y = 1") == 4
    (tmp_path / "f").write_bytes(b"a\n" * 100)
    assert "line 1, 2, 3, 4, 5 and on" in operate.fails("not-unique", "replace", tmp_path / "f", content=b"\0\0\0\1ab")


def test_overlapping_places_are_not_unique(tmp_path: Path, operate: Any) -> None:
    """Which of two places that overlap is meant is just as open."""
    (tmp_path / "f").write_bytes(b"aaa")
    assert "2 times" in operate.fails("not-unique", "replace", tmp_path / "f", content=b"\0\0\0\2aab")


def test_all_places_on_request(tmp_path: Path, operate: Any) -> None:
    """Each is replaced once, from the start; new text is not searched again."""
    (tmp_path / "f").write_bytes(b"a b a b a")
    assert operate.replace(tmp_path / "f", b"a", b"aa", replace_all=True)["replacements"] == 3
    assert (tmp_path / "f").read_bytes() == b"aa b aa b aa"


def test_what_is_not_there_is_a_failure(tmp_path: Path, operate: Any) -> None:
    """An empty old text, one that is not in the file, and one with other line ends are told apart."""
    (tmp_path / "f").write_bytes(b"one\r\ntwo\r\n")
    for everything in (False, True):
        operate.fails("invalid-pattern", "replace", tmp_path / "f", content=b"\0\0\0\0new", replace_all=everything)
        operate.fails("no-match", "replace", tmp_path / "f", content=b"\0\0\0\5threex", replace_all=everything)
    assert "CRLF" in operate.fails("no-match", "replace", tmp_path / "f", content=b"\0\0\0\7one\ntwox")
    assert (tmp_path / "f").read_bytes() == b"one\r\ntwo\r\n"


def test_input_that_ends_early_is_refused(tmp_path: Path, operate: Any) -> None:
    """A text that was cut on its way replaces nothing."""
    (tmp_path / "f").write_bytes(b"abc")
    for content in (b"", b"\0\0", b"\0\0\0\5abc", b"\xff\xff\xff\xffabc"):
        operate.fails("size-mismatch", "replace", tmp_path / "f", content=content)


def test_what_is_no_file_is_refused(tmp_path: Path, operate: Any) -> None:
    """As for every other operation."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere")
    for code, path in [
        ("is-a-directory", tmp_path),
        ("unsupported-file", tmp_path / "pipe"),
        ("not-found", tmp_path / "missing"),
        ("not-found", tmp_path / "missing" / "f"),
        ("not-found", tmp_path / "dangling"),
    ]:
        operate.fails(code, "replace", path, content=b"\0\0\0\1ab")
    assert names(tmp_path) == ["dangling", "pipe"]


def test_a_result_that_would_be_too_large_is_refused_before_it_is_made(tmp_path: Path, operate: Any) -> None:
    """A small file and two small texts can ask for gigabytes."""
    (tmp_path / "f").write_bytes(b"a" * 100_000)
    content = b"\0\0\0\1a" + b"b" * 100_000
    operate.fails("too-large", "replace", tmp_path / "f", content=content, replace_all=True)
    assert (tmp_path / "f").stat().st_size == 100_000


def test_edits_at_once_are_all_kept(tmp_path: Path, operate: Any) -> None:
    """Each of many replacements of one file at the same time is in the result."""
    marks = [b"<%02d>" % number for number in range(12)]
    (tmp_path / "f").write_bytes(b"\n".join(marks) * 1)
    failures: list[BaseException] = []

    def edit(mark: bytes) -> None:
        try:
            operate.replace(tmp_path / "f", mark, mark.replace(b"<", b"done<"))
        except BaseException as failure:  # noqa: BLE001 - shown by the test's own thread
            failures.append(failure)

    threads = [threading.Thread(target=edit, args=(mark,)) for mark in marks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert (tmp_path / "f").read_bytes() == b"\n".join(mark.replace(b"<", b"done<") for mark in marks)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.binary(max_size=30),
    old=st.binary(min_size=1, max_size=10),
    new=st.binary(max_size=10),
    after=st.binary(max_size=30),
)
def test_any_bytes_may_be_replaced(
    before: bytes, old: bytes, new: bytes, after: bytes, tmp_path: Path, operate: Any
) -> None:
    """With all places asked for, the result is that of Python's own replacement."""
    (tmp_path / "f").write_bytes(before + old + after)
    operate.replace(tmp_path / "f", old, new, replace_all=True)
    assert (tmp_path / "f").read_bytes() == (before + old + after).replace(old, new)


@pytest.mark.parametrize("size", [1, 70_000])
def test_long_texts(size: int, tmp_path: Path, operate: Any) -> None:
    """The length of the old text has four bytes, so that texts above 64 KiB pass."""
    (tmp_path / "f").write_bytes(b"<" + b"o" * size + b">")
    operate.replace(tmp_path / "f", b"<" + b"o" * size + b">", b"n" * size)
    assert (tmp_path / "f").read_bytes() == b"n" * size
