"""The seccomp filter, run by an interpreter of our own so that both machines are tested on either."""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass

import pytest

from sandgate_providers.local import syscalls
from sandgate_providers.local.bpf import Assembler, Condition
from sandgate_providers.local.seccomp import Machine, filter_program
from sandgate_providers.local.syscalls import Numbers

ALLOW = "allow"
KILL = "kill"
MACHINES = tuple(Machine)

READ = Numbers(0, 63)
OPENAT = Numbers(257, 56)
EXECVE = Numbers(59, 221)
CHROOT = Numbers(161, 51)
SECCOMP = Numbers(317, 277)


@dataclass(frozen=True)
class Attempt:
    """A system call as the filter sees it."""

    number: int
    arguments: tuple[int, ...] = ()
    architecture: int | None = None


def decide(machine: Machine, attempt: Attempt) -> str:
    """Run the filter as the kernel does, and name its answer: allow, kill, or the error."""
    arguments = (*attempt.arguments, *(0,) * 6)[:6]
    architecture = machine.value if attempt.architecture is None else attempt.architecture
    data = struct.pack("<IIQ6Q", attempt.number & 0xFFFFFFFF, architecture, 0, *arguments)
    program = list(struct.iter_unpack("=HBBI", filter_program(machine)))
    accumulator = place = 0
    while True:
        code, then, otherwise, constant = program[place]
        place += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, constant)
            case 0x06:
                return {0x7FFF0000: ALLOW, 0x80000000: KILL}.get(constant) or errno.errorcode[constant & 0xFFFF]
            case Condition.EQUAL:
                place += then if accumulator == constant else otherwise
            case Condition.GREATER:
                place += then if accumulator > constant else otherwise
            case Condition.ANY_BIT:
                place += then if accumulator & constant else otherwise
            case _:
                raise AssertionError(code)


def call(machine: Machine, numbers: Numbers, *arguments: int) -> str:
    """Decide on a call by its number on that machine."""
    number = machine.number(numbers)
    assert number is not None
    return decide(machine, Attempt(number, arguments))


@pytest.mark.parametrize("machine", MACHINES)
def test_ordinary_calls_pass(machine: Machine) -> None:
    """Reading, opening, starting programs, and tightening the filter further are not our business."""
    for numbers in (READ, OPENAT, EXECVE, CHROOT, SECCOMP):
        assert call(machine, numbers) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", sorted(syscalls.REFUSED))
def test_listed_calls_are_refused(machine: Machine, name: str) -> None:
    """Each call of the list gets EPERM on each machine that has it."""
    number = machine.number(syscalls.REFUSED[name])
    if number is not None:
        assert decide(machine, Attempt(number)) == "EPERM"


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_else_is_refused_by_its_number(machine: Machine) -> None:
    """The list does not catch a neighbour by a wrong number: the rest of the table passes."""
    numbers = {machine.number(value) for value in syscalls.REFUSED.values()}
    inspected = {machine.number(value) for value in (syscalls.CLONE3, syscalls.SOCKET, syscalls.SOCKETPAIR)}
    for number in range(syscalls.NEWEST + 1):
        if number not in numbers | inspected:
            assert decide(machine, Attempt(number)) == ALLOW, number


@pytest.mark.parametrize("machine", MACHINES)
def test_another_machines_numbering_ends_the_process(machine: Machine) -> None:
    """A 32 bit call, where the numbers mean other things, is not judged by our table."""
    for architecture in (0x40000003, 0x40000028, 0, *(other.value for other in MACHINES if other is not machine)):
        assert decide(machine, Attempt(0, architecture=architecture)) == KILL


@pytest.mark.parametrize("machine", MACHINES)
def test_unknown_numbers_do_not_exist(machine: Machine) -> None:
    """The x32 interface, calls younger than the list, and a negative number all get ENOSYS."""
    for number in (0x40000000, 0x40000000 | 165, syscalls.NEWEST + 1, 100_000, -1):
        assert decide(machine, Attempt(number)) == "ENOSYS"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("flag", [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000])
def test_no_namespace_can_be_made(machine: Machine, flag: int) -> None:
    """Neither by unshare nor by clone, whatever other flags come along."""
    for flags in (flag, flag | 0x11, flag | 0xFFFF_FFFF_0000_0000):
        assert call(machine, syscalls.CLONE, flags) == "EPERM"
        assert call(machine, syscalls.UNSHARE, flags) == "EPERM"


@pytest.mark.parametrize("machine", MACHINES)
def test_processes_and_threads_can_be_made(machine: Machine) -> None:
    """Fork and pthread_create pass as clone; clone3 sends libc there."""
    assert call(machine, syscalls.CLONE, 0x01200011) == ALLOW
    assert call(machine, syscalls.CLONE, 0x003D0F00) == ALLOW
    assert call(machine, syscalls.UNSHARE, 0x00000400) == ALLOW
    assert call(machine, syscalls.CLONE3) == "ENOSYS"


@pytest.mark.parametrize("machine", MACHINES)
def test_a_time_namespace_is_told_from_a_signal(machine: Machine) -> None:
    """The bit is a namespace in unshare, and a part of the child's signal in clone."""
    assert call(machine, syscalls.UNSHARE, 0x80) == "EPERM"
    assert call(machine, syscalls.CLONE, 0x80) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("family", "protocol", "answer"),
    [
        (1, 0, ALLOW),
        (2, 6, ALLOW),
        (10, 0, ALLOW),
        (16, 0, ALLOW),
        (16, 9, "EAFNOSUPPORT"),
        (16, 12, "EAFNOSUPPORT"),
        (16, 15, "EAFNOSUPPORT"),
        (17, 0, "EAFNOSUPPORT"),
        (38, 0, "EAFNOSUPPORT"),
        (40, 0, "EAFNOSUPPORT"),
        (44, 0, "EAFNOSUPPORT"),
        (0, 0, "EAFNOSUPPORT"),
    ],
)
def test_socket_families(machine: Machine, family: int, protocol: int, answer: str) -> None:
    """Unix, IPv4, IPv6 and netlink routes; no packet, no crypto, no vsock, no audit."""
    assert call(machine, syscalls.SOCKET, family, 1, protocol) == answer


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("family", "answer"), [(1, ALLOW), (17, "EAFNOSUPPORT"), (40, "EAFNOSUPPORT")])
def test_pairs_of_sockets_are_no_way_around(machine: Machine, family: int, answer: str) -> None:
    """The kernel makes both sockets of a pair before their family says that it has none."""
    assert call(machine, syscalls.SOCKETPAIR, family, 1, 0) == answer


@pytest.mark.parametrize("machine", MACHINES)
def test_terminal_controls(machine: Machine) -> None:
    """Typing into a terminal is refused, also with a dirty upper half; asking for its size is not."""
    for control in (0x5412, 0x541C, 0xDEAD_0000_0000_5412):
        assert call(machine, syscalls.IOCTL, 0, control) == "EPERM"
    assert call(machine, syscalls.IOCTL, 0, 0x5413) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_personalities(machine: Machine) -> None:
    """Asking and the harmless ones pass; the one without address randomisation does not."""
    for value in (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF):
        assert call(machine, syscalls.PERSONALITY, value) == ALLOW
    for value in (0x0040000, 0x0400000, 0x0100000):
        assert call(machine, syscalls.PERSONALITY, value) == "EPERM"


@pytest.mark.parametrize("machine", MACHINES)
def test_limits(machine: Machine) -> None:
    """A process changes its own limits, not those of another."""
    assert call(machine, syscalls.PRLIMIT64, 0) == ALLOW
    assert call(machine, syscalls.PRLIMIT64, 1) == "EPERM"


def test_a_machine_is_found_by_its_name() -> None:
    """Other machines have no filter, which the provider refuses."""
    assert Machine.named("x86_64") is Machine.X86_64
    assert Machine.named("aarch64") is Machine.AARCH64
    with pytest.raises(KeyError):
        Machine.named("riscv64")


def test_a_jump_that_cannot_be_is_refused() -> None:
    """Backwards, too far, or nowhere: the assembler says so instead of the kernel."""
    backwards = Assembler()
    backwards.label("start")
    backwards.give(0)
    backwards.jump(Condition.EQUAL, 1, then="start")
    with pytest.raises(ValueError, match="start"):
        backwards.program()

    far = Assembler()
    far.jump(Condition.EQUAL, 1, then="end")
    for _ in range(256):
        far.give(0)
    far.label("end")
    far.give(0)
    with pytest.raises(ValueError, match="end"):
        far.program()

    nowhere = Assembler()
    nowhere.jump(Condition.EQUAL, 1, then="nowhere")
    with pytest.raises(ValueError, match="nowhere"):
        nowhere.program()


def test_a_label_is_set_once() -> None:
    """Two places of one name would make a jump a guess."""
    code = Assembler()
    code.label("here")
    with pytest.raises(ValueError, match="here"):
        code.label("here")
