"""Agents against the real gateway and real sandboxes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from sandgate_agent import GatewayClient, GatewayMiddleware, GatewayUnavailable
from sandgate_agent.demo.__main__ import main as demo
from sandgate_agent.results import Outcome
from sandgate_agent.transfers import upload_folder
from sandgate_agent.types import Finished, OutputChunk, Started, ToolCall

pytestmark = [pytest.mark.local, pytest.mark.timeout(120)]

START_SECONDS = 60


class Gateway:
    """A gateway in a process of its own, as it is deployed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target = f"unix:{folder}/gateway.sock"
        self.configuration = folder / "sandgate.yaml"
        self.configuration.write_text(f"listen: {self.target}\ndata_dir: {folder}/data\n")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it takes calls."""
        command = [sys.executable, "-m", "sandgate_gateway", "serve", "--config", str(self.configuration)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SANDGATE_")}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        with grpc.insecure_channel(self.target) as channel:
            grpc.channel_ready_future(channel).result(timeout=START_SECONDS)

    def stop(self) -> None:
        """Stop it in order."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    def kill(self) -> None:
        """End it without a word."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)
        self.process = None

    def audit(self) -> list[dict[str, Any]]:
        """Read the audit's file."""
        lines = (self.folder / "data/audit/audit.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A gateway for the tests of this module."""
    folder = Path(tempfile.mkdtemp(prefix="sandgate-agent-tests-"))
    # Users of sandboxes pass through on the way to their own folders.
    folder.chmod(0o711)
    gateway = Gateway(folder)
    try:
        gateway.start()
        yield gateway
    finally:
        gateway.stop()
        shutil.rmtree(folder)


@pytest.fixture
def thread() -> str:
    """A thread of the test's own."""
    return f"test-{uuid.uuid4()}"


def config(thread: str) -> Any:
    """Name the thread to LangGraph."""
    return {"configurable": {"thread_id": thread}}


def go() -> Any:
    """Say something to an agent."""
    return {"messages": [HumanMessage("go")]}


def answers(state: dict[str, Any]) -> list[ToolMessage]:
    """List the answers of tools, in order."""
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


def bash(thread: str, command: str) -> ToolCall:
    """Make a call of bash."""
    return ToolCall(
        request_id=str(uuid.uuid4()),
        thread=thread,
        tool="bash",
        arguments_json=json.dumps({"command": command}).encode(),
    )


def eventually(condition: Callable[[], Any], *, seconds: float = 20.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.02)


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
def test_an_agent_works_in_a_sandbox(gateway: Gateway, script: Any, thread: str, way: str) -> None:
    """Files and commands work in each of LangGraph's ways to run a graph, and the sandbox's id is in the state."""
    path = "/mnt/user-data/workspace/hello.py"
    model = script(
        ("write_file", {"path": path, "content": "print(6 * 7)\n"}),
        ("bash", {"command": f"python3 {path}; exit 3"}),
        ("read_file", {"path": path}),
        "done",
    )
    agent = create_agent(model, middleware=[GatewayMiddleware(gateway.target)])

    async def astream() -> list[Any]:
        return [state async for state in agent.astream(go(), config(thread), stream_mode="values")]

    if way == "invoke":
        state: Any = agent.invoke(go(), config(thread))
    elif way == "ainvoke":
        state = asyncio.run(agent.ainvoke(go(), config(thread)))
    elif way == "stream":
        *_, state = agent.stream(go(), config(thread), stream_mode="values")
    else:
        *_, state = asyncio.run(astream())

    written, ran, read = answers(state)
    assert [message.status for message in (written, ran, read)] == ["success"] * 3
    assert written.artifact["kind"] == "file_change"
    assert ran.artifact["stdout"]["data"] == b"42\n"
    assert ran.artifact["exit_code"] == 3
    assert "print(6 * 7)" in str(read.content)
    assert state["sandbox"]["sandbox_id"].startswith("sandboxes/")


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_parallel_calls_share_one_new_sandbox(gateway: Gateway, script: Any, thread: str, way: str) -> None:
    """Two first calls at once end in one sandbox, whose id both report."""
    command = "echo $$ > /mnt/user-data/workspace/$NAME; ls /mnt/user-data/workspace"
    model = script([("bash", {"command": f"NAME={name}; {command}"}) for name in ("a", "b")], "done")
    agent = create_agent(model, middleware=[GatewayMiddleware(gateway.target)])

    state: Any = (
        agent.invoke(go(), config(thread)) if way == "invoke" else asyncio.run(agent.ainvoke(go(), config(thread)))
    )

    sandboxes = {message.additional_kwargs["sandgate"]["sandbox"] for message in answers(state)}
    assert sandboxes == {state["sandbox"]["sandbox_id"]}
    assert [message.status for message in answers(state)] == ["success"] * 2


def test_an_own_tool_is_in_the_audit(gateway: Gateway, script: Any, thread: str) -> None:
    """A tool of the agent's own is decided and finished in the gateway's record, under the id that its message has."""

    @tool
    def lookup(word: str) -> str:
        """Look a word up."""
        return f"{word} means nothing"

    agent = create_agent(
        script(("lookup", {"word": "w"}), "done"), tools=[lookup], middleware=[GatewayMiddleware(gateway.target)]
    )

    (message,) = answers(agent.invoke(go(), config(thread)))

    assert message.content == "w means nothing"
    audit_id = message.additional_kwargs["sandgate"]["audit_id"]
    records = [record for record in gateway.audit() if record.get("audit_id") == audit_id]
    assert [record["stage"] for record in records] == ["decided", "finished"]
    assert {record["tool"] for record in records} == {"lookup"}


def test_an_interrupted_tool_is_recorded_once(gateway: Gateway, script: Any, thread: str) -> None:
    """The resumed node is given the same admission by the real gateway, and completes it."""

    @tool
    def ask(question: str) -> str:
        """Ask a person."""
        return f"they said {interrupt(question)}"

    agent = create_agent(
        script(("ask", {"question": "?"}), "done"),
        tools=[ask],
        middleware=[GatewayMiddleware(gateway.target)],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(go(), config(thread))
    (message,) = answers(agent.invoke(Command(resume="yes"), config(thread)))

    assert message.content == "they said yes"
    stages = [record["stage"] for record in gateway.audit() if record.get("thread") == thread and record.get("tool")]
    assert stages == ["decided", "finished"]


def test_a_tool_that_is_run_again_is_recorded_again(gateway: Gateway, script: Any, thread: str) -> None:
    """After a first run that failed, the resumed node's run has a record of its own in the real gateway."""
    runs: list[str] = []

    @tool
    def fickle(word: str) -> str:
        """Fail the first time."""
        runs.append(word)
        if len(runs) == 1:
            raise ValueError("the first time")
        return "the second time"

    agent = create_agent(
        script(("fickle", {"word": "w"}), "done"),
        tools=[fickle],
        middleware=[GatewayMiddleware(gateway.target)],
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(ValueError, match="the first time"):
        agent.invoke(go(), config(thread))
    (message,) = answers(agent.invoke(None, config(thread)))

    assert message.content == "the second time"
    finished = [
        record["outcome"]
        for record in gateway.audit()
        if record.get("thread") == thread and record.get("stage") == "finished"
    ]
    assert finished == ["failed", "completed"]


def test_a_name_that_no_tool_has_is_told_to_the_model(gateway: Gateway, script: Any, thread: str) -> None:
    """Unknown names, unreadable names and wrong arguments become messages, and the gateway goes on."""
    model = script(
        [("no_such_tool", {}), ("bash", {}), ("bash", {"command": 7}), ("bash", {"command": "echo fine"})], "done"
    )
    agent = create_agent(model, middleware=[GatewayMiddleware(gateway.target)])

    assert [message.status for message in answers(agent.invoke(go(), config(thread)))] == [
        "error",
        "error",
        "error",
        "success",
    ]


async def test_cancelling_an_agent_ends_its_command(gateway: Gateway, script: Any, thread: str) -> None:
    """A cancelled run leaves no process behind in its sandbox."""
    nap = f"300.{uuid.uuid4().int % 10**6:06}"
    middleware = await GatewayMiddleware.connect(gateway.target)
    agent = create_agent(script(("bash", {"command": f"sleep {nap}"}), "done"), middleware=[middleware])
    client = GatewayClient(gateway.target)

    async def sleepers() -> int:
        search = f"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[s]leep {nap}'"
        result = await client.execute(bash(thread, search))
        return int(result.text.split()[0])

    async def until(count: int) -> None:
        async with asyncio.timeout(20):
            while await sleepers() != count:
                pass

    run = asyncio.create_task(agent.ainvoke(go(), config(thread)))
    await until(1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await until(0)


async def test_a_stream_shows_output_while_a_command_runs(gateway: Gateway, thread: str) -> None:
    """The first output comes before the command has ended."""
    seen: list[str] = []
    command = "echo one; while [ ! -e /mnt/user-data/workspace/go ]; do sleep 0.01; done; echo two"
    client = GatewayClient(gateway.target)
    async with client.stream(bash(thread, command)) as events:
        async for event in events:
            if isinstance(event, OutputChunk):
                seen.append(event.data.decode())
                if seen == ["one\n"]:
                    await client.execute(bash(thread, "touch /mnt/user-data/workspace/go"))
            elif isinstance(event, Finished):
                assert event.result.outcome is Outcome.COMPLETED
            else:
                assert isinstance(event, Started) or event.code

    assert "".join(seen) == "one\ntwo\n"


async def test_files_go_in_and_out(gateway: Gateway, thread: str, tmp_path: Path) -> None:
    """What was uploaded is there for commands, and what they wrote comes back, byte for byte."""
    content = os.urandom(3_000_000)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/data").write_bytes(content)
    client = GatewayClient(gateway.target)
    place = "/mnt/user-data/uploads/folder"

    await upload_folder(client, thread=thread, folder=tmp_path, files=["deep/data"], target=place)
    result = await client.execute(bash(thread, f"cp {place}/deep/data /mnt/user-data/outputs/copy"))

    assert result.outcome is Outcome.COMPLETED
    assert await client.download(thread=thread, path="/mnt/user-data/outputs/copy") == content


def test_a_forked_child_works_on(gateway: Gateway, thread: str) -> None:
    """Parent and child of a fork both reach the gateway, also while a call of the parent runs."""
    program = f"""
import json, os, sys, threading, time, uuid
from sandgate_agent import GatewayClient
from sandgate_agent.types import ToolCall
say = lambda word: os.write(1, word.encode() + b"\\n")  # whole lines, from any thread
client = GatewayClient({gateway.target!r})
ask = lambda command: client.wait(client.execute(ToolCall(
    request_id=str(uuid.uuid4()), thread={thread!r}, tool="bash",
    arguments_json=json.dumps({{"command": command}}).encode()))).text.split()[0]
assert ask("echo before") == "before"
slow = threading.Thread(target=lambda: say(ask("until [ -e /tmp/go ]; do sleep 0.01; done; echo slow")))
slow.start()
ask("echo while")
child = os.fork()
if child == 0:
    say(ask("echo child"))
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
say(ask("touch /tmp/go; echo parent"))
slow.join()
"""
    # This process also holds a gateway's libraries, which may have chosen otherwise for themselves.
    environment = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )

    assert sorted(done.stdout.split()) == ["child", "parent", "slow"]


def test_an_agent_survives_a_restart_of_the_gateway(gateway: Gateway, script: Any, thread: str) -> None:
    """After a restart the same agent works on in the same thread, with the files that it had."""
    path = "/mnt/user-data/workspace/kept"
    model = script(("bash", {"command": f"echo hello > {path}"}), "done")
    agent = create_agent(model, middleware=[GatewayMiddleware(gateway.target)])
    later = create_agent(
        script(("bash", {"command": f"cat {path}"}), "done"), middleware=[GatewayMiddleware(gateway.target)]
    )
    assert answers(agent.invoke(go(), config(thread)))[0].status == "success"

    gateway.stop()
    gateway.start()

    assert answers(later.invoke(go(), config(thread)))[0].artifact["stdout"]["data"] == b"hello\n"


def test_a_gateway_that_is_killed_during_a_call_is_a_typed_error(gateway: Gateway, script: Any, thread: str) -> None:
    """Nobody is left waiting: the run ends with an error that says that the gateway is away, and later runs work."""
    # Until the gateway is away, its process is the only thing that this call waits for.
    model = script(("bash", {"command": "touch /mnt/user-data/outputs/started; sleep 300"}), "done")
    agent = create_agent(model, middleware=[GatewayMiddleware(gateway.target)])
    client = GatewayClient(gateway.target)

    async def run_and_kill() -> None:
        run = asyncio.create_task(agent.ainvoke(go(), config(thread)))
        async with asyncio.timeout(20):
            while b"started" not in (await client.execute(bash(thread, "ls /mnt/user-data/outputs"))).text.encode():
                pass
        await asyncio.to_thread(gateway.kill)
        await run

    with pytest.raises(GatewayUnavailable):
        asyncio.run(run_and_kill())
    gateway.start()
    result = client.wait(client.execute(bash(thread, "echo again")))
    assert result.outcome is Outcome.COMPLETED


def test_the_demo_does_its_work(gateway: Gateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo's agent measures this repository's agent package in a sandbox and brings its report back."""
    report = tmp_path / "report.md"
    source = Path(__file__).parents[2] / "agent"

    assert demo(["--target", gateway.target, "--repository", str(source), "--report", str(report)]) == 0

    text = report.read_text()
    assert "sandgate_agent.errors" in text
    assert "is imported by" in text.partition("## Kinds of files")[0]
    assert "scripted model" in capsys.readouterr().out
