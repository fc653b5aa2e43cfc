"""The program that the demo's agent runs in the sandbox."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandgate_agent.demo import survey
from sandgate_agent.demo.scripted import remarks_on


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small source tree."""
    root = tmp_path / "tree"
    (root / "lib/pack/inner").mkdir(parents=True)
    (root / "lib/pack/__init__.py").write_text("")
    (root / "lib/pack/core.py").write_text(
        "def long():\n    # TODO: shorten\n" + "    x = 1\n" * 8 + "\n\ndef short(): pass\n"
    )
    (root / "lib/pack/user.py").write_text("from pack import core\nfrom . import inner\n")
    (root / "lib/pack/inner/__init__.py").write_text("from ..core import long\nimport os\n")
    (root / "broken.py").write_text("def (:\n")
    (root / "notes.txt").write_bytes(b"FIXME \xff TODO\n")
    (root / "link").symlink_to("/etc/passwd")
    return root


def test_a_report_holds_what_was_measured(tree: Path) -> None:
    """Sizes, lengths, imports and notes are computed from the files."""
    text = survey.report(tree, "abc123")

    assert "Revision abc123: 6 files" in text
    assert "| long | 10 | lib/pack/core.py:1 |" in text
    assert "| pack.core | 2 |" in text
    assert "| notes.txt | 2 |" in text
    assert "| lib/pack/core.py | 1 |" in text
    assert "| broken.py | invalid syntax" in text
    assert "passwd" not in text


def test_modules_are_named_as_python_names_them(tree: Path) -> None:
    """The outermost package begins the name, whatever folder it is in."""
    assert survey.module_name(tree, tree / "lib/pack/core.py") == "pack.core"
    assert survey.module_name(tree, tree / "lib/pack/inner/__init__.py") == "pack.inner"
    assert survey.module_name(tree, tree / "broken.py") == "broken"


def test_it_runs_by_itself(tree: Path, tmp_path: Path) -> None:
    """It is a program of one file that needs nothing but Python."""
    target = tmp_path / "report.md"
    command = [sys.executable, "-I", survey.__file__, str(tree), str(target), "r1"]

    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)

    assert "5 Python modules" in done.stdout
    assert target.read_text().startswith("# What is in this repository")
    assert subprocess.run([sys.executable, survey.__file__], stderr=subprocess.DEVNULL, check=False).returncode == 2


def test_remarks_are_made_from_the_report(tree: Path, tmp_path: Path) -> None:
    """The scripted model names the longest function and the most imported module; without Python it says so."""
    remarks = remarks_on(survey.report(tree, "r"))
    (tmp_path / "empty").mkdir()

    assert "`long` with 10 lines (lib/pack/core.py:1)" in remarks
    assert "`pack.core` is imported by 2 modules" in remarks
    assert remarks_on(survey.report(tmp_path / "empty", "r")) == "There is no Python in it to remark on."
