"""Checks the arguments of a call against the schema that the tool is listed with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.domain.result import Violation
from sandgate_gateway.tools.contract import ToolSpec
from sandgate_gateway.tools.shown import shown_text

MOST_NESTING = 32
"""Levels of objects and lists."""
MOST_VALUES = 10_000
"""In the arguments of one call, however they are nested: no tool takes near as many, and checking them takes time that
all other calls wait for."""
MOST_VIOLATIONS = 10
"""So many are told; a model corrects them all in one step or none."""
MOST_NAME_CHARACTERS = 64
"""Of a name that the caller made up, in a message."""

_TYPES = MappingProxyType(
    {
        "string": "a text",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "object": "an object",
        "array": "a list",
        "null": "null",
    }
)

_MESSAGES = MappingProxyType(
    {
        "minLength": "must have at least {wanted:,} characters",
        "maxLength": "must have at most {wanted:,} characters",
        "minimum": "must be at least {wanted:,}",
        "maximum": "must be at most {wanted:,}",
        "exclusiveMinimum": "must be above {wanted:,}",
        "enum": "must be one of {wanted}",
    }
)


def tool_spec(
    name: str,
    description: str,
    properties: Mapping[str, JsonValue],
    *,
    required: Sequence[str],
    read_only: bool = False,
) -> ToolSpec:
    """Describe a tool.

    Every tool takes an optional `description` as its last argument: some models like to say what a call is for. It has
    no effect.
    """
    why: dict[str, JsonValue] = {
        "type": "string",
        "maxLength": 2000,
        "description": "What this call is for, in a few words. Optional; has no effect.",
    }
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": {**properties, "description": why},
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description=description, arguments_schema=MappingProxyType(schema), read_only=read_only)


class ArgumentsSchema:
    """One tool's schema, compiled once.

    Null for an argument that may be left out counts as left out: several models send every argument each time.
    """

    def __init__(self, schema: Mapping[str, JsonValue]) -> None:
        plain = dict(schema)
        Draft202012Validator.check_schema(plain)
        self._validator = Draft202012Validator(plain)
        self._names = tuple(cast("Mapping[str, JsonValue]", plain.get("properties", {})))
        self._required = frozenset(cast("Sequence[str]", plain.get("required", ())))

    def check(self, arguments: Mapping[str, JsonValue]) -> tuple[Violation, ...]:
        """Say what is wrong with the arguments; empty when nothing is.

        Messages never hold a value that the caller sent: it may be large, and it may be a secret.
        """
        plain = tuple(islice(_find_unusable(arguments), MOST_VIOLATIONS))
        if plain:
            return plain
        given = {
            name: value
            for name, value in arguments.items()
            if value is not None or name in self._required or name not in self._names
        }
        violations: list[Violation] = []
        for error in sorted(self._validator.iter_errors(given), key=lambda error: [str(part) for part in error.path]):
            violations += self._explain(error, given)
        return tuple(violations[:MOST_VIOLATIONS])

    def _explain(self, error: ValidationError, given: Mapping[str, JsonValue]) -> Iterator[Violation]:
        pointer = _pointer(error.absolute_path)
        if error.validator == "required":
            for name in cast("Sequence[str]", error.validator_value):
                if name not in cast("Mapping[str, JsonValue]", error.instance):
                    yield Violation(pointer=f"{pointer}/{_escape(name)}", message="is missing")
        elif error.validator == "additionalProperties" and not pointer:
            message = f"is no argument of this tool; allowed are {', '.join(self._names)}"
            for name in given:
                if name not in self._names:
                    yield Violation(pointer=_pointer((name,)), message=message)
        else:
            yield Violation(pointer=pointer, message=_message(str(error.validator), error.validator_value))


def _message(keyword: str, wanted: object) -> str:
    """Say what a keyword of the schema asks for."""
    if keyword == "type":
        kinds = [wanted] if isinstance(wanted, str) else cast("Sequence[str]", wanted)
        return f"must be {' or '.join(_TYPES[kind] for kind in kinds)}"
    if keyword == "minLength" and wanted == 1:
        return "must not be empty"
    template = _MESSAGES.get(keyword, "does not satisfy the keyword {keyword} of the schema")
    return template.format(keyword=keyword, wanted=wanted)


def _find_unusable(arguments: Mapping[str, JsonValue]) -> Iterator[Violation]:
    """Find what no tool takes: NUL, text that UTF-8 cannot say, numbers that are none, endless nesting or length."""
    pending: list[tuple[tuple[str | int, ...], JsonValue]] = [((), dict(arguments))]
    count = 0
    while pending:
        path, value = pending.pop()
        count += len(value) if isinstance(value, dict | list) else 0
        if count > MOST_VALUES:
            yield Violation(pointer=_pointer(path[:1]), message=f"holds more than {MOST_VALUES:,} values")
            return
        if len(path) > MOST_NESTING:
            yield Violation(pointer=_pointer(path[:1]), message=f"is nested deeper than {MOST_NESTING} levels")
            return
        if isinstance(value, dict):
            for name in value:
                if problem := _problem(name):
                    yield Violation(pointer=_pointer(path), message=f"has a name that {problem}")
            pending += [((*path, name), item) for name, item in value.items()]
        elif isinstance(value, list):
            pending += [((*path, at), item) for at, item in enumerate(value)]
        elif problem := _problem(value):
            yield Violation(pointer=_pointer(path), message=problem)


def _problem(value: JsonValue) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if not isinstance(value, str):
        return ""
    if "\0" in value:
        return "holds a NUL character"
    if not value.isascii() and _is_broken(value):
        return "holds half a character (a lone surrogate)"
    return ""


def _is_broken(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _pointer(path: Sequence[str | int] | Iterator[str | int]) -> str:
    """Write a JSON pointer (RFC 6901)."""
    return "".join(f"/{_escape(shown_text(str(part), MOST_NAME_CHARACTERS))}" for part in path)


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
