"""Takes arguments that were checked against a tool's schema. Null and missing are the same."""

from __future__ import annotations

from collections.abc import Mapping

from sandgate_gateway.domain.call import JsonValue


def text_argument(arguments: Mapping[str, JsonValue], name: str, default: str = "") -> str:
    """Take a text."""
    value = arguments.get(name)
    if value is None:
        return default
    assert isinstance(value, str), name
    return value


def number_argument(arguments: Mapping[str, JsonValue], name: str) -> int | None:
    """Take a whole number; in JSON Schema 5.0 is one too."""
    value = arguments.get(name)
    if value is None:
        return None
    assert isinstance(value, int | float), name
    return int(value)


def clamped_argument(arguments: Mapping[str, JsonValue], name: str, default: int, most: int) -> int:
    """Take a whole number from 1 to a ceiling; one outside is moved to the nearest."""
    value = number_argument(arguments, name)
    return default if value is None else max(1, min(value, most))


def flag_argument(arguments: Mapping[str, JsonValue], name: str) -> bool:
    """Take a truth value; false when it is not given."""
    return arguments.get(name) is True
