"""Every setting with the value that counts, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sandgate_gateway.configuration.listening import ListenAddress
from sandgate_gateway.configuration.loading import Loaded
from sandgate_gateway.configuration.problems import NOWHERE, Origin, dotted
from sandgate_gateway.configuration.problems import Path as KeyPath
from sandgate_gateway.configuration.quantities import Duration, Size, size_text, time_text
from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.settings import Settings

HIDDEN = "(hidden)"
"""Instead of values that may be secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """One setting."""

    key: str
    value: JsonValue
    """As a file would say it; None: not set, and what that means depends on the machine."""
    text: str
    """For people."""
    origin: str
    """A line of the file, a variable, or `default`."""

    @property
    def is_default(self) -> bool:
        """True when nobody wrote it."""
        return self.origin == "default"


def effective_settings(loaded: Loaded) -> list[Effective]:
    """List every setting, in the order of the example file."""
    return [_effective(loaded, path, field, value) for path, field, value in _walk(loaded.settings, ())]


def _walk(section: BaseModel, path: KeyPath) -> Iterator[tuple[KeyPath, FieldInfo, object]]:
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _walk(value, (*path, name))
        else:
            yield (*path, name), field, value


def _effective(loaded: Loaded, path: KeyPath, field: FieldInfo, value: object) -> Effective:
    origin = _origin(loaded, path)
    derived = _derived(loaded.settings, path)
    plain = _plain(field, derived if value is None and derived is not None else value)
    return Effective(
        key=dotted(path),
        value=plain,
        text=_text(plain),
        origin=str(origin) if origin != NOWHERE else "default",
    )


def _origin(loaded: Loaded, path: KeyPath) -> Origin:
    """Find who wrote this very value, or something in it; a heading above it does not count."""
    for layer in loaded.layers:
        for place, origin in layer.origins.items():
            if place[: len(path)] == path:
                return origin
    return NOWHERE


def _derived(settings: Settings, path: KeyPath) -> Path | None:
    """Give the path that a setting without a value stands for."""
    match path:
        case ("audit", "file"):
            return settings.audit_file
        case ("audit", "key_file"):
            return settings.audit_key_file
        case ("admissions", "key_file"):
            return settings.admission_key_file
        case _:
            return None


def _plain(field: FieldInfo, value: object) -> JsonValue:
    if isinstance(value, Mapping):
        return {str(name): HIDDEN for name in value}
    if isinstance(value, tuple):
        return [_plain(field, item) for item in value]
    if isinstance(value, Path | ListenAddress):
        return str(value)
    checks = [getattr(item, "func", None) for item in field.metadata]
    if any(isinstance(check, Size) for check in checks) and isinstance(value, int):
        return size_text(value)
    if any(isinstance(check, Duration) for check in checks) and isinstance(value, float):
        return time_text(value)
    assert value is None or isinstance(value, bool | int | float | str)
    return value


def _text(value: JsonValue) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{name}={_text(item)}" for name, item in value.items()) or "-"
    return str(value)
