"""What keeps this sandbox apart, as seen from inside before the first command."""

from __future__ import annotations

import os
import resource
import socket
from typing import Any, Union

from sandgate_providers.runner import kernel

Fact = dict[str, Union[str, bool]]


def facts(settings: dict[str, Any]) -> list[Fact]:
    """Look at everything that can be seen from inside; what cannot be seen is the provider's to say."""
    status = _status()
    no_new = status.get("NoNewPrivs", "?")
    seccomp = status.get("Seccomp", "?")
    return [
        _fact("non-root", "uid {}".format(os.getuid()), enforced=os.getuid() != 0 and os.geteuid() != 0),
        _capabilities(status),
        _fact("no-new-privileges", "NoNewPrivs {}".format(no_new), enforced=no_new == "1"),
        _fact("seccomp", "seccomp mode {}".format(seccomp), enforced=seccomp == "2"),
        _read_only_root(),
        _network(),
        _fact("process-namespace", "the runner is process {}".format(os.getpid()), enforced=os.getpid() == 1),
        _user_namespaces(),
        _limit("process-limit", settings["processes"], resource.RLIMIT_NPROC),
        _limit("file-size-limit", settings["file_size_bytes"], resource.RLIMIT_FSIZE),
        _limit("cpu-limit", settings["cpu_seconds"], resource.RLIMIT_CPU),
        _limit("memory-limit", settings["address_space_bytes"], resource.RLIMIT_AS),
    ]


def _fact(name: str, detail: str, *, enforced: bool) -> Fact:
    return {"name": name, "enforced": enforced, "detail": detail}


def _status() -> dict[str, str]:
    with open("/proc/self/status", encoding="ascii", errors="replace") as source:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in source)}


def _capabilities(status: dict[str, str]) -> Fact:
    names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    held = ["{} {}".format(name, status.get(name, "?")) for name in names if int(status.get(name, "1"), 16) != 0]
    return _fact("no-capabilities", ", ".join(held) or "all five sets are empty", enforced=not held)


def _read_only_root() -> Fact:
    read_only = bool(os.statvfs("/").f_flag & os.ST_RDONLY)
    return _fact("read-only-root", "read-only" if read_only else "writable", enforced=read_only)


def _network() -> Fact:
    names = sorted(name for _, name in socket.if_nameindex())
    return _fact("no-network", "interfaces: {}".format(", ".join(names) or "none"), enforced=names in ([], ["lo"]))


def _user_namespaces() -> Fact:
    """Try to make one, in a child that ends at once."""
    child = os.fork()
    if child == 0:
        os._exit(0 if kernel.unshare_user() else 1)
    _, status = os.waitpid(child, 0)
    made = os.waitstatus_to_exitcode(status) == 0
    return _fact("no-user-namespaces", "one was made" if made else "making one is refused", enforced=not made)


def _limit(name: str, wanted: int, which: int) -> Fact:
    """Say a limit that the runner sets on each worker; a lower one that holds already stays."""
    if wanted <= 0:
        return _fact(name, "none", enforced=False)
    _, hard = resource.getrlimit(which)
    lowest = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    return _fact(name, "{} for each process".format(lowest), enforced=True)
