"""When the disk is full, gone or slow, and when the gateway is killed: nothing is lost quietly."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from sandgate_gateway.audit.event import AuditEvent
from sandgate_gateway.audit.log import AuditLog
from sandgate_gateway.audit.reader import AuditReader
from sandgate_gateway.audit.rendering import Emitter
from sandgate_gateway.errors import ErrorReason, Unavailable

MakeEvent = Callable[..., AuditEvent]
OpenLog = Callable[[], Awaitable[AuditLog]]

PRELUDE = """
import asyncio, os, resource, sys
from datetime import UTC, datetime
from pathlib import Path
from sandgate_gateway.audit.codes import Code
from sandgate_gateway.audit.event import AuditEvent
from sandgate_gateway.audit.log import AuditLog
from sandgate_gateway.audit.rendering import Emitter
from sandgate_gateway.errors import Unavailable

file = Path(sys.argv[1])
log = AuditLog(file, Emitter(service="sandgate", version="0.1.0", instance="test"))

def event(padding=0):
    more = {"test/padding": "x" * padding}
    return AuditEvent(code=Code.SANDBOX_CREATED, occurred_at=datetime.now(UTC), annotations=more)
"""


def program(body: str) -> list[str]:
    """Give a command that runs a program around a log of its own."""
    return [sys.executable, "-c", PRELUDE + textwrap.dedent(body)]


async def verify(file: Path) -> str:
    """Give the first problem of a file."""
    return (await AuditReader(file, page_key=bytes(32)).verify()).problem


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 64 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


async def test_a_full_disk_refuses_and_recovers(tiny_disk: Path, make_event: MakeEvent, emitter: Emitter) -> None:
    """Without space each write is refused with a time to try again; with space writing goes on in an unbroken file."""
    file = tiny_disk / "audit.jsonl"
    log = AuditLog(file, emitter)
    await log.start()
    acknowledged: list[str] = []
    refused: list[Unavailable] = []

    async def write() -> None:
        event = make_event()
        try:
            await log.write(event)
            acknowledged.append(event.event_id)
        except Unavailable as error:
            refused.append(error)

    ballast = tiny_disk / "ballast"
    ballast.write_bytes(b"x" * 30_000)
    while not refused:
        await asyncio.gather(*(write() for _ in range(20)))
    assert refused[0].reason is ErrorReason.AUDIT_UNAVAILABLE
    assert refused[0].retry_after_seconds == 5
    assert "No space left" in refused[0].message
    assert str(tiny_disk) not in refused[0].message
    await write()
    lost = len(refused)
    assert file.read_bytes().endswith(b"\n")
    assert await verify(file) == ""

    ballast.unlink()
    await write()
    assert len(refused) == lost
    await log.stop()
    records = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert [r["event_id"] for r in records if r["event"] == "tool.call.finished"] == acknowledged
    resumed = [
        record["annotations"]["audit/refused"] for record in records if record["event"] == "audit.writes.resumed"
    ]
    assert sum(resumed) == lost
    assert log.counts.written == len(acknowledged)
    assert log.counts.refused == lost
    assert await verify(file) == ""


async def test_a_write_that_goes_in_by_half_leaves_no_half_record(audit_file: Path) -> None:
    """At the limit of a file's size the kernel takes a part of a write: whole records stay, the rest is cut off."""
    body = """
        async def main():
            await log.start()
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
            results = await asyncio.gather(*(log.write(event(500)) for _ in range(40)), return_exceptions=True)
            print(sum(result is None for result in results), sum(isinstance(result, Unavailable) for result in results))
            print(file.stat().st_size, file.read_bytes().endswith(b"\\n"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await log.write(event())
            await log.stop()

        asyncio.run(main())
    """
    done = subprocess.run([*program(body), str(audit_file)], capture_output=True, text=True, check=True, timeout=30)
    stored, refused, size, whole = done.stdout.split()
    assert int(stored) + int(refused) == 40
    assert int(stored) >= 15, "what fits is kept"
    assert 17_000 < int(size) <= 20_000
    assert whole == "True"
    events = [json.loads(line)["event"] for line in audit_file.read_bytes().splitlines()]
    expected = ["audit.chain.opened", *["sandbox.created"] * int(stored), "audit.writes.resumed", "sandbox.created"]
    assert events == expected
    assert await verify(audit_file) == ""


async def test_killing_the_writer_loses_no_acknowledged_record(
    audit_file: Path, open_log: OpenLog, make_event: MakeEvent
) -> None:
    """After KILL in the middle of writing, every record that was acknowledged is in the file, and the chain goes on."""
    body = """
        async def work():
            while True:
                one = event()
                await log.write(one)
                os.write(1, (one.event_id + "\\n").encode())

        async def main():
            await log.start()
            await asyncio.gather(*(work() for _ in range(20)))

        asyncio.run(main())
    """
    process = await asyncio.create_subprocess_exec(*program(body), str(audit_file), stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(30):
        told = b"".join([await process.stdout.readline() for _ in range(2000)])
        process.send_signal(signal.SIGKILL)
        told += await process.stdout.read()
        await process.wait()
    acknowledged = told[: told.rfind(b"\n")].decode().split("\n")
    log = await open_log()
    await log.write(make_event())
    stored = {json.loads(line)["event_id"] for line in audit_file.read_bytes().splitlines()}
    assert len(acknowledged) >= 2000
    assert set(acknowledged) <= stored
    assert await verify(audit_file) == ""


async def test_a_file_that_is_gone_refuses_until_it_is_back(
    open_log: OpenLog, make_event: MakeEvent, audit_file: Path
) -> None:
    """Records must not go into a file that nobody can find: a moved file refuses writes, put back it takes them."""
    log = await open_log()
    await log.write(make_event())
    moved = audit_file.with_name("moved")
    audit_file.rename(moved)
    with pytest.raises(Unavailable, match="so nothing may run"):
        await log.write(make_event())
    audit_file.write_bytes(b"")
    with pytest.raises(Unavailable, match="moved or replaced"):
        await log.write(make_event())
    moved.rename(audit_file)
    await log.write(make_event())
    assert [json.loads(line)["event"] for line in audit_file.read_bytes().splitlines()] == [
        "audit.chain.opened",
        "tool.call.finished",
        "audit.writes.resumed",
        "tool.call.finished",
    ]
    assert await verify(audit_file) == ""


async def test_a_disk_that_hangs_is_given_up(
    make_event: MakeEvent, audit_file: Path, emitter: Emitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that the disk does not take in time is refused; one behind it that was given up is never written."""
    log = AuditLog(audit_file, emitter, write_timeout_seconds=0.05)
    await log.start()
    gate, real = threading.Event(), os.write

    def hang(descriptor: int, data: bytes) -> int:
        if threading.current_thread().name == "sandgate-audit":
            assert gate.wait(10)
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", hang)  # stands in for the kernel of a hanging disk
    first, second = make_event(), make_event()
    with pytest.raises(Unavailable, match="does not take it"):
        await log.write(first)
    with pytest.raises(Unavailable, match="does not take it"):
        await log.write(second)
    gate.set()
    third = make_event()
    await log.write(third)
    await log.stop()
    stored = [json.loads(line)["event_id"] for line in audit_file.read_bytes().splitlines()]
    assert second.event_id not in stored
    assert stored[-1] == third.event_id
    assert log.counts.refused == 2
    assert await verify(audit_file) == ""


async def test_a_dead_writer_refuses(
    make_event: MakeEvent, audit_file: Path, emitter: Emitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the writer's thread dies of a bug, who waits and who comes later is told; nobody waits for ever."""
    log = AuditLog(audit_file, emitter)
    await log.start()
    died = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: died.set())

    def crash(_descriptor: int, _data: bytes) -> int:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", crash)  # no error that a kernel gives, so one that nothing expects
        with pytest.raises(Unavailable, match="has ended"):
            await log.write(make_event())
    with pytest.raises(Unavailable, match="not running"):
        await log.write(make_event())
    await log.stop()
    assert await asyncio.to_thread(died.wait, 10)
