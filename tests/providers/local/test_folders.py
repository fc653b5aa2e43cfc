"""Folders of threads and their owners."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandgate_providers.errors import CapacityExhausted, ProviderMisconfigured, ProviderUnavailable
from sandgate_providers.local.folders import ThreadFolders
from sandgate_providers.local.reach import blocked_at, impassable
from sandgate_providers.local.users import UserRange

FIRST, LAST = 58000, 58002

root_only = pytest.mark.usefixtures("as_root")


@pytest.fixture
def folders(place: Path) -> Iterator[ThreadFolders]:
    """Give opened folders whose threads have users of their own, when this is root."""
    folders = ThreadFolders(place / "data", UserRange(FIRST, LAST) if os.geteuid() == 0 else None)
    folders.open()
    yield folders
    folders.close()


def mode(path: Path) -> int:
    """Give the permission bits of a path itself."""
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_new_folder_is_complete_and_private(folders: ThreadFolders) -> None:
    """It has its three parts, and nobody else may look into it."""
    folder = folders.prepare("sg-1")
    assert sorted(item.name for item in folder.path.iterdir()) == ["outputs", "uploads", "workspace"]
    assert mode(folder.path) == 0o700
    for path in (folder.path, *folder.path.iterdir()):
        assert (path.stat().st_uid, path.stat().st_gid) == (folder.uid, folder.gid)


def test_others_may_pass_but_not_list(folders: ThreadFolders) -> None:
    """A sandbox's user gets to its own folder and learns no other's name, whatever the umask was."""
    assert mode(folders.data_dir) == 0o711
    assert mode(folders.root) == 0o711


def test_an_existing_folder_keeps_its_files_and_is_shut_again(folders: ThreadFolders) -> None:
    """A sandbox may have opened its folder to everybody; the next life shuts it."""
    folder = folders.prepare("sg-1")
    (folder.path / "workspace/kept").write_text("kept")
    folder.path.chmod(0o777)
    assert folders.prepare("sg-1") == folder
    assert mode(folder.path) == 0o700
    assert (folder.path / "workspace/kept").read_text() == "kept"


def test_a_folder_that_was_shut_from_inside_opens_again(folders: ThreadFolders) -> None:
    """A thread cannot lock itself out for good."""
    folder = folders.prepare("sg-1")
    (folder.path / "workspace").chmod(0)
    folder.path.chmod(0)
    assert folders.prepare("sg-1") == folder
    assert stat.S_IMODE((folder.path / "workspace").stat().st_mode) == 0o755


@root_only
def test_two_threads_have_two_users(folders: ThreadFolders) -> None:
    """Neither is root, and both come from the range."""
    one, two = folders.prepare("sg-1"), folders.prepare("sg-2")
    assert one.uid != two.uid
    assert {one.uid, two.uid} <= set(range(FIRST, LAST + 1))


@root_only
def test_the_owner_is_the_truth(folders: ThreadFolders) -> None:
    """After a restart each thread has its user again, and a new one gets another."""
    one = folders.prepare("sg-1")
    folders.close()
    again = ThreadFolders(folders.data_dir, UserRange(FIRST, LAST))
    again.open()
    try:
        assert again.prepare("sg-2").uid != one.uid
        assert again.prepare("sg-1") == one
    finally:
        again.close()


@root_only
def test_no_user_is_given_twice(folders: ThreadFolders) -> None:
    """When all are taken there is no room; a deleted folder makes some."""
    uids = {folders.prepare(f"sg-{number}").uid for number in range(LAST - FIRST + 1)}
    assert len(uids) == LAST - FIRST + 1
    with pytest.raises(CapacityExhausted, match="uid_range"):
        folders.prepare("sg-more")
    gone = folders.root / "sg-0"
    for part in gone.iterdir():
        part.rmdir()
    gone.rmdir()
    assert folders.prepare("sg-more").uid in uids


@root_only
def test_users_that_the_host_knows_are_left_out() -> None:
    """A user with an account is somebody else."""
    users = UserRange(65533, 65535)
    assert [users.free({65533}), users.free({65533})] == [65535, 65535]


@root_only
def test_a_user_that_runs_something_is_left_out() -> None:
    """Another gateway may use the same range; whoever runs something is not given away."""
    users = UserRange(FIRST, FIRST + 1)
    with subprocess.Popen(["/bin/sleep", "60"], user=FIRST, group=FIRST, extra_groups=[]) as process:
        try:
            assert [users.free(()), users.free(())] == [FIRST + 1, FIRST + 1]
        finally:
            process.kill()


def test_two_gateways_begin_at_different_places() -> None:
    """With one range between them they meet late, if ever."""
    begun = {UserRange(50000, 59999, f"/data/{number}").free(()) for number in range(20)}
    assert len(begun) > 15
    assert all(uid in UserRange(50000, 59999) for uid in begun)


@root_only
def test_a_folder_that_was_left_unfinished_is_finished(folders: ThreadFolders) -> None:
    """A gateway that died while it made a folder leaves one that is still root's."""
    (folders.root / "sg-1").mkdir(mode=0o700)
    (folders.root / "sg-1/workspace").mkdir()
    folder = folders.prepare("sg-1")
    assert (folder.path / "workspace").stat().st_uid == folder.uid


@root_only
def test_a_strangers_folder_is_refused(folders: ThreadFolders) -> None:
    """A user outside of the range is not run as, whoever put the folder there."""
    (folders.root / "sg-1").mkdir()
    os.chown(folders.root / "sg-1", 1234, 1234)
    with pytest.raises(ProviderUnavailable, match="uid_range"):
        folders.prepare("sg-1")


@root_only
def test_a_copied_folder_is_refused(folders: ThreadFolders) -> None:
    """Two folders of one user would let two threads read each other."""
    one = folders.prepare("sg-1")
    copy = folders.root / "sg-copy"
    copy.mkdir()
    os.chown(copy, one.uid, one.gid)
    answers: list[str] = []
    for name in ("sg-1", "sg-copy"):
        try:
            answers.append(str(folders.prepare(name).path))
        except ProviderUnavailable as error:
            answers.append(str(error))
    assert any("as does the folder of" in answer for answer in answers)


def test_a_link_in_place_of_the_folder_is_refused(folders: ThreadFolders, tmp_path: Path) -> None:
    """Nothing is made, shut or given away behind a symbolic link."""
    (folders.root / "sg-1").symlink_to(tmp_path)
    before = tmp_path.stat()
    with pytest.raises(ProviderUnavailable, match="sg-1"):
        folders.prepare("sg-1")
    assert list(tmp_path.iterdir()) == []
    assert (tmp_path.stat().st_uid, tmp_path.stat().st_mode) == (before.st_uid, before.st_mode)


@pytest.mark.parametrize("part", ["workspace", "uploads", "outputs"])
def test_a_link_in_place_of_a_part_is_moved_aside(folders: ThreadFolders, tmp_path: Path, part: str) -> None:
    """The thread has its three folders again, the link is kept, and what it points to is untouched."""
    folder = folders.prepare("sg-1")
    (folder.path / part).rmdir()
    (folder.path / part).symlink_to(tmp_path)
    before = tmp_path.stat()
    folders.prepare("sg-1")
    assert (folder.path / part).is_dir()
    assert not (folder.path / part).is_symlink()
    assert (folder.path / f"{part}.replaced-1").is_symlink()
    assert (tmp_path.stat().st_uid, tmp_path.stat().st_mode) == (before.st_uid, before.st_mode)


def test_files_in_place_of_a_part_are_all_kept(folders: ThreadFolders) -> None:
    """Moving aside never replaces what was moved aside before."""
    folder = folders.prepare("sg-1")
    for text in ("first", "second"):
        (folder.path / "outputs").rmdir()
        (folder.path / "outputs").write_text(text)
        folders.prepare("sg-1")
    assert (folder.path / "outputs.replaced-1").read_text() == "first"
    assert (folder.path / "outputs.replaced-2").read_text() == "second"


def test_two_gateways_do_not_share_a_folder(folders: ThreadFolders) -> None:
    """The second is refused while the first runs, and may follow it."""
    second = ThreadFolders(folders.data_dir, None)
    with pytest.raises(ProviderMisconfigured, match="another gateway"):
        second.open()
    folders.close()
    second.open()
    second.close()


@root_only
def test_a_closed_folder_on_the_way_is_named(place: Path) -> None:
    """The message says which folder keeps sandboxes out, and which setting to change."""
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    folders = ThreadFolders(closed / "data", UserRange(FIRST, LAST))
    with pytest.raises(ProviderMisconfigured, match=f"data_dir: .*{closed}"):
        folders.open()


def test_a_folder_that_others_may_write_is_refused(place: Path) -> None:
    """Whoever may write there could put a link in a thread's place."""
    (place / "data").mkdir()
    (place / "data").chmod(0o777)
    with pytest.raises(ProviderMisconfigured, match="data_dir"):
        ThreadFolders(place / "data", None).open()


def test_a_file_in_place_of_the_data_folder_is_refused(place: Path) -> None:
    """What the file system says is told with the setting's name."""
    (place / "data").touch()
    with pytest.raises(ProviderMisconfigured, match="data_dir"):
        ThreadFolders(place / "data", None).open()


def test_reach_is_told_from_the_bits(place: Path) -> None:
    """Owner, group and others each have their own bits, and the first that fits decides."""
    inner = place / "inner"
    inner.mkdir()
    program = inner / "program"
    program.touch()
    uid = program.stat().st_uid
    program.chmod(0o755)
    assert blocked_at(program, 4711) is None
    program.chmod(0o751)
    assert blocked_at(program, 4711) == program
    program.chmod(0o644)
    assert blocked_at(program, 4711) is None
    program.chmod(0o077)
    assert blocked_at(program, uid) == program
    inner.chmod(0o700)
    assert blocked_at(program, 4711) == inner
    assert impassable(program, 4711) == inner
    assert blocked_at(program, None) is None
