"""What a stage of the pipeline is."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Protocol

from sandgate_gateway.domain.call import CallContext
from sandgate_gateway.domain.result import ToolResult

Handler = Callable[[CallContext], Awaitable[ToolResult]]
"""What a stage proceeds to: the stages inside it, with the tool at the centre."""


class Phase(enum.Enum):
    """What a stage also does for calls that run in the agent's own process."""

    DECIDE = "decide"
    """It may refuse a call, so it takes part in authorizations."""
    SHAPE = "shape"
    """It shapes results, so it takes part in completions."""


class Stage(Protocol):
    """One layer of the onion.

    A stage sees the call on its way in and the result on its way out. It may refuse by returning a result without
    proceeding. It adds decisions and annotations to the context and never changes the call.
    """

    @property
    def name(self) -> str:
        """Kebab-case; the prefix of the stage's annotations."""
        ...

    @property
    def phases(self) -> frozenset[Phase]:
        """What it does beyond calls that the gateway runs itself; every stage takes part in those."""
        ...

    async def __call__(self, context: CallContext, proceed: Handler) -> ToolResult:
        """Handle the call. Must proceed at most once, and let cancellation and `GatewayError` pass."""
        ...
