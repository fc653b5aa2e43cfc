"""How a runner is held in: by bubblewrap, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from sandgate_providers.channel.configuration import SEARCH_PATH
from sandgate_providers.errors import ProviderUnavailable
from sandgate_providers.local import facts, strays
from sandgate_providers.local.ground import Ground
from sandgate_providers.local.launch import Tenancy, jail_contents, launch_jail
from sandgate_providers.local.mapping import HostPaths
from sandgate_providers.local.process import Launch, SandboxProcess
from sandgate_providers.local.python import Interpreter, python_arguments
from sandgate_providers.types import IsolationFact


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A runner that was started and waits for its line to be set up."""

    process: SandboxProcess
    pid: int
    """The runner's own process id on the host."""
    paths: HostPaths | None
    """Where the thread's folder is for the runner, when that is not where the contract says."""
    end_strays: Callable[[bool], None] | None
    """See `sandbox.Parts`."""


class Confinement(Protocol):
    """Starts runners, each in its thread's folder."""

    async def launch(self, tenancy: Tenancy) -> Started:
        """Start a sandbox's runner. Raises ProviderUnavailable."""
        ...

    def facts(self, probed: Iterable[IsolationFact], provided: Iterable[IsolationFact]) -> tuple[IsolationFact, ...]:
        """Say what is in force. Raises ProviderUnavailable when that is not enough to let commands run."""
        ...

    def close(self) -> None:
        """Start no more. Idempotent."""
        ...


class Bubblewrap:
    """Every sandbox in a jail of its own."""

    def __init__(self, ground: Ground, code: str) -> None:
        """Use what was found out about this machine, and the runner's source."""
        self._ground = ground
        self._contents = jail_contents(ground, code)

    async def launch(self, tenancy: Tenancy) -> Started:
        """Start it as process 1 of a jail."""
        jail = await launch_jail(self._ground, tenancy, self._contents)
        return Started(process=jail.process, pid=jail.inner_pid, paths=None, end_strays=None)

    def facts(self, probed: Iterable[IsolationFact], provided: Iterable[IsolationFact]) -> tuple[IsolationFact, ...]:
        """Join both, and insist on what makes a jail."""
        joined = facts.completed(probed, provided)
        facts.check_essential(joined)
        return joined

    def close(self) -> None:
        """Forget the jails' files."""
        self._contents.close()


class Unconfined:
    """Every sandbox straight on the host; only the environment, the session and, for root, the user are its own."""

    def __init__(self, interpreter: Interpreter, code: str) -> None:
        """Use an interpreter of the host, and the runner's source."""
        self._arguments = (*python_arguments(interpreter), "-c", code)

    async def launch(self, tenancy: Tenancy) -> Started:
        """Start it in the thread's folder."""
        launch = Launch(
            arguments=self._arguments,
            uid=tenancy.uid,
            folder=tenancy.folder,
            environment={"PATH": SEARCH_PATH, "LANG": "C.UTF-8"},
        )
        process = await SandboxProcess.start(launch)
        try:
            await asyncio.to_thread(tenancy.cgroup.add, process.pid)
        except OSError as error:
            await asyncio.shield(process.end())
            message = f"a runner ended, or could not be put into its cgroup: {error}"
            raise ProviderUnavailable(message) from error
        except BaseException:
            await asyncio.shield(process.end())
            raise

        def end_strays(running: bool) -> None:  # noqa: FBT001 - the only argument
            if running:
                strays.end_descendants(process.pid)
            elif tenancy.uid is not None:
                strays.end_of_user(tenancy.uid)

        return Started(process=process, pid=process.pid, paths=HostPaths(tenancy.folder), end_strays=end_strays)

    def facts(self, probed: Iterable[IsolationFact], provided: Iterable[IsolationFact]) -> tuple[IsolationFact, ...]:
        """Say that nothing is in force."""
        del provided
        return facts.none_in_force(probed)

    def close(self) -> None:
        """Do nothing: nothing is held."""
