"""The operation `write`."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandgate_providers.runner import drafting, writing
from sandgate_providers.runner.drafting import make_folders

SMALL = b"content"
LARGE = bytes(range(256)) * 8192
"""Above what is held in memory."""


def names(folder: Path) -> list[str]:
    """Give what is in a folder."""
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=[SMALL, b"", LARGE], ids=["small", "empty", "large"])
def content(request: pytest.FixtureRequest) -> bytes:
    """Give content of each way of keeping it."""
    return bytes(request.param)


def test_a_new_file(content: bytes, tmp_path: Path, operate: Any) -> None:
    """Exact bytes, the usual permissions, and nothing else in the folder."""
    answer = operate.write(tmp_path / "f", content)
    assert answer == {"path": str(tmp_path / "f"), "created": True, "size_bytes": len(content)}
    assert (tmp_path / "f").read_bytes() == content
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o666 & ~mask
    assert names(tmp_path) == ["f"]


def test_an_existing_file_keeps_its_permissions(content: bytes, tmp_path: Path, operate: Any) -> None:
    """A script stays executable, a secret stays private, and set-user-id bits go as they do with any write."""
    for mode in (0o755, 0o600, 0o640):
        (tmp_path / "f").write_bytes(b"old")
        (tmp_path / "f").chmod(mode)
        assert operate.write(tmp_path / "f", content)["created"] is False
        assert (tmp_path / "f").read_bytes() == content
        assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == mode
    (tmp_path / "f").chmod(0o4755)
    operate.write(tmp_path / "f", content)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o755


def test_executable(tmp_path: Path, operate: Any) -> None:
    """Whoever may read it may then run it."""
    operate.write(tmp_path / "f", b"#!/bin/sh\n", executable=True)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) & 0o111
    (tmp_path / "g").touch(0o600)
    (tmp_path / "g").chmod(0o600)
    operate.write(tmp_path / "g", b"x", executable=True, append=True)
    assert stat.S_IMODE((tmp_path / "g").stat().st_mode) == 0o700


def test_missing_folders_are_made(content: bytes, tmp_path: Path, operate: Any) -> None:
    """All of them, for writes and appends."""
    operate.write(tmp_path / "a" / "b" / "f", content)
    operate.write(tmp_path / "c" / "d" / "f", content, append=True)
    assert (tmp_path / "a/b/f").read_bytes() == (tmp_path / "c/d/f").read_bytes() == content


def test_many_missing_folders_need_no_recursion(deep_folder: Path, operate: Any) -> None:
    """A path as long as the kernel allows is made."""
    depth = (4000 - len(str(deep_folder))) // 2
    path = str(deep_folder) + "/d" * depth
    operate.write(path + "/f", b"x")
    assert Path(path, "f").read_bytes() == b"x"


def test_a_link_stays_and_its_file_changes(content: bytes, tmp_path: Path, operate: Any) -> None:
    """As with a shell's redirection; a dangling link's file is made."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real/f")
    (tmp_path / "dangling").symlink_to("real/new")
    assert operate.write(tmp_path / "link", content)["created"] is False
    assert operate.write(tmp_path / "dangling", content)["created"] is True
    assert operate.write(tmp_path / "dangling", content, append=True)["size_bytes"] == 2 * len(content)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "dangling").is_symlink()
    assert (tmp_path / "real" / "f").read_bytes() == content
    assert (tmp_path / "real" / "new").read_bytes() == 2 * content


@pytest.mark.parametrize("append", [False, True])
def test_what_is_no_file_is_refused(append: bool, tmp_path: Path, operate: Any) -> None:  # noqa: FBT001 - a case of the table
    """Folders, pipes, devices, loops and files on the way are said, and nothing is left behind."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    before = names(tmp_path)
    for content in (SMALL, LARGE):
        for code, path in [
            ("is-a-directory", tmp_path / "folder"),
            ("is-a-directory", f"{tmp_path}/new/"),
            ("is-a-directory", "/"),
            ("unsupported-file", tmp_path / "pipe"),
            ("unsupported-file", "/dev/null"),
            ("not-a-directory", tmp_path / "file" / "below"),
            ("not-a-directory", tmp_path / "file" / "far" / "below"),
            ("invalid-path", tmp_path / "loop"),
            ("invalid-path", f"{tmp_path}/{'n' * 300}"),
        ]:
            operate.fails(code, "write", path, content=content, size_bytes=len(content), append=append)
    assert names(tmp_path) == before
    assert (tmp_path / "file").read_bytes() == b"old"


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("difference", [-1, 1, 1 << 21])
def test_content_of_another_size_changes_nothing(
    append: bool, difference: int, content: bytes, tmp_path: Path, operate: Any  # noqa: FBT001 - a case of the table
) -> None:  # fmt: skip
    """Too little or too much input is `size-mismatch`: half an upload is no file."""
    size = len(content) - difference
    if size < 0:
        size = len(content) + 1
    operate.fails("size-mismatch", "write", tmp_path / "new", content=content, size_bytes=size, append=append)
    (tmp_path / "old").write_bytes(b"old")
    operate.fails("size-mismatch", "write", tmp_path / "old", content=content, size_bytes=size, append=append)
    assert (tmp_path / "old").read_bytes() == b"old"
    assert names(tmp_path) == ["old"]


def test_an_append_adds_at_the_end(content: bytes, tmp_path: Path, operate: Any) -> None:
    """The file is the same one, with more in it, whatever it held."""
    assert operate.write(tmp_path / "f", content, append=True)["created"] is True
    inode = (tmp_path / "f").stat().st_ino
    answer = operate.write(tmp_path / "f", b"Error: more", append=True)
    assert (answer["created"], answer["size_bytes"]) == (False, len(content) + 11)
    assert (tmp_path / "f").read_bytes() == content + b"Error: more"
    assert (tmp_path / "f").stat().st_ino == inode


def test_an_append_needs_no_permission_to_read(
    as_nobody: Callable[[Callable[[Path], object]], str], operate: Any
) -> None:
    """A file that may be written and not read can be appended to: it is never read."""

    def inside(root: Path) -> None:
        (root / "f").write_bytes(b"old")
        (root / "f").chmod(0o200)
        operate.write(root / "f", b"new", append=True)
        (root / "f").chmod(0o600)
        assert (root / "f").read_bytes() == b"oldnew"

    assert as_nobody(inside) == "done"


def test_permission(as_nobody: Callable[[Callable[[Path], object]], str], operate: Any) -> None:
    """A read-only file is not replaced, though its folder would allow that; a read-only folder takes no file."""

    def read_only_file(root: Path) -> None:
        (root / "f").write_bytes(b"old")
        (root / "f").chmod(0o400)
        operate.write(root / "f", b"new")

    def read_only_folder(root: Path) -> None:
        (root / "folder").mkdir(mode=0o500)
        operate.write(root / "folder" / "f", b"new")

    assert as_nobody(read_only_file) == "permission-denied"
    assert as_nobody(read_only_folder) == "permission-denied"


def test_readers_see_the_old_or_the_new_and_nothing_between(tmp_path: Path, operate: Any) -> None:
    """While a file is replaced again and again, each look at it finds one whole content."""
    first, second = b"a" * 300_000, b"b" * 200_000
    operate.write(tmp_path / "f", first)
    seen = set()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.add((tmp_path / "f").read_bytes())

    reader = threading.Thread(target=look)
    reader.start()
    for turn in range(100):
        operate.write(tmp_path / "f", second if turn % 2 else first)
    stop.set()
    reader.join()
    assert seen <= {first, second}


def test_appends_of_many_at_once_stay_whole(tmp_path: Path, operate: Any) -> None:
    """Each append is there once and in one piece."""
    records = [bytes([65 + number]) * 50_000 for number in range(8)]
    writers = [
        threading.Thread(target=operate.write, args=(tmp_path / "f", record), kwargs={"append": True})
        for record in records
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    written = (tmp_path / "f").read_bytes()
    assert sorted(written[at : at + 50_000] for at in range(0, len(written), 50_000)) == records


def test_a_folder_that_takes_the_files_place_is_not_harmed(tmp_path: Path) -> None:
    """When the target becomes a folder at the last moment, the write fails and leaves nothing."""
    (tmp_path / "f").mkdir()
    with drafting.Draft(os.fsencode(tmp_path)) as draft:
        draft.write(b"new")
        with pytest.raises(IsADirectoryError):
            draft.publish(os.fsencode(tmp_path / "f"), mode=0)
    assert names(tmp_path) == ["f"]


@pytest.mark.parametrize("nameless", [True, False])
def test_a_draft_is_published_or_leaves_nothing(nameless: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case of the table
    """With and without a file system that has nameless files."""
    folder = os.fsencode(tmp_path)
    with drafting.Draft(folder, nameless=nameless) as draft:
        draft.write(LARGE)
        draft.publish(folder + b"/f", mode=0o600)
    assert (tmp_path / "f").read_bytes() == LARGE
    with drafting.Draft(folder, nameless=nameless) as draft:
        draft.write(LARGE)
        assert b"".join(draft.pieces()) == LARGE
    assert names(tmp_path) == ["f"]


def test_a_nameless_draft_that_cannot_be_named_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel does not let a nameless file be linked, the content still arrives."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(os, "link", refuse)
    folder = os.fsencode(tmp_path)
    with drafting.Draft(folder) as draft:
        draft.write(LARGE)
        draft.publish(folder + b"/f", mode=0, executable=True)
    assert (tmp_path / "f").read_bytes() == LARGE
    assert names(tmp_path) == ["f"]


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, as_nobody: Any, operate: Any) -> None:
    """A file above the size limit of its process is `too-large`; the old content is still there."""

    def inside(root: Path) -> None:
        import resource  # noqa: PLC0415 - only in the forked process

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        (root / "f").write_bytes(b"old")
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            operate.write(root / "f", LARGE)
        finally:
            assert (root / "f").read_bytes() == b"old"
            assert names(root) == ["f"]

    assert as_nobody(inside) == "too-large"
    assert not names(tmp_path)


def test_content_is_never_read_beyond_one_byte_too_many(tmp_path: Path) -> None:
    """An endless input does not fill memory or disk."""

    class Endless:
        taken = 0

        def read(self, size: int) -> bytes:
            self.taken += size
            return b"x" * size

    source: Any = Endless()
    with pytest.raises(Exception, match="more came"):
        writing.write_file({"path": str(tmp_path / "f"), "size_bytes": 10}, source, source)
    assert source.taken == 11


@pytest.mark.parametrize("append", [False, True])
def test_a_write_that_is_killed_leaves_nothing(append: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case of the table
    """When the caller of a long upload goes away its process is killed: no file, no half of one, no temporary one."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        with os.fdopen(reader, "rb") as source:
            writing.write_file(
                {"path": str(tmp_path / "f"), "size_bytes": len(LARGE), "append": append}, source, source
            )
        os._exit(0)
    os.close(reader)
    os.write(writer, LARGE[: len(LARGE) // 2])  # returns once the child has taken nearly all of it
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(writer)
    assert names(tmp_path) == []


def test_many_make_the_same_folders_at_once(tmp_path: Path) -> None:
    """Writers that need the same missing folders do not get into each other's way."""
    for turn in range(40):
        folders = [os.fsencode(tmp_path / str(turn) / "a" / "b" / str(n % 3)) for n in range(8)]
        gate = threading.Barrier(len(folders))

        def make(folder: bytes, gate: threading.Barrier = gate) -> None:
            gate.wait()
            make_folders(folder)

        with ThreadPoolExecutor(len(folders)) as pool:
            for done in [pool.submit(make, folder) for folder in folders]:
                done.result()
        assert all(Path(os.fsdecode(folder)).is_dir() for folder in folders)
