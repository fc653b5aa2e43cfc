"""Getting the gateway's tools, keeping them, and noticing that they changed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from sandgate.v1 import tool_pb2
from sandgate_agent import Catalogue, GatewayClient, GatewayMiddleware, client
from sandgate_agent.errors import CallTimedOut, GatewayFault, GatewayUnavailable, Misconfigured, ProtocolViolation
from sandgate_agent.types import ToolSpec


def spec(name: str) -> ToolSpec:
    """Make a tool."""
    return ToolSpec(name=name, description=f"Runs {name}.", arguments_schema={"type": "object"}, read_only=True)


def test_a_model_is_shown_the_gateways_schema(peer: Any) -> None:
    """Name, description and schema reach the provider as the gateway wrote them."""
    bash, _ = GatewayMiddleware(peer.target).tools

    shown = convert_to_openai_tool(bash)["function"]

    assert (shown["name"], shown["description"]) == ("bash", "Runs bash.")
    assert shown["parameters"]["properties"] == {"command": {"type": "string"}}
    assert shown["parameters"]["required"] == ["command"]


def test_a_tool_without_arguments_can_be_shown(peer: Any) -> None:
    """A schema that names no properties is one with none."""
    peer.servicer.tools = [tool_pb2.Tool(name="now", description="d", arguments_schema_json=b'{"type":"object"}')]

    (now,) = GatewayMiddleware(peer.target).tools

    assert convert_to_openai_tool(now)["function"]["name"] == "now"


async def test_a_long_list_is_read_page_by_page(peer: Any) -> None:
    """Two thousand tools arrive, each once."""
    peer.servicer.tools = [tool_pb2.Tool(name=f"t{number:04}", arguments_schema_json=b"{}") for number in range(2_001)]

    catalogue = await GatewayClient(peer.target).list_tools()

    assert [tool.name for tool in catalogue.tools] == [f"t{number:04}" for number in range(2_001)]
    assert len(peer.servicer.requests("ListTools")) == 3


@pytest.mark.parametrize("schema", [b"", b"[]", b"{", b"\xff", b"null"])
async def test_a_tool_that_cannot_be_used_is_a_violation(peer: Any, schema: bytes) -> None:
    """A schema that is no JSON object is named, with its tool."""
    peer.servicer.tools = [tool_pb2.Tool(name="odd", arguments_schema_json=schema)]

    with pytest.raises(ProtocolViolation, match="odd"):
        await GatewayClient(peer.target).list_tools()


async def test_a_list_without_an_end_is_a_violation(peer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that always has another page does not hold the agent up."""
    peer.servicer.tools = [tool_pb2.Tool(name=f"t{number}", arguments_schema_json=b"{}") for number in range(200)]
    # The real pages are too large for a test of a hundred of them.
    monkeypatch.setattr(client, "_PAGE_SIZE", 1)

    with pytest.raises(ProtocolViolation, match="pages"):
        await GatewayClient(peer.target).list_tools()


def test_two_tools_of_one_name_are_refused(peer: Any) -> None:
    """A catalogue is a set of names."""
    peer.servicer.tools *= 2

    with pytest.raises(Misconfigured, match="two tools"):
        GatewayMiddleware(peer.target)


def test_a_gateway_that_is_away_is_a_typed_error_in_time(tmp_path: Path) -> None:
    """Building an agent without a gateway fails within the time that it was given."""
    began = time.monotonic()
    with pytest.raises((GatewayUnavailable, CallTimedOut)):
        GatewayMiddleware(f"unix:{tmp_path}/nobody", load_seconds=0.3)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("form", ["value", "file", "text", "object"])
def test_a_snapshot_serves_while_the_gateway_is_away(tmp_path: Path, form: str) -> None:
    """A catalogue that was kept, in any form, is used when nobody answers."""
    kept = Catalogue(tools=(spec("bash"),), digest="d")
    kept.save(tmp_path / "tools.json")
    forms: dict[str, Any] = {
        "value": kept,
        "file": tmp_path / "tools.json",
        "text": str(tmp_path / "tools.json"),
        "object": kept.to_json(),
    }

    gateway = GatewayMiddleware(f"unix:{tmp_path}/nobody", load_seconds=0.2, snapshot=forms[form])

    assert gateway.catalogue == kept
    assert [tool.name for tool in gateway.tools] == ["bash"]


def test_a_snapshot_is_not_used_while_the_gateway_answers(peer: Any) -> None:
    """The gateway's own list wins, and its errors are not hidden by a snapshot."""
    kept = Catalogue(tools=(spec("old"),), digest="d")

    assert GatewayMiddleware(peer.target, snapshot=kept).catalogue.names == {"bash", "read_file"}
    peer.servicer.fail("ListTools", peer.Failure(grpc.StatusCode.INTERNAL, "INTERNAL"))
    with pytest.raises(GatewayFault):
        GatewayMiddleware(peer.target, snapshot=kept)


def test_a_given_catalogue_asks_nobody(tmp_path: Path) -> None:
    """With the tools in hand an agent is built without a call."""
    kept = Catalogue(tools=(spec("bash"),), digest="d")

    assert GatewayMiddleware(f"unix:{tmp_path}/nobody", catalogue=kept).catalogue == kept


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"version": 2, "digest": "d", "tools": []},
        {"version": 1, "digest": 1, "tools": []},
        {"version": 1, "digest": "d", "tools": [{}]},
        {"version": 1, "digest": "d", "tools": [None]},
        {"version": 1, "digest": "d", "tools": [{"name": "", "description": "", "arguments_schema": {}}]},
    ],
)
def test_what_is_no_snapshot_is_refused(value: Any, tmp_path: Path) -> None:
    """An object of another shape or version is named so, also when it comes from a file."""
    with pytest.raises(Misconfigured):
        Catalogue.from_json(value)
    (tmp_path / "file").write_text(json.dumps(value))
    with pytest.raises(Misconfigured):
        Catalogue.load(tmp_path / "file")


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", None])
def test_a_file_that_is_no_snapshot_is_refused(content: bytes | None, tmp_path: Path) -> None:
    """A missing or broken file is an error that names it."""
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    with pytest.raises(Misconfigured, match="file"):
        Catalogue.load(tmp_path / "file")


def test_a_changed_catalogue_is_noticed_once(peer: Any, script: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A new digest is logged, counted and recorded once; the agent goes on with the tools that it has."""
    gateway = GatewayMiddleware(peer.target)
    gateway.watch.check_seconds = 0
    agent = create_agent(script(("bash", {"command": "a"}), "done"), middleware=[gateway])

    def run() -> None:
        before = len(peer.servicer.requests("ListTools"))
        agent.invoke({"messages": [HumanMessage("go")]})
        peer.eventually(lambda: len(peer.servicer.requests("ListTools")) > before)

    run()
    assert gateway.counters.read() == {}
    peer.servicer.digest = "digest-2"
    run()
    peer.eventually(lambda: peer.servicer.requests("RecordEvents"))
    run()

    assert gateway.counters.read() == {"catalogue_changed": 1}
    assert "tools have changed" in caplog.text
    (recorded,) = peer.servicer.requests("RecordEvents")
    (event,) = recorded.events
    assert event.event == "middleware:catalogue-changed"
    assert json.loads(event.attributes_json) == {"built_with": "digest-1", "offered": "digest-2"}
    assert GatewayMiddleware(peer.target).catalogue.digest == "digest-2"


def test_a_check_that_fails_disturbs_nobody(peer: Any, script: Any) -> None:
    """The run does not notice that its gateway could not be asked for changes."""
    gateway = GatewayMiddleware(peer.target)
    gateway.watch.check_seconds = 0
    peer.servicer.fail("ListTools", peer.Failure(grpc.StatusCode.INTERNAL, "INTERNAL"))

    create_agent(script("done"), middleware=[gateway]).invoke({"messages": [HumanMessage("go")]})

    peer.eventually(lambda: gateway.counters.read() == {"catalogue_unchecked": 1})


def test_the_catalogue_is_not_checked_at_each_run(peer: Any, script: Any) -> None:
    """Runs that follow each other closely cost no extra calls."""
    agent = create_agent(script("done"), middleware=[GatewayMiddleware(peer.target)])

    for _ in range(3):
        agent.invoke({"messages": [HumanMessage("go")]})

    assert len(peer.servicer.requests("ListTools")) == 1
