"""The tools that a gateway offers, with their digest; as a snapshot they work while the gateway is away."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandgate_agent.errors import Misconfigured
from sandgate_agent.types import JsonValue, ToolSpec

SNAPSHOT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Tools in the order in which the gateway lists them.

    Raises:
        Misconfigured: two tools have the same name.
    """

    tools: tuple[ToolSpec, ...]
    digest: str
    """Changes when any tool does."""

    def __post_init__(self) -> None:
        if len({tool.name for tool in self.tools}) != len(self.tools):
            raise Misconfigured("the catalogue has two tools of one name")

    @property
    def names(self) -> frozenset[str]:
        """The names of the tools."""
        return frozenset(tool.name for tool in self.tools)

    def only(self, names: Collection[str] | None) -> Catalogue:
        """Keep these tools; None keeps all, an empty collection none. The digest stays that of the whole.

        Raises:
            Misconfigured: the gateway has no tool of one of these names.
        """
        if names is None:
            return self
        if missing := set(names) - self.names:
            raise Misconfigured(f"the gateway has no tool {', '.join(sorted(missing))}; it has {sorted(self.names)}")
        return Catalogue(tools=tuple(tool for tool in self.tools if tool.name in names), digest=self.digest)

    def to_json(self) -> dict[str, JsonValue]:
        """Write it as an object that JSON can hold."""
        return {
            "version": SNAPSHOT_VERSION,
            "digest": self.digest,
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "arguments_schema": dict(tool.arguments_schema),
                    "read_only": tool.read_only,
                }
                for tool in self.tools
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, JsonValue]) -> Catalogue:
        """Read what `to_json` wrote.

        Raises:
            Misconfigured: it is no snapshot of this version.
        """
        tools, digest = value.get("tools"), value.get("digest")
        if value.get("version") != SNAPSHOT_VERSION or not isinstance(tools, list) or not isinstance(digest, str):
            raise Misconfigured(f"this is no snapshot of a catalogue of version {SNAPSHOT_VERSION}")
        return cls(tools=tuple(map(_tool, tools)), digest=digest)

    def save(self, path: Path) -> None:
        """Write it into a file, which is then whole or as it was."""
        draft = path.with_name(f".{path.name}.new")
        draft.write_text(json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        draft.replace(path)

    @classmethod
    def load(cls, path: Path) -> Catalogue:
        """Read what `save` wrote.

        Raises:
            Misconfigured: the file cannot be read or is no snapshot.
        """
        try:
            value: JsonValue = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Misconfigured(f"the snapshot {path} cannot be read: {error}") from error
        if not isinstance(value, dict):
            raise Misconfigured(f"the snapshot {path} is not a JSON object")
        return cls.from_json(value)


def _tool(value: JsonValue) -> ToolSpec:
    match value:
        case {
            "name": str(name),
            "description": str(description),
            "arguments_schema": dict(schema),
            "read_only": bool(read_only),
        } if name:
            return ToolSpec(name=name, description=description, arguments_schema=schema, read_only=read_only)
        case _:
            raise Misconfigured("a tool of the snapshot lacks its name, description, schema or whether it only reads")
