"""Runs each request once: the first caller starts it, others with the same id wait for the same end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Self

from sandgate_gateway.errors import ErrorReason, GatewayError, Unavailable
from sandgate_gateway.ledger.answer import Answer
from sandgate_gateway.ledger.contract import Answered, Ledger, Running
from sandgate_gateway.ledger.memory import request_id_reused
from sandgate_gateway.ledger.request import RequestKey

LOOK_AGAIN_SECONDS = 0.1
"""How often a request that another replica runs is looked up again."""

RETRY_SECONDS = 2.0
"""When to try again after a shutdown; another replica, or this one's next life, may be there by then."""

STOP_SECONDS = 10.0
"""How long calls that were cancelled at shutdown may take to end their processes and write their records."""

Work = Callable[[], Awaitable[Answer]]
"""Does what a request asks for.

It runs in a task of its own. When that task is cancelled, the work ends what it started and still returns an answer, if
anything may have run. Whatever it raises means that nothing ran, so that a repeat may run.
"""

_logger = logging.getLogger(__name__)


class _Call:
    """A request that runs in this process."""

    __slots__ = ("abandoned", "audit_id", "begun", "digest", "key", "repeated", "task", "waiters")

    def __init__(self, key: RequestKey, digest: bytes, audit_id: str) -> None:
        self.key = key
        self.digest = digest
        self.audit_id = audit_id
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.repeated = False
        self.waiters = 0
        self.abandoned = False
        """Its last caller left before its end, so it is being cancelled."""
        self.task: asyncio.Task[Answer]


class Attachment:
    """One caller's place at a request. When the last one leaves before the end, the request is cancelled."""

    def __init__(self, enter: Callable[[], tuple[_Call, bool]]) -> None:
        self._enter = enter
        self._call, self._joined = enter()

    async def taken(self) -> tuple[str, bool]:
        """Wait until it is known whether the request runs or ran before.

        Returns:
            The audit id of the run, and whether this caller joined somebody else's.

        Raises:
            GatewayError: it was refused before it ran.
        """
        while True:
            call = self._call
            told = (call.task,) if call.abandoned else (call.begun, call.task)
            await asyncio.wait(told, return_when=asyncio.FIRST_COMPLETED)
            if call.task.cancelled():
                self._start_again()
            elif call.begun.done():
                return call.audit_id, self._joined or call.repeated
            else:
                call.task.result()

    async def answer(self) -> Answer:
        """Wait for the end.

        Raises:
            GatewayError: the gateway could not do it, and nothing ran.
        """
        while True:
            task = self._call.task
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                own = asyncio.current_task()
                if not task.cancelled() or (own is not None and own.cancelling()):
                    raise
            self._start_again()

    def __enter__(self) -> Self:
        self._call.waiters += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        call = self._call
        call.waiters -= 1
        if call.waiters == 0 and not call.task.done():
            call.abandoned = True
            call.task.cancel()

    def _start_again(self) -> None:
        """Run the request anew: whoever ran it left before anything ran, so it has no answer."""
        call, self._joined = self._enter()
        self._call.waiters -= 1
        call.waiters += 1
        self._call = call


class RequestTable:
    """Owns the tasks of all requests that run in this process, and keeps the ledger in step with them.

    A request is marked as running before its work starts, and its answer is kept before anybody gets it.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._calls: dict[RequestKey, _Call] = {}
        self._closing = False

    def attach(self, key: RequestKey, digest: bytes, audit_id: str, work: Work) -> Attachment:
        """Join the request of this key, or start it.

        Args:
            key: whose request it is.
            digest: of its content; another one under the same key is refused.
            audit_id: names the run, if this call starts it.
            work: what to do, if this call starts it.

        Raises:
            RequestRejected: it runs already, with other content (`REQUEST_ID_REUSED`).
            Unavailable: the gateway is shutting down.
        """
        return Attachment(partial(self._enter, key, digest, audit_id, work))

    async def close(self) -> None:
        """Take no more requests, cancel those that run, and wait for their answers. Idempotent."""
        self._closing = True
        tasks = [call.task for call in self._calls.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS)
            if late:
                _logger.error("%d calls did not end within %g s of the shutdown.", len(late), STOP_SECONDS)

    def _enter(self, key: RequestKey, digest: bytes, audit_id: str, work: Work) -> tuple[_Call, bool]:
        call = self._calls.get(key)
        if call is not None and not call.task.done():
            if call.digest != digest:
                raise request_id_reused()
            return call, True
        if self._closing:
            raise shutting_down()
        call = self._calls[key] = _Call(key, digest, audit_id)
        call.task = asyncio.create_task(self._run(call, work))
        call.task.add_done_callback(lambda _: self._ended(call))
        return call, False

    async def _run(self, call: _Call, work: Work) -> Answer:
        key = call.key
        standing = await self._ledger.begin(key, call.digest, call.audit_id)
        while isinstance(standing, Running):
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            standing = await self._ledger.begin(key, call.digest, call.audit_id)
        if isinstance(standing, Answered):
            call.repeated = True
            call.audit_id = standing.answer.audit_id
            call.begun.set_result(None)
            return standing.answer
        call.begun.set_result(None)
        try:
            answer = await work()
        except BaseException:
            await self._ledger.forget(key)
            raise
        if answer.pending:
            await self._ledger.suspend(key)
        else:
            await self._ledger.finish(key, answer)
        return answer

    def _ended(self, call: _Call) -> None:
        if self._calls.get(call.key) is call:
            del self._calls[call.key]
        if call.task.cancelled():
            return
        error = call.task.exception()
        if error is not None and not call.waiters and not isinstance(error, GatewayError):
            _logger.error("The request of call %s failed with nobody waiting.", call.audit_id, exc_info=error)


def shutting_down() -> Unavailable:
    """Say that nothing new is taken."""
    return Unavailable(ErrorReason.SHUTTING_DOWN, "The gateway is shutting down.", retry_after_seconds=RETRY_SECONDS)
