"""The operation `read`."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandgate_providers.runner import reading


def test_a_whole_file(tmp_path: Path, operate: Any) -> None:
    """All bytes as they are, with the numbers of the first and last line."""
    (tmp_path / "f").write_bytes(b"one\r\ntwo\nthr\xffee")
    answer = operate("read", tmp_path / "f")
    assert operate.output == b"one\r\ntwo\nthr\xffee"
    assert answer == {
        "path": str(tmp_path / "f"),
        "start_line": 1,
        "end_line": 3,
        "total_lines": 3,
        "total_bytes": 15,
        "offset_bytes": 0,
        "size_bytes": 15,
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("wanted", "content", "lines"),
    [
        ((1, 1), b"one\n", (1, 1)),
        ((2, 3), b"two\nthree\n", (2, 3)),
        ((2, None), b"two\nthree\nfour", (2, 4)),
        ((4, 9), b"four", (4, 4)),
        ((None, 2), b"one\ntwo\n", (1, 2)),
        ((5, None), b"", (0, 0)),
        ((99, 100), b"", (0, 0)),
        ((3, 2), b"", (0, 0)),
    ],
)
def test_a_range_of_lines(
    wanted: tuple[int | None, int | None], content: bytes, lines: tuple[int, int], tmp_path: Path, operate: Any
) -> None:
    """From 1, both ends included; a range past the end is empty and tells how many lines there are."""
    (tmp_path / "f").write_bytes(b"one\ntwo\nthree\nfour")
    answer = operate("read", tmp_path / "f", start_line=wanted[0], end_line=wanted[1])
    assert operate.output == content
    assert (answer["start_line"], answer["end_line"]) == lines
    assert answer["total_lines"] == 4
    assert not content or b"one\ntwo\nthree\nfour"[answer["offset_bytes"] :].startswith(content)


def test_an_empty_file(tmp_path: Path, operate: Any) -> None:
    """No lines, no bytes."""
    (tmp_path / "f").touch()
    answer = operate("read", tmp_path / "f")
    assert (answer["start_line"], answer["end_line"], answer["total_lines"], answer["total_bytes"]) == (0, 0, 0, 0)


def test_too_much_is_cut_at_the_end_of_a_line(tmp_path: Path, operate: Any) -> None:
    """The part is never above its bound, and reading can go on at the next line."""
    (tmp_path / "f").write_bytes(b"12345\n" * 10)
    answer = operate("read", tmp_path / "f", max_bytes=20)
    assert operate.output == b"12345\n" * 3
    assert (answer["end_line"], answer["total_lines"], answer["truncated"]) == (3, 10, True)
    whole = operate("read", tmp_path / "f", max_bytes=60)
    assert (whole["end_line"], whole["truncated"]) == (10, False)


def test_a_long_line_is_cut_between_characters(tmp_path: Path, operate: Any) -> None:
    """Where not even one line fits, no character is broken."""
    (tmp_path / "f").write_bytes("éé🎈🎈".encode() * 10)
    for most in range(4, 30):
        assert operate("read", tmp_path / "f", max_bytes=most)["truncated"] is True
        assert most - 3 <= len(operate.output) <= most
        operate.output.decode("utf-8")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=400).map(lambda data: data.replace(b"\0", b"\n")),
    start=st.integers(1, 12),
    count=st.integers(0, 12),
    most=st.integers(4, 200),
)
def test_a_part_is_what_its_answer_says(
    content: bytes, start: int, count: int, most: int, tmp_path: Path, operate: Any
) -> None:
    """For any file and range: the bytes are those at the offset, within the bound, and the lines are those lines."""
    (tmp_path / "f").write_bytes(content)
    end = start + count - 1 if count else None
    answer = operate("read", tmp_path / "f", start_line=start, end_line=end, max_bytes=most)
    lines = content.splitlines(keepends=True) if b"\r" not in content else None
    part = operate.output
    assert len(part) == answer["size_bytes"] <= most
    assert content[answer["offset_bytes"] :].startswith(part)
    all_lines = [line + b"\n" for line in content.split(b"\n")]
    all_lines[-1] = all_lines[-1][:-1]
    all_lines = [line for line in all_lines if line]
    assert answer["total_lines"] == len(all_lines)
    wanted = b"".join(all_lines[start - 1 : end])
    assert wanted.startswith(part)
    assert answer["truncated"] == (part != wanted)
    if part:
        assert part == b"".join(all_lines[answer["start_line"] - 1 : answer["end_line"]]) or answer["truncated"]
    assert lines is None or part or not wanted or len(wanted) > most


def test_a_part_in_bytes(tmp_path: Path, operate: Any) -> None:
    """Any bytes of any file, binary ones too, to the end by default."""
    content = bytes(range(256)) * 3000
    (tmp_path / "f").write_bytes(content)
    answer = operate("read", tmp_path / "f", offset_bytes=0)
    assert operate.output == content
    assert (answer["size_bytes"], answer["total_bytes"], answer["total_lines"]) == (768_000, 768_000, None)
    operate("read", tmp_path / "f", offset_bytes=100, limit_bytes=300_000)
    assert operate.output == content[100:300_100]
    assert operate("read", tmp_path / "f", offset_bytes=10_000_000)["size_bytes"] == 0
    assert operate("read", tmp_path / "f", limit_bytes=0)["size_bytes"] == 0


def test_a_binary_file_is_refused_as_text(tmp_path: Path, operate: Any) -> None:
    """A NUL in the first 8,192 bytes, wherever the range of lines would begin."""
    (tmp_path / "f").write_bytes(b"text\n" * 1000 + b"\0" + b"\ntext" * 1000)
    operate.fails("binary-file", "read", tmp_path / "f", start_line=1500)


def test_lines_behind_a_long_file_are_found(tmp_path: Path, operate: Any) -> None:
    """Line ends are counted across the steps in which a file is read."""
    content = b"".join(b"line %d\n" % number for number in range(1, 200_001))
    (tmp_path / "f").write_bytes(content)
    answer = operate("read", tmp_path / "f", start_line=199_999)
    assert operate.output == b"line 199999\nline 200000\n"
    assert answer["total_lines"] == 200_000
    step = content[: reading.STEP_BYTES].count(b"\n")
    operate("read", tmp_path / "f", start_line=step + 1, end_line=step + 1)
    assert operate.output == b"line %d\n" % (step + 1)


def test_what_is_no_file_never_blocks(tmp_path: Path, operate: Any) -> None:
    """Pipes, sockets and devices are refused unopened; folders and missing files say what they are."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "socket"))
        for path in (tmp_path / "pipe", tmp_path / "link", tmp_path / "socket", "/dev/zero", "/dev/tty"):
            operate.fails("unsupported-file", "read", path)
            operate.fails("unsupported-file", "read", path, offset_bytes=0)
    operate.fails("is-a-directory", "read", tmp_path)
    operate.fails("not-found", "read", tmp_path / "missing")
    operate.fails("not-a-directory", "read", tmp_path / "pipe" / "below")


def test_a_writer_of_a_pipe_is_left_alone(tmp_path: Path, operate: Any) -> None:
    """A refused pipe was never opened: a program that waits for a reader still waits."""
    os.mkfifo(tmp_path / "pipe")
    opened = threading.Event()

    def write() -> None:
        descriptor = os.open(tmp_path / "pipe", os.O_WRONLY)
        opened.set()
        os.close(descriptor)

    writer = threading.Thread(target=write)
    writer.start()
    operate.fails("unsupported-file", "read", tmp_path / "pipe")
    assert not opened.is_set()
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    writer.join(5)
    os.close(reader)
    assert opened.is_set()


def test_a_link_to_a_file_is_read(tmp_path: Path, operate: Any) -> None:
    """The jail is the wall; inside, links mean what they always mean."""
    (tmp_path / "f").write_text("content")
    (tmp_path / "link").symlink_to("f")
    operate("read", tmp_path / "link")
    assert operate.output == b"content"


def test_a_file_of_the_kernel_has_no_size_and_is_read(operate: Any) -> None:
    """Files whose size reads as zero have content all the same."""
    operate("read", "/proc/version")
    assert operate.output.startswith(b"Linux")


@pytest.mark.parametrize("place", ["self/mem", "self/environ", "thread-self/maps", "{pid}/mem", "self/task/{pid}/mem"])
def test_files_of_its_own_process_are_refused(tmp_path: Path, operate: Any, place: str) -> None:
    """The process of an operation holds secrets of the runner; no path leads to them."""
    path = "/proc/" + place.format(pid=os.getpid())
    operate.fails("unsupported-file", "read", path, offset_bytes=0, limit_bytes=1)
    (tmp_path / "link").symlink_to(path)
    operate.fails("unsupported-file", "read", tmp_path / "link", offset_bytes=0, limit_bytes=1)


def test_permission(as_nobody: Callable[[Callable[[Path], object]], str], operate: Any) -> None:
    """A file that may not be read says so."""

    def inside(root: Path) -> None:
        (root / "shut").write_text("x")
        (root / "shut").chmod(0)
        operate("read", root / "shut")

    assert as_nobody(inside) == "permission-denied"
