"""Start a jail: hand bubblewrap its arguments and files, put the sandbox into its cgroup, then let it run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from sandgate_providers.errors import ProviderUnavailable
from sandgate_providers.local.cgroup import SandboxCgroup
from sandgate_providers.local.contents import Contents
from sandgate_providers.local.ground import Ground
from sandgate_providers.local.jail import FILES, HIDDEN, RUNNER, JailDescriptors, JailSpec, jail_arguments
from sandgate_providers.local.process import Launch, PipeReader, SandboxProcess
from sandgate_providers.local.python import python_arguments

_SECCOMP = "seccomp"
"""Name of the filter among the contents; those of the others are their paths inside."""

START_SECONDS = 10.0
"""Bubblewrap takes some 10 ms; a machine that needs this long is in trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """What is different for each jail."""

    folder: Path
    uid: int | None
    """Host user; None: the gateway's own."""
    temporary_bytes: int
    cgroup: SandboxCgroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Jail:
    """A jail that runs."""

    process: SandboxProcess
    inner_pid: int
    """On the host, the id of what is process 1 inside."""


def jail_contents(ground: Ground, code: str) -> Contents:
    """Make the files of jails whose first process runs that Python code. Close them when no more jails are made."""
    hidden = dict.fromkeys(HIDDEN, b"")
    return Contents({**FILES, RUNNER: code.encode(), **hidden, _SECCOMP: ground.seccomp})


async def launch_jail(ground: Ground, tenancy: Tenancy, contents: Contents) -> Jail:
    """Start a jail that runs the code in `contents`.

    Raises:
        ProviderUnavailable: bubblewrap failed; the message has what it said.
    """
    with contextlib.ExitStack() as kept:
        with contextlib.ExitStack() as given:
            information, inform = os.pipe()
            given.callback(os.close, inform)
            reader = PipeReader(information)
            kept.callback(reader.close)
            gate, key = os.pipe()
            given.callback(os.close, gate)
            kept.callback(os.close, key)
            # The pipe is empty: this writes one byte, and never waits.
            os.set_blocking(key, False)
            files = contents.opened(given)
            seccomp = files.pop(_SECCOMP)
            descriptors = JailDescriptors(files=tuple(files.items()), seccomp=seccomp, information=inform, gate=gate)
            process = await SandboxProcess.start(_launch(ground, tenancy, descriptors))
        try:
            inner = await _inner_pid(process, reader)
            process.hold_inner(inner)
            # Before it runs anything: memory that was taken outside would not be counted.
            await asyncio.to_thread(tenancy.cgroup.add, inner)
            os.write(key, b"\n")
        except OSError as error:
            await asyncio.shield(process.end())
            message = f"a sandbox ended, or could not be put into its cgroup: {error} {process.complaints}".rstrip()
            raise ProviderUnavailable(message) from error
        except BaseException:
            await asyncio.shield(process.end())
            raise
    return Jail(process=process, inner_pid=inner)


def _launch(ground: Ground, tenancy: Tenancy, descriptors: JailDescriptors) -> Launch:
    spec = JailSpec(
        host=ground.host,
        thread_folder=tenancy.folder,
        temporary_bytes=tenancy.temporary_bytes,
        descriptors=descriptors,
        read_only_mounts=ground.read_only_mounts,
        python_prefix=ground.interpreter.prefix,
    )
    numbers = (number for _, number in descriptors.files)
    return Launch(
        arguments=(str(ground.bubblewrap), *jail_arguments(spec), *python_arguments(ground.interpreter), RUNNER),
        uid=tenancy.uid,
        descriptors=(*numbers, descriptors.seccomp, descriptors.information, descriptors.gate),
    )


async def _inner_pid(process: SandboxProcess, reader: PipeReader) -> int:
    """Read which process is the first one inside.

    Raises:
        ProviderUnavailable: bubblewrap ended before it said so, or says nothing.
    """
    try:
        async with asyncio.timeout(START_SECONDS):
            text = await reader.until("}")
        return int(json.loads(text)["child-pid"])
    except (TimeoutError, ValueError, KeyError) as error:
        words = await process.last_words(1.0)
        message = f"bubblewrap did not make a sandbox: {words or 'it said nothing'}"
        raise ProviderUnavailable(message) from error
