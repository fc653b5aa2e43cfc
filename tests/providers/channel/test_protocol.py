"""The line to a runner under attack and in odd states: what is forged, late, repeated or meant for another."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sandgate_providers.channel.client import RunnerChannel
from sandgate_providers.channel.configuration import RunnerConfiguration
from sandgate_providers.channel.session import Session
from sandgate_providers.channel.transport import ByteStream
from sandgate_providers.channel.types import Command, FileOperation, ProcessEnd
from sandgate_providers.errors import CallRefused, ChannelClosed, SandboxLost
from sandgate_providers.runner import frames
from sandgate_providers.types import Limits

KEY = bytes(range(32))
CALL = b"0123456789abcdef"
Start = Callable[[], Awaitable[Any]]
CONFIGURATION = RunnerConfiguration(limits=Limits(processes=0), max_calls=8)


@pytest.fixture
async def session(start_runner: Start) -> Session:
    """Give a line that is set up, to be spoken by hand."""
    stream: ByteStream = await start_runner()
    made = await Session.begin(stream, KEY)
    await made.configure(CONFIGURATION)
    return made


def job(session: Session, script: str, **extra: object) -> bytes:
    """Say what to run."""
    fields = {
        "boot": session.boot,
        "argv": ["bash", "-c", script],
        "cwd": "/",
        "environment": {},
        "timeout": 20,
        "grace": 0.1,
        "input": False,
        "output_limit": 0,
    }
    return json.dumps({**fields, **extra}).encode()


async def hear(session: Session, kind: int, call: bytes = CALL) -> bytes:
    """Wait for a frame of one kind about one call."""
    async with asyncio.timeout(20):
        while True:
            received = await session.receive()
            assert received, "the line ended"
            for got, number, payload in received:
                if (got, number) == (kind, call):
                    return payload


async def ended(session: Session) -> bool:
    """Wait until the runner drops the line."""
    async with asyncio.timeout(20):
        while True:
            if not await session.receive():
                return True


async def refusal(session: Session, call: bytes = CALL) -> str:
    """Wait for a refusal and give its reason."""
    return str(json.loads(await hear(session, frames.REFUSED, call))["reason"])


async def test_call_never_runs_twice(session: Session, tmp_path: Any) -> None:
    """A call id is good for one call: its end is repeated until the ack, and refused ever after."""
    mark = tmp_path / "mark"
    script = f"echo x >> {mark}"
    session.send(frames.EXEC, CALL, job(session, script))
    first = await hear(session, frames.END)
    session.send(frames.EXEC, CALL, job(session, script))
    assert await hear(session, frames.END) == first
    session.send(frames.ACK, CALL)
    session.send(frames.EXEC, CALL, job(session, script))
    assert await refusal(session) == "repeated"
    assert mark.read_text() == "x\n"


async def test_running_call_is_not_started_again(session: Session) -> None:
    """A repeat of a call that runs is refused, and the call goes on."""
    session.send(frames.EXEC, CALL, job(session, "sleep 0.3; echo done"))
    session.send(frames.EXEC, CALL, job(session, "echo again"))
    assert await refusal(session) == "repeated"
    assert await hear(session, frames.STDOUT) == b"done\n"


async def test_call_for_another_runner_is_refused(session: Session) -> None:
    """A call that names another boot nonce was meant for a runner that is gone."""
    session.send(frames.EXEC, CALL, job(session, "true", boot="0" * 32))
    assert await refusal(session) == "other-boot"


async def test_given_up_call_never_runs(session: Session) -> None:
    """A call that was voided before it came is refused when it comes."""
    session.send(frames.VOID, CALL)
    session.send(frames.EXEC, CALL, job(session, "true"))
    assert await refusal(session) == "void"


async def test_voiding_ends_what_runs(session: Session) -> None:
    """Voiding a call that runs ends its tree."""
    session.send(frames.EXEC, CALL, job(session, "echo up; sleep 60"))
    assert await hear(session, frames.STDOUT) == b"up\n"
    session.send(frames.VOID, CALL)
    assert json.loads(await hear(session, frames.END))["reason"] == "cancelled"


async def test_results_wait_for_their_ack(session: Session) -> None:
    """When results fill the table, new calls are refused; an ack makes room."""
    numbers = [bytes([n]) * 16 for n in range(9)]
    for number in numbers[:8]:
        session.send(frames.EXEC, number, job(session, "true"))
        await hear(session, frames.END, number)
    session.send(frames.EXEC, numbers[8], job(session, "true"))
    assert await refusal(session, numbers[8]) == "full"
    session.send(frames.ACK, numbers[0])
    session.send(frames.EXEC, numbers[8], job(session, "true"))
    assert json.loads(await hear(session, frames.END, numbers[8]))["exit_code"] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"argv": []},
        {"argv": ["bash\0"]},
        {"argv": "bash"},
        {"argv": [1]},
        {"cwd": None},
        {"environment": {"A": 1}},
        {"environment": []},
        {"timeout": "soon"},
        {"timeout": None},
        {"grace": []},
        {"output_limit": "much"},
        {"environment": {"": "x"}},
    ],
)
async def test_malformed_call_is_refused(session: Session, change: dict[str, object]) -> None:
    """A call that cannot be read is refused by itself; the line serves on."""
    session.send(frames.EXEC, CALL, job(session, "true", **change))
    assert await refusal(session) == "malformed"
    session.send(frames.EXEC, b"f" * 16, job(session, "true"))
    assert json.loads(await hear(session, frames.END, b"f" * 16))["exit_code"] == 0


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"null", b"\xff" * 10, b"[" * 5000])
async def test_nonsense_call_is_refused(session: Session, payload: bytes) -> None:
    """So is one that is no JSON object at all."""
    session.send(frames.EXEC, CALL, payload)
    assert await refusal(session) == "malformed"


async def test_too_large_a_job_is_refused(session: Session) -> None:
    """A call whose words do not fit a worker's message is refused, and nothing ran."""
    session.send(frames.EXEC, CALL, job(session, "true", environment={"A": "x" * 230_000}))
    assert await refusal(session) in ("too-large", "malformed")


def unsealed(kind: int) -> bytes:
    """Make a frame with a code of zeros."""
    return frames.open_frame(kind, b"")


@pytest.mark.parametrize(
    "forge",
    [
        lambda _session: unsealed(frames.PING),
        lambda _session: frames.Sealer(bytes(32)).seal(frames.PING, CALL),
        lambda session: session._sealer.seal(frames.PING, CALL)[:-1] + b"\0",
        lambda session: session._sealer.seal(frames.PING, CALL, b"x") and session._sealer.seal(frames.PING, CALL, b"y"),
        lambda _session: b"\xff\xff\xff\xff",
        lambda _session: b"\0\0\0\0",
        lambda _session: os.urandom(4096),
        lambda session: session._sealer.seal(99, CALL),
    ],
    ids=["no code", "other key", "changed body", "skipped counter", "too long", "too short", "noise", "unknown kind"],
)
async def test_forged_frame_costs_the_line(session: Session, forge: Callable[[Any], bytes]) -> None:
    """A frame without the right code, out of order, or out of shape ends the line, and with it this runner."""
    session._stream.write(forge(session))
    assert await ended(session)


async def test_second_key_is_not_taken(start_runner: Start) -> None:
    """A line begins with KEY; a command in its place ends it."""
    stream = await start_runner()
    await stream.read()
    stream.write(frames.open_frame(frames.EXEC, b"{}"))
    assert await stream.read() == b""


async def test_command_before_configuration_is_not_taken(start_runner: Start) -> None:
    """Nothing runs before the runner knows its limits."""
    stream = await start_runner()
    session = await Session.begin(stream, KEY)
    session.send(frames.EXEC, CALL, job(session, "true"))
    assert await ended(session)


async def test_input_beyond_the_window_ends_the_line(session: Session) -> None:
    """A peer that ignores the input window is not our gateway."""
    session.send(frames.EXEC, CALL, job(session, "sleep 60", input=True))
    for _ in range(8):
        session.send(frames.INPUT, CALL, b"x" * 65536)
    assert await ended(session)


async def test_dead_man_ends_the_sandbox(start_runner: Start) -> None:
    """A runner to which nobody speaks ends itself."""
    stream = await start_runner()
    session = await Session.begin(stream, KEY)
    await session.configure(RunnerConfiguration(limits=Limits(processes=0), dead_man_seconds=0.3))
    async with asyncio.timeout(10):
        assert await stream.read() == b""
        await stream.process.wait()


async def connect(stream: ByteStream) -> RunnerChannel:
    """Make a channel of a line."""
    return await RunnerChannel.connect(stream, key=KEY, configuration=CONFIGURATION)


async def test_runner_killed_mid_call(start_runner: Start) -> None:
    """When the runner is killed, calls end as lost and new ones are refused at once."""
    stream = await start_runner()
    channel = await connect(stream)
    async with channel.open(Command(argv=("sleep", "60"), timeout_seconds=60, working_directory="/")) as call:
        stream.process.kill()
        async with asyncio.timeout(10):
            assert (await call.end()).reason is ProcessEnd.SANDBOX_LOST
            await channel.wait_closed()
    with pytest.raises(SandboxLost):
        async with channel.open(Command(argv=("true",), timeout_seconds=1)):
            pass
    with pytest.raises(SandboxLost):
        await channel.ping()
    await channel.close()


async def test_closing_takes_everything_down(start_runner: Start) -> None:
    """Closing the channel loses what runs and ends the runner with all its processes."""
    stream = await start_runner()
    channel = await connect(stream)
    async with channel.open(Command(argv=("bash", "-c", "sleep 60 & sleep 60"), timeout_seconds=60)) as call:
        await channel.close()
        assert (await call.end()).reason is ProcessEnd.SANDBOX_LOST
    with pytest.raises(ChannelClosed):
        await channel.ping()


@pytest.mark.parametrize(
    "said", [None, b"hello world\n" * 20, bytes(100), b""], ids=["eof", "text", "zeros", "silence"]
)
async def test_runner_that_speaks_nonsense(said: bytes | None) -> None:
    """What is no runner never becomes a channel, and its stream is closed."""

    class Stream:
        closed = False

        async def read(self) -> bytes:
            if said is None:
                return b""
            return said or await asyncio.Future[bytes]()

        def write(self, data: bytes) -> None:
            raise AssertionError(data)

        async def drain(self) -> None:
            return

        async def close(self) -> None:
            self.closed = True

    stream = Stream()
    with pytest.raises(SandboxLost):
        await RunnerChannel.connect(stream, key=KEY, configuration=CONFIGURATION, timeout_seconds=0.5)
    assert stream.closed


async def test_refused_call_raises(start_runner: Start) -> None:
    """A call that the runner does not take raises, and the channel serves on."""
    channel = await connect(await start_runner())
    with pytest.raises(CallRefused) as raised:
        async with channel.open(Command(argv=("a\0b",), timeout_seconds=1)) as call:
            await call.end()
    assert raised.value.reason == "malformed"
    assert 0 < await channel.ping() < 5
    await channel.close()


async def test_operation_that_does_not_exist(start_runner: Start) -> None:
    """An operation that the runner does not know fails by itself."""
    channel = await connect(await start_runner())
    async with channel.open(FileOperation(name="no-such", arguments={}, timeout_seconds=5)) as call:
        end = await call.end()
    assert end.error_code
    await channel.close()
