"""The operation `grep`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def lines(answer: Any, root: Path) -> list[str]:
    """Give the matches as `path:number: line`."""
    return [
        f"{match['path'].removeprefix(f'{root}/')}:{match['line_number']}: {match['line']}"
        for match in answer["matches"]
    ]


def test_matches_are_sorted_by_path_and_line(tmp_path: Path, operate: Any) -> None:
    """Path, number from 1 and the line without its end, whatever the end is."""
    (tmp_path / "b.txt").write_bytes(b"no\r\nneedle one\r\n\r\nNEEDLE two")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").write_text("a needle\n")
    answer = operate("grep", tmp_path, pattern="needle")
    assert lines(answer, tmp_path) == ["a/x.txt:1: a needle", "b.txt:2: needle one", "b.txt:4: NEEDLE two"]
    assert (answer["files_searched"], answer["files_skipped"], answer["truncated"]) == (2, 0, False)
    assert len(operate("grep", tmp_path, pattern="needle", case_sensitive=True)["matches"]) == 2


def test_only_newlines_end_lines(tmp_path: Path, operate: Any) -> None:
    """Form feeds and Unicode separators are characters, so that numbers are those of other tools."""
    (tmp_path / "f").write_text("one\x0c\u2028\x85still one\ntwo\n", encoding="utf-8")
    assert [match["line_number"] for match in operate("grep", tmp_path, pattern="two")["matches"]] == [2]


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [("^gr.n$", True), (r"\w{4}", True), ("GRÜN", True), ("^.{4}$", True), ("[ü]", True), (r"gr\xfcn", True)],
)
def test_characters_are_matched_and_not_bytes(pattern: str, matches: bool, tmp_path: Path, operate: Any) -> None:  # noqa: FBT001 - a case of the table
    """A letter outside ASCII is one letter, and has an upper case."""
    (tmp_path / "f").write_text("\ufeffgrün\n", encoding="utf-8")
    assert bool(operate("grep", tmp_path, pattern=pattern)["matches"]) is matches


def test_a_literal_means_itself(tmp_path: Path, operate: Any) -> None:
    """Special characters are plain ones when asked for."""
    (tmp_path / "f").write_text("a.b\naxb\n(a+)+$\n")
    assert lines(operate("grep", tmp_path, pattern="A.B", literal=True), tmp_path) == ["f:1: a.b"]
    assert lines(operate("grep", tmp_path, pattern="(a+)+$", literal=True), tmp_path) == ["f:3: (a+)+$"]
    assert operate("grep", tmp_path, pattern="A.B", literal=True, case_sensitive=True)["matches"] == []


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [("", False), ("", True), ("(", False), ("a{99999999999}", False), ("(" * 5000 + ")" * 5000, False), ("*", False),
     ("(?P<x>a)(?P<x>b)", False), ("a\nb", True)],
)  # fmt: skip
def test_an_invalid_pattern_is_a_failure(pattern: str, literal: bool, tmp_path: Path, operate: Any) -> None:  # noqa: FBT001 - a case of the table
    """It is never "no matches"."""
    operate.fails("invalid-pattern", "grep", tmp_path, pattern=pattern, literal=literal)


def test_a_pattern_that_python_warns_of_is_quiet(tmp_path: Path, operate: Any) -> None:
    """Warnings of the regular expression compiler are nobody's concern."""
    (tmp_path / "f").write_text("[[a]]\n")
    assert operate("grep", tmp_path, pattern="[[a]]")["matches"]


def test_what_is_passed_over(tmp_path: Path, operate: Any) -> None:
    """Binary and too large files are counted; links, pipes and ignored folders are not searched."""
    (tmp_path / "text").write_text("needle\n")
    (tmp_path / "binary").write_bytes(b"needle\n" + b"x" * 8000 + b"\0")
    (tmp_path / "late-nul").write_bytes(b"needle\n" + b"x" * 9000 + b"\0")
    (tmp_path / "large").write_bytes(b"needle\n" + b"x\n" * 500_000)
    (tmp_path / "fits").write_bytes(b"needle\n" + b"x\n" * 499_996)
    (tmp_path / "link").symlink_to("text")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "x").write_text("needle\n")
    answer = operate("grep", tmp_path, pattern="needle")
    assert [match["path"].rsplit("/", 1)[1] for match in answer["matches"]] == ["fits", "late-nul", "text"]
    assert (answer["files_searched"], answer["files_skipped"], answer["ignored"]) == (3, 2, 1)


def test_an_unreadable_file_is_counted(as_nobody: Callable[[Callable[[Path], object]], str], operate: Any) -> None:
    """A file without permission is skipped on the way and a failure when asked for."""

    def inside(root: Path) -> None:
        (root / "shut").write_text("needle")
        (root / "shut").chmod(0)
        answer = operate("grep", root, pattern="needle")
        assert (answer["files_searched"], answer["files_skipped"]) == (0, 1)
        operate("grep", root / "shut", pattern="needle")

    assert as_nobody(inside) == "permission-denied"


def test_long_lines_are_skipped_and_shown_lines_cut(tmp_path: Path, operate: Any) -> None:
    """2,000 characters are searched, 2,001 are not; 200 are shown, the match among them."""
    (tmp_path / "f").write_text(
        "é" * 1994 + "needle\n" + "é" * 1995 + "needle\n" + "needle" + "x" * 300 + "\n" + "y" * 194 + "needle\n",
        encoding="utf-8",
    )
    found = operate("grep", tmp_path, pattern="needle")["matches"]
    assert [match["line_number"] for match in found] == [1, 3, 4]
    assert all(len(match["line"]) <= 200 and "needle" in match["line"] for match in found)
    assert found[0]["line"].startswith("…é")
    assert found[1]["line"].startswith("needle")
    assert found[1]["line"].endswith("x…")
    assert found[2]["line"] == "y" * 194 + "needle"


def test_bytes_that_are_not_utf8_do_not_hide_a_line(tmp_path: Path, operate: Any) -> None:
    """They are shown as U+FFFD."""
    (tmp_path / "f").write_bytes(b"caf\xe9 needle\n")
    assert lines(operate("grep", tmp_path, pattern="needle"), tmp_path) == ["f:1: caf\ufffd needle"]


def test_a_glob_chooses_files(tmp_path: Path, operate: Any) -> None:
    """The same patterns as of `glob`; a folder that the pattern names is searched even under an ignored name."""
    for path in ("a.py", "a.txt", "src/b.py", "src/deep/c.py", "venv/lib/d.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("needle\n")

    def files(glob: str) -> list[str]:
        answer = operate("grep", tmp_path, pattern="needle", glob=glob)
        return [match["path"].removeprefix(f"{tmp_path}/") for match in answer["matches"]]

    assert files("*.py") == ["a.py", "src/b.py", "src/deep/c.py"]
    assert files("src/**/*.py") == ["src/b.py", "src/deep/c.py"]
    assert files("venv/**") == ["venv/lib/d.py"]
    assert files("nothing/*.py") == []
    operate.fails("invalid-pattern", "grep", tmp_path, pattern="needle", glob="../*")


def test_one_file_may_be_searched(tmp_path: Path, operate: Any) -> None:
    """A file by its name, also behind a link; what cannot be searched in it is said."""
    (tmp_path / "node_modules").mkdir()
    file = tmp_path / "node_modules" / "f.js"
    file.write_text("x\nneedle\n")
    (tmp_path / "link").symlink_to("node_modules/f.js")
    assert lines(operate("grep", file, pattern="needle"), tmp_path) == ["node_modules/f.js:2: needle"]
    assert lines(operate("grep", tmp_path / "link", pattern="needle", glob="*.py"), tmp_path) == ["link:2: needle"]
    (tmp_path / "binary").write_bytes(b"\0")
    (tmp_path / "large").write_bytes(b"x" * 1_000_001)
    os.mkfifo(tmp_path / "pipe")
    operate.fails("binary-file", "grep", tmp_path / "binary", pattern="x")
    operate.fails("too-large", "grep", tmp_path / "large", pattern="x")
    operate.fails("unsupported-file", "grep", tmp_path / "pipe", pattern="x")
    operate.fails("not-found", "grep", tmp_path / "missing", pattern="x")


def test_the_limit_cuts_only_what_is_above_it(tmp_path: Path, operate: Any) -> None:
    """As many as the limit is whole, one more is truncated, across files."""
    (tmp_path / "a").write_text("needle\n" * 3)
    (tmp_path / "b").write_text("needle\n" * 2)
    assert operate("grep", tmp_path, pattern="needle", limit=5)["truncated"] is False
    cut = operate("grep", tmp_path, pattern="needle", limit=4)
    assert (len(cut["matches"]), cut["truncated"]) == (4, True)
