"""Which thread, run, lease and request a tool call belongs to.

LangGraph gives a task the same id when its node is retried or resumed, in any process; so the request id is derived
from that and repeats with it. It gives no run id in a plain invoke, and a subagent that runs inside a tool sees the
thread id of its parent; so the run and the lease come from an id that the middleware mints when an agent begins.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from langchain.agents.middleware.types import ToolCallRequest
from langgraph.runtime import ExecutionInfo

from sandgate_agent.errors import Misconfigured
from sandgate_agent.state import invocation_of

NAMESPACE = uuid.UUID("7a0c9d5e-5d0b-5b7f-9a55-3f1f4f0d6c21")
"""The UUIDv5 namespace of request ids. Changing it lets resumed calls run again."""

RECORDED_BYTES = 256
"""The contract's limit for ids that are recorded but not trusted."""

_surrounding_thread: ContextVar[str] = ContextVar("sandgate_surrounding_thread", default="")
"""The thread of the tool call that this code runs in. A subagent without a thread id works in its parent's sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Where a tool call comes from."""

    thread: str
    run: str
    lease: str
    """Empty when the graph was not built with the middleware: each call is then a lease of its own."""
    task: str
    tool_call_id: str

    def request_id(self, *, attempt: int, renewal: int = 0) -> str:
        """Derive the id of a request: the same for the same call, another for each attempt that is made on purpose.

        Args:
            attempt: how often the call was answered before and tried again, by a retry middleware for example.
            renewal: how often an admission of this attempt ran out or was used up.
        """
        parts: list[str | int] = [self.thread, self.task, self.tool_call_id, attempt]
        if renewal:
            parts.append(renewal)
        return str(uuid.uuid5(NAMESPACE, json.dumps(parts)))


def recorded(value: str) -> str:
    """Cut an id that somebody else chose to what the gateway records: 256 bytes without control characters."""
    printable = "".join(character for character in value if character.isprintable())
    return printable.encode("utf-8", errors="ignore")[:RECORDED_BYTES].decode("utf-8", errors="ignore")


def mint_invocation() -> str:
    """Make the id of an invocation."""
    return uuid.uuid4().hex


def lease_of(invocation: str) -> str:
    """Name the lease under which an invocation uses its sandbox."""
    return f"lease-{invocation}"


def identity_of(request: ToolCallRequest) -> Identity:
    """Find out where a tool call comes from.

    Raises:
        Misconfigured: it has no thread id, and the graph was not built with the middleware, which would mint one.
    """
    info: ExecutionInfo | None = None
    config: Mapping[str, object] = {}
    if request.runtime is not None:
        info = request.runtime.execution_info
        config = request.runtime.config
    invocation = invocation_of(request.state)
    return Identity(
        thread=thread_of(info, config, invocation),
        run=_run_of(info, config, invocation),
        lease=lease_of(invocation) if invocation else "",
        task=info.task_id if info is not None else "",
        tool_call_id=request.tool_call["id"] or "",
    )


def thread_of(info: ExecutionInfo | None, config: Mapping[str, object], invocation: str) -> str:
    """Find the thread: the graph's, else that of the tool call around it, else one of the invocation's own.

    Raises:
        Misconfigured: there is none of the three.
    """
    configurable = config.get("configurable")
    configured = configurable.get("thread_id") if isinstance(configurable, dict) else None
    known = configured if configured is not None else (info.thread_id if info is not None else None)
    if known is not None and str(known):
        return str(known)
    if surrounding := _surrounding_thread.get():
        return surrounding
    if invocation:
        return f"invocation-{invocation}"
    raise Misconfigured(
        "the graph gives no thread id: pass config={'configurable': {'thread_id': …}}, or build the agent with "
        "create_agent(middleware=[GatewayMiddleware(…)])"
    )


@contextmanager
def inside(identity: Identity) -> Iterator[None]:
    """Let what runs in this block, subagents above all, find the thread of the call that it serves."""
    token = _surrounding_thread.set(identity.thread)
    try:
        yield
    finally:
        _surrounding_thread.reset(token)


def _run_of(info: ExecutionInfo | None, config: Mapping[str, object], invocation: str) -> str:
    metadata = config.get("metadata")
    named = metadata.get("run_id") if isinstance(metadata, dict) else None
    return str((info.run_id if info is not None else None) or config.get("run_id") or named or invocation)
