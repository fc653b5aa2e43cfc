"""`isolation: none`: no jail, and no claim of one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandgate_providers.channel.types import Command, End, FileOperation
from sandgate_providers.local.facts import NAMES
from sandgate_providers.local.mapping import HostPaths
from sandgate_providers.local.provider import LocalProvider
from sandgate_providers.local.sandbox import LocalSandbox
from sandgate_providers.local.settings import LocalOptions
from sandgate_providers.types import OUTPUTS, JsonValue, SandboxKey, SandboxSpec

SPEC = SandboxSpec(key=SandboxKey(tenant="t", thread="t"), name="sg-unconfined")


@pytest.fixture
async def bare(options: LocalOptions) -> AsyncIterator[LocalSandbox]:
    """Give a sandbox that is none."""
    provider = LocalProvider(replace(options, isolation="none"))
    assert not provider.capabilities.thread_folder_mounted
    await provider.start()
    yield await provider.acquire(SPEC)
    await provider.stop()


async def output(sandbox: LocalSandbox, text: str) -> str:
    """Run a shell text in the workspace."""
    command = Command(argv=("/bin/sh", "-c", text), timeout_seconds=10)
    async with sandbox.channel.open(command) as call:
        data = b"".join([chunk.data async for chunk in call.chunks()])
    return data.decode()


async def operate(sandbox: LocalSandbox, name: str, **arguments: JsonValue) -> End:
    """Do a file operation."""
    operation = FileOperation(name=name, arguments=arguments, timeout_seconds=10)
    async with sandbox.channel.open(operation) as call:
        return await call.end()


@contextlib.asynccontextmanager
async def ended(pid: int) -> AsyncIterator[None]:
    """Watch a process that is not ours, and wait for its end when the block is left."""
    handle = os.pidfd_open(pid)
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, gone.set)
    try:
        yield
        async with asyncio.timeout(5):
            await gone.wait()
    finally:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)


async def test_the_report_claims_nothing(bare: LocalSandbox) -> None:
    """Every protection is listed, and none is in force, whatever limits the runner sets."""
    assert [fact.name for fact in bare.isolation] == list(NAMES)
    assert not any(fact.enforced for fact in bare.isolation)


async def test_it_still_is_not_the_gateway(
    bare: LocalSandbox, options: LocalOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment is clean, home is the workspace, and a gateway that is root drops to the thread's user."""
    monkeypatch.setenv("SANDGATE_SECRET", "very secret")
    workspace = options.data_dir / "threads" / SPEC.name / "workspace"
    said = await output(bare, "env; id -u; pwd; echo $HOME")
    assert "very secret" not in said
    uid, folder, home = said.splitlines()[-3:]
    assert int(uid) == workspace.stat().st_uid
    assert (int(uid) == 0) is False or os.geteuid() != 0
    assert (folder, home) == (str(workspace), str(workspace))


async def test_paths_of_the_contract_lead_to_the_thread_folder(bare: LocalSandbox, options: LocalOptions) -> None:
    """Tools use the same paths as in a jail, and answers and errors name no others."""
    folder = options.data_dir / "threads" / SPEC.name
    (folder / "outputs/report").write_text("done")
    listed = await operate(bare, "list", path=OUTPUTS)
    assert isinstance(listed.value, dict)
    assert [entry["path"] for entry in listed.value["entries"]] == [f"{OUTPUTS}/report"]  # type: ignore[index, union-attr, call-overload]  # JSON
    missing = await operate(bare, "stat", path=f"{OUTPUTS}/missing")
    assert missing.error_code == "not-found"
    assert missing.error_message.startswith(f"{OUTPUTS}/missing")
    assert await bare.channel.ping() < 5


def test_only_paths_are_translated() -> None:
    """A neighbour with a longer name, a text that looks like a path, and exact bytes are told apart."""
    paths = HostPaths(Path("/data/threads/sg-1"))
    assert paths.inward("/mnt/user-data") == "/data/threads/sg-1"
    assert paths.inward("/mnt/user-data/workspace/a") == "/data/threads/sg-1/workspace/a"
    assert paths.inward("/mnt/user-database") == "/mnt/user-database"
    assert paths.inward("/usr/bin") == "/usr/bin"
    exact = base64.b64encode(b"/data/threads/sg-1/\xff").decode()
    answer: JsonValue = {
        "matches": [{"path": "/data/threads/sg-1/a", "line": "/data/threads/sg-1/b", "path_base64": exact}, 1],
        "path": "/data/threads/sg-10",
    }
    assert paths.outward(answer) == {
        "matches": [
            {
                "path": "/mnt/user-data/a",
                "line": "/data/threads/sg-1/b",
                "path_base64": base64.b64encode(b"/mnt/user-data/\xff").decode(),
            },
            1,
        ],
        "path": "/data/threads/sg-10",
    }


async def test_destroy_ends_what_hides(bare: LocalSandbox, options: LocalOptions) -> None:
    """A process in a session of its own, with a clean environment and deaf to signals, is found all the same."""
    workspace = options.data_dir / "threads" / SPEC.name / "workspace"
    deaf = "trap '' TERM HUP; echo $$ > hidden; while :; do sleep 1; done"
    hidden = workspace / "hidden"
    await output(
        bare,
        f"env -i setsid /bin/sh -c {shlex.quote(deaf)} >/dev/null 2>&1 & until [ -s hidden ]; do sleep 0.01; done",
    )
    async with ended(int(hidden.read_text())):
        await bare.destroy()
    with pytest.raises(ProcessLookupError):
        os.kill(bare.pid, 0)


@pytest.mark.usefixtures("as_root")
async def test_destroy_ends_what_outlived_its_runner(bare: LocalSandbox, options: LocalOptions) -> None:
    """A command may kill the runner of its own user; what it leaves behind is told by that user."""
    workspace = options.data_dir / "threads" / SPEC.name / "workspace"
    left = workspace / "left"
    await output(bare, "setsid sleep 60 >/dev/null 2>&1 & echo $! > left")
    async with ended(int(left.read_text())):
        os.kill(bare.pid, signal.SIGKILL)
        async with asyncio.timeout(5):
            await bare.channel.wait_closed()
        await bare.destroy()


FAMILY = """
import os, signal, subprocess, sys
foreign = subprocess.Popen(["sleep", "60"])
os.setresuid(58000, 58000, 58000)
own = subprocess.Popen(["sleep", "60"])
print(foreign.pid, own.pid, flush=True)
signal.pause()
"""

SWEEP = """
import logging, os, sys
from sandgate_providers.local import strays
os.setresuid(58000, 58000, 58000)
strays.end_descendants(int(sys.argv[1]))
"""


@pytest.mark.usefixtures("as_root")
def test_what_became_another_user_does_not_save_the_rest() -> None:
    """A gateway that is not root cannot end what sudo started; it ends all else, and names what it left."""
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        foreign, own = map(int, runner.stdout.readline().split())
        try:
            sweep = subprocess.run(
                [sys.executable, "-c", SWEEP, str(runner.pid)], capture_output=True, text=True, check=False, timeout=30
            )
            assert sweep.returncode == 0, sweep.stderr
            assert str(foreign) in sweep.stderr
            states = {pid: Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] for pid in (foreign, own)}
            assert states == {foreign: "S", own: "Z"}
        finally:
            os.kill(foreign, signal.SIGKILL)
            runner.kill()
