"""Carries output from a running tool to the stream of one caller, at the caller's speed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from sandgate_gateway.domain.call import Notice
from sandgate_gateway.domain.result import OutputChunk

MAX_ITEMS = 8
"""Chunks that wait for the caller; at 256 KiB each, 2 MiB a stream. A full relay stops its own tool and no other."""

MAX_CHUNK_BYTES = 256 << 10
"""The contract's limit."""


class OutputRelay:
    """A bounded queue with one reader, who may leave before the end: then output is discarded."""

    def __init__(self) -> None:
        self._items: deque[OutputChunk | Notice] = deque()
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()
        self._ended = False
        self._left = False

    async def put(self, item: OutputChunk | Notice) -> None:
        """Hand one item on, in parts when it is too large for one message; waits while the reader is behind."""
        if isinstance(item, OutputChunk) and len(item.data) > MAX_CHUNK_BYTES:
            for start in range(0, len(item.data), MAX_CHUNK_BYTES):
                await self._put(OutputChunk(item.stream, item.data[start : start + MAX_CHUNK_BYTES]))
        else:
            await self._put(item)

    def end(self) -> None:
        """Let the reader stop once it has everything."""
        self._ended = True
        self._filled.set()

    def leave(self) -> None:
        """Take no more: whoever waits to put goes on, and everything is discarded."""
        self._left = True
        self._items.clear()
        self._emptied.set()

    async def items(self) -> AsyncIterator[OutputChunk | Notice]:
        """Yield what comes, until the end."""
        while True:
            while self._items:
                item = self._items.popleft()
                self._emptied.set()
                yield item
            if self._ended:
                return
            self._filled.clear()
            await self._filled.wait()

    async def _put(self, item: OutputChunk | Notice) -> None:
        while len(self._items) >= MAX_ITEMS and not self._left:
            self._emptied.clear()
            await self._emptied.wait()
        if not self._left:
            self._items.append(item)
            self._filled.set()
