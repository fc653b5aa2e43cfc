"""A machine without settings of its own, and files of settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Take away every variable of ours and every file in the usual places; give the current folder."""
    for name in [name for name in os.environ if name.startswith("SANDGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Give a function that writes a file of settings and gives its path, relative as people write it."""

    def make(text: str) -> Path:
        (tmp_path / "gateway.yaml").write_text(text, encoding="utf-8")
        return Path("gateway.yaml")

    return make
