"""What is in force in a local sandbox: what the runner saw inside, and what only the outside can tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sandgate_providers.errors import ProviderUnavailable
from sandgate_providers.types import FactSource, IsolationFact

NAMES = (
    "non-root",
    "no-capabilities",
    "no-new-privileges",
    "seccomp",
    "read-only-root",
    "no-network",
    "process-namespace",
    "no-user-namespaces",
    "memory-limit",
    "process-limit",
    "file-size-limit",
    "cpu-limit",
    "temporary-limit",
    "host-user",
)
"""All protections, as `types.IsolationFact` lists them."""

ESSENTIAL = frozenset(NAMES[:8])
"""Without one of these there is no jail, whatever bubblewrap said."""


def told(name: str, detail: str, *, enforced: bool) -> IsolationFact:
    """Make a fact that the provider vouches for."""
    return IsolationFact(name=name, enforced=enforced, detail=detail, source=FactSource.PROVIDER)


def completed(probed: Iterable[IsolationFact], provided: Iterable[IsolationFact]) -> tuple[IsolationFact, ...]:
    """Join both, in the order of `NAMES`; the provider's replace those seen inside, for they say more."""
    facts = {fact.name: fact for fact in (*probed, *provided)}
    known = [facts.pop(name) for name in NAMES if name in facts]
    return (*known, *facts.values())


def check_essential(facts: Sequence[IsolationFact]) -> None:
    """Refuse a jail that leaks.

    Raises:
        ProviderUnavailable: an essential protection was not seen from inside.
    """
    seen = {fact.name for fact in facts if fact.enforced}
    missing = sorted(ESSENTIAL - seen)
    if missing:
        details = {fact.name: fact.detail for fact in facts}
        listed = "; ".join(f"{name} ({details.get(name, 'not reported')})" for name in missing)
        message = f"a new sandbox was ended, since it is not isolated as it must be: {listed}"
        raise ProviderUnavailable(message)


def none_in_force(probed: Iterable[IsolationFact]) -> tuple[IsolationFact, ...]:
    """Give the facts of a sandbox that is none: whatever limits the runner sets, nothing holds commands in."""
    details = {fact.name: fact.detail for fact in probed}
    return tuple(
        told(
            name,
            f"isolation is none; seen: {details[name]}" if name in details else "isolation is none",
            enforced=False,
        )
        for name in NAMES
    )


def host_user(pid: int, *, own: bool, process_folder: Path = Path("/proc")) -> IsolationFact:
    """See which user of the host a process is.

    Args:
        pid: Its id on the host.
        own: Whether that user was made for the thread.
        process_folder: Where processes are listed.

    Raises:
        ProviderUnavailable: the process has ended.
    """
    try:
        lines = (process_folder / str(pid) / "status").read_text().splitlines()
    except OSError as error:
        message = "a new sandbox ended at once"
        raise ProviderUnavailable(message) from error
    uids = next(line.split()[1:] for line in lines if line.startswith("Uid:"))
    if "0" in uids:
        return told("host-user", "root on the host", enforced=False)
    if own:
        return told("host-user", f"user {uids[0]} on the host, of this thread alone", enforced=True)
    return told("host-user", f"user {uids[0]} on the host, the gateway's own: threads share it", enforced=False)


def memory_limit(limit_bytes: int, versions: str) -> IsolationFact:
    """Say that a cgroup limits memory."""
    return told("memory-limit", f"{limit_bytes} bytes for the whole sandbox (cgroup {versions})", enforced=True)


def no_user_namespaces() -> IsolationFact:
    """Say that bubblewrap tried to make one and could not; it does not go on otherwise (`--assert-userns-disabled`).

    The limit of namespaces cannot be read from inside: it is that of the namespace around, which cannot be seen there.
    """
    return told("no-user-namespaces", "bubblewrap tried to make one inside, and could not", enforced=True)


def temporary_limit(limit_bytes: int) -> IsolationFact:
    """Say how large the temporary folders may grow; bubblewrap does not start without that."""
    return told("temporary-limit", f"{limit_bytes} bytes each for /tmp and /dev/shm", enforced=True)
