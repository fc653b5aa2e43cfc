"""The example file explains every setting, with its default."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from sandgate_gateway.configuration.effective import effective_settings
from sandgate_gateway.configuration.environment import section_of
from sandgate_gateway.configuration.loading import load_settings
from sandgate_gateway.settings import Settings

EXAMPLE = Path(__file__).parents[3] / "deploy" / "sandgate.example.yaml"

MACHINE = {"listen", "data_dir", "installation", "local.bubblewrap", "local.python", "local.cgroup_parent"}
"""Settings whose default depends on the machine; the example shows a likely value."""


def keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    """List every setting."""
    found: list[str] = []
    for name, field in model.model_fields.items():
        section = section_of(field)
        found += keys(section, f"{prefix}{name}.") if section is not None else [prefix + name]
    return found


def switched_on() -> str:
    """Take the "#" away from every setting."""
    return re.sub(r"^( *)#(?=[a-z_]+:)", r"\1", EXAMPLE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_example_as_it_is_sets_nothing(write: Callable[[str], Path]) -> None:
    """Copying it changes nothing."""
    assert load_settings(write(EXAMPLE.read_text(encoding="utf-8"))).settings == load_settings().settings


def test_the_example_shows_every_setting_with_its_default(write: Callable[[str], Path]) -> None:
    """With every "#" taken away each setting is there, in the same order, and has the value that it has anyway."""
    loaded = load_settings(write(switched_on()))
    shown = effective_settings(loaded)
    assert [item.key for item in shown] == keys(Settings)
    assert [item.key for item in shown if item.is_default] == []
    defaults = {item.key: item.value for item in effective_settings(load_settings())}
    for item in shown:
        if item.key not in MACHINE and not item.key.endswith("file"):
            assert item.value == defaults[item.key], item.key


def test_lines_come_in_the_order_of_the_settings(write: Callable[[str], Path]) -> None:
    """Who reads the code and who reads the example find the same order."""
    shown = effective_settings(load_settings(write(switched_on())))
    lines = [int(item.origin.partition(":")[2]) for item in shown]
    assert lines == sorted(lines)
