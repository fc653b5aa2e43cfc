"""What every provider promises.

The conformance suite holds each promise; a provider that cannot keep one declares that in its `Capabilities`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from sandgate_providers.channel.types import Chunk, Command, End, FileOperation
from sandgate_providers.types import (
    Capabilities,
    IsolationFact,
    SandboxSpec,
    SandboxStatus,
)


class Call(Protocol):
    """A call that runs in a sandbox."""

    def chunks(self) -> AsyncIterator[Chunk]:
        """Yield output as it comes, until the call has ended.

        May be iterated once. A reader that is slow holds up its own call only: the runner stops reading that command's
        pipes when the window (1 MiB) is full.
        """
        ...

    async def send(self, data: bytes) -> None:
        """Send input, waiting while the call does not take it. Ignored once the call has ended."""
        ...

    async def close_input(self) -> None:
        """End the input."""
        ...

    async def end(self) -> End:
        """Wait for the end. Output that was not read is discarded, so that the call can end."""
        ...

    async def cancel(self) -> None:
        """Ask the runner to end the whole process tree. Returns at once; `end` says when it is gone."""
        ...


class Channel(Protocol):
    """The open line into one sandbox."""

    def open(self, work: Command | FileOperation) -> AbstractAsyncContextManager[Call]:
        """Start a call. Leaving the context before its end cancels it and waits until its tree is gone.

        Raises:
            CallRefused: the runner did not take it; nothing ran.
            ChannelClosed: the channel was closed on our side.
            SandboxLost: the sandbox was dead already; nothing ran. A sandbox that dies later gives an `End` instead.
        """
        ...

    async def ping(self) -> float:
        """Measure one round trip, in seconds. Raises SandboxLost when no answer comes within five seconds."""
        ...

    async def wait_closed(self) -> None:
        """Wait until the line is closed, from either side."""
        ...

    async def close(self) -> None:
        """Close the line. Calls that run end as SANDBOX_LOST where the line is the sandbox's life."""
        ...


class Sandbox(Protocol):
    """A sandbox that is ready for calls."""

    @property
    def spec(self) -> SandboxSpec:
        """What it was made from."""
        ...

    @property
    def channel(self) -> Channel:
        """The line into it."""
        ...

    @property
    def isolation(self) -> Sequence[IsolationFact]:
        """What is in force: probed from inside before the first command, completed by the provider."""
        ...

    async def status(self) -> SandboxStatus:
        """Ask the provider how it fares."""
        ...

    async def destroy(self) -> None:
        """End it and every process in it, and wait for that. The thread's files stay. Idempotent."""
        ...


class SandboxProvider(Protocol):
    """Makes sandboxes of one kind."""

    @property
    def name(self) -> str:
        """For people and records; code asks `capabilities`."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What this provider can do."""
        ...

    async def start(self) -> None:
        """Check what is needed and clear what an earlier life left.

        Raises:
            ProviderMisconfigured: with the setting to change.
            ProviderUnavailable: the engine cannot be reached.
        """
        ...

    async def acquire(self, spec: SandboxSpec) -> Sandbox:
        """Make the sandbox, or adopt the one that exists under this name.

        Callers hold a singleflight by name; two calls for one name at once are not promised anything.

        Raises:
            CapacityExhausted: no room; try again later.
            ProviderUnavailable: it could not be made.
        """
        ...

    async def stop(self) -> None:
        """Destroy every sandbox whose life is bound to this process. Idempotent."""
        ...
