"""One channel a process and gateway, forks, and the end of the process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sandgate.v1 import tool_pb2, tool_service_pb2
from sandgate_agent import Endpoint, GatewayClient
from sandgate_agent.connection import PROCESS, Connections
from sandgate_agent.errors import ForkUnsupported

FORK = """
import os, sys, threading, uuid
from sandgate_agent import GatewayClient
from sandgate_agent.types import ToolCall

say = lambda *words: sys.stdout.write(" ".join(map(str, words)) + "\\n")  # whole lines, from any thread
target, busy = sys.argv[1], sys.argv[2] == "busy"
client = GatewayClient(target)
ask = lambda name: client.execute(
    ToolCall(request_id=str(uuid.uuid4()), thread=name, tool="bash", arguments_json=b"{}")
)
client.wait(ask("parent-before"))
slow = threading.Thread(target=lambda: say("slow", client.wait(ask("slow")).outcome.value))
if busy:
    slow.start()
    client.wait(ask("parent-while-slow"))
child = os.fork()
if child == 0:
    status = 1
    try:
        say("child", client.wait(ask("child")).outcome.value)
        status = 0
    except Exception as error:
        say("child", type(error).__name__)
    sys.stdout.flush()
    os._exit(status)
_, status = os.waitpid(child, 0)
say("child ended with", os.waitstatus_to_exitcode(status))
say("parent", client.wait(ask("parent-after")).outcome.value)
if busy:
    slow.join()
"""


def fork(peer: Any, how: str, **environment: str) -> list[str]:
    """Run the forking program, and let its slow call end when the rest has happened."""
    others_are_done = asyncio.Event()

    async def execute(call: tool_pb2.ToolCall) -> Any:
        if call.thread == "parent-after":
            others_are_done.set()
        if call.thread == "slow":
            await others_are_done.wait()
        return peer.result(call)

    peer.servicer.execute = execute
    clean = {key: value for key, value in os.environ.items() if key != "GRPC_ENABLE_FORK_SUPPORT"}
    done = subprocess.run(
        [sys.executable, "-c", FORK, peer.target, how],
        env=clean | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=40,
    )
    return sorted(done.stdout.splitlines())


def test_a_forked_child_has_a_channel_of_its_own(peer: Any) -> None:
    """Parent and child both go on after a fork while nothing runs."""
    assert fork(peer, "idle") == ["child completed", "child ended with 0", "parent completed"]


def test_a_fork_while_a_call_runs_disturbs_neither_side(peer: Any) -> None:
    """The parent's call goes on, and the child makes calls of its own."""
    assert fork(peer, "busy") == ["child completed", "child ended with 0", "parent completed", "slow completed"]


def test_a_fork_that_grpc_cannot_survive_is_a_typed_error(peer: Any) -> None:
    """With gRPC's support switched off, a child of a busy parent is told so instead of crashing."""
    assert fork(peer, "busy", GRPC_ENABLE_FORK_SUPPORT="0") == [
        "child ForkUnsupported",
        "child ended with 1",
        "parent completed",
        "slow completed",
    ]


def test_the_error_of_a_fork_says_what_to_do() -> None:
    """A person who reads it knows the switch."""
    with pytest.raises(ForkUnsupported, match="GRPC_ENABLE_FORK_SUPPORT=1"):
        raise ForkUnsupported


async def test_clients_of_one_gateway_share_one_channel(peer: Any) -> None:
    """However many agents a process has, there is one channel to a gateway; another token is another channel."""
    first, second = GatewayClient(peer.target), GatewayClient(Endpoint(peer.target))
    await first.list_tools()
    await second.list_tools()

    assert PROCESS.to(first.endpoint) is PROCESS.to(second.endpoint)
    assert PROCESS.to(first.endpoint) is not PROCESS.to(Endpoint(peer.target, token="x"))


async def test_closing_is_harmless_and_final_for_nothing(peer: Any) -> None:
    """Connections that were closed are opened again by the next call; closing twice is no error."""
    connections = Connections(fork_supported=True)
    before = connections.to(Endpoint(peer.target))

    connections.close()
    connections.close()

    assert connections.to(Endpoint(peer.target)) is not before


def test_a_program_ends_promptly_with_its_last_report_sent(peer: Any) -> None:
    """Reports that are under way when the program ends still arrive, and do not hold it up."""
    program = f"""
from sandgate_agent import GatewayClient
from sandgate_agent.results import Outcome
from sandgate_agent.types import Report
client = GatewayClient({peer.target!r})
client.detach(client.complete(b"admission", Report(outcome=Outcome.CANCELLED)), doing="reporting")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=20)

    assert [request.admission for request in peer.servicer.requests("CompleteToolCall")] == [b"admission"]


def test_a_program_ends_promptly_while_a_stream_is_silent(peer: Any) -> None:
    """A stream in a thread that nobody waits for does not hold the end of the program up, and its call is cancelled."""

    async def stream(_: tool_pb2.ToolCall) -> AsyncIterator[tool_service_pb2.StreamToolResponse]:
        yield tool_service_pb2.StreamToolResponse(started=tool_service_pb2.ToolStarted(audit_id="a"))
        await asyncio.sleep(60)

    peer.servicer.stream = stream
    program = f"""
import asyncio, threading
from sandgate_agent import GatewayClient
from sandgate_agent.types import ToolCall
begun = threading.Event()
call = ToolCall(request_id="{uuid.uuid4()}", thread="t", tool="bash", arguments_json=b"{{}}")
async def watch():
    async with GatewayClient({peer.target!r}).stream(call) as events:
        async for _ in events:
            begun.set()
threading.Thread(target=lambda: asyncio.run(watch()), daemon=True).start()
assert begun.wait(10)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=20)

    peer.eventually(lambda: peer.servicer.cancelled)


def test_a_program_that_never_called_ends_at_once(tmp_path: Path) -> None:
    """Building a client opens nothing and holds nothing up."""
    program = f"from sandgate_agent import GatewayClient; GatewayClient('unix:{tmp_path}/x')"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=20)
