"""One implementation for the synchronous and the asynchronous hooks of LangChain.

The work of a hook is one coroutine. Wherever it waits, it waits through a `Caller`: the asynchronous one awaits in the
agent's event loop, the synchronous one blocks the agent's thread, so that its coroutine never suspends and can be run
to its end in one step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol, TypeVar

from sandgate_agent.client import GatewayClient

T = TypeVar("T")
ArgumentT = TypeVar("ArgumentT")


class Caller(Protocol):
    """How a hook waits for the gateway."""

    async def ask(self, work: Coroutine[object, object, T]) -> T:
        """Run a method of the client to its end. Giving up cancels it."""
        ...


class AwaitingCaller:
    """Waits in the agent's event loop."""

    async def ask(self, work: Coroutine[object, object, T]) -> T:
        """Await the work."""
        return await work


class BlockingCaller:
    """Blocks the agent's thread while the connection's own loop does the work."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client

    async def ask(self, work: Coroutine[object, object, T]) -> T:
        """Run the work without suspending this coroutine."""
        return self._client.wait(work)


def inline(function: Callable[[ArgumentT], T]) -> Callable[[ArgumentT], Awaitable[T]]:
    """Make a coroutine function of a plain one; it runs in the thread that awaits it."""

    async def call(argument: ArgumentT) -> T:
        return function(argument)

    return call


def run_in_place(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine that waits only through a `BlockingCaller`, in this thread."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    work.close()
    raise RuntimeError("a hook suspended in a thread without an event loop")
