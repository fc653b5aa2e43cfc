"""A first jail when the provider starts: better a clear refusal then than a failure at the first tool call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from sandgate_providers.errors import ProviderMisconfigured, ProviderUnavailable
from sandgate_providers.local.cgroup import SandboxCgroup
from sandgate_providers.local.ground import Ground
from sandgate_providers.local.launch import Tenancy, jail_contents, launch_jail
from sandgate_providers.local.python import OLDEST
from sandgate_providers.types import JsonValue

PROBE_SECONDS = 15.0
"""A jail with a small program takes some 30 ms; a cold disk may take seconds."""

_TEMPORARY_BYTES = 1 << 20

_CODE = """
import json, os, sys
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
seen = {name: status[name].strip() for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")}
seen.update(version=sys.version_info[:2], uid=os.getuid(), pid=os.getpid())
print(json.dumps(seen))
"""

_WITHOUT = "Only for work that you would run yourself: isolation: none"

_USER_NAMESPACES = (
    "This kernel does not let ordinary users make user namespaces. Look at the sysctls user.max_user_namespaces (must "
    "not be 0), kernel.unprivileged_userns_clone (must be 1 where it exists) and "
    "kernel.apparmor_restrict_unprivileged_userns (must be 0, or bubblewrap needs an AppArmor profile); in a "
    f"container, at what its runtime forbids. {_WITHOUT}"
)

_TOO_OLD = "This bubblewrap is too old; 0.8 or newer is needed. Set bubblewrap to a newer one, or install the wheel."

_HINTS: Mapping[str, str] = {
    "namespace": _USER_NAMESPACES,
    "uid map": _USER_NAMESPACES,
    "RTM_NEWADDR": _USER_NAMESPACES,
    "Unknown option": _TOO_OLD,
}
"""What bubblewrap says, and what an operator can do about it."""


async def try_jail(ground: Ground, folder: Path, uid: int | None) -> None:
    """Start one jail, look around inside, and let it end.

    Raises:
        ProviderMisconfigured: it cannot be made, or does not hold; says what to change.
    """
    tenancy = Tenancy(folder=folder, uid=uid, temporary_bytes=_TEMPORARY_BYTES, cgroup=SandboxCgroup(()))
    contents = await asyncio.to_thread(jail_contents, ground, _CODE)
    try:
        jail = await launch_jail(ground, tenancy, contents)
    except ProviderUnavailable as error:
        raise ProviderMisconfigured(_advised(str(error))) from error
    finally:
        contents.close()
    try:
        answer = b""
        async with asyncio.timeout(PROBE_SECONDS):
            while data := await jail.process.stream.read():
                answer += data
        words = await jail.process.last_words(1.0)
    except TimeoutError as error:
        message = f"a first sandbox did not answer within {PROBE_SECONDS:g} s"
        raise ProviderMisconfigured(message) from error
    finally:
        await asyncio.shield(jail.process.end())
    try:
        seen: dict[str, JsonValue] = json.loads(answer)
    except ValueError as error:
        raise ProviderMisconfigured(_advised(f"a first sandbox did not run: {words}")) from error
    _check(seen)


def _advised(message: str) -> str:
    advice = next((advice for sign, advice in _HINTS.items() if sign in message), _WITHOUT)
    return f"{message}. {advice}"


def _check(seen: Mapping[str, JsonValue]) -> None:
    if seen["version"] < list(OLDEST):  # type: ignore[operator]  # two numbers: our own code wrote them
        message = f"python: the interpreter inside is {seen['version']}; {OLDEST} or newer is needed"
        raise ProviderMisconfigured(message)
    # The rest is seen from inside again for each sandbox; this only tells it earlier.
    wanted = {"CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2", "pid": 1}
    wrong = [f"{name} is {seen.get(name)}" for name, value in wanted.items() if seen.get(name) != value]
    if wrong or seen["uid"] == 0:
        message = (
            f"a first sandbox is not isolated as it must be: {', '.join(wrong) or 'it is root inside'}. {_WITHOUT}"
        )
        raise ProviderMisconfigured(message)
