"""The tools that the gateway offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.domain.result import Violation
from sandgate_gateway.tools.bash import Bash
from sandgate_gateway.tools.contract import Tool, ToolSpec
from sandgate_gateway.tools.edit import MOST_WRITTEN_BYTES, StrReplace, WriteFile
from sandgate_gateway.tools.ls import Ls
from sandgate_gateway.tools.read_file import ReadFile
from sandgate_gateway.tools.schema import ArgumentsSchema
from sandgate_gateway.tools.search import Glob, Grep


class ToolRegistry:
    """Every tool by its name, with its compiled schema. Does not change once it is made.

    Args:
        write_max_bytes: What one `write_file` that does not append may write; zero: no limit of its own.
        more: Tools beside the seven of the contract.

    Raises:
        ValueError: two tools have one name.
    """

    def __init__(self, write_max_bytes: int = MOST_WRITTEN_BYTES, *, more: Sequence[Tool] = ()) -> None:
        tools: list[Tool] = [
            Bash(),
            Ls(),
            ReadFile(),
            WriteFile(most_bytes=write_max_bytes),
            StrReplace(),
            Glob(),
            Grep(),
            *more,
        ]
        self._tools = {tool.spec.name: tool for tool in sorted(tools, key=lambda tool: tool.spec.name)}
        if len(self._tools) != len(tools):
            raise ValueError("two tools have one name")
        self._schemas = {name: ArgumentsSchema(tool.spec.arguments_schema) for name, tool in self._tools.items()}

    @property
    def names(self) -> Sequence[str]:
        """All names, in order."""
        return tuple(self._tools)

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """How the tools are listed, in order of their names."""
        return tuple(tool.spec for tool in self._tools.values())

    def find(self, name: str) -> Tool | None:
        """Give the tool of a name."""
        return self._tools.get(name)

    def check(self, name: str, arguments: Mapping[str, JsonValue]) -> tuple[Violation, ...]:
        """Say what is wrong with arguments for a tool that there is; empty when nothing is."""
        return self._schemas[name].check(arguments)
