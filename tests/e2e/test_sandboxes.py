"""Sandboxes through real gRPC: leases, views, deletion."""

from __future__ import annotations

from typing import Any

import grpc

from sandgate.v1 import sandbox_pb2, sandbox_service_pb2, verdict_pb2
from sandgate_providers.errors import ProviderUnavailable
from sandgate_providers.fake import FakeProvider

Agent = Any  # the conftest's; test modules do not import each other
Start = Any


async def get(agent: Agent, name: str) -> sandbox_pb2.Sandbox:
    """Get one."""
    reply = await agent.sandboxes.GetSandbox(sandbox_service_pb2.GetSandboxRequest(name=name), timeout=5)
    sandbox: sandbox_pb2.Sandbox = reply.sandbox
    return sandbox


async def acquire(agent: Agent, thread: str = "thread", lease: str = "") -> sandbox_pb2.Sandbox:
    """Make one ready."""
    request = sandbox_service_pb2.AcquireSandboxRequest(thread=thread, lease=lease)
    sandbox: sandbox_pb2.Sandbox = (await agent.sandboxes.AcquireSandbox(request, timeout=5)).sandbox
    return sandbox


async def release(agent: Agent, lease: str, thread: str = "thread") -> bool:
    """End a lease."""
    request = sandbox_service_pb2.ReleaseSandboxRequest(thread=thread, lease=lease)
    return bool((await agent.sandboxes.ReleaseSandbox(request, timeout=5)).released)


async def test_two_leases_of_one_thread(agent: Agent) -> None:
    """Calls under two leases share the sandbox; the end of one lease leaves the other's; the end of both parks it."""
    one = await agent.bash(lease="one")
    two = await agent.bash(lease="two")
    assert one.sandbox == two.sandbox
    view = await get(agent, one.sandbox)
    assert (view.state, view.lease_count) == (sandbox_pb2.SANDBOX_STATE_ACTIVE, 2)
    assert await release(agent, "one")
    assert not await release(agent, "one")
    assert (await get(agent, one.sandbox)).lease_count == 1
    assert (await agent.bash(lease="two")).sandbox == one.sandbox
    assert await release(agent, "two")
    assert (await get(agent, one.sandbox)).state == sandbox_pb2.SANDBOX_STATE_PARKED
    assert (await agent.bash()).sandbox == one.sandbox


async def test_a_sandbox_can_be_made_ready(agent: Agent, provider: FakeProvider) -> None:
    """Acquire makes it with its isolation report; the first call then finds it."""
    sandbox = await acquire(agent, lease="lease")
    assert sandbox.thread == "thread"
    assert sandbox.provider == "fake"
    assert [fact.name for fact in sandbox.isolation.facts] == ["none"]
    assert (await agent.bash(lease="lease")).sandbox == sandbox.name
    assert len(provider.made) == 1


async def test_sandboxes_are_listed(agent: Agent) -> None:
    """In pages, in order of their names, without the reports."""
    names = sorted([(await acquire(agent, thread=f"t{number}")).name for number in range(5)])
    seen: list[str] = []
    token = ""
    while True:
        request = sandbox_service_pb2.ListSandboxesRequest(page_size=2, page_token=token)
        reply = await agent.sandboxes.ListSandboxes(request, timeout=5)
        seen += [sandbox.name for sandbox in reply.sandboxes]
        assert not any(sandbox.HasField("isolation") for sandbox in reply.sandboxes)
        token = reply.next_page_token
        if not token:
            break
    assert seen == names


async def test_a_deleted_sandbox_is_gone(agent: Agent) -> None:
    """After delete it is not found; the next call of the thread gets a new one of the same name."""
    sandbox = await acquire(agent)
    request = sandbox_service_pb2.DeleteSandboxRequest(name=sandbox.name)
    await agent.sandboxes.DeleteSandbox(request, timeout=5)
    refusal = await agent.refusal(get(agent, sandbox.name))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "SANDBOX_NOT_FOUND")
    assert (await agent.bash()).sandbox == sandbox.name


async def test_wrong_names_and_threads(agent: Agent) -> None:
    """A name of another form and an empty thread are wrong fields; an empty lease cannot be released."""
    assert (await agent.refusal(get(agent, "sg-x"))).fields == ["name"]
    assert (await agent.refusal(acquire(agent, thread=""))).fields == ["thread"]
    assert (await agent.refusal(release(agent, ""))).fields == ["lease"]


async def test_a_sandbox_that_dies_is_lost_and_replaced(agent: Agent, provider: FakeProvider) -> None:
    """The call that runs in it says so; the next call works, in a new one."""
    stream = agent.stream(agent.call("wait"))
    while (event := await stream.read()).WhichOneof("event") != "output":
        pass
    await provider.made[0].channel.lose()
    while (event := await stream.read()).WhichOneof("event") != "finished":
        pass
    result = event.finished.result
    assert result.outcome == verdict_pb2.OUTCOME_LOST
    assert result.failure.retryable
    assert (await agent.bash()).outcome == verdict_pb2.OUTCOME_COMPLETED
    assert len(provider.made) == 2


async def test_a_full_gateway_says_when_to_come_again(start: Start, provider: FakeProvider) -> None:
    """With every place held: RESOURCE_EXHAUSTED with RetryInfo, which tells it from a reply that is too large."""
    agent, _ = await start(provider, sandboxes={"max": 1, "queue_time": 0.05})
    await acquire(agent, lease="lease")
    refusal = await agent.refusal(agent.bash(thread="other"))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "CAPACITY_EXHAUSTED")
    assert refusal.retry_seconds >= 1


async def test_an_outage_of_the_provider(agent: Agent, provider: FakeProvider) -> None:
    """UNAVAILABLE with RetryInfo and no host path; the same request runs later."""
    provider.fail_with = ProviderUnavailable("/srv/secret")
    call = agent.call()
    refusal = await agent.refusal(agent.run(call))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "PROVIDER_UNAVAILABLE")
    assert refusal.retry_seconds > 0
    assert "/srv" not in refusal.message
    assert (await agent.run(call)).outcome == verdict_pb2.OUTCOME_COMPLETED
