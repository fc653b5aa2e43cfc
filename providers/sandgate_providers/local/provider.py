"""The provider of sandboxes on this machine."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import secrets
from collections.abc import Mapping

from sandgate_providers.channel.client import RunnerChannel
from sandgate_providers.channel.configuration import RunnerConfiguration
from sandgate_providers.errors import (
    CapacityExhausted,
    ProviderMisconfigured,
    ProviderUnavailable,
    SandboxLost,
)
from sandgate_providers.local import facts, strays
from sandgate_providers.local.cgroup import Cgroups, SandboxCgroup
from sandgate_providers.local.confinement import Bubblewrap, Confinement, Started, Unconfined
from sandgate_providers.local.folders import ThreadFolders
from sandgate_providers.local.ground import find_ground
from sandgate_providers.local.launch import Tenancy
from sandgate_providers.local.mapping import HostPaths, MappedChannel
from sandgate_providers.local.probe import try_jail
from sandgate_providers.local.python import find_python
from sandgate_providers.local.sandbox import LocalSandbox, Parts
from sandgate_providers.local.settings import LocalOptions
from sandgate_providers.local.users import UserRange
from sandgate_providers.runner.bundle import runner_source
from sandgate_providers.types import WORKSPACE, Capabilities, IsolationFact, JsonValue, SandboxSpec

_log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
"""A place comes free when a thread's sandbox is released; runs take seconds to minutes."""

CONNECT_SECONDS = 10.0
"""A runner answers after some 50 ms; a machine that needs this long is in trouble."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def create(options: Mapping[str, JsonValue], *, installation: str) -> LocalProvider:
    """Make the provider from its part of the configuration; nothing is touched before `start`.

    Args:
        options: The fields of `settings.LocalOptions`.
        installation: Is a part of sandboxes' names already, and `data_dir` belongs to one installation; so not used.

    Raises:
        ProviderMisconfigured: with the name of the key.
    """
    del installation
    return LocalProvider(LocalOptions.from_mapping(options))


class LocalProvider:
    """Implements `contract.SandboxProvider` with bubblewrap, in the process that is the gateway.

    Must be started in an event loop whose thread lives as long as the sandboxes shall: see `process`.
    """

    def __init__(self, options: LocalOptions) -> None:
        """Use checked options."""
        self._options = options
        # A gateway that is root could read everything on the host from a sandbox, whatever number it has inside.
        self._users = UserRange(*options.uid_range, str(options.data_dir)) if os.geteuid() == 0 else None
        self._folders = ThreadFolders(options.data_dir, self._users)
        self._cgroups = Cgroups((), "")
        self._confinement: Confinement | None = None
        self._sandboxes: dict[str, LocalSandbox] = {}
        self._making = 0

    @property
    def name(self) -> str:
        """For people and records."""
        return "local"

    @property
    def capabilities(self) -> Capabilities:
        """The line is the sandbox's life; without a jail nothing is mounted, and paths are those of the host."""
        return Capabilities(thread_folder_mounted=self._options.isolation == "bubblewrap", reattach=False)

    async def start(self) -> None:
        """Check this machine, clear what an earlier life left, and try one jail.

        Raises:
            ProviderMisconfigured: with the setting to change.
        """
        if self._confinement is not None:
            return
        await asyncio.to_thread(self._folders.open)
        try:
            left = await asyncio.to_thread(strays.end_jails, self._folders.data_dir)
            if left:
                _log.warning("ended %d sandboxes that an earlier life of this gateway left half made", left)
            self._cgroups = await asyncio.to_thread(self._discover_cgroups)
            self._confinement = await (self._jail() if self._options.isolation == "bubblewrap" else self._no_jail())
        except BaseException:
            self._folders.close()
            raise

    async def acquire(self, spec: SandboxSpec) -> LocalSandbox:
        """Make the sandbox, or give the one that lives under this name.

        Raises:
            CapacityExhausted: `max_sandboxes` live already, or no host user is free.
            ProviderUnavailable: it could not be made, or another key's sandbox has the name.
            ValueError: the name is not a DNS label; it was not made by `naming.sandbox_name`.
        """
        if not _NAME.fullmatch(spec.name):
            message = f"{spec.name!r} is not the name of a sandbox"
            raise ValueError(message)
        existing = self._sandboxes.get(spec.name)
        if existing is not None:
            if existing.spec.key != spec.key:
                message = f"sandbox {spec.name} belongs to another key"
                raise ProviderUnavailable(message)
            if existing.usable:
                return existing
            await existing.destroy()
        await self._find_room()
        self._making += 1
        try:
            sandbox = await self._make(spec)
        finally:
            self._making -= 1
        if self._confinement is None:
            await asyncio.shield(sandbox.destroy())
            message = "the local provider was stopped"
            raise ProviderUnavailable(message)
        self._sandboxes[spec.name] = sandbox
        return sandbox

    async def stop(self) -> None:
        """Destroy every sandbox. Idempotent.

        Raises:
            ProviderUnavailable: the kernel did not end one of them in time; the others are gone.
        """
        if self._confinement is not None:
            self._confinement.close()
            self._confinement = None
        results = await asyncio.gather(
            *(sandbox.destroy() for sandbox in list(self._sandboxes.values())), return_exceptions=True
        )
        self._folders.close()
        for result in results:
            if result is not None:
                raise result

    def _discover_cgroups(self) -> Cgroups:
        # This folder is locked for us, so whatever bears its mark and is still there was left by a gateway that died.
        mark = hashlib.sha256(os.fsencode(self._folders.root)).hexdigest()[:8]
        try:
            return Cgroups.discover(self._options.cgroup_parent, f"sandgate-{mark}-")
        except OSError as error:
            message = f"cgroups cannot be looked at: {error}"
            raise ProviderMisconfigured(message) from error

    async def _jail(self) -> Confinement:
        uid = None if self._users is None else self._users.first
        ground = await asyncio.to_thread(find_ground, self._options, uid, self._folders.data_dir)
        await try_jail(ground, await asyncio.to_thread(self._folders.probe_folder), uid)
        return await asyncio.to_thread(Bubblewrap, ground, await asyncio.to_thread(runner_source))

    async def _no_jail(self) -> Confinement:
        _log.warning(
            "isolation is none: sandboxes run straight on this machine, with its network and its files, as %s",
            "the gateway's own user" if self._users is None else "host users of their own",
        )
        uid = None if self._users is None else self._users.first
        interpreter = await asyncio.to_thread(find_python, self._options.python, uid, jailed=False)
        return Unconfined(interpreter, await asyncio.to_thread(runner_source))

    async def _find_room(self) -> None:
        """Raise CapacityExhausted when there is none; sandboxes that died by themselves make room."""
        if len(self._sandboxes) + self._making < self._options.max_sandboxes:
            return
        dead = [sandbox for sandbox in self._sandboxes.values() if not sandbox.usable]
        results = await asyncio.gather(*(sandbox.destroy() for sandbox in dead), return_exceptions=True)
        for result in results:
            # One that the kernel holds on to keeps its place; it must not keep the others'.
            if isinstance(result, ProviderUnavailable):
                _log.warning("%s", result)
            elif result is not None:
                raise result
        if len(self._sandboxes) + self._making >= self._options.max_sandboxes:
            message = f"all {self._options.max_sandboxes} local sandboxes are in use (max_sandboxes)"
            raise CapacityExhausted(message, retry_after_seconds=RETRY_SECONDS)

    async def _make(self, spec: SandboxSpec) -> LocalSandbox:
        confinement = self._confinement
        if confinement is None:
            message = "the local provider is not started"
            raise ProviderUnavailable(message)
        folder = await asyncio.to_thread(self._folders.prepare, spec.name)
        try:
            cgroup = await asyncio.to_thread(self._cgroups.create, spec.name, spec.limits)
            tenancy = Tenancy(
                folder=folder.path,
                uid=None if self._users is None else folder.uid,
                temporary_bytes=spec.limits.temporary_bytes,
                cgroup=cgroup,
            )
            started = await confinement.launch(tenancy)
            return await self._connect(spec, confinement, started, cgroup)
        except OSError as error:
            await asyncio.shield(asyncio.to_thread(self._cgroups.remove, spec.name))
            message = f"sandbox {spec.name} could not be made: {error}"
            raise ProviderUnavailable(message) from error
        except BaseException:
            await asyncio.shield(asyncio.to_thread(self._cgroups.remove, spec.name))
            raise

    async def _connect(
        self, spec: SandboxSpec, confinement: Confinement, started: Started, cgroup: SandboxCgroup
    ) -> LocalSandbox:
        line: RunnerChannel | None = None
        try:
            line = await RunnerChannel.connect(
                started.process.stream,
                key=secrets.token_bytes(32),
                configuration=self._configuration(spec, started.paths),
                timeout_seconds=CONNECT_SECONDS,
            )
            isolation = confinement.facts(line.facts, await asyncio.to_thread(self._facts, spec, started, cgroup))
        except BaseException as error:
            # In one piece: who is cancelled twice does not wait for it, but all of it is done.
            await asyncio.shield(_abandon(started, line))
            if isinstance(error, SandboxLost):
                message = f"the runner of {spec.name} did not start: {error}; it said: {started.process.complaints}"
                raise ProviderUnavailable(message) from error
            raise
        parts = Parts(
            spec=spec,
            process=started.process,
            line=line,
            channel=line if started.paths is None else MappedChannel(line, started.paths),
            isolation=isolation,
            cgroups=self._cgroups,
            cgroup=cgroup,
            end_strays=started.end_strays,
        )
        return LocalSandbox(parts, self._forget)

    def _configuration(self, spec: SandboxSpec, paths: HostPaths | None) -> RunnerConfiguration:
        return RunnerConfiguration(
            limits=spec.limits,
            # Where the sandbox is limited as a whole, address space is free; some runtimes reserve much of it.
            limit_memory_per_process=not self._cgroups.limits_memory,
            environment=spec.environment,
            home=WORKSPACE if paths is None else paths.inward(WORKSPACE),
        )

    def _facts(self, spec: SandboxSpec, started: Started, cgroup: SandboxCgroup) -> list[IsolationFact]:
        provided = [
            facts.host_user(started.pid, own=self._users is not None),
            facts.no_user_namespaces(),
            facts.temporary_limit(spec.limits.temporary_bytes),
        ]
        limit = cgroup.memory_limit_bytes()
        if limit is not None:
            provided.append(facts.memory_limit(limit, self._cgroups.versions))
        return provided

    def _forget(self, sandbox: LocalSandbox) -> None:
        if self._sandboxes.get(sandbox.spec.name) is sandbox:
            del self._sandboxes[sandbox.spec.name]


async def _abandon(started: Started, line: RunnerChannel | None) -> None:
    """End a runner that became no sandbox."""
    if line is not None:
        await line.close()
    await started.process.end()
