"""The one channel of this process to each gateway, shared by every agent and thread in it.

Channels are kept in a table of the process, because the point is that there is one: connections, retry budget and
keepalive belong to the process, not to the agent that happened to be built first. After a fork the child starts with an
empty table and a loop of its own; what it inherited is never touched again.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from sandgate.v1.audit_service_pb2_grpc import AuditServiceStub
from sandgate.v1.sandbox_service_pb2_grpc import SandboxServiceStub
from sandgate.v1.tool_service_pb2_grpc import ToolServiceStub
from sandgate_agent.background import BackgroundLoop
from sandgate_agent.endpoint import Endpoint
from sandgate_agent.errors import ForkUnsupported
from sandgate_agent.version import USER_AGENT


class Connection:
    """A channel and the services behind it."""

    def __init__(self, endpoint: Endpoint, background: BackgroundLoop) -> None:
        self.endpoint = endpoint
        self.background = background
        self._channel: grpc.Channel = endpoint.open_channel(USER_AGENT)
        self.tools = ToolServiceStub(self._channel)
        self.sandboxes = SandboxServiceStub(self._channel)
        self.audit = AuditServiceStub(self._channel)
        self._lock = threading.Lock()
        self._calls = 0

    @property
    def busy(self) -> bool:
        """True while a call runs."""
        return self._calls > 0

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Count a call while it runs."""
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1

    def close(self) -> None:
        """Cancel what runs and close the lines."""
        self._channel.close()


class Connections:
    """Every connection of a process."""

    def __init__(self, *, fork_supported: bool) -> None:
        self._fork_supported = fork_supported
        self._lock = threading.Lock()
        self._background = BackgroundLoop()
        self._table: dict[Endpoint, Connection] = {}
        self._inherited: list[object] = []
        self._unusable = False
        self._busy_at_fork = False

    def to(self, endpoint: Endpoint) -> Connection:
        """Find this process's connection to a gateway, or make it.

        Raises:
            ForkUnsupported: this process was forked in a way that gRPC does not survive.
        """
        with self._lock:
            if self._unusable:
                raise ForkUnsupported
            connection = self._table.get(endpoint)
            if connection is None:
                connection = self._table[endpoint] = Connection(endpoint, self._background)
            return connection

    def close(self) -> None:
        """Let reports that are under way arrive, cancel the rest, and close everything. Idempotent."""
        with self._lock:
            connections, self._table = list(self._table.values()), {}
            background, self._background = self._background, BackgroundLoop()
        background.close()
        for connection in connections:
            connection.close()

    def before_fork(self) -> None:
        """Hold the table still, and note whether calls run."""
        self._lock.acquire()
        self._busy_at_fork = any(connection.busy for connection in self._table.values())

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Begin anew. What was inherited is kept but left alone: its threads are gone, its lines are the parent's."""
        self._inherited += [self._background, *self._table.values()]
        self._unusable = self._unusable or (self._busy_at_fork and not self._fork_supported)
        self._lock = threading.Lock()
        self._background = BackgroundLoop()
        self._table = {}


def fork_is_supported() -> bool:
    """Say whether gRPC was told to survive forks when it was loaded."""
    return os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "").lower() in {"1", "true", "yes", "on"}


PROCESS = Connections(fork_supported=fork_is_supported())
"""The connections of this process."""

os.register_at_fork(
    before=PROCESS.before_fork,
    after_in_parent=PROCESS.after_fork_in_parent,
    after_in_child=PROCESS.after_fork_in_child,
)
atexit.register(PROCESS.close)
