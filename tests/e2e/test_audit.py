"""The audit through real gRPC: nothing runs unrecorded, and records can be read, followed and checked."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from sandgate.v1 import audit_service_pb2, verdict_pb2
from sandgate_gateway.audit.log import AuditLog
from sandgate_gateway.bootstrap import running_gateway
from sandgate_gateway.configuration.listening import listen_address
from sandgate_gateway.errors import ErrorReason, Unavailable
from sandgate_gateway.settings import Settings
from sandgate_providers.fake import FakeProvider
from sandgate_providers.types import SandboxKey

Agent = Any  # the conftest's; test modules do not import each other
Start = Any

NOW = Timestamp(seconds=1_900_000_000)


def event(name: str = "middleware:loop-stopped", **fields: object) -> audit_service_pb2.MiddlewareEvent:
    """Make an event of a middleware."""
    values: dict[str, object] = {
        "event_id": str(uuid.uuid4()),
        "event": name,
        "thread": "thread",
        "occur_time": NOW,
        "attributes_json": b'{"count":3}',
    }
    return audit_service_pb2.MiddlewareEvent(**{**values, **fields})  # type: ignore[arg-type]  # a test writes what it means


async def record(agent: Agent, *events: audit_service_pb2.MiddlewareEvent) -> int:
    """Send events."""
    request = audit_service_pb2.RecordEventsRequest(events=events)
    reply = await agent.audit.RecordEvents(request, timeout=5)
    return int(reply.recorded_count)


async def test_nothing_runs_while_the_audit_is_away(
    agent: Agent, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is refused with advice to come again, no sandbox is made, and later the same request runs."""

    async def fail(_log: AuditLog, _event: object) -> None:
        raise Unavailable(ErrorReason.AUDIT_UNAVAILABLE, "the disk is full", retry_after_seconds=5)

    call = agent.call("echo hello")
    with monkeypatch.context() as patch:
        patch.setattr(AuditLog, "write", fail)
        refusal = await agent.refusal(agent.run(call))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "AUDIT_UNAVAILABLE")
    assert refusal.retry_seconds == 5
    assert provider.made == []
    assert (await agent.run(call)).outcome == verdict_pb2.OUTCOME_COMPLETED


async def test_the_records_of_a_life(start: Start, provider: FakeProvider, folder: Path) -> None:
    """From its start to its stop: gateway, sandbox, call, sandbox, gateway, in this order, in one whole chain."""
    agent, gateway = await start(provider)
    result = await agent.bash("echo hello")
    await gateway.sandboxes.delete("default", result.sandbox.removeprefix("sandboxes/"))
    verified = await agent.audit.VerifyEvents(audit_service_pb2.VerifyEventsRequest(), timeout=5)
    assert verified.intact
    lines = (folder / "data" / "audit" / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == [
        "audit.chain.opened",
        "gateway.started",
        "tool.call.decided",
        "sandbox.created",
        "tool.call.finished",
        "sandbox.ended",
    ]
    assert verified.record_count == len(lines)


async def test_the_stop_is_the_last_record(provider: FakeProvider, folder: Path) -> None:
    """What ends at shutdown is on record before the audit closes."""
    settings = Settings(data_dir=folder, listen=(listen_address(f"unix:{folder}/x.sock"),))
    async with running_gateway(settings, provider=provider) as gateway:
        deadline = asyncio.get_running_loop().time() + 5
        await gateway.sandboxes.acquire(SandboxKey(tenant="default", thread="t"), "", deadline=deadline)
    lines = (folder / "audit" / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines][-2:] == ["sandbox.ended", "gateway.stopped"]


async def test_records_can_be_found(agent: Agent) -> None:
    """By thread, audit id, tool, verdict, outcome and name; newest first; in pages."""
    results = [await agent.bash(f"exit {code}", thread=f"t{code}") for code in range(3)]
    assert {record["thread"] for record in await agent.records(thread="t1") if "thread" in record} == {"t1"}
    assert len(await agent.records(audit_id=results[0].audit_id)) == 2
    assert len(await agent.records(tool="bash", event="tool.call.finished")) == 3
    for outcome, count in ((verdict_pb2.OUTCOME_COMPLETED, 3), (verdict_pb2.OUTCOME_DENIED, 0)):
        wanted = audit_service_pb2.EventFilter(outcome=outcome, verdict=verdict_pb2.VERDICT_PASS)
        seen: list[str] = []
        token = ""
        while True:
            request = audit_service_pb2.QueryEventsRequest(filter=wanted, page_size=2, page_token=token)
            page = await agent.audit.QueryEvents(request, timeout=5)
            seen += [item.audit_id for item in page.events]
            token = page.next_page_token
            if not token:
                break
        assert len(seen) == count
        assert seen == [result.audit_id for result in reversed(results)][:count]


async def test_a_page_token_fits_its_own_filter_only(agent: Agent) -> None:
    """A token of another query, or made up, is refused."""
    await agent.bash()
    first = await agent.audit.QueryEvents(audit_service_pb2.QueryEventsRequest(page_size=1), timeout=5)
    for wanted, token in (("bash", first.next_page_token), ("", "made-up")):
        request = audit_service_pb2.QueryEventsRequest(
            filter=audit_service_pb2.EventFilter(tool=wanted), page_token=token
        )
        refusal = await agent.refusal(agent.audit.QueryEvents(request, timeout=5))
        assert refusal.reason == "PAGE_TOKEN_INVALID"


async def test_records_can_be_followed(agent: Agent) -> None:
    """A follower gets new records that match, as they come."""
    wanted = audit_service_pb2.EventFilter(event="tool.call.finished")
    stream = agent.audit.TailEvents(audit_service_pb2.TailEventsRequest(filter=wanted), timeout=10)
    following = asyncio.ensure_future(stream.read())
    audit_ids = set()
    while not following.done():  # what came before the follower did is not followed
        audit_ids.add((await agent.bash()).audit_id)
    item = following.result()
    assert item.event.audit_id in audit_ids
    assert item.event.outcome == verdict_pb2.OUTCOME_COMPLETED
    stream.cancel()


async def test_a_middlewares_event_is_recorded_once(agent: Agent) -> None:
    """A repeat of an event id writes nothing, in the same request and in a later one."""
    one, two = event(), event("middleware:tokens-counted")
    assert await record(agent, one, one) == 1
    assert await record(agent, one, two) == 1
    records = await agent.records(event="middleware:")
    assert [item["event"] for item in records] == ["middleware:loop-stopped", "middleware:tokens-counted"]
    assert records[0]["event_id"] == one.event_id
    assert records[0]["annotations"] == {"middleware/attributes": {"count": 3}}
    assert records[0]["occurred_at"].startswith("2030-")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("event_id", "x"),
        ("event", "tool.call.finished"),
        ("event", "middleware:"),
        ("event", "middleware:" + "x" * 128),
        ("thread", ""),
        ("run", "x" * 257),
        ("attributes_json", b"[]"),
        ("attributes_json", b'{"a":"' + b"x" * 8192 + b'"}'),
        ("occur_time", Timestamp(seconds=-(10**12))),
    ],
)
async def test_a_wrong_event_is_refused_whole(agent: Agent, field: str, value: object) -> None:
    """One wrong field refuses the request by name, and none of its events is written."""
    refusal = await agent.refusal(record(agent, event(), event(**{field: value})))  # type: ignore[arg-type]  # likewise
    assert refusal.fields == [f"events[1].{field}"]
    assert await agent.records(event="middleware:") == []


async def test_too_many_events_are_refused(agent: Agent) -> None:
    """A hundred go, one more does not."""
    assert await record(agent, *(event() for _ in range(100))) == 100
    assert (await agent.refusal(record(agent, *(event() for _ in range(101))))).fields == ["events"]
