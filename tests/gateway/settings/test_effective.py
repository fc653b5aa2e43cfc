"""What `config check` shows: every setting, its value, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sandgate_gateway.configuration.effective import effective_settings
from sandgate_gateway.configuration.loading import load_settings


def test_each_value_knows_where_it_comes_from(write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A line, a variable, or the default; paths below the data folder are written out."""
    file = write("data_dir: /srv/x\nsandboxes:\n  max: 3\n  idle_time: 90s\n  limits: {memory: 2048MiB}\n")
    monkeypatch.setenv("SANDGATE_SANDBOXES__MAX", "5")
    shown = {item.key: item for item in effective_settings(load_settings(file))}
    assert (shown["sandboxes.max"].value, shown["sandboxes.max"].origin) == (5, "SANDGATE_SANDBOXES__MAX")
    assert (shown["sandboxes.idle_time"].text, shown["sandboxes.idle_time"].origin) == ("90s", "gateway.yaml:4")
    assert (shown["sandboxes.limits.memory"].text, shown["sandboxes.limits.memory"].origin) == (
        "2GiB",
        "gateway.yaml:5",
    )
    assert shown["sandboxes.limits.processes"].is_default
    assert shown["audit.file"].text == "/srv/x/audit/audit.jsonl"
    assert shown["audit.file"].is_default


def test_values_for_commands_are_hidden(write: Callable[[str], Path]) -> None:
    """Names are shown, values never."""
    loaded = load_settings(write("sandboxes: {environment: {TOKEN: hunter2}}\n"))
    shown = {item.key: item for item in effective_settings(loaded)}
    assert shown["sandboxes.environment"].text == "TOKEN=(hidden)"
    assert "hunter2" not in repr(shown)
