"""The few calls to the kernel that Python's standard library does not offer."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36

CPU_GRACE_SECONDS = 5
"""Between XCPU and KILL."""

_CLONE_NEWUSER = 0x10000000

_library = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _library.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def refuse_tracing() -> None:
    """Make this process's memory and descriptors unreadable for others of its uid; children inherit it until exec."""
    _prctl(_PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """End with the thread that forked this process."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def unshare_user() -> bool:
    """Try to enter a user namespace of this process's own; give whether that worked."""
    return int(_library.unshare(_CLONE_NEWUSER)) == 0


def limit(which: int, value: int, *, after: int = 0) -> None:
    """Lower a resource limit for this process and its children, for good; never raises one.

    The hard limit is higher by `after`: with processor time a process is first told by XCPU, which names the reason,
    and killed so many seconds later.
    """
    _, hard = resource.getrlimit(which)
    most = value + after
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(which, (min(value, most), most))


def limit_children(configuration: dict[str, object]) -> None:
    """Set the limits of the configuration; a value of zero leaves a limit as it is."""
    names = {
        "processes": resource.RLIMIT_NPROC,
        "open_files": resource.RLIMIT_NOFILE,
        "file_size_bytes": resource.RLIMIT_FSIZE,
        "cpu_seconds": resource.RLIMIT_CPU,
        "address_space_bytes": resource.RLIMIT_AS,
    }
    for name, which in names.items():
        value = configuration.get(name, 0)
        if isinstance(value, int) and value > 0:
            limit(which, value, after=CPU_GRACE_SECONDS if which == resource.RLIMIT_CPU else 0)
    limit(resource.RLIMIT_CORE, 0)
