"""What the demo prints while it works: in colour where `rich` is installed, plain elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from langchain.agents.middleware.types import AgentMiddleware, ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

SHOWN_CHARACTERS = 80


class Printer(Protocol):
    """Prints a line."""

    def line(self, text: str, style: str = "") -> None:
        """Print it, in one of rich's styles where there is rich."""
        ...


class PlainPrinter:
    """Prints without colour."""

    def line(self, text: str, style: str = "") -> None:
        """Print it."""
        del style
        sys.stdout.write(f"{harmless(text)}\n")
        sys.stdout.flush()


def printer() -> Printer:
    """Choose how to print."""
    try:
        from rich.console import Console  # noqa: PLC0415 - the agent does not depend on it
        from rich.text import Text  # noqa: PLC0415 - likewise
    except ImportError:
        return PlainPrinter()
    console = Console()

    class RichPrinter:
        """Prints in colour, and never takes what a sandbox said for markup."""

        def line(self, text: str, style: str = "") -> None:
            """Print it."""
            console.print(Text(harmless(text), style=style), soft_wrap=True)

    return RichPrinter()


def harmless(text: str) -> str:
    """Take out what could move the cursor or colour of a terminal: models and sandboxes say what they like."""
    return "".join(
        character if character.isprintable() or character == "\n" else "\N{REPLACEMENT CHARACTER}" for character in text
    )


class Progress(AgentMiddleware):
    """Prints each tool call with its outcome and time, and remembers what failed. Listed before the gateway's."""

    def __init__(self, printer: Printer) -> None:
        super().__init__()
        self.tools = []
        self._printer = printer
        self.calls = 0
        self.failures: list[str] = []

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """Time a call and print how it ended."""
        began = time.perf_counter()
        answer = await handler(request)
        seconds = time.perf_counter() - began
        self.calls += 1
        self._show(request, _message_of(answer), seconds)
        return answer

    def _show(self, request: ToolCallRequest, message: ToolMessage | None, seconds: float) -> None:
        name = request.tool_call["name"]
        outcome, exit_code = outcome_of(message)
        failed = outcome != "completed" or exit_code not in (None, 0)
        ending = outcome if exit_code in (None, 0) else f"{outcome}, exit code {exit_code}"
        self._printer.line(
            f"  {'✗' if failed else '✓'} {name:<11} {_shown(request.tool_call['args']):<{SHOWN_CHARACTERS}} "
            f"{ending:<10} {seconds:6.3f} s",
            "red" if failed else "green",
        )
        if failed:
            detail = message.text if message is not None else "no message"
            self.failures.append(f"{name}: {ending}: {detail[:500]}")


def outcome_of(message: ToolMessage | None) -> tuple[str, int | None]:
    """Read from a message how its call ended: the outcome, and the exit code where there was a process."""
    if message is None:
        return "no message", None
    facts = message.additional_kwargs.get("sandgate", {})
    artifact = message.artifact if isinstance(message.artifact, dict) else {}
    exit_code = artifact.get("exit_code")
    return str(facts.get("outcome", message.status)), exit_code if isinstance(exit_code, int) else None


def _message_of(answer: ToolMessage | Command[Any]) -> ToolMessage | None:
    if isinstance(answer, ToolMessage):
        return answer
    update = answer.update if isinstance(answer.update, dict) else {}
    return next((message for message in update.get("messages", ()) if isinstance(message, ToolMessage)), None)


def _shown(arguments: dict[str, Any]) -> str:
    text = " ".join(str(value) for value in arguments.values()).split("\n", 1)[0]
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
