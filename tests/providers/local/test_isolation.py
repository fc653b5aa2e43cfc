"""What a default sandbox cannot do, tried from inside."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandgate_providers.local.facts import NAMES
from sandgate_providers.local.provider import LocalProvider
from sandgate_providers.local.sandbox import LocalSandbox
from sandgate_providers.local.settings import LocalOptions
from sandgate_providers.types import FactSource, SandboxSpec

pytestmark = pytest.mark.local

Run = Callable[..., Awaitable[Any]]
MakeSpec = Callable[..., SandboxSpec]

CALLS = """
import ctypes, errno, json, os, platform
libc = ctypes.CDLL(None, use_errno=True)
row = {"x86_64": 0, "aarch64": 1}[platform.machine()]
answers = {}
def attempt(name, numbers, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(ctypes.c_long(numbers[row]), *[ctypes.c_ulong(value) for value in (*arguments, *[0] * 6)[:6]])
    answers[name] = errno.errorcode.get(ctypes.get_errno(), "?") if answer == -1 else "done"
attempt("unshare user", (272, 97), 0x10000000)
attempt("unshare mount", (272, 97), 0x00020000)
attempt("unshare net", (272, 97), 0x40000000)
attempt("clone user", (56, 220), 0x10000011)
attempt("clone3", (435, 435))
attempt("mount", (165, 40))
attempt("umount2", (166, 39))
attempt("fsopen", (430, 430))
attempt("ptrace", (101, 117))
attempt("process_vm_readv", (310, 270), os.getpid())
attempt("keyctl", (250, 219))
attempt("add_key", (248, 217))
attempt("bpf", (321, 280))
attempt("perf_event_open", (298, 241))
attempt("userfaultfd", (323, 282))
attempt("io_uring_setup", (425, 425), 1)
attempt("open_by_handle_at", (304, 265))
attempt("setns", (308, 268))
attempt("finit_module", (313, 273))
attempt("kexec_load", (246, 104))
attempt("personality", (135, 92), 0x0040000)
attempt("vsock", (41, 198), 40, 1, 0)
attempt("packet", (41, 198), 17, 3, 0)
attempt("alg", (41, 198), 38, 5, 0)
attempt("audit netlink", (41, 198), 16, 3, 9)
attempt("route netlink", (41, 198), 16, 3, 0)
attempt("TIOCSTI", (16, 29), 0, 0x5412)
print(json.dumps(answers))
"""


def python(code: str) -> str:
    """Say in shell words how to run Python code inside."""
    return f"python3 -c {shlex.quote(code)}"


async def test_dangerous_calls_are_refused_by_the_kernel(sandbox: LocalSandbox, run: Run) -> None:
    """The filter that the interpreter in test_seccomp checks is the one that the kernel runs."""
    ran = await run(sandbox, python(CALLS))
    answers = json.loads(ran.stdout)
    others = {
        "clone3": "ENOSYS",
        "vsock": "EAFNOSUPPORT",
        "packet": "EAFNOSUPPORT",
        "alg": "EAFNOSUPPORT",
        "audit netlink": "EAFNOSUPPORT",
        "route netlink": "done",
    }
    assert answers == {name: others.get(name, "EPERM") for name in answers}
    assert len(answers) == 27


async def test_the_process_is_nobody_special(sandbox: LocalSandbox, run: Run) -> None:
    """Not root, no capability in any set, no new privileges, a filter in force."""
    ran = await run(sandbox, "id -u; id -G; cat /proc/self/status")
    uid, groups, *lines = ran.stdout.splitlines()
    status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    assert (uid, groups) == ("1000", "1000")
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


async def test_it_is_not_root_on_the_host_either(sandbox: LocalSandbox, run: Run) -> None:
    """Seen from outside: a command's process belongs to an unprivileged user of the host, in all four of its ids."""
    async with asyncio.timeout(20):
        ran = await run(sandbox, "cat /proc/self/status > /dev/null; sleep 60 & echo started")
        assert ran.stdout == "started\n"
    seen = {ids for pid in descendants(sandbox.pid) for ids in host_ids(pid)}
    assert len(seen) == 1
    ids = seen.pop()
    assert len(set(ids)) == 1
    assert int(ids[0]) != 0
    if os.geteuid() == 0:
        assert 50000 <= int(ids[0]) <= 59999


def there(path: str) -> bool:
    """Tell whether something is at a path of the host."""
    return os.path.lexists(path)


def host_ids(pid: int) -> set[tuple[str, ...]]:
    """Give a process's four users and four groups on the host."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {tuple(line.split()[1:]) for line in lines if line.startswith(("Uid:", "Gid:"))}


def descendants(pid: int) -> list[int]:
    """List a process and all that descend from it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(other for child in children for other in descendants(int(child)))]


@pytest.mark.parametrize(
    "path", ["/etc/shadow", "/etc/sudoers", "/root", "/home", "/var", "/sys", "/run/secrets", "/boot"]
)
async def test_the_rest_of_the_host_is_not_there(sandbox: LocalSandbox, run: Run, path: str) -> None:
    """Not merely forbidden: the name leads nowhere."""
    ran = await run(sandbox, f"ls -d {path}")
    assert ran.end.exit_code == 2
    assert ran.stdout == ""


async def test_temporary_files_of_the_host_are_not_seen(sandbox: LocalSandbox, run: Run, place: Path) -> None:
    """/tmp is the sandbox's own, in both directions."""
    (place / "of-the-host").write_text("secret")
    ran = await run(sandbox, f"ls -A /tmp /dev/shm; cat {place}/of-the-host; touch /tmp/from-inside && stat -c %a /tmp")
    assert ran.stdout == "/dev/shm:\n\n/tmp:\n1777\n"
    assert not there("/tmp/from-inside")


async def test_another_threads_folder_is_out_of_reach(
    provider: LocalProvider, options: LocalOptions, sandbox: LocalSandbox, make_spec: MakeSpec, run: Run
) -> None:
    """Neither inside, nor by its path on the host, nor for the user that the thread has on the host."""
    other = await provider.acquire(make_spec("two"))
    await run(other, "echo secret > secret")
    secret = options.data_dir / "threads" / other.spec.name / "workspace/secret"
    assert secret.read_text() == "secret\n"
    ran = await run(sandbox, f"cat {secret}; ls {options.data_dir}; ls /mnt/user-data /mnt")
    assert "secret" not in ran.stdout
    assert ran.stdout == "/mnt:\nuser-data\n\n/mnt/user-data:\noutputs\nuploads\nworkspace\n"


@pytest.mark.usefixtures("as_root")
async def test_two_threads_are_two_users_of_the_host(
    provider: LocalProvider, options: LocalOptions, sandbox: LocalSandbox, make_spec: MakeSpec
) -> None:
    """So even outside of its jail one thread could not read the other's files, and has its own process limit."""
    other = await provider.acquire(make_spec("two"))
    folders = [options.data_dir / "threads" / each.spec.name for each in (sandbox, other)]
    uids = [folder.stat().st_uid for folder in folders]
    assert uids[0] != uids[1]
    for each, uid in zip((sandbox, other), uids, strict=True):
        assert host_ids(each.pid) == {(str(uid),) * 4}


async def test_processes_of_the_host_are_not_seen(sandbox: LocalSandbox, run: Run) -> None:
    """The runner is process 1, and there is nothing but it, its workers and the command."""
    ran = await run(
        sandbox, "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline | cut -c 1-60; done; kill -0 -1; echo $?"
    )
    names = {line.split()[0] for line in ran.stdout.splitlines()[:-1]}
    assert all(Path(name).name.startswith(("python3", "sh", "tr", "cut")) for name in names)
    assert "bwrap" not in ran.stdout
    assert (await run(sandbox, f"kill -0 {os.getpid()}")).end.exit_code != 0


async def test_the_runner_cannot_be_looked_into(sandbox: LocalSandbox, run: Run) -> None:
    """Its descriptors, memory and environment are closed to commands of the same user."""
    ran = await run(
        sandbox, "for f in fd/0 mem environ fd; do cat /proc/1/$f > /dev/null 2>&1 && echo open $f; done; true"
    )
    assert (ran.stdout, ran.end.exit_code) == ("", 0)


async def test_there_is_no_network(sandbox: LocalSandbox, run: Run) -> None:
    """Only a loopback of its own: neither the host's ports nor the world, nor the host's abstract sockets."""
    name = f"sandgate-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        code = f"""
import errno, socket
def attempt(family, address):
    try:
        socket.socket(family).connect(address)
        return "connected"
    except OSError as error:
        return errno.errorcode[error.errno]
print([name for _, name in socket.if_nameindex()])
print(attempt(socket.AF_INET, ("127.0.0.1", {server.getsockname()[1]})))
print(attempt(socket.AF_INET, ("1.1.1.1", 53)))
print(attempt(socket.AF_UNIX, "\\0{name}"))
"""
        ran = await run(sandbox, python(code))
    assert ran.stdout.splitlines() == ["['lo']", "ECONNREFUSED", "ENETUNREACH", "ECONNREFUSED"]


async def test_a_server_inside_can_be_reached_inside(sandbox: LocalSandbox, run: Run) -> None:
    """The loopback is there for what an agent starts and tests."""
    code = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    client = socket.create_connection(server.getsockname())
    server.accept()[0].sendall(b"hello")
    print(client.recv(5).decode())
"""
    assert (await run(sandbox, python(code))).stdout == "hello\n"


@pytest.mark.parametrize(
    "path", ["/x", "/usr/x", "/etc/x", "/dev/x", "/mnt/x", "/proc/x", "/run/x", "/run/sandgate/x", "/bin/x"]
)
async def test_the_system_is_read_only(sandbox: LocalSandbox, run: Run, path: str) -> None:
    """Nothing can be made outside of the thread's folder and the temporary ones."""
    ran = await run(sandbox, f"echo x > {path}")
    assert ran.end.exit_code != 0
    assert not there(path)


async def test_the_runner_and_the_accounts_cannot_be_changed(sandbox: LocalSandbox, run: Run) -> None:
    """Their files belong to the sandbox's user, and still are read-only."""
    ran = await run(
        sandbox, "for f in /etc/passwd /run/sandgate/runner; do chmod u+w $f || echo no; echo x >> $f || echo no; done"
    )
    assert ran.stdout == "no\n" * 4


async def test_only_the_harmless_devices_are_there(sandbox: LocalSandbox, run: Run) -> None:
    """They work; disks and everything else of the host's are not there."""
    ran = await run(sandbox, "ls /dev; head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; echo x > /dev/null")
    devices = "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
    assert ran.stdout.split() == f"{devices} 4 4".split()


async def test_etc_is_ours_or_harmless(sandbox: LocalSandbox, run: Run) -> None:
    """The accounts are made up, and nothing beyond the list is shown."""
    ran = await run(sandbox, "cat /etc/passwd /etc/group; ls /etc; whoami")
    accounts, names = ran.stdout.split("nogroup:x:65534:\n")
    assert "sandbox:x:1000:1000" in accounts
    shown = {name for name in names.split() if not name.startswith("python3")}
    generated = {"passwd", "group", "hosts", "nsswitch.conf", "resolv.conf"}
    assert generated <= shown
    assert shown <= generated | {"alternatives", "ld.so.cache", "localtime", "mime.types", "ssl", "sandbox"}


async def test_the_boot_line_of_the_host_is_hidden(sandbox: LocalSandbox, run: Run) -> None:
    """What the machine was started with can hold anything, and cannot be uncovered."""
    ran = await run(
        sandbox, "cat /proc/cmdline; umount /proc/cmdline || mount --bind /dev/null /proc/cmdline || echo no"
    )
    assert ran.stdout == "no\n"


async def test_the_environment_is_clean(
    provider: LocalProvider, make_spec: MakeSpec, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret of the gateway's is not seen; what the spec gives is."""
    monkeypatch.setenv("SANDGATE_SECRET", "very secret")
    sandbox = await provider.acquire(replace(make_spec(), environment={"GIVEN": "yes"}))
    ran = await run(sandbox, "env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'")
    assert "very secret" not in ran.stdout
    assert "GIVEN=yes" in ran.stdout.splitlines()
    names = {line.partition("=")[0] for line in ran.stdout.splitlines()}
    assert names <= {
        "GIVEN",
        "PATH",
        "HOME",
        "LANG",
        "TERM",
        "USER",
        "LOGNAME",
        "TMPDIR",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    }


async def test_new_files_are_readable(sandbox: LocalSandbox, run: Run) -> None:
    """The umask is the usual one."""
    assert (await run(sandbox, "umask; touch new; stat -c %a new")).stdout == "0022\n644\n"


async def test_names_and_places_are_those_of_the_contract(sandbox: LocalSandbox, run: Run) -> None:
    """Commands start in the workspace, which is also their home."""
    ran = await run(sandbox, "pwd; echo $HOME; hostname; stat -c %a /mnt")
    assert ran.stdout.splitlines() == ["/mnt/user-data/workspace", "/mnt/user-data/workspace", "sandbox", "755"]


async def test_allowed_mounts_are_seen_read_only(
    options: LocalOptions, place: Path, make_spec: MakeSpec, run: Run
) -> None:
    """What an operator allows is at its own path, and stays as it is."""
    (place / "models").mkdir(mode=0o755)
    (place / "models/one").write_text("model")
    provider = LocalProvider(replace(options, read_only_mounts=(place / "models",)))
    await provider.start()
    try:
        sandbox = await provider.acquire(make_spec())
        ran = await run(sandbox, f"cat {place}/models/one; echo x > {place}/models/one; ls {place}")
        assert ran.stdout == "modelmodels\n"
        assert (place / "models/one").read_text() == "model"
    finally:
        await provider.stop()


async def test_the_report_says_what_is_in_force(sandbox: LocalSandbox) -> None:
    """Every protection is listed once, in force, with who vouches for it."""
    facts = {fact.name: fact for fact in sandbox.isolation}
    assert list(facts) == list(NAMES)
    assert len(facts) == len(sandbox.isolation)
    not_enforced = {name for name, fact in facts.items() if not fact.enforced}
    assert not_enforced <= (set() if os.geteuid() == 0 else {"host-user"})
    assert facts["seccomp"].source is FactSource.PROBE
    assert facts["host-user"].source is FactSource.PROVIDER
    assert all(fact.detail for fact in sandbox.isolation)
