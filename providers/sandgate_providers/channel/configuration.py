"""What the gateway tells a fresh runner, once, before the first command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sandgate_providers.types import WORKSPACE, JsonValue, Limits

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerConfiguration:
    """How a runner shall treat its commands."""

    limits: Limits = field(default_factory=Limits)
    limit_memory_per_process: bool = True
    """Limit the address space of each process; false where a cgroup limits the whole sandbox."""
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Added to the basics below; commands get nothing else, so nothing of the gateway's own environment."""
    home: str = WORKSPACE
    dead_man_seconds: float = 0.0
    """End the sandbox after so long without an authenticated frame; zero: never."""
    idle_workers: int = 4
    """How many forked workers wait for calls; a call that finds none waits about 4 ms for a fork."""
    max_calls: int = 256
    """How many calls may run or wait for their ack at once; above it calls are refused. Fewer where the runner may open
    few files: it needs four descriptors for each."""

    def to_json(self) -> dict[str, JsonValue]:
        """Give it as the runner reads it."""
        environment: dict[str, JsonValue] = {
            "PATH": SEARCH_PATH,
            "HOME": self.home,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "USER": "sandbox",
            "LOGNAME": "sandbox",
            "TMPDIR": "/tmp",  # noqa: S108 - the sandbox's own, a private tmpfs
            **self.environment,
        }
        return {
            "processes": self.limits.processes,
            "open_files": self.limits.open_files,
            "file_size_bytes": self.limits.file_size_bytes,
            "cpu_seconds": self.limits.cpu_seconds,
            "address_space_bytes": self.limits.memory_bytes if self.limit_memory_per_process else 0,
            "environment": environment,
            "dead_man_seconds": self.dead_man_seconds,
            "idle_workers": self.idle_workers,
            "max_calls": self.max_calls,
        }
