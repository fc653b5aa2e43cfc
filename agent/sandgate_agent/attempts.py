"""Tells a call that is tried again on purpose from one whose node is run again.

A retry middleware calls the same hook again within one execution of the node: LangGraph's config of the call is then
the same object. A node that is retried or resumed gets a new config, and begins at zero, so its request ids repeat.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import cast

from langchain.agents.middleware.types import ToolCallRequest
from langgraph.prebuilt.tool_node import ToolRuntime


@dataclass(slots=True)
class _Entry:
    anchor: weakref.ref[object]
    """LangGraph's runtime of the call, which lives as long as the node does and keeps the config alive."""
    answered: int = 0


class Attempts:
    """How often each running call was answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[int, _Entry] = {}

    def number(self, request: ToolCallRequest) -> int:
        """Say how often this call was answered before, within this execution of its node.

        An attempt that ended in an error of the gateway was not answered: whether it ran is not known, so its repeat
        has the same request id and cannot run twice.
        """
        with self._lock:
            entry = self._find(request)
            return 0 if entry is None else entry.answered

    def answered(self, request: ToolCallRequest) -> None:
        """Note that this attempt was answered, whatever the answer."""
        with self._lock:
            entry = self._find(request)
            if entry is not None:
                entry.answered += 1

    def _find(self, request: ToolCallRequest) -> _Entry | None:
        # LangGraph types it as always there, and says that it is missing outside a graph.
        runtime = cast("ToolRuntime | None", request.runtime)
        if runtime is None:
            return None
        key = id(runtime.config)
        entry = self._entries.get(key)
        if entry is None or entry.anchor() is None:
            entry = self._entries[key] = _Entry(weakref.ref(runtime, lambda _: self._forget(key)))
        return entry

    def _forget(self, key: int) -> None:
        # Called when the node has ended, in whatever thread drops the last reference: also in one that holds the lock.
        entry = self._entries.get(key)
        if entry is not None and entry.anchor() is None:
            self._entries.pop(key, None)
