"""Which files the demo sends."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandgate_agent.demo import repository


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git checkout with one tracked and one untracked file."""
    (tmp_path / "tracked file.py").write_text("x")
    (tmp_path / "gone.py").write_text("x")
    (tmp_path / "data.bin").write_bytes(b"x" * (repository.MAX_FILE_BYTES + 1))
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "gone.py").unlink()
    (tmp_path / "secret.txt").write_text("x")
    return tmp_path


async def test_only_tracked_files_are_sent(checkout: Path) -> None:
    """What git does not track stays here; large files are named and left out."""
    chosen = await repository.select(checkout)

    assert chosen.files == ("gone.py", "tracked file.py")
    assert chosen.too_large == ("data.bin",)
    assert await repository.revision(checkout) == "unknown"


async def test_without_git_the_source_is_walked(tmp_path: Path) -> None:
    """Caches and hidden files are left out."""
    for name in ("a.py", "deep/b.py", "__pycache__/c.pyc", ".git-like/d", ".hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")

    assert (await repository.select(tmp_path)).files == ("a.py", "deep/b.py")


async def test_a_folder_that_cannot_be_studied_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing, or too much, is an error that names the folder."""
    with pytest.raises(ValueError, match="no files"):
        await repository.select(tmp_path)
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("x")
    # The real limit would need ten thousand files.
    monkeypatch.setattr(repository, "MAX_FILES", 1)
    with pytest.raises(ValueError, match="takes 1 at most"):
        await repository.select(tmp_path)
