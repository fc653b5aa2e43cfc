"""The seccomp filter of a sandbox.

What is refused gets an error rather than death, so that a program that only tries goes on. A system call of another
machine's numbering ends the process: every number below would mean something else there.
"""

from __future__ import annotations

import enum
import errno

from sandgate_providers.local import syscalls
from sandgate_providers.local.bpf import Assembler, Condition

_NUMBER = 0  # offsets in struct seccomp_data of linux/seccomp.h
_ARCHITECTURE = 4
_ARGUMENTS = 16

_KILL_PROCESS = 0x80000000
_ERROR = 0x00050000
_ALLOW = 0x7FFF0000

_X32 = 0x40000000
"""This bit in a number is the x32 interface of x86_64: the same calls by other numbers."""

CLONE_NEW = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""

CLONE_NEWTIME = 0x00000080
"""Only for unshare: in the flags of clone this bit is a part of the signal's number."""

HARMLESS_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""The default, PER_LINUX32, UNAME26, both, and "only ask". The rest turns protections of memory off."""

_TIOCSTI = 0x5412  # types into the terminal
_TIOCLINUX = 0x541C  # pastes into the console
_TIOCSETD = 0x5423  # loads line disciplines

REFUSED_CONTROLS = (_TIOCSTI, _TIOCLINUX, _TIOCSETD)

_AF_UNIX = 1
_AF_INET = 2
_AF_INET6 = 10
_AF_NETLINK = 16
_NETLINK_ROUTE = 0

PLAIN_FAMILIES = (_AF_UNIX, _AF_INET, _AF_INET6)
"""Beside these only netlink's routes (libc lists interfaces with them). Vsock, for one, is in no network namespace."""


class Machine(enum.Enum):
    """A machine that the filter can be made for; the value is its AUDIT_ARCH_* number."""

    X86_64 = 0xC000003E
    AARCH64 = 0xC00000B7

    @classmethod
    def named(cls, name: str) -> Machine:
        """Find it by the name that `platform.machine()` gives. Raises KeyError for others."""
        return {"x86_64": cls.X86_64, "aarch64": cls.AARCH64}[name]

    def number(self, call: syscalls.Numbers) -> int | None:
        """Give a call's number on this machine; None when it has none."""
        return call.x86_64 if self is Machine.X86_64 else call.aarch64


def filter_program(machine: Machine) -> bytes:
    """Make the filter, in the form that bubblewrap's `--seccomp` reads.

    The kernel remembers which numbers are allowed whatever their arguments (since 5.11), so the length of the list
    costs nothing for the calls that are.
    """
    program = _Filter(machine)
    program.check_machine()
    program.refuse_listed()
    program.refuse_namespaces()
    program.refuse_personalities()
    program.refuse_families()
    program.refuse_controls()
    program.refuse_limits_of_others()
    return program.end()


class _Filter:
    """One filter being put together. The accumulator holds the call's number between the steps."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._code = Assembler()

    def check_machine(self) -> None:
        code = self._code
        code.load(_ARCHITECTURE)
        code.jump(Condition.EQUAL, self._machine.value, then="right-machine")
        code.give(_KILL_PROCESS)
        code.label("right-machine")
        code.load(_NUMBER)
        # On x86_64 this refuses the x32 numbers too, and on both what is younger than the list.
        assert syscalls.NEWEST < _X32
        code.jump(Condition.GREATER, syscalls.NEWEST, otherwise="known")
        code.give(_ERROR | errno.ENOSYS)
        code.label("known")

    def refuse_listed(self) -> None:
        code = self._code
        for call in syscalls.REFUSED.values():
            number = self._machine.number(call)
            if number is not None:
                code.jump(Condition.EQUAL, number, then="listed")
        # With this answer libc falls back to clone, whose flags can be seen; clone3 keeps them in memory.
        code.jump(Condition.EQUAL, self._number(syscalls.CLONE3), otherwise="not-listed")
        code.give(_ERROR | errno.ENOSYS)
        code.label("listed")
        code.give(_ERROR | errno.EPERM)
        code.label("not-listed")

    def refuse_namespaces(self) -> None:
        for name, call, flags in (
            ("clone", syscalls.CLONE, CLONE_NEW),
            ("unshare", syscalls.UNSHARE, CLONE_NEW | CLONE_NEWTIME),
        ):
            code = self._code
            code.jump(Condition.EQUAL, self._number(call), otherwise=f"not-{name}")
            code.load(_argument(0))
            code.jump(Condition.ANY_BIT, flags, otherwise=f"plain-{name}")
            code.give(_ERROR | errno.EPERM)
            code.label(f"plain-{name}")
            code.give(_ALLOW)
            code.label(f"not-{name}")

    def refuse_personalities(self) -> None:
        code = self._code
        code.jump(Condition.EQUAL, self._number(syscalls.PERSONALITY), otherwise="not-personality")
        code.load(_argument(0))
        for value in HARMLESS_PERSONALITIES:
            code.jump(Condition.EQUAL, value, then="harmless")
        code.give(_ERROR | errno.EPERM)
        code.label("harmless")
        code.give(_ALLOW)
        code.label("not-personality")

    def refuse_families(self) -> None:
        code = self._code
        code.jump(Condition.EQUAL, self._number(syscalls.SOCKET), then="new-socket")
        # It makes both sockets, and loads the module of their family, before that family says that it has no pairs.
        code.jump(Condition.EQUAL, self._number(syscalls.SOCKETPAIR), otherwise="not-socket")
        code.label("new-socket")
        code.load(_argument(0))
        for family in PLAIN_FAMILIES:
            code.jump(Condition.EQUAL, family, then="plain-socket")
        code.jump(Condition.EQUAL, _AF_NETLINK, otherwise="other-family")
        code.load(_argument(2))
        code.jump(Condition.EQUAL, _NETLINK_ROUTE, then="plain-socket")
        code.label("other-family")
        # What a kernel built without that family says; programs know how to go on from there.
        code.give(_ERROR | errno.EAFNOSUPPORT)
        code.label("plain-socket")
        code.give(_ALLOW)
        code.label("not-socket")

    def refuse_controls(self) -> None:
        code = self._code
        code.jump(Condition.EQUAL, self._number(syscalls.IOCTL), otherwise="not-ioctl")
        code.load(_argument(1))
        for control in REFUSED_CONTROLS:
            code.jump(Condition.EQUAL, control, then="refused-control")
        code.give(_ALLOW)
        code.label("refused-control")
        code.give(_ERROR | errno.EPERM)
        code.label("not-ioctl")

    def refuse_limits_of_others(self) -> None:
        """Let a process change its own limits only: all share a user, and the runner could be left without files."""
        code = self._code
        code.jump(Condition.EQUAL, self._number(syscalls.PRLIMIT64), otherwise="not-limit")
        code.load(_argument(0))
        code.jump(Condition.EQUAL, 0, then="own-limit")
        code.give(_ERROR | errno.EPERM)
        code.label("own-limit")
        code.give(_ALLOW)
        code.label("not-limit")

    def end(self) -> bytes:
        self._code.give(_ALLOW)
        return self._code.program()

    def _number(self, call: syscalls.Numbers) -> int:
        number = self._machine.number(call)
        assert number is not None
        return number


def _argument(index: int) -> int:
    """Give the offset of the lower half of an argument.

    The kernel takes all arguments that are checked here as 32 bit numbers, or knows no flag above; both machines are
    little-endian.
    """
    return _ARGUMENTS + 8 * index
