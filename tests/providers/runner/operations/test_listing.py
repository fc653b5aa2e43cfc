"""The operations `stat` and `list`."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandgate_providers.runner.answers import MOST_ANSWER_BYTES


def names(answer: Any, root: Path) -> list[str]:
    """Give the paths of an answer below a root."""
    return [entry["path"].removeprefix(f"{root}/") for entry in answer["entries"]]


def make(root: Path, *paths: str) -> None:
    """Make files, and the folders that they are in; a slash at the end makes a folder."""
    for path in paths:
        place = root / path
        if path.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("x")


def test_entries_are_sorted_and_each_folder_is_followed_by_what_is_in_it(tmp_path: Path, operate: Any) -> None:
    """Two levels by default, in the order of the names' bytes, whatever order the file system has."""
    make(tmp_path, "b/two", "b/deep/three", "a.txt", "C", "b.txt", "a/")
    answer = operate("list", tmp_path)
    assert names(answer, tmp_path) == ["C", "a", "a.txt", "b", "b/deep", "b/two", "b.txt"]
    assert answer["truncated"] is False
    assert answer["ignored"] == answer["unreadable"] == 0


def test_depth(tmp_path: Path, operate: Any) -> None:
    """One level, three, and all of them."""
    make(tmp_path, "1/2/3/4/5")
    assert names(operate("list", tmp_path, depth=1), tmp_path) == ["1"]
    assert len(operate("list", tmp_path, depth=3)["entries"]) == 3
    assert len(operate("list", tmp_path, depth=0)["entries"]) == 5


def test_an_entry_says_what_it_is(tmp_path: Path, operate: Any) -> None:
    """Kind, size of files alone, and the time of the last change to the nanosecond."""
    (tmp_path / "file").write_bytes(b"12345")
    os.utime(tmp_path / "file", ns=(1, 1_700_000_000_123_456_789))
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    os.mkfifo(tmp_path / "pipe")
    by_name = {entry["path"].rsplit("/", 1)[1]: entry for entry in operate("list", tmp_path)["entries"]}
    assert {name: (entry["kind"], entry["size_bytes"]) for name, entry in by_name.items()} == {
        "file": ("file", 5),
        "folder": ("directory", 0),
        "link": ("symlink", 0),
        "pipe": ("other", 0),
    }
    assert by_name["file"]["modified_ns"] == 1_700_000_000_123_456_789


def test_links_are_listed_and_not_followed(tmp_path: Path, operate: Any) -> None:
    """A link to a folder above gives no endless tree, a dangling one is an entry like any other."""
    make(tmp_path, "folder/file")
    (tmp_path / "folder" / "up").symlink_to(tmp_path)
    (tmp_path / "dangling").symlink_to("nowhere")
    assert names(operate("list", tmp_path, depth=0), tmp_path) == ["dangling", "folder", "folder/file", "folder/up"]


def test_a_link_that_is_asked_for_is_followed(tmp_path: Path, operate: Any) -> None:
    """The path itself may be a link to a folder; entries are shown under the path that was given."""
    make(tmp_path, "folder/file")
    (tmp_path / "link").symlink_to("folder")
    assert names(operate("list", tmp_path / "link"), tmp_path) == ["link/file"]
    assert names(operate("list", f"{tmp_path}/link/"), tmp_path) == ["link/file"]


def test_what_is_missing_or_no_folder_is_a_failure(tmp_path: Path, operate: Any) -> None:
    """A missing folder is never an empty one."""
    make(tmp_path, "file")
    (tmp_path / "loop").symlink_to("loop")
    operate.fails("not-found", "list", tmp_path / "missing")
    operate.fails("not-a-directory", "list", tmp_path / "file")
    operate.fails("not-a-directory", "list", tmp_path / "file" / "below")
    operate.fails("invalid-path", "list", tmp_path / "loop")
    operate.fails("invalid-path", "list", f"{tmp_path}/{'n' * 300}")
    assert operate("list", tmp_path, depth=1)["entries"]


def test_a_folder_without_permission_is_counted_or_refused(
    as_nobody: Callable[[Callable[[Path], object]], str], operate: Any
) -> None:
    """Asked for, it is `permission-denied`; met on the way, it is counted and the rest is listed."""

    def inside(root: Path) -> None:
        make(root, "open/file", "shut/file")
        (root / "shut").chmod(0)
        answer = operate("list", root)
        assert names(answer, root) == ["open", "open/file", "shut"]
        assert answer["unreadable"] == 1
        operate("list", root / "shut")

    assert as_nobody(inside) == "permission-denied"


def test_the_limit_cuts_only_what_is_above_it(tmp_path: Path, operate: Any) -> None:
    """As many as the limit is not truncated; one more is."""
    make(tmp_path, *(f"f{number:02}" for number in range(10)))
    whole = operate("list", tmp_path, limit=10)
    assert len(whole["entries"]) == 10
    assert whole["truncated"] is False
    cut = operate("list", tmp_path, limit=9)
    assert names(cut, tmp_path) == [f"f{number:02}" for number in range(9)]
    assert cut["truncated"] is True


def test_an_answer_is_bounded_in_bytes_too(tmp_path: Path, operate: Any) -> None:
    """Names that take much room end a list early, with a mark, whatever the limit."""
    make(tmp_path, *("\u0101" * 120 + f"{number:04}" for number in range(1500)))
    answer = operate("list", tmp_path, limit=100_000)
    assert answer["truncated"] is True
    assert MOST_ANSWER_BYTES * 0.9 < len(json.dumps(answer["entries"])) <= MOST_ANSWER_BYTES


def test_machine_made_things_are_passed_over_and_counted(tmp_path: Path, operate: Any) -> None:
    """Version control, packages of others, caches and virtual environments are not listed; results of work are."""
    make(tmp_path, ".git/HEAD", "node_modules/a/b.js", "__pycache__/x", "old.pyc", ".DS_Store", "notes~")
    kept = ["app.log", "build/app", "dist/x", "env/x", "logs/x", "out/x", "target/x", ".env", ".gitignore", "x.tmp"]
    make(tmp_path, *kept)
    answer = operate("list", tmp_path)
    assert {name for name in names(answer, tmp_path) if name.count("/") or not (tmp_path / name).is_dir()} == set(kept)
    assert answer["ignored"] == 6


def test_a_marked_folder_is_listed_and_not_entered(tmp_path: Path, operate: Any) -> None:
    """A file that says "cache" or "virtual environment" is believed, except about the root of the search."""
    make(tmp_path, "env/pyvenv.cfg", "env/lib/x", "target/CACHEDIR.TAG", "target/debug/x", "src/main")
    assert names(operate("list", tmp_path, depth=0), tmp_path) == ["env", "src", "src/main", "target"]
    assert "target/debug/x" in names(operate("list", tmp_path / "target", depth=0), tmp_path)


@pytest.mark.parametrize("name", ["node_modules", ".git", "venv/lib"])
def test_a_root_under_such_a_name_is_listed(name: str, tmp_path: Path, operate: Any) -> None:
    """What is asked for is shown: names count below the root alone."""
    make(tmp_path, f"{name}/inner/file", f"{name}/node_modules/x")
    assert names(operate("list", tmp_path / name, depth=3), tmp_path / name) == ["inner", "inner/file"]


def test_a_very_deep_tree_needs_no_recursion(deep_folder: Path, operate: Any) -> None:
    """A tree deeper than Python's stack, and than the longest path, is listed as far as paths go."""
    here = os.open(deep_folder, os.O_RDONLY)
    for _ in range(2500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    listed = operate("list", deep_folder, depth=0, limit=10_000)
    assert listed["truncated"] is True
    searched = operate("glob", deep_folder, pattern="*.none")
    assert (searched["entries"], searched["unreadable"]) == ([], 1)


def test_stat_follows_links_unless_told_not_to(tmp_path: Path, operate: Any) -> None:
    """A link is what it leads to, or itself; a dangling one is not there."""
    make(tmp_path, "file")
    (tmp_path / "file").chmod(0o755)
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert operate("stat", tmp_path)["kind"] == "directory"
    found = operate("stat", tmp_path / "link")
    assert (found["kind"], found["size_bytes"], found["executable"]) == ("file", 1, True)
    assert operate("stat", tmp_path / "link", no_follow=True)["kind"] == "symlink"
    operate.fails("not-found", "stat", tmp_path / "dangling")
    assert operate("stat", tmp_path / "dangling", no_follow=True)["kind"] == "symlink"


def test_stat_of_a_socket(tmp_path: Path, operate: Any) -> None:
    """Anything that is no file, folder or link is `other`."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "s"))
        assert operate("stat", tmp_path / "s")["kind"] == "other"


@pytest.mark.load
def test_a_hundred_thousand_files(tmp_path: Path, operate: Any) -> None:
    """A walk of 100,000 files answers within seconds and within its bounds."""
    for folder in range(100):
        place = tmp_path / f"{folder:03}"
        place.mkdir()
        for number in range(1000):
            os.close(os.open(place / f"{number:04}.txt", os.O_CREAT | os.O_WRONLY))
    listed = operate("list", tmp_path, depth=0, limit=500)
    assert len(listed["entries"]) == 500
    found = operate("glob", tmp_path, pattern="**/0999.txt", limit=200)
    assert len(found["entries"]) == 100
    assert found["truncated"] is False
    searched = operate("grep", tmp_path, pattern="x+")
    assert searched["files_searched"] == 100_000
