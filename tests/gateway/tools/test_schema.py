"""Checking arguments against the listed schema."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sandgate_gateway.domain.result import Violation
from sandgate_gateway.tools.registry import ToolRegistry
from sandgate_gateway.tools.schema import MOST_VIOLATIONS, ArgumentsSchema, tool_spec

REGISTRY = ToolRegistry()


def check(tool: str, **arguments: Any) -> list[tuple[str, str]]:
    """Give pointers and messages."""
    return [(violation.pointer, violation.message) for violation in REGISTRY.check(tool, arguments)]


def test_right_arguments_pass() -> None:
    """With and without those that may be left out."""
    assert check("bash", command="true") == []
    assert check("bash", command="true", description="why", timeout_seconds=5) == []
    assert check("read_file", path="/f", start_line=1, end_line=2.0) == []


@pytest.mark.parametrize("tool", REGISTRY.names)
def test_null_means_left_out_where_that_is_allowed(tool: str) -> None:
    """Several models send every argument, with null for those that they do not mean."""
    spec = REGISTRY.find(tool)
    assert spec is not None
    schema: Any = spec.spec.arguments_schema
    arguments = {name: "x" if name in schema["required"] else None for name in schema["properties"]}
    assert REGISTRY.check(tool, arguments) == ()
    for name in schema["required"]:
        assert REGISTRY.check(tool, {**arguments, name: None}) == (
            Violation(pointer=f"/{name}", message="must be a text"),
        )


@pytest.mark.parametrize(
    ("arguments", "violations"),
    [
        ({}, [("/command", "is missing")]),
        ({"command": ""}, [("/command", "must not be empty")]),
        ({"command": 5}, [("/command", "must be a text")]),
        ({"command": ["true"]}, [("/command", "must be a text")]),
        ({"command": "x" * 100_001}, [("/command", "must have at most 100,000 characters")]),
        ({"command": "true", "timeout_seconds": "5"}, [("/timeout_seconds", "must be a whole number")]),
        ({"command": "true", "timeout_seconds": True}, [("/timeout_seconds", "must be a whole number")]),
        ({"command": "true", "timeout_seconds": 1.5}, [("/timeout_seconds", "must be a whole number")]),
        ({"command": "true", "timeout_seconds": 0}, [("/timeout_seconds", "must be at least 1")]),
        (
            {"command": "true", "cmd": "x"},
            [("/cmd", "is no argument of this tool; allowed are command, timeout_seconds, description")],
        ),
        ({"command": "a\0b"}, [("/command", "holds a NUL character")]),
        ({"command": "\ud800"}, [("/command", "holds half a character (a lone surrogate)")]),
        ({"command": "true", "description": "\0"}, [("/description", "holds a NUL character")]),
        ({"command": "true", "timeout_seconds": float("inf")}, [("/timeout_seconds", "must be a finite number")]),
        ({"command": "true", "a\0": 1}, [("", "has a name that holds a NUL character")]),
        (
            {"command": "true", "a/b~c\n": 1},
            [("/a~1b~0c\\n", "is no argument of this tool; allowed are command, timeout_seconds, description")],
        ),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(arguments: dict[str, Any], violations: list[tuple[str, str]]) -> None:
    """With a JSON pointer, and what is wrong; never with the value."""
    assert check("bash", **arguments) == violations


def test_violations_are_few_and_short() -> None:
    """However much is wrong, and however long names and values are."""
    arguments = {"n" * 10_000 + str(number): "v" * 10_000 for number in range(100)}
    violations = REGISTRY.check("bash", arguments)
    assert len(violations) == MOST_VIOLATIONS
    assert all(len(violation.pointer) + len(violation.message) < 200 for violation in violations)


def test_nesting_is_bounded() -> None:
    """Deep values are refused before the schema looks at them."""
    value: Any = "x"
    for _ in range(10_000):
        value = [value]
    assert check("bash", command=value) == [("/command", "is nested deeper than 32 levels")]


def test_other_keywords_have_a_message() -> None:
    """A schema may use all of JSON Schema, though the messages of few keywords are written out."""
    spec = tool_spec("t", "d", {"a": {"enum": ["x", "y"]}, "b": {"pattern": "^z"}}, required=[])
    schema = ArgumentsSchema(spec.arguments_schema)
    assert schema.check({"a": "secret", "b": "secret"}) == (
        Violation(pointer="/a", message="must be one of ['x', 'y']"),
        Violation(pointer="/b", message="does not satisfy the keyword pattern of the schema"),
    )


@pytest.mark.parametrize(
    "arguments",
    [{f"a{number}": 1 for number in range(90_000)}, {"command": [[1] * 300_000]}],
    ids=["names", "items"],
)
def test_very_many_values_cost_little(arguments: dict[str, Any]) -> None:
    """A call of the largest size that is allowed does not hold up the others while it is checked."""
    started = time.process_time()
    violations = REGISTRY.check("bash", arguments)
    assert time.process_time() - started < 0.1
    assert [violation.message for violation in violations] == ["holds more than 10,000 values"]
