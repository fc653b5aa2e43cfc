"""Reads the arguments of a call from the bytes that the agent sent."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NoReturn

from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.domain.result import Violation

MOST_ARGUMENTS_BYTES = 1 << 20
"""The contract's limit."""


class _Refused(ValueError):
    """Not what we take as arguments; says why."""


def parse_arguments(data: bytes) -> Mapping[str, JsonValue] | tuple[Violation, ...]:
    """Read one JSON object in UTF-8, of at most 1 MiB.

    A name that is there twice is refused, since two readers could take two different values; NaN, Infinity and numbers
    beyond a double are refused, since other readers of JSON do not know them. What one tool does not take is not
    checked here, see `schema`.

    Returns: the object, read-only, or what is wrong with it.
    """
    try:
        return MappingProxyType(_decode(data))
    except _Refused as error:
        return (Violation(pointer="", message=str(error)),)


def _decode(data: bytes) -> dict[str, JsonValue]:
    if len(data) > MOST_ARGUMENTS_BYTES:
        raise _Refused(f"has {len(data):,} bytes; at most {MOST_ARGUMENTS_BYTES:,} are allowed")
    try:
        value = _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _Refused(f"is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise _Refused(f"is not JSON at character {error.pos}: {error.msg}") from error
    except RecursionError as error:
        raise _Refused("is nested too deeply") from error
    except ValueError as error:
        raise _Refused(str(error) if isinstance(error, _Refused) else "holds a number of too many digits") from error
    if not isinstance(value, dict):
        raise _Refused("must be a JSON object")
    return value


def _once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Refused("holds the same name twice")
    return value


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _Refused("holds a number that is too large")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"holds {name}, which is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_float=_finite, parse_constant=_refuse_constant)
