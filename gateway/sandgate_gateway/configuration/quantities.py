"""Checks of single values. Each says what was written and what to write instead."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0

LONGEST_SECONDS = 366 * DAY
SHOWN_CHARACTERS = 60
LONGEST_INTEGER_BITS = 1024

_SIZE_UNITS = {
    "": 1, "b": 1,
    "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip
_TIME_UNITS = {"ms": 0.001, "s": 1.0, "m": MINUTE, "h": HOUR, "d": DAY}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]*)", re.ASCII)
_TIME_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(ms|s|m|h|d)\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A number of bytes: `512MiB`, `1.5GiB`, `10MB` or a whole number."""

    at_least: int = 1
    at_most: int = 64 * TIB

    def __call__(self, value: object) -> int:
        """Check one."""
        size = _bytes(value)
        if size is None:
            raise ValueError(f"{shown(value)} is no size; write for example 512MiB")
        if not self.at_least <= size <= self.at_most:
            raise ValueError(
                f"{shown(value)} is out of range; from {size_text(self.at_least)} to {size_text(self.at_most)}"
            )
        return size


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """A time in seconds: `30s`, `10m`, `1h30m`, `500ms` or a number of seconds."""

    at_least: float = 0.001
    at_most: float = LONGEST_SECONDS

    def __call__(self, value: object) -> float:
        """Check one."""
        seconds = _seconds(value)
        if seconds is None:
            raise ValueError(f"{shown(value)} is no time; write for example 30s, 10m or a number of seconds")
        if not self.at_least <= seconds <= self.at_most:
            raise ValueError(
                f"{shown(value)} is out of range; from {time_text(self.at_least)} to {time_text(self.at_most)}"
            )
        return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A whole number."""

    at_least: int = 1
    at_most: int = 1_000_000

    def __call__(self, value: object) -> int:
        """Check one."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{shown(value)} is no whole number")  # noqa: TRY004 - pydantic collects ValueErrors
        if not self.at_least <= value <= self.at_most:
            raise ValueError(f"{shown(value)} is out of range; from {self.at_least} to {self.at_most}")
        return value


@dataclass(frozen=True, slots=True)
class Word:
    """One of some words."""

    words: tuple[str, ...]

    def __call__(self, value: object) -> str:
        """Check one."""
        if not isinstance(value, str) or value not in self.words:
            raise ValueError(f"{shown(value)} is not possible; write {' or '.join(self.words)}")
        return value


def switch(value: object) -> bool:
    """Check a truth value."""
    if not isinstance(value, bool):
        raise ValueError(f"{shown(value)} is neither true nor false")  # noqa: TRY004 - pydantic collects ValueErrors
    return value


def absolute_path(value: object) -> Path:
    """Check a path: absolute, or below the home folder as `~/…`."""
    if isinstance(value, Path):
        return below_home(str(value))
    if not isinstance(value, str) or not value.startswith(("/", "~/")) or "\0" in value:
        raise ValueError(f"{shown(value)} is no absolute path")
    return below_home(value)


def below_home(value: str) -> Path:
    """Resolve `~` at the start of a path.

    Raises:
        ValueError: nobody knows where that is, for no HOME is set and the user is in no list; or it is not UTF-8.
    """
    try:
        path = Path(value).expanduser()
        str(path).encode("utf-8")  # gRPC, JSON and the audit take no other
    except RuntimeError:
        raise ValueError(f"{shown(value)}: there is no home folder to be found; write an absolute path") from None
    except UnicodeEncodeError:
        raise ValueError(f"{shown(value)} is not UTF-8; paths of settings are") from None
    return path


def optional_path(value: object) -> Path | None:
    """Check a path that need not be given."""
    return None if value is None else absolute_path(value)


def a_list(value: object) -> object:
    """Check that something is a list; its items have checks of their own."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"{shown(value)} is no list")  # noqa: TRY004 - pydantic collects ValueErrors
    return value


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def variable_name(value: object) -> str:
    """Check the name of a variable of the environment."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError("is no name of a variable: letters, digits and _ only, and no digit first")
    return value


def variable_text(value: object) -> str:
    """Check the value of a variable. It may be a secret, so no message shows it."""
    if not isinstance(value, str):
        raise ValueError("the value is no text; put quotes around it")  # noqa: TRY004 - pydantic collects ValueErrors
    if "\0" in value:
        raise ValueError("the value holds a NUL character, which no environment can")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise ValueError("the value holds half a character, which no environment can") from None
    return value


def shown(value: object) -> str:
    """Show a value as it was written, more or less; short, and on one line."""
    if value is None:
        return "no value"
    if isinstance(value, Mapping):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER_BITS:
        return "a number of very many digits"  # Python itself refuses to write it out
    text = json.dumps(value, ensure_ascii=not str(value).isprintable()) if isinstance(value, str | int | float) else "?"
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 2] + '…"'


def size_text(size: int) -> str:
    """Write a size in the largest unit that keeps it whole."""
    for unit, factor in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def time_text(seconds: float) -> str:
    """Write a time in the largest unit that keeps it whole."""
    for unit, factor in (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", 1.0)):
        if seconds and seconds % factor == 0:
            return f"{int(seconds // factor)}{unit}"
    if not seconds:
        return "0s"
    milliseconds = round(seconds * 1000, 3)
    return f"{int(milliseconds)}ms" if milliseconds == int(milliseconds) else f"{seconds:.6f}".rstrip("0") + "s"


def _bytes(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or (factor := _SIZE_UNITS.get(match[2].lower())) is None:
        return None
    return int(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor


def _seconds(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) <= sys.float_info.max else math.inf  # a number of 400 digits is no double
    if not isinstance(value, str):
        return None
    text = value.strip()
    if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text, re.ASCII):
        return float(text)
    total, place = 0.0, 0
    while place < len(text):
        match = _TIME_PART.match(text, place)
        if match is None:
            return None
        total += float(match[1]) * _TIME_UNITS[match[2]]
        place = match.end()
    return total if text else None
