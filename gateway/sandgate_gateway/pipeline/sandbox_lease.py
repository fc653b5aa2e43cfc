"""Binds each call to its thread's sandbox, without opening it: a call that never gets to its tool costs no sandbox."""

from __future__ import annotations

from sandgate_gateway.domain.call import CallContext
from sandgate_gateway.domain.result import ToolResult
from sandgate_gateway.pipeline.execution import execution
from sandgate_gateway.pipeline.stage import Handler, Phase
from sandgate_gateway.sandboxes.manager import SandboxManager
from sandgate_providers.types import SandboxKey


class SandboxLease:
    """Holds the sandbox for the time of the call. The lease itself goes on until the run ends or it runs out."""

    name = "sandbox-lease"
    phases: frozenset[Phase] = frozenset()

    def __init__(self, sandboxes: SandboxManager) -> None:
        self._sandboxes = sandboxes

    async def __call__(self, context: CallContext, proceed: Handler) -> ToolResult:
        """Bind, proceed, let go."""
        lease = self._sandboxes.bind(
            SandboxKey(tenant=context.principal.tenant, thread=context.call.thread), context.call.lease
        )
        execution(context).lease = lease
        try:
            return await proceed(context)
        finally:
            lease.close()
