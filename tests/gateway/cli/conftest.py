"""A machine without settings of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Take away every variable of ours, and look in a folder without settings; give that folder."""
    for name in [name for name in os.environ if name.startswith("SANDGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    return tmp_path
