"""Paths of the contract where nothing is mounted: without a jail `/mnt/user-data` is the thread's folder on the host.

Working directories and the paths of file operations are translated on their way in, and paths in answers on their way
out. The text of a command and what it prints are not: they belong to the command.
"""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from sandgate_providers.channel.types import Chunk, Command, End, FileOperation
from sandgate_providers.contract import Call, Channel
from sandgate_providers.types import USER_DATA, JsonValue


class HostPaths:
    """Translates between the paths of the contract and those of one thread's folder."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, an absolute path."""
        self._folder = str(folder)

    def inward(self, path: str) -> str:
        """Give the path on the host; others than the thread's stay as they are."""
        return _moved(path, USER_DATA, self._folder)

    def outward(self, value: JsonValue) -> JsonValue:
        """Give an answer with the paths that it names as the contract says them."""
        if isinstance(value, list):
            return [self.outward(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {name: self._named(name, item) for name, item in value.items()}

    def said(self, message: str) -> str:
        """Give a message about a path, which the message begins with or quotes."""
        return message.replace(self._folder, USER_DATA)

    def _named(self, name: str, value: JsonValue) -> JsonValue:
        if name == "path" and isinstance(value, str):
            return _moved(value, self._folder, USER_DATA)
        if name == "path_base64" and isinstance(value, str):
            path = os.fsdecode(base64.b64decode(value))
            return base64.b64encode(os.fsencode(_moved(path, self._folder, USER_DATA))).decode("ascii")
        return self.outward(value)


class MappedChannel:
    """Implements `contract.Channel` over another one, with paths translated."""

    def __init__(self, channel: Channel, paths: HostPaths) -> None:
        """Use the channel, which belongs to it from now on."""
        self._channel = channel
        self._paths = paths

    @contextlib.asynccontextmanager
    async def open(self, work: Command | FileOperation) -> AsyncIterator[MappedCall]:
        """Start a call."""
        async with self._channel.open(self._mapped(work)) as call:
            yield MappedCall(call, self._paths)

    async def ping(self) -> float:
        """Measure one round trip."""
        return await self._channel.ping()

    async def wait_closed(self) -> None:
        """Wait until the line is closed."""
        await self._channel.wait_closed()

    async def close(self) -> None:
        """Close the line."""
        await self._channel.close()

    def _mapped(self, work: Command | FileOperation) -> Command | FileOperation:
        if isinstance(work, Command):
            return replace(work, working_directory=self._paths.inward(work.working_directory))
        path = work.arguments.get("path")
        if not isinstance(path, str):
            return work
        return replace(work, arguments={**work.arguments, "path": self._paths.inward(path)})


class MappedCall:
    """Implements `contract.Call` over another one."""

    def __init__(self, call: Call, paths: HostPaths) -> None:
        """Use the call."""
        self._call = call
        self._paths = paths

    def chunks(self) -> AsyncIterator[Chunk]:
        """Yield output as it is."""
        return self._call.chunks()

    async def send(self, data: bytes) -> None:
        """Send input."""
        await self._call.send(data)

    async def close_input(self) -> None:
        """End the input."""
        await self._call.close_input()

    async def end(self) -> End:
        """Wait for the end, and give it with the paths of the contract."""
        end = await self._call.end()
        return replace(end, value=self._paths.outward(end.value), error_message=self._paths.said(end.error_message))

    async def cancel(self) -> None:
        """Ask the runner to end the whole process tree."""
        await self._call.cancel()


def _moved(path: str, old: str, new: str) -> str:
    """Move a path from one folder to another, when it is in the first."""
    if path == old or path.startswith(f"{old}/"):
        return new + path[len(old) :]
    return path
