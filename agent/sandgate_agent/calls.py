"""Awaiting a call of a synchronous gRPC channel, from any event loop.

The channel is gRPC's synchronous one, used only through futures. gRPC's asyncio channel cannot be used after a fork:
its one poller thread a process is gone in the child, and gRPC skips its own clean-up because that thread was inside. On
older versions it also disturbs the other event loops of the program with spurious errors. The synchronous channel
survives a fork, and a future of it can be awaited from whichever loop the agent runs in.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Generic, Protocol, TypeVar, cast

import grpc

from sandgate_agent.errors import GatewayUnavailable
from sandgate_agent.rpc_error import RpcFailure
from sandgate_agent.status import error_of

ResponseT = TypeVar("ResponseT")
ResponseT_co = TypeVar("ResponseT_co", covariant=True)


class Reply(Protocol[ResponseT_co]):
    """A call with one answer that has begun: gRPC's future, as far as it is used here."""

    def add_done_callback(self, fn: Callable[[object], None]) -> None:
        """Call this when the call has ended, in a thread of gRPC's."""
        ...

    def cancel(self) -> bool:
        """End the call."""
        ...

    def result(self) -> ResponseT_co:
        """Return the answer of a call that has ended, or raise its error."""
        ...


class Replies(Protocol[ResponseT_co]):
    """A call with a stream of answers that has begun."""

    def __iter__(self) -> Iterator[ResponseT_co]:
        """Iterate the answers; each step blocks."""
        ...

    def cancel(self) -> bool:
        """End the call, and with it a step that blocks."""
        ...


async def answer_of(reply: Reply[ResponseT]) -> ResponseT:
    """Wait for the one answer of a call. Cancelling the wait cancels the call, at the gateway too.

    Raises:
        SandgateError: of the class that says what can be done next.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def wake(_: object) -> None:
        # A loop that is closed has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, ended)

    reply.add_done_callback(wake)
    try:
        await ended
    except BaseException:
        # Cancelled; or its loop was closed under it, and the coroutine is dropped.
        reply.cancel()
        raise
    try:
        return reply.result()
    except grpc.FutureCancelledError as error:
        raise GatewayUnavailable("the connection to the gateway was closed while the call ran") from error
    except grpc.RpcError as error:
        raise error_of(cast("RpcFailure", error)) from error


class AnswerStream(Generic[ResponseT]):
    """The answers of a streaming call, one by one. The next is asked for only when the last was taken.

    Leaving the context before the end cancels the call.
    """

    def __init__(self, replies: Replies[ResponseT]) -> None:
        self._replies = replies
        self._steps = iter(replies)
        self._asked: queue.SimpleQueue[concurrent.futures.Future[ResponseT | None] | None] = queue.SimpleQueue()

    async def __aenter__(self) -> AsyncIterator[ResponseT]:
        # A step blocks, so each stream has a thread of its own: no stream can wait for another's. It is a daemon, which
        # the threads of an executor are not: a program that ends would wait for them as long as the gateway is silent.
        threading.Thread(target=self._step, name="sandgate-stream", daemon=True).start()
        return self._answers()

    async def __aexit__(self, *_: object) -> None:
        self._replies.cancel()
        self._asked.put(None)

    async def _answers(self) -> AsyncIterator[ResponseT]:
        while True:
            asked: concurrent.futures.Future[ResponseT | None] = concurrent.futures.Future()
            # From now on it cannot be cancelled, so that the thread may always settle it.
            asked.set_running_or_notify_cancel()
            self._asked.put(asked)
            try:
                answer = await asyncio.wrap_future(asked)
            except grpc.RpcError as error:
                raise error_of(cast("RpcFailure", error)) from error
            except asyncio.CancelledError:
                self._replies.cancel()
                raise
            if answer is None:
                return
            yield answer

    def _step(self) -> None:
        while (asked := self._asked.get()) is not None:
            try:
                answer = next(self._steps, None)
            except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
                asked.set_exception(error)
            else:
                asked.set_result(answer)


def _settle(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)
