"""From acquire to destroy."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

from sandgate_providers.channel.types import ProcessEnd
from sandgate_providers.errors import CapacityExhausted, ProviderUnavailable
from sandgate_providers.local import facts
from sandgate_providers.local import provider as provider_module
from sandgate_providers.local.provider import LocalProvider
from sandgate_providers.local.runtime import find_bubblewrap
from sandgate_providers.local.sandbox import LocalSandbox
from sandgate_providers.local.settings import LocalOptions
from sandgate_providers.types import SandboxKey, SandboxSpec

pytestmark = pytest.mark.local

Run = Callable[..., Coroutine[Any, Any, Any]]
MakeSpec = Callable[..., SandboxSpec]


def tree(pid: int) -> list[int]:
    """List a process and all that descend from it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(other for child in children for other in tree(int(child)))]


def running(pid: int) -> bool:
    """Tell whether a process is there, be it as a zombie."""
    return Path(f"/proc/{pid}").exists()


def cgroups_of(pid: int) -> list[Path]:
    """Find the folders of a process's cgroups that bear our mark."""
    folders: list[Path] = []
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "sandgate-" in Path(path).name:
            folders += Path("/sys/fs/cgroup").glob(f"{controllers or '.'}{path}")
    return folders


async def test_files_outlive_the_sandbox(provider: LocalProvider, make_spec: MakeSpec, run: Run) -> None:
    """A fresh start after destroy sees the same files, and none of the temporary ones."""
    first = await provider.acquire(make_spec())
    await run(first, "echo kept > kept; echo gone > /tmp/gone; echo out > ../outputs/out")
    await first.destroy()
    second = await provider.acquire(make_spec())
    assert second is not first
    assert (await run(second, "cat kept ../outputs/out; ls /tmp")).stdout == "kept\nout\n"


async def test_destroy_leaves_nothing(sandbox: LocalSandbox, run: Run) -> None:
    """No process, not even one that left its session and ignores signals, and no cgroup."""
    await run(sandbox, "setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' & sleep 60 & echo")
    pids = tree(sandbox.pid)
    assert len(pids) > 4
    folders = [folder for pid in pids for folder in cgroups_of(pid)]
    limited = {fact.name: fact.detail for fact in sandbox.isolation}["memory-limit"]
    assert bool(folders) == ("cgroup" in limited)
    await sandbox.destroy()
    assert [pid for pid in pids if running(pid)] == []
    assert [folder for folder in folders if folder.exists()] == []
    assert not (await sandbox.status()).alive


async def test_destroy_is_idempotent_and_joins(sandbox: LocalSandbox) -> None:
    """Whoever asks, however often, waits for the same end; who gives up waiting does not stop it."""
    async with asyncio.timeout(10):
        impatient = asyncio.create_task(sandbox.destroy())
        await asyncio.sleep(0)
        impatient.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await impatient
        await asyncio.gather(sandbox.destroy(), sandbox.destroy())
        await sandbox.destroy()
    assert not running(sandbox.pid)


async def test_a_call_ends_as_lost_when_its_sandbox_is_destroyed(sandbox: LocalSandbox, run: Run) -> None:
    """Nobody waits forever for a sandbox that is gone."""
    call = asyncio.create_task(run(sandbox, "echo started > flag; sleep 60"))
    await run(sandbox, "until [ -e flag ]; do sleep 0.01; done")
    await sandbox.destroy()
    async with asyncio.timeout(5):
        assert (await call).end.reason is ProcessEnd.SANDBOX_LOST


async def test_the_same_name_is_the_same_sandbox(provider: LocalProvider, sandbox: LocalSandbox) -> None:
    """Acquiring again gives the one that lives."""
    assert await provider.acquire(sandbox.spec) is sandbox


async def test_a_sandbox_that_died_is_replaced(provider: LocalProvider, sandbox: LocalSandbox, run: Run) -> None:
    """Killed from outside, it is seen as dead, and the next acquire makes a new one."""
    os.kill(sandbox.pid, signal.SIGKILL)
    async with asyncio.timeout(5):
        await sandbox.channel.wait_closed()
    assert not (await sandbox.status()).alive
    again = await provider.acquire(sandbox.spec)
    assert again is not sandbox
    assert (await run(again, "echo new")).stdout == "new\n"


async def test_a_name_belongs_to_one_key(provider: LocalProvider, sandbox: LocalSandbox) -> None:
    """Should two keys ever meet under one name, the second gets an error and not the first one's files."""
    with pytest.raises(ProviderUnavailable, match="another key"):
        await provider.acquire(replace(sandbox.spec, key=SandboxKey(tenant="other", thread="one")))


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "a" * 64, "sg-\n"])
async def test_a_name_is_a_label(provider: LocalProvider, make_spec: MakeSpec, name: str) -> None:
    """It becomes a folder's name, so nothing else is taken."""
    with pytest.raises(ValueError, match="not the name"):
        await provider.acquire(replace(make_spec(), name=name))


async def test_there_is_room_for_so_many(options: LocalOptions, make_spec: MakeSpec) -> None:
    """One more is told to try again; one that died, or was destroyed, makes room."""
    provider = LocalProvider(replace(options, max_sandboxes=2))
    await provider.start()
    try:
        first = await provider.acquire(make_spec("one"))
        second = await provider.acquire(make_spec("two"))
        with pytest.raises(CapacityExhausted) as full:
            await provider.acquire(make_spec("three"))
        assert full.value.retry_after_seconds > 0
        await first.destroy()
        third = await provider.acquire(make_spec("three"))
        os.kill(second.pid, signal.SIGKILL)
        async with asyncio.timeout(5):
            await second.channel.wait_closed()
        await provider.acquire(make_spec("four"))
        assert (await third.status()).alive
    finally:
        await provider.stop()


async def test_many_start_at_once(provider: LocalProvider, make_spec: MakeSpec, run: Run) -> None:
    """Each has its own folder, user and line."""
    sandboxes = await asyncio.gather(*(provider.acquire(make_spec(f"thread {number}")) for number in range(6)))
    await asyncio.gather(*(run(sandbox, f"echo {sandbox.spec.name} > name") for sandbox in sandboxes))
    read = await asyncio.gather(*(run(sandbox, "cat name") for sandbox in sandboxes))
    assert [ran.stdout.strip() for ran in read] == [sandbox.spec.name for sandbox in sandboxes]


async def test_stop_destroys_all_and_a_start_may_follow(provider: LocalProvider, make_spec: MakeSpec) -> None:
    """After stop nothing runs and nothing is made; after another start all is as before."""
    sandboxes = [await provider.acquire(make_spec(thread)) for thread in ("one", "two")]
    await provider.stop()
    await provider.stop()
    assert [running(sandbox.pid) for sandbox in sandboxes] == [False, False]
    with pytest.raises(ProviderUnavailable, match="not started"):
        await provider.acquire(make_spec())
    await provider.start()
    await provider.acquire(make_spec())


async def test_an_acquire_that_is_cancelled_leaves_nothing(provider: LocalProvider, make_spec: MakeSpec) -> None:
    """At whatever step its caller gives up, no process stays, and the next acquire works."""
    spec = make_spec()
    for step in range(12):
        task = asyncio.create_task(provider.acquire(spec))
        for _ in range(step * 3):
            await asyncio.sleep(0.002)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).destroy()
        assert children_named("bwrap") == []
    sandbox = await provider.acquire(spec)
    assert (await sandbox.status()).alive


def children_named(name: str) -> list[int]:
    """List this process's children of that name that have not ended."""
    return [
        int(pid)
        for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        if Path(f"/proc/{pid}/comm").read_text().strip() == name
    ]


async def test_a_runner_that_does_not_start_is_explained(
    options: LocalOptions, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the last words of the runner, and nothing is left of it."""
    monkeypatch.setattr(provider_module, "runner_source", lambda: "raise SystemExit('no runner today')")
    provider = LocalProvider(options)
    await provider.start()
    try:
        with pytest.raises(ProviderUnavailable, match="no runner today"):
            await provider.acquire(make_spec())
        assert children_named("bwrap") == []
    finally:
        await provider.stop()


async def test_an_acquire_that_fails_and_is_cancelled_leaves_nothing(
    provider: LocalProvider, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who gives up while a jail is ended that was found to leak keeps no process and no descriptor."""
    before = descriptors()
    task: asyncio.Task[LocalSandbox]
    refused = 0

    def refuse(_: object) -> None:
        nonlocal refused
        refused += 1
        asyncio.get_running_loop().call_soon(task.cancel)
        raise ProviderUnavailable("it leaks")

    monkeypatch.setattr(facts, "check_essential", refuse)
    task = asyncio.create_task(provider.acquire(make_spec()))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert refused == 1
    async with asyncio.timeout(5):
        await until(lambda: descriptors() == before)
    assert children_named("bwrap") == []


async def until(condition: Callable[[], object]) -> None:
    """Wait for what only /proc tells."""
    while not condition():  # noqa: ASYNC110 - nothing wakes us when a process or a descriptor comes or goes
        await asyncio.sleep(0.005)


def descriptors() -> int:
    """Count the open files of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_a_dead_sandbox_that_stays_does_not_keep_the_place_of_others(
    options: LocalOptions, make_spec: MakeSpec, caplog: pytest.LogCaptureFixture
) -> None:
    """What the kernel does not let go of takes one place, and makes no other thread's acquire fail."""
    provider = LocalProvider(replace(options, max_sandboxes=2))
    await provider.start()
    stays, goes = [await provider.acquire(make_spec(thread)) for thread in ("stays", "goes")]
    folders = list(Path("/sys/fs/cgroup").rglob(f"sandgate-*-{stays.spec.name}"))
    if not folders:
        await provider.stop()
        pytest.skip("no cgroup can be made here")
    for folder in folders:
        (folder / "held").mkdir()
    for sandbox in (stays, goes):
        os.kill(sandbox.pid, signal.SIGKILL)
        async with asyncio.timeout(5):
            await sandbox.channel.wait_closed()
    try:
        third = await provider.acquire(make_spec("third"))
        assert (await third.status()).alive
        assert stays.spec.name in caplog.text
    finally:
        for folder in folders:
            (folder / "held").rmdir()
        await provider.stop()


async def test_links_that_a_sandbox_planted_are_harmless(
    provider: LocalProvider, options: LocalOptions, make_spec: MakeSpec, run: Run, place: Path
) -> None:
    """The next life has its folders again, and nothing outside was touched."""
    target = place / "target"
    target.mkdir(mode=0o700)
    before = target.stat()
    first = await provider.acquire(make_spec())
    await run(first, f"cd ..; rm -r outputs workspace; ln -s {target} outputs; ln -s /etc workspace")
    await first.destroy()
    second = await provider.acquire(make_spec())
    ran = await run(second, "pwd; echo mine > ../outputs/mine; ls ..")
    assert ran.stdout.split() == [
        "/mnt/user-data/workspace",
        *("outputs", "outputs.replaced-1", "uploads", "workspace", "workspace.replaced-1"),
    ]
    assert list(target.iterdir()) == []
    assert (target.stat().st_uid, target.stat().st_mode) == (before.st_uid, before.st_mode)
    assert (options.data_dir / "threads" / second.spec.name / "outputs/mine").read_text() == "mine\n"


async def test_a_link_in_place_of_a_threads_folder_is_refused(
    provider: LocalProvider, options: LocalOptions, make_spec: MakeSpec, place: Path
) -> None:
    """Nothing is started behind it, and a cgroup is not left either."""
    (options.data_dir / "threads" / make_spec().name).symlink_to(place)
    with pytest.raises(ProviderUnavailable, match=make_spec().name):
        await provider.acquire(make_spec())
    assert children_named("bwrap") == []


def test_the_gateways_event_loop_serves_as_well(options: LocalOptions, make_spec: MakeSpec, run: Run) -> None:
    """The loop of uvloop has its own ways with sockets and pipes; ours work there too."""

    async def work() -> tuple[str, bool]:
        provider = LocalProvider(options)
        await provider.start()
        sandbox = await provider.acquire(make_spec())
        ran = await run(sandbox, "head -c 3000000 /dev/zero | wc -c")
        await provider.stop()
        return ran.stdout, running(sandbox.pid)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(work()) == ("3000000\n", False)


GATEWAY = """
import asyncio, sys
from pathlib import Path
from sandgate_providers.local.provider import LocalProvider
from sandgate_providers.local.settings import LocalOptions
from sandgate_providers.types import SandboxKey, SandboxSpec

async def main():
    bubblewrap = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    provider = LocalProvider(LocalOptions(data_dir=Path(sys.argv[1]), bubblewrap=bubblewrap))
    await provider.start()
    sandbox = await provider.acquire(SandboxSpec(key=SandboxKey(tenant="t", thread="t"), name="sg-killed"))
    facts = {fact.name: fact for fact in sandbox.isolation}
    print(sandbox.pid, [name for name in facts if not facts[name].enforced], flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await provider.stop()

asyncio.run(main())
"""


def test_sandboxes_die_with_a_gateway_that_is_killed(options: LocalOptions) -> None:
    """Even by KILL, when it cannot clean up; what is left then is cleared by the next start."""
    with subprocess.Popen(
        [sys.executable, "-c", GATEWAY, str(options.data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as gateway:
        assert gateway.stdout is not None
        pid = int(gateway.stdout.readline().split()[0])
        pids = tree(pid)
        folders = [folder for each in pids for folder in cgroups_of(each)]
        handles = [os.pidfd_open(each) for each in pids]
        gateway.kill()
        for handle in handles:
            assert select.select([handle], [], [], 5)[0], "a process outlived its gateway"
            os.close(handle)

    async def start_again() -> None:
        provider = LocalProvider(options)
        await provider.start()
        await provider.stop()

    asyncio.run(start_again())
    assert [folder for folder in folders if folder.exists()] == []


@pytest.mark.usefixtures("as_root")
def test_a_gateway_that_is_not_root_isolates_too(place: Path) -> None:
    """It cannot give threads users of their own, and its report says just that."""
    python = Path("/usr/bin/python3")
    if not python.exists():
        pytest.skip("needs a Python that other users can reach")
    data = place / "data"
    data.mkdir(mode=0o700)
    os.chown(data, 58000, 58000)
    answer = subprocess.run(
        [str(python), "-c", GATEWAY, str(data), str(find_bubblewrap(None))],
        env={"PYTHONPATH": str(Path(provider_module.__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"},
        user=58000,
        group=58000,
        extra_groups=[],
        input="\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert answer.stdout.split(" ", 1)[1] == "['host-user']\n"
    assert (data / "threads/sg-killed").stat().st_uid == 58000
