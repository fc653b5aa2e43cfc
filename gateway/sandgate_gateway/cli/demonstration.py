"""What `sandgate demo` does, step by step: gateway up, agent at work, report, audit trail, everything down again."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.panel import Panel
from rich.text import Text

import sandgate_gateway.bootstrap as gateway
from sandgate_gateway.audit.digests import Digests
from sandgate_gateway.audit.reader import AuditReader
from sandgate_gateway.cli.exits import CommandFailed
from sandgate_gateway.cli.trail import read_trail, trail_table
from sandgate_gateway.settings import Settings

START_SECONDS = 60.0
"""How long the gateway may take to start; it probes what the machine can do."""

AGENT_SECONDS = 900.0
"""How long the agent may take. A scripted one takes seconds, a real model a few minutes."""

END_SECONDS = 5.0
"""How long the agent may take to end after it was told to."""

STOP_MARGIN_SECONDS = 30.0
"""On top of `server.shutdown_grace`: how long the gateway may take to end its sandboxes."""

LONGEST_REPORT_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """What to show."""

    settings: Settings
    folder: Path
    repository: Path
    model: str | None
    """None: the scripted one."""


async def demonstrate(demonstration: Demonstration) -> list[str]:
    """Run it all; give what went wrong, nothing when all is well. Ctrl-C and SIGTERM end it in order.

    Raises:
        CommandFailed: the gateway did not start.
        Misconfigured: the settings cannot work.
    """
    console = Console()
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    _introduce(console, demonstration)
    async with _gateway(demonstration.settings) as addresses:
        console.print(Text(f"Gateway: {addresses[0]}, provider {demonstration.settings.provider}\n"))
        report = demonstration.folder / "report.md"
        code = await _run_agent(demonstration, addresses[0], report)
        problems = [f"the agent ended with exit code {code}"] if code else []
        problems += await asyncio.to_thread(_show_report, console, report)
        problems += await _show_trail(console, demonstration.settings)
    return problems


def _introduce(console: Console, demonstration: Demonstration) -> None:
    if demonstration.model:
        model = f"Model: {demonstration.model}."
    else:
        model = (
            "Model: scripted. It plays a fixed part and needs neither key nor network; the tool calls, the sandbox and "
            "the audit are real.\nFor a real model: SANDGATE_MODEL=openai:gpt-4.1 sandgate demo (with that provider's "
            "LangChain package and key)."
        )
    lines = f"An agent looks at {demonstration.repository} from inside a sandbox.\n{model}"
    console.print(Panel(Text(lines), title="Sandgate demo", border_style="cyan"))


@asynccontextmanager
async def _gateway(settings: Settings) -> AsyncIterator[Sequence[str]]:
    """Run a gateway in this process, for as long as the context lasts."""
    ready: asyncio.Future[Sequence[str]] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    serving = asyncio.ensure_future(gateway.serve(settings, ready=ready.set_result, stop=stop))
    try:
        await asyncio.wait((serving, ready), timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            if serving.done():
                serving.result()  # raises why it did not start
            raise CommandFailed(f"the gateway was not ready within {START_SECONDS:g} seconds")
        yield ready.result()
    finally:
        stop.set()
        async with asyncio.timeout(settings.server.shutdown_grace + STOP_MARGIN_SECONDS):
            await serving  # raises what stopped it, with what brought us here as its context


async def _run_agent(demonstration: Demonstration, target: str, report: Path) -> int:
    """Run the agent in a process of its own, as real agents run; it prints its own progress."""
    command = [
        *(sys.executable, "-m", "sandgate_agent.demo"),
        *("--target", target, "--repository", str(demonstration.repository), "--report", str(report)),
        *(("--model", demonstration.model) if demonstration.model else ()),
    ]
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(AGENT_SECONDS):
            return await process.wait()
    except TimeoutError:
        raise CommandFailed(f"the agent did not end within {AGENT_SECONDS:g} seconds") from None
    finally:
        if process.returncode is None:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
                return


def _show_report(console: Console, report: Path) -> list[str]:
    if not report.is_file():
        return ["the agent left no report"]
    with report.open(encoding="utf-8", errors="replace") as file:
        text = file.read(LONGEST_REPORT_CHARACTERS)
    console.print()
    console.print(
        Panel(Markdown(_harmless(text)), title="The report, downloaded from the sandbox", border_style="green")
    )
    return []


async def _show_trail(console: Console, settings: Settings) -> list[str]:
    """Show what the audit says, and whether its file is whole."""
    digests = await asyncio.to_thread(Digests.load, settings.audit_key_file)
    reader = AuditReader(settings.audit_file, page_key=digests.page_key)
    calls = await read_trail(reader)
    checked = await reader.verify()
    console.print()
    console.print(trail_table(calls))
    state = "whole" if checked.intact else f"broken: {checked.problem}"
    console.print(Text(f"{checked.record_count} records; the chain is {state}.", style="dim"))
    problems = [] if checked.intact else [f"the audit's chain is broken: {checked.problem}"]
    return problems if calls else [*problems, "the audit holds no call"]


def _harmless(text: str) -> str:
    """Take out what could move the cursor or colour of a terminal: the text comes from inside a sandbox."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )
