"""The event loop of this package: one thread a process, for callers without a loop and for work that outlives them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Coroutine
from typing import TypeVar

from sandgate_agent.errors import Misconfigured

T = TypeVar("T")

CLOSE_SECONDS = 2.0
"""How long closing waits for work that is still running, and for the thread."""

_log = logging.getLogger(__name__)


class BackgroundLoop:
    """An event loop in a daemon thread. The thread is started by the first piece of work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._running: set[concurrent.futures.Future[object]] = set()

    def wait(self, work: Coroutine[object, object, T]) -> T:
        """Run work and block this thread until it has ended.

        The work sets its own deadline. A wait that is abandoned (KeyboardInterrupt, or anything else that is raised
        into this thread) cancels it.

        Raises:
            Misconfigured: this is the thread of the loop itself, which would wait for itself.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise Misconfigured("a blocking call was made in the connection's own thread; await the method instead")
        future = self.spawn(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def spawn(self, work: Coroutine[object, object, T]) -> concurrent.futures.Future[T]:
        """Run work that is owned by this loop, so that it goes on when its caller is cancelled or gone."""
        with self._lock:
            if self._closed:
                work.close()
                raise Misconfigured("the connection to the gateway is closed: the program is ending")
            if self._loop is None:
                self._start()
            assert self._loop is not None  # _start made it
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._running.add(future)  # type: ignore[arg-type]  # Future is invariant; only its end is looked at
        future.add_done_callback(self._running.discard)
        return future

    def close(self) -> None:
        """Wait briefly for work that runs, cancel what is left, and end the thread. Idempotent."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
            running = list(self._running)
        if loop is None or thread is None:
            return
        _, late = concurrent.futures.wait(running, timeout=CLOSE_SECONDS)
        for future in late:
            future.cancel()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_SECONDS)
        if thread.is_alive():
            _log.warning("the thread of the gateway's connection did not end within %s s", CLOSE_SECONDS)

    def _start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="sandgate-agent", daemon=True)
        self._thread.start()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    finally:
        loop.close()
