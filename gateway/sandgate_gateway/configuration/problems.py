"""What is wrong with a configuration, and where."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sandgate_gateway.errors import Misconfigured

Path = tuple[str | int, ...]
"""Where a value is in the configuration, for example `("sandboxes", "limits", "memory")`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a value was written: a line of a file, or a variable of the environment."""

    file: str = ""
    line: int = 0
    variable: str = ""

    def __str__(self) -> str:
        if self.variable:
            return self.variable
        return f"{self.file}:{self.line}" if self.line else self.file


NOWHERE = Origin()
"""Of a value that nobody wrote: it is a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake."""

    origin: Origin
    path: Path
    message: str

    @property
    def key(self) -> str:
        """The dotted name of the setting; empty when it is about the file as a whole."""
        return dotted(self.path)

    def __str__(self) -> str:
        # The name of a variable says already which setting it is.
        parts = [str(self.origin), "" if self.origin.variable else self.key, self.message]
        return ": ".join(part for part in parts if part)


@dataclass(slots=True, kw_only=True)
class Layer:
    """The values of one source, with their places."""

    values: dict[str, object] = field(default_factory=dict)
    origins: dict[Path, Origin] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


class InvalidConfiguration(Misconfigured):
    """Everything that is wrong, one problem a line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def dotted(path: Path) -> str:
    """Write a path as people do: `local.uid_range[1]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def find_origin(layers: Sequence[Layer], path: Path) -> Origin:
    """Say who wrote the value at a path, or the nearest thing around it; the first layer that has it wins."""
    for length in range(len(path), 0, -1):
        for layer in layers:
            if (origin := layer.origins.get(path[:length])) is not None:
                return origin
    return NOWHERE


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Sort problems as a reader meets them: down the file, then the environment; each is named once."""
    unique = dict.fromkeys(problems)
    return sorted(unique, key=lambda problem: (problem.origin.variable, problem.origin.line))


def did_you_mean(name: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """Suggest the known name that is nearest, or list them all when none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are {', '.join(known)}"
