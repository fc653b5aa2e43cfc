"""The demo's agent: build it, send it a repository, let it work, fetch its report."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from sandgate_agent import Claims, Endpoint, GatewayClient, GatewayMiddleware, NotFound
from sandgate_agent.demo import repository
from sandgate_agent.demo.places import REPORT, REPOSITORY, SCRIPT
from sandgate_agent.demo.progress import Printer, Progress
from sandgate_agent.demo.scripted import NAME, ScriptedModel
from sandgate_agent.transfers import upload_folder

INSTRUCTIONS = f"""You study source code in a sandbox. The repository is in {REPOSITORY}; it has no network and no git.
Look around with bash, grep and read_file. Then write a Python program (standard library only) to {SCRIPT} that measures
the repository: sizes of modules, longest functions by `ast`, open notes such as TODO, and which modules are imported
most. Run it. Leave a report in Markdown in {REPORT}, at most two pages, with a few remarks of your own at its top."""

TASK = "Study this repository and leave the report."

STEPS_AT_MOST = 80
"""Steps of the graph: about 35 turns of a model, several times what the work takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the demo is asked for."""

    target: str
    repository: Path
    report: Path
    model: str | None
    """None: the scripted one."""


async def carry_out(assignment: Assignment, printer: Printer) -> list[str]:
    """Do the work and print its progress. Returns what failed, nothing when all is well.

    With a real model a call that failed is part of the work, and only a missing report is a failure.

    Raises:
        SandgateError: the gateway could not do its part.
        ValueError: the repository cannot be sent.
    """
    scripted = assignment.model is None
    model = ScriptedModel() if scripted else _real_model(assignment.model or "")
    thread = f"demo-{uuid.uuid4()}"
    client = GatewayClient(Endpoint(assignment.target))
    printer.line(f"Model: {f'{NAME} (it plays a fixed part)' if scripted else assignment.model}", "bold")
    await _send(assignment, client, thread, printer)

    progress = Progress(printer)
    own_tools = [_revision_tool(assignment.repository)]
    gateway = await GatewayMiddleware.connect(client, tools=own_tools, claims=Claims(agent_name="sandgate-demo"))
    agent = create_agent(
        model,
        tools=own_tools,
        system_prompt=INSTRUCTIONS,
        middleware=[progress, gateway],
        checkpointer=InMemorySaver(),
    )
    began = time.perf_counter()
    state = await agent.ainvoke(
        {"messages": [HumanMessage(TASK)]},
        {"configurable": {"thread_id": thread}, "recursion_limit": STEPS_AT_MOST},
    )
    printer.line(f"Agent: {state['messages'][-1].text}", "bold")
    printer.line(f"{progress.calls} calls in {time.perf_counter() - began:.1f} s", "dim")
    failures = progress.failures if scripted else []
    return failures + await _fetch(assignment, client, thread, printer)


async def _send(assignment: Assignment, client: GatewayClient, thread: str, printer: Printer) -> None:
    chosen = await repository.select(assignment.repository)
    began = time.perf_counter()
    sent = await upload_folder(
        client, thread=thread, folder=assignment.repository, files=chosen.files, target=REPOSITORY
    )
    left_out = len(sent.skipped) + len(chosen.too_large)
    printer.line(
        f"Uploaded {sent.files} files ({sent.size_bytes} bytes) in {time.perf_counter() - began:.1f} s"
        + (f"; left out {left_out} that are links, missing or too large" if left_out else "")
    )


async def _fetch(assignment: Assignment, client: GatewayClient, thread: str, printer: Printer) -> list[str]:
    try:
        content = await client.download(thread=thread, path=REPORT)
    except NotFound:
        return [f"there is no report in {REPORT}"]
    if not content.strip():
        return [f"the report in {REPORT} is empty"]
    await asyncio.to_thread(assignment.report.write_bytes, content)
    printer.line(f"Report: {len(content)} bytes, written to {assignment.report}")
    return []


def _revision_tool(folder: Path) -> BaseTool:
    """Make a tool that runs in the agent's own process: git is here, not in the sandbox."""

    @tool
    async def revision() -> str:
        """Name the revision of the repository."""
        return await repository.revision(folder)

    return revision


def _real_model(name: str) -> BaseChatModel:
    return init_chat_model(name)
