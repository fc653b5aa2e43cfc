"""Bubblewrap's arguments: a pure function of what the jail shall be.

Bubblewrap builds what it is told and has no policy; this module is the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from sandgate_providers.channel.configuration import SEARCH_PATH
from sandgate_providers.local.host import HostView
from sandgate_providers.types import USER_DATA

INSIDE_ID = 1000
"""User and group of everything inside, as seen from inside."""

PYTHON_PREFIX = "/opt/sandgate-python"
"""Where an interpreter that is not one of the system's is seen inside."""

RUNNER = "/run/sandgate/runner"
"""The runner's source. A file rather than an argument: it would fill every list of processes that is made inside."""

_ACCOUNTS = f"sandbox:x:{INSIDE_ID}:{INSIDE_ID}:sandbox:{USER_DATA}/workspace:/bin/sh\n"

FILES: Mapping[str, bytes] = MappingProxyType(
    {
        "/etc/passwd": (
            "root:x:0:0:root:/root:/usr/sbin/nologin\n"
            f"{_ACCOUNTS}"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        ).encode(),
        "/etc/group": f"root:x:0:\nsandbox:x:{INSIDE_ID}:\nnogroup:x:65534:\n".encode(),
        "/etc/hosts": b"127.0.0.1 localhost sandbox\n::1 localhost\n",
        "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
        "/etc/resolv.conf": b"",
    }
)
"""Files made for the sandbox. Files of the host show as nobody's inside, since only one user is mapped."""

HIDDEN: tuple[str, ...] = ("/proc/cmdline",)
"""Shown empty: what the host was booted with is readable by everyone, and is nobody's business inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JailDescriptors:
    """Numbers of open files that bubblewrap reads from or writes to."""

    files: tuple[tuple[str, int], ...]
    """Path inside and the descriptor that its content is read from: `FILES`, `HIDDEN` and `RUNNER`."""
    seccomp: int
    information: int
    """Gets the process id of the sandbox as JSON."""
    gate: int
    """The sandbox waits with all set up until something can be read here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JailSpec:
    """What one jail shall be."""

    host: HostView
    thread_folder: Path
    temporary_bytes: int
    descriptors: JailDescriptors
    read_only_mounts: tuple[Path, ...] = ()
    python_prefix: Path | None = None
    """A folder on the host to show at `PYTHON_PREFIX`."""


def jail_arguments(spec: JailSpec) -> list[str]:
    """Give the arguments, without the program that bubblewrap is and the one that it shall run.

    The order matters: bubblewrap mounts in the order of its arguments, and the root is made read-only last.
    """
    return [
        *_namespaces(),
        *_system(spec.host),
        *_devices(spec.temporary_bytes),
        *_files(spec),
        *_python(spec.python_prefix),
        *(word for mount in spec.read_only_mounts for word in ("--ro-bind", str(mount), str(mount))),
        *("--perms", "0755", "--dir", "/mnt", "--bind", str(spec.thread_folder), USER_DATA),
        *("--remount-ro", "/"),
        *_process(spec.descriptors),
    ]


def _namespaces() -> list[str]:
    return [
        "--unshare-all",
        # Named again, for `--unshare-all` would do without when it cannot.
        "--unshare-user",
        "--unshare-cgroup",
        # No namespace can be made inside, where one would be root again and reach more of the kernel.
        "--disable-userns",
        "--assert-userns-disabled",
        # Without a terminal nothing can be typed into the gateway's.
        "--new-session",
        "--die-with-parent",
        # The runner reaps by itself, and the end of process 1 is the end of all.
        "--as-pid-1",
        *("--uid", str(INSIDE_ID), "--gid", str(INSIDE_ID)),
        *("--hostname", "sandbox"),
    ]


def _system(host: HostView) -> list[str]:
    arguments = ["--ro-bind", "/usr", "/usr"]
    for path, target in host.links:
        arguments += ["--symlink", target, path]
    for path in host.folders:
        arguments += ["--ro-bind", path, path]
    return arguments


def _devices(temporary_bytes: int) -> list[str]:
    size = str(temporary_bytes)
    return [
        *("--proc", "/proc"),
        # The folder of devices is a tmpfs without a limit, hence read-only; the devices in it still work.
        *("--dev", "/dev"),
        *("--perms", "1777", "--size", size, "--tmpfs", "/dev/shm"),  # noqa: S108 - a mount of the sandbox's own
        *("--remount-ro", "/dev"),
        *("--perms", "1777", "--size", size, "--tmpfs", "/tmp"),  # noqa: S108 - likewise
    ]


def _files(spec: JailSpec) -> list[str]:
    arguments = ["--perms", "0755", "--dir", "/etc"]
    for path in spec.host.etc:
        arguments += ["--ro-bind", path, path]
    for path, descriptor in spec.descriptors.files:
        if path in HIDDEN:
            arguments += ["--ro-bind-data", str(descriptor), path]
        else:
            arguments += ["--perms", "0444", "--file", str(descriptor), path]
    return arguments


def _python(prefix: Path | None) -> list[str]:
    return [] if prefix is None else ["--ro-bind", str(prefix), PYTHON_PREFIX]


def _process(descriptors: JailDescriptors) -> list[str]:
    return [
        *("--chdir", USER_DATA),
        "--clearenv",
        # The runner's own environment; it gives commands another one.
        *("--setenv", "PATH", SEARCH_PATH, "--setenv", "LANG", "C.UTF-8"),
        *("--cap-drop", "ALL"),
        *("--seccomp", str(descriptors.seccomp)),
        *("--info-fd", str(descriptors.information), "--block-fd", str(descriptors.gate)),
        "--",
    ]
