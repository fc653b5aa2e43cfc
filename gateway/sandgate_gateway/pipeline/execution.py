"""The context that stages pass on, with what belongs to the pipeline alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from sandgate_gateway.domain.call import CallContext
from sandgate_gateway.domain.result import ToolResult
from sandgate_gateway.pipeline.blocks import Blocks
from sandgate_gateway.sandboxes.lease import BoundLease


@dataclass(slots=True, kw_only=True)
class Execution(CallContext):
    """A call on its way through the stages, as the pipeline makes it."""

    lease: BoundLease | None = None
    """Bound by the sandbox stage, opened by dispatch."""
    blocks: Blocks | None = None
    """Made by the recorder, once a call."""
    left_open: bool = False
    """True when the call goes on in the agent's own process: its *finished* record is written when it is completed."""

    reported: ToolResult | None = None
    """What the agent says of such a call, while it is completed."""

    @property
    def anything_ran(self) -> bool:
        """True once something may have run in a sandbox."""
        return self.lease is not None and self.lease.anything_ran


def execution(context: CallContext) -> Execution:
    """Give the pipeline's view of a context; every context in a pipeline was made by it."""
    return cast("Execution", context)
