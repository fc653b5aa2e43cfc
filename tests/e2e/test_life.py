"""The gateway's own life: where it listens, its health, how it stops."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from sandgate.v1 import audit_service_pb2, verdict_pb2
from sandgate_gateway.bootstrap import running_gateway, serve
from sandgate_gateway.configuration.listening import listen_address
from sandgate_gateway.errors import Misconfigured
from sandgate_gateway.settings import LocalSettings, ServerSettings, Settings
from sandgate_providers.errors import ProviderUnavailable
from sandgate_providers.fake import FakeProvider

Agent = Any  # the conftest's; test modules do not import each other
Start = Any
Until = Any
Speak = Any

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
TOOLS = "sandgate.v1.ToolService"


def sockets(folder: Path) -> list[Path]:
    """List the sockets in a folder."""
    return list(folder.glob("*.sock"))


async def health(agent: Agent, service: str) -> int:
    """Ask for health."""
    return int((await agent.health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)).status)


async def becomes(agent: Agent, service: str, wanted: int) -> None:
    """Wait until a service has this health."""
    async with asyncio.timeout(20):
        while await health(agent, service) != wanted:  # noqa: ASYNC110 - it is another process's state, as far as we know
            await asyncio.sleep(0.05)


async def test_the_socket_is_its_owners_alone(agent: Agent, folder: Path) -> None:
    """Mode 0600 from the start: who may connect is the operating system's business."""
    [path] = sockets(folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (await agent.bash()).outcome == verdict_pb2.OUTCOME_COMPLETED


async def test_a_stale_socket_is_replaced_and_a_live_one_is_not(
    start: Start, provider: FakeProvider, folder: Path
) -> None:
    """What a killed gateway left is no obstacle; a second gateway cannot take the place of one that runs."""
    path = folder / "x.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    listen = (listen_address(f"unix:{path}"),)
    agent, _ = await start(provider, listen=listen)
    with pytest.raises(Misconfigured, match="another gateway listens"):
        await start(FakeProvider(), listen=listen, data_dir=folder / "other")
    assert (await agent.bash()).outcome == verdict_pb2.OUTCOME_COMPLETED


async def test_what_is_no_socket_is_left_alone(start: Start, folder: Path) -> None:
    """A file in the place of the socket is not removed."""
    path = folder / "file"
    path.write_text("precious")
    with pytest.raises(Misconfigured, match="is no socket"):
        await start(FakeProvider(), listen=(listen_address(f"unix:{path}"),))
    assert path.read_text() == "precious"


async def test_several_addresses(start: Start, speak: Speak, provider: FakeProvider, folder: Path) -> None:
    """A socket and a port serve the same gateway; port 0 is told as what it became."""
    listen = (listen_address(f"unix:{folder}/x.sock"), listen_address("127.0.0.1:0"))
    agent, gateway = await start(provider, listen=listen)
    target = gateway.addresses[1]
    assert target.startswith("127.0.0.1:")
    assert not target.endswith(":0")
    first = await agent.bash()
    async with grpc.aio.insecure_channel(target) as channel:
        second = await speak(channel).bash()
    assert first.sandbox == second.sandbox


async def test_a_port_that_is_taken(start: Start) -> None:
    """The error names the key of the settings."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = listen_address(f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(Misconfigured, match=r"listen: 127\.0\.0\.1"):
            await start(FakeProvider(), listen=(address,))


async def test_health_tells_life_and_ability_apart(agent: Agent, provider: FakeProvider) -> None:
    """While the provider fails the process lives and its services do not serve; after a while they may again."""
    assert await health(agent, "") == SERVING
    assert await health(agent, TOOLS) == SERVING
    provider.fail_with = ProviderUnavailable("away")
    await agent.refusal(agent.bash())
    await becomes(agent, TOOLS, NOT_SERVING)
    assert await health(agent, "") == SERVING
    await agent.bash()
    await becomes(agent, TOOLS, SERVING)


async def test_reflection_is_off_unless_asked_for(start: Start, folder: Path) -> None:
    """A production gateway does not describe itself; one for grpcurl does."""

    async def services(agent: Agent) -> list[str]:
        stub = reflection_pb2_grpc.ServerReflectionStub(agent.channel)
        call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        reply = await call.read()
        return sorted(service.name for service in reply.list_services_response.service)

    off, _ = await start(FakeProvider(), data_dir=folder / "off")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await services(off)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    on, _ = await start(FakeProvider(), data_dir=folder / "on", server={"reflection": True, "shutdown_grace": 0})
    assert TOOLS in await services(on)


async def test_stopping_lets_calls_end_and_takes_no_new_ones(
    speak: Speak, folder: Path, provider: FakeProvider, until: Until
) -> None:
    """After the stop signal: health says no, new calls are told to come again, a running one ends by itself."""
    settings = Settings(
        data_dir=folder, listen=(listen_address(f"unix:{folder}/x.sock"),), server=ServerSettings(shutdown_grace=10)
    )
    stop = asyncio.Event()
    ready: asyncio.Future[Sequence[str]] = asyncio.get_running_loop().create_future()

    async def serve_until_stopped() -> None:
        async with running_gateway(settings, provider=provider) as gateway:
            ready.set_result(gateway.addresses)
            await stop.wait()

    serving = asyncio.create_task(serve_until_stopped())
    async with grpc.aio.insecure_channel((await ready)[0]) as channel:
        agent = speak(channel)
        running = asyncio.create_task(agent.run(agent.call("wait"), seconds=3))
        await until(lambda: bool(provider.made) and bool(provider.made[0].channel._calls))
        stop.set()
        await becomes(agent, TOOLS, NOT_SERVING)
        refusal = await agent.refusal(agent.bash())
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
        assert refusal.retry_seconds > 0
        assert (await running).outcome == verdict_pb2.OUTCOME_TIMED_OUT
    await serving
    assert not (await provider.made[0].status()).alive
    assert not sockets(folder)


async def test_stopping_does_not_wait_for_ever(
    speak: Speak, folder: Path, provider: FakeProvider, until: Until
) -> None:
    """When the grace is over, what runs is cancelled; who only follows the audit holds up nothing."""
    settings = Settings(
        data_dir=folder, listen=(listen_address(f"unix:{folder}/x.sock"),), server=ServerSettings(shutdown_grace=0.2)
    )
    loop = asyncio.get_running_loop()
    async with grpc.aio.insecure_channel(settings.listen[0].target) as channel:
        agent = speak(channel)
        async with running_gateway(settings, provider=provider):
            follower = agent.audit.TailEvents(audit_service_pb2.TailEventsRequest(), timeout=60)
            running = asyncio.create_task(agent.run(agent.call("wait"), seconds=60))
            await until(lambda: bool(provider.made) and bool(provider.made[0].channel._calls))
            begun = loop.time()
        assert loop.time() - begun < 5
        with pytest.raises(grpc.aio.AioRpcError):
            await running
        follower.cancel()
    events = [json.loads(line) for line in (folder / "audit" / "audit.jsonl").read_text().splitlines()]
    assert [event["outcome"] for event in events if event.get("stage") == "finished"] == ["cancelled"]
    assert events[-1]["event"] == "gateway.stopped"


async def test_serve_tells_when_it_is_ready_and_stops_when_told(folder: Path) -> None:
    """The entry that the command line uses, with the provider that the settings name."""
    settings = Settings(
        data_dir=folder, listen=(listen_address(f"unix:{folder}/x.sock"),), local=LocalSettings(isolation="none")
    )
    stop = asyncio.Event()
    addresses: list[str] = []

    def ready(told: Sequence[str]) -> None:
        addresses.extend(told)
        stop.set()

    async with asyncio.timeout(20):
        await serve(settings, ready=ready, stop=stop)
    assert addresses == [f"unix:{folder}/x.sock"]


async def test_a_provider_that_cannot_start_is_a_wrong_configuration(folder: Path) -> None:
    """The operator gets the provider's own words; nothing is left running."""
    settings = Settings(
        data_dir=folder,
        listen=(listen_address(f"unix:{folder}/x.sock"),),
        local=LocalSettings(bubblewrap=Path("/no/such/bwrap")),
    )
    with pytest.raises(Misconfigured, match="bwrap"):
        await serve(settings)
    assert not sockets(folder)
