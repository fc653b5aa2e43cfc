"""What a provider finds out about its machine once, when it starts: all that its jails have in common."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from sandgate_providers.errors import ProviderMisconfigured
from sandgate_providers.local import host
from sandgate_providers.local.host import HostView
from sandgate_providers.local.python import Interpreter, find_python
from sandgate_providers.local.reach import blocked_at
from sandgate_providers.local.runtime import find_bubblewrap, reachable_copy
from sandgate_providers.local.seccomp import Machine, filter_program
from sandgate_providers.local.settings import LocalOptions, check_mount


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The programs, the filter, and what of the machine is shown."""

    bubblewrap: Path
    host: HostView
    seccomp: bytes
    interpreter: Interpreter
    read_only_mounts: tuple[Path, ...]


def find_ground(options: LocalOptions, uid: int | None, data_dir: Path) -> Ground:
    """Find it all out. Blocks on files and on a program that tells its version.

    Args:
        options: The provider's.
        uid: One of the users that sandboxes run as; None: the gateway's own.
        data_dir: As in the options, without symbolic links; a copy of bubblewrap may be put there.

    Raises:
        ProviderMisconfigured: something is missing or cannot be reached; names the setting.
    """
    try:
        machine = Machine.named(platform.machine())
    except KeyError as error:
        message = f"isolation: there is no seccomp filter for this machine ({platform.machine()})"
        raise ProviderMisconfigured(message) from error
    for mount in options.read_only_mounts:
        _check_mount(mount, uid, data_dir)
    try:
        bubblewrap = reachable_copy(find_bubblewrap(options.bubblewrap), uid, data_dir)
    except OSError as error:
        message = f"bubblewrap: cannot be copied into data_dir for the users that run it: {error}"
        raise ProviderMisconfigured(message) from error
    return Ground(
        bubblewrap=bubblewrap,
        host=host.look(),
        seccomp=filter_program(machine),
        interpreter=find_python(options.python, uid, jailed=True),
        read_only_mounts=options.read_only_mounts,
    )


def _check_mount(mount: Path, uid: int | None, data_dir: Path) -> None:
    """Check a mount again, now that links can be followed."""
    try:
        real = mount.resolve(strict=True)
        blocked = blocked_at(real, uid)
    except OSError as error:
        message = f"read_only_mounts: {mount} cannot be used: {error.strerror}"
        raise ProviderMisconfigured(message) from error
    if blocked is not None:
        message = f"read_only_mounts: sandboxes run as users of their own and cannot get to {mount}: see {blocked}"
        raise ProviderMisconfigured(message)
    check_mount(real, data_dir)
