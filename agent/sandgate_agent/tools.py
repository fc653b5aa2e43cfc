"""The gateway's tools as LangChain knows tools: a name, a description and a schema for the model."""

from __future__ import annotations

from typing import NoReturn

from langchain_core.tools import BaseTool, ToolException

from sandgate_agent.catalogue import Catalogue
from sandgate_agent.types import ToolSpec


class GatewayTool(BaseTool):
    """A tool that runs in the gateway. `GatewayMiddleware` sends its calls there; it does nothing by itself."""

    read_only: bool = False
    """True when it changes nothing in the sandbox."""

    def _run(self, *_: object, **__: object) -> NoReturn:
        # Called past the middleware. Doing the work from here would skip the ids and the audit of a graph's call.
        raise ToolException(
            f"{self.name} runs only in the gateway: build the agent with create_agent(middleware=[GatewayMiddleware()])"
        )

    async def _arun(self, *_: object, **__: object) -> NoReturn:
        self._run()


def tools_of(catalogue: Catalogue) -> list[GatewayTool]:
    """Make the tools that an agent shows to its model."""
    return list(map(_tool_of, catalogue.tools))


def names_of(tools: object) -> set[str]:
    """Find the names of tools in any form that LangChain takes: tools, functions, or a provider's dictionary."""
    found: set[str] = set()
    for tool in tools if isinstance(tools, list | tuple) else ():
        if isinstance(tool, GatewayTool):
            continue
        if isinstance(tool, dict):
            function = tool.get("function")
            name = tool.get("name") or (function.get("name") if isinstance(function, dict) else None)
        else:
            name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
        if isinstance(name, str):
            found.add(name)
    return found


def _tool_of(spec: ToolSpec) -> GatewayTool:
    # LangChain reads `properties` of every schema, also of a tool that takes nothing.
    schema = {"type": "object", "properties": {}, **spec.arguments_schema}
    return GatewayTool(name=spec.name, description=spec.description, args_schema=schema, read_only=spec.read_only)
