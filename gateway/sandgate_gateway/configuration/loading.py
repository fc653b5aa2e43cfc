"""Finding and reading the settings: `--config`, else SANDGATE_CONFIG, else the usual places, else the defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sandgate_gateway.configuration.document import read_document
from sandgate_gateway.configuration.environment import read_environment, section_of
from sandgate_gateway.configuration.problems import (
    InvalidConfiguration,
    Layer,
    Origin,
    Problem,
    did_you_mean,
    dotted,
    find_origin,
    in_order,
)
from sandgate_gateway.configuration.problems import Path as KeyPath
from sandgate_gateway.settings import Settings
from sandgate_providers import registry
from sandgate_providers.errors import ProviderMisconfigured

VARIABLE = "SANDGATE_CONFIG"
USUAL_PLACES = (Path("sandgate.yaml"), Path("/etc/sandgate/sandgate.yaml"))

_PROVIDER_MESSAGE = re.compile(r"(?:\w+ provider: )?(\w+): (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Settings, and where they come from."""

    settings: Settings
    file: Path | None
    """None: no file was found, so only defaults and the environment count."""
    layers: tuple[Layer, ...]
    """What was read, the source that wins first."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables that set something."""
        return tuple(sorted({o.variable for layer in self.layers for o in layer.origins.values() if o.variable}))


def load_settings(config: Path | None = None) -> Loaded:
    """Find and read the settings. Blocks.

    Args:
        config: the file; None: look for it.

    Raises:
        InvalidConfiguration: with every problem that was found, one a line.
    """
    file, origin = _find(config)
    if file is None:
        document = Layer()
    elif origin.variable and not file.is_file():
        raise InvalidConfiguration([Problem(origin=origin, path=(), message=f"there is no file {file}")])
    else:
        document = read_document(file)
    return _build(document, file)


def make_settings(values: Mapping[str, object]) -> Settings:
    """Make settings from values as a file would give them; the environment still wins.

    Raises:
        InvalidConfiguration: with every problem that was found, one a line.
    """
    return _build(Layer(values=dict(values)), None).settings


def _find(config: Path | None) -> tuple[Path | None, Origin]:
    if config is not None:
        return config, Origin(file=str(config))
    if named := os.environ.get(VARIABLE):
        return Path(named), Origin(variable=VARIABLE)
    return next((place for place in USUAL_PLACES if place.is_file()), None), Origin()


def _build(document: Layer, file: Path | None) -> Loaded:
    environment = read_environment(Settings, os.environ)
    layers = (environment, document)
    problems = [*document.problems, *environment.problems]
    try:
        settings = Settings(**document.values)  # type: ignore[arg-type]  # unchecked values are what this call is for
    except ValidationError as error:
        found = [_problem(details, layers) for details in error.errors(include_url=False, include_input=False)]
        raise InvalidConfiguration(in_order([*problems, *found])) from None
    if not problems and (problem := _provider_problem(settings, layers)) is not None:
        problems.append(problem)
    if problems:
        raise InvalidConfiguration(in_order(problems))
    return Loaded(settings=settings, file=file, layers=layers)


def _problem(details: ErrorDetails, layers: Sequence[Layer]) -> Problem:
    """Put one finding of pydantic into our words."""
    path: KeyPath = tuple(part for part in details["loc"] if part != "[key]")
    context = details.get("ctx", {})
    match details["type"]:
        case "extra_forbidden":
            message = _unknown_key(path)
        case "value_error":
            message = str(context["error"])
        case "contradiction":
            key = context["key"]
            message = context["text"]
            path = (*path, key)
        case _:
            message = details["msg"]
    return Problem(origin=find_origin(layers, path), path=path, message=message)


def _unknown_key(path: KeyPath) -> str:
    name = str(path[-1])
    model: type[BaseModel] = Settings
    for part in path[:-1]:
        section = section_of(model.model_fields[str(part)])
        assert section is not None
        model = section
    elsewhere = [dotted(place) for place in _places(Settings, ()) if place[-1] == name]
    hint = f"it belongs at {' or '.join(elsewhere)}" if elsewhere else did_you_mean(name, model.model_fields)
    return f"there is no such setting; {hint}"


def _places(model: type[BaseModel], path: KeyPath) -> list[KeyPath]:
    places: list[KeyPath] = []
    for name, field in model.model_fields.items():
        places.append((*path, name))
        if (section := section_of(field)) is not None:
            places.extend(_places(section, (*path, name)))
    return places


def _provider_problem(settings: Settings, layers: Sequence[Layer]) -> Problem | None:
    """Let the provider look at its own settings; it checks them without touching the machine."""
    try:
        registry.create(settings.provider, settings.provider_options, installation="check")
    except ProviderMisconfigured as error:
        match = _PROVIDER_MESSAGE.fullmatch(str(error))
        key = match[1] if match else "provider"
        path: KeyPath = (key,) if key in Settings.model_fields else (settings.provider, key)
        return Problem(origin=find_origin(layers, path), path=path, message=match[2] if match else str(error))
    return None
