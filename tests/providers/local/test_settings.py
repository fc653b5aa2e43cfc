"""What an operator may set about local sandboxes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandgate_providers.errors import ProviderMisconfigured
from sandgate_providers.local.settings import LocalOptions
from sandgate_providers.types import JsonValue


def test_only_the_folder_is_needed() -> None:
    """The least configuration is one line, and it is the isolated one."""
    options = LocalOptions.from_mapping({"data_dir": "/var/lib/sandgate"})
    assert options == LocalOptions(data_dir=Path("/var/lib/sandgate"))
    assert options.isolation == "bubblewrap"
    assert options.read_only_mounts == ()


def test_everything_can_be_set() -> None:
    """Each setting arrives as its own type."""
    options = LocalOptions.from_mapping(
        {
            "data_dir": "/data",
            "isolation": "none",
            "uid_range": [60000, 60010],
            "bubblewrap": "/opt/bwrap",
            "python": "/opt/python/bin/python3",
            "read_only_mounts": ["/srv/models"],
            "max_sandboxes": 3,
            "cgroup_parent": "/sandgate/",
        }
    )
    assert options == LocalOptions(
        data_dir=Path("/data"),
        isolation="none",
        uid_range=(60000, 60010),
        bubblewrap=Path("/opt/bwrap"),
        python=Path("/opt/python/bin/python3"),
        read_only_mounts=(Path("/srv/models"),),
        max_sandboxes=3,
        cgroup_parent="/sandgate",
    )


def test_null_is_the_default() -> None:
    """A key with nothing behind it in YAML is as if it were not there."""
    given: dict[str, JsonValue] = {"data_dir": "/data", "python": None, "isolation": None}
    assert LocalOptions.from_mapping(given) == LocalOptions(data_dir=Path("/data"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data_dir", "relative"),
        ("data_dir", 7),
        ("data_dir", "/with\0nul"),
        ("isolation", "None"),
        ("isolation", False),
        ("uid_range", [0, 10]),
        ("uid_range", [999, 1000]),
        ("uid_range", [50001, 50000]),
        ("uid_range", [50000]),
        ("uid_range", [True, 50000]),
        ("uid_range", "50000-50001"),
        ("uid_range", [50000, (1 << 32) - 1]),
        ("bubblewrap", "bwrap"),
        ("python", ["python3"]),
        ("read_only_mounts", "/srv"),
        ("read_only_mounts", ["srv"]),
        ("max_sandboxes", 0),
        ("max_sandboxes", True),
        ("max_sandboxes", "64"),
        ("cgroup_parent", "sandgate"),
        ("cgroup_parent", "/"),
        ("cgroup_parent", "/a/../.."),
        ("surprise", 1),
    ],
)
def test_an_error_names_the_key(key: str, value: JsonValue) -> None:
    """A wrong value is refused, and the message says which one to change."""
    with pytest.raises(ProviderMisconfigured, match=key):
        LocalOptions.from_mapping({"data_dir": "/data", key: value})


def test_the_folder_cannot_be_left_out() -> None:
    """There is no guessed place for other people's files."""
    with pytest.raises(ProviderMisconfigured, match="data_dir"):
        LocalOptions.from_mapping({})


@pytest.mark.parametrize(
    "mount",
    [
        "/",
        "/usr",
        "/etc",
        "/proc",
        "/proc/1",
        "/sys/fs",
        "/dev/sda",
        "/mnt",
        "/mnt/user-data/x",
        "/run",
        "/opt",
        "/data",
        "/data/threads",
        "/var/../root",
    ],
)
def test_a_mount_cannot_undo_the_jail(mount: str) -> None:
    """What would hide the jail's own mounts, show devices or show other threads' files is refused."""
    with pytest.raises(ProviderMisconfigured, match="read_only_mounts"):
        LocalOptions.from_mapping({"data_dir": "/data", "read_only_mounts": [mount]})
