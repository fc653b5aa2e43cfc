"""The tools that the gateway offers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sandgate_gateway.tools.bash import Bash
from sandgate_gateway.tools.registry import ToolRegistry


def test_the_seven_tools_in_order() -> None:
    """All are there, sorted, and found by their exact names alone."""
    registry = ToolRegistry()
    assert list(registry.names) == ["bash", "glob", "grep", "ls", "read_file", "str_replace", "write_file"]
    assert [spec.name for spec in registry.specs] == list(registry.names)
    assert registry.find("Bash") is None
    found = registry.find("bash")
    assert found is not None
    assert found.spec.name == "bash"


def test_two_tools_of_one_name_are_refused() -> None:
    """Which of them a call means would be open."""
    with pytest.raises(ValueError, match="one name"):
        ToolRegistry(more=[Bash()])


@pytest.mark.parametrize("spec", ToolRegistry().specs, ids=lambda spec: spec.name)
def test_a_listed_schema_is_plain_and_closed(spec: Any) -> None:
    """It is JSON, refuses unknown arguments, describes each one, and takes a `description` last and at will."""
    schema = json.loads(json.dumps(dict(spec.arguments_schema)))
    assert schema["additionalProperties"] is False
    assert list(schema["properties"])[-1] == "description"
    assert "description" not in schema["required"]
    assert all(item["description"] for item in schema["properties"].values())
    assert 40 < len(spec.description) < 1000


def test_what_changes_nothing_says_so() -> None:
    """Only tools that cannot change a file are read-only."""
    assert [spec.name for spec in ToolRegistry().specs if spec.read_only] == ["glob", "grep", "ls", "read_file"]


def test_the_limit_of_a_write_is_in_its_description() -> None:
    """A model learns it before it runs into it."""
    (spec,) = [spec for spec in ToolRegistry(12_345).specs if spec.name == "write_file"]
    assert "12,345 bytes" in spec.description
