"""The environment: `SANDGATE_SANDBOXES__LIMITS__MEMORY=2GiB` sets `sandboxes.limits.memory`."""

from __future__ import annotations

import difflib
import json
import os
import types
import typing
from collections.abc import Mapping
from typing import Any, Union

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from sandgate_gateway.configuration.problems import Layer, Origin, Path, Problem, did_you_mean

PREFIX = "SANDGATE_"
DELIMITER = "__"

LONGEST_NUMBER = 18
"""Digits that fit into 64 bits."""

NOT_SETTINGS = ("SANDGATE_CONFIG", "SANDGATE_MODEL")
"""Variables of ours that are read elsewhere: where the file is, and which model the demo's agent uses."""


def variable_name(path: Path) -> str:
    """Name the variable of a setting."""
    return PREFIX + DELIMITER.join(str(part).upper() for part in path)


def read_environment(model: type[BaseModel], environment: Mapping[str, str]) -> Layer:
    """Read every variable that sets something.

    A variable that begins with the prefix but names nothing is a mistake when it holds the delimiter or looks like a
    setting. Others are left alone: Kubernetes itself sets SANDGATE_SERVICE_HOST when a service is called `sandgate`.
    """
    layer = Layer()
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        parts = variable.removeprefix(PREFIX).split(DELIMITER)
        if len(parts) == 1 and not _meant(parts[0].lower(), model):
            continue
        _Placing(layer, variable, environment[variable]).place(model, parts)
    return layer


class EnvironmentSource(PydanticBaseSettingsSource):
    """The environment as a source of pydantic-settings.

    Its own source reads the values, but forgets which variable they came from, writes names of a mapping in lower case,
    and takes no plain comma-separated list.
    """

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls)
        self._values = read_environment(settings_cls, os.environ).values

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002 - the interface's
        """Give the value of one field."""
        return self._values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Give all values."""
        return self._values


class _Placing:
    """One variable on its way to its setting."""

    def __init__(self, layer: Layer, variable: str, value: str) -> None:
        self._layer = layer
        self._origin = Origin(variable=variable)
        self._value = value

    def place(self, model: type[BaseModel], parts: list[str]) -> None:
        """Walk down the sections and put the value where it belongs."""
        target = self._layer.values
        path: Path = ()
        while True:
            name = parts[0].lower()
            field = model.model_fields.get(name)
            if field is None:
                self._complain((*path, name), f"there is no such setting; {did_you_mean(name, model.model_fields)}")
                return
            path = (*path, name)
            section = section_of(field)
            if section is None:
                break
            if len(parts) == 1:
                self._complain(path, f"this is a section; set what is in it, for example {self._example(section)}")
                return
            target = typing.cast("dict[str, object]", target.setdefault(name, {}))
            model, parts = section, parts[1:]
        if _is(field, Mapping) and len(parts) > 1:
            entry = DELIMITER.join(parts[1:])
            typing.cast("dict[str, object]", target.setdefault(name, {}))[entry] = self._value
            self._layer.origins[(*path, entry)] = self._origin
            return
        if len(parts) > 1:
            self._complain((*path, parts[1].lower()), f"there is nothing below {name}")
            return
        value = self._decode(field)
        if value is not None:
            target[name] = value
            self._layer.origins[path] = self._origin

    def _decode(self, field: FieldInfo) -> object:
        """Turn the text into what the setting's own check expects; None after a complaint."""
        text = self._value
        if _is(field, tuple):
            if text.lstrip().startswith("["):
                return self._json(text, list, 'a list: words with commas between, or JSON such as ["a", "b"]')
            items = [item.strip() for item in text.split(",") if item.strip()]
            return [_number(item) for item in items] if int in typing.get_args(field.annotation) else items
        if _is(field, Mapping):
            return self._json(text, dict, f'a JSON object such as {{"NAME": "value"}}, or {self._origin}__NAME=value')
        if _is(field, bool):
            return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
        return _number(text) if _is(field, int) or _is(field, float) else text

    def _json(self, text: str, kind: type, wanted: str) -> object:
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, kind):
            self._complain((), f"must be {wanted}")
            return None
        return value

    def _example(self, section: type[BaseModel]) -> str:
        return f"{self._origin}{DELIMITER}{next(iter(section.model_fields)).upper()}"

    def _complain(self, path: Path, message: str) -> None:
        self._layer.problems.append(Problem(origin=self._origin, path=path, message=message))


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Give the section that a field is, or None when it is a value."""
    for kind in _kinds(field.annotation):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def _meant(name: str, model: type[BaseModel]) -> bool:
    return bool(difflib.get_close_matches(name, list(model.model_fields), n=1, cutoff=0.75))


def _is(field: FieldInfo, kind: type) -> bool:
    return any(isinstance(item, type) and issubclass(item, kind) for item in _kinds(field.annotation))


def _kinds(annotation: Any) -> list[Any]:  # noqa: ANN401 - an annotation can be anything
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return [kind for option in typing.get_args(annotation) for kind in _kinds(option)]
    return [typing.get_origin(annotation) or annotation]


def _number(text: str) -> int | str:
    """Read a whole number; what is none is left to the setting's own check, which says what is wrong with it."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER else text
