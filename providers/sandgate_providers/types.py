"""The values that cross the border between the gateway and a provider."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
"""What JSON can say."""

USER_DATA = "/mnt/user-data"
"""Where a thread's folder is seen inside every sandbox; the paths below it are the contract with the model."""

WORKSPACE = f"{USER_DATA}/workspace"
"""Where commands start."""

UPLOADS = f"{USER_DATA}/uploads"
"""Where files from outside arrive."""

OUTPUTS = f"{USER_DATA}/outputs"
"""Where results for outside are left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxKey:
    """Whose sandbox it is: one tenant's one thread."""

    tenant: str
    thread: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one sandbox may use. Sizes in bytes; zero is not "unlimited" but refused by the settings."""

    memory_bytes: int = 1 << 30
    processes: int = 256
    open_files: int = 1024
    file_size_bytes: int = 1 << 30
    cpu_seconds: int = 3600
    """Processor time of a single process."""
    temporary_bytes: int = 256 << 20
    """Size of each of /tmp and /dev/shm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """What a sandbox shall be."""

    key: SandboxKey
    name: str
    """Derived by `naming.sandbox_name`; the same on every replica."""
    limits: Limits = field(default_factory=Limits)
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What commands find in their environment beside the basics (PATH, HOME, LANG, TERM, USER, TMPDIR)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a provider can do; callers ask these and never its name."""

    thread_folder_mounted: bool
    """The thread's folder on the host is what the sandbox sees at `USER_DATA`."""
    reattach: bool
    """A cut line can be opened again without losing what runs."""


class FactSource(enum.Enum):
    """Who vouches for a fact about a sandbox."""

    PROBE = "probe"
    """Seen from inside before the first command."""
    PROVIDER = "provider"
    """Said by the provider, since it cannot be seen from inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationFact:
    """One protection: whether it is in force, and what was seen."""

    name: str
    """Stable kebab-case name: `non-root`, `no-capabilities`, `no-new-privileges`, `seccomp`, `read-only-root`,
    `no-network`, `process-namespace`, `memory-limit`, `process-limit`, `file-size-limit`, `cpu-limit`,
    `temporary-limit`, `no-user-namespaces`, `host-user`."""
    enforced: bool
    detail: str
    source: FactSource


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStatus:
    """How a sandbox fares, as its provider sees it from outside."""

    alive: bool
    out_of_memory_kills: int
    """Kills by the memory limit so far; zero where that cannot be counted."""
