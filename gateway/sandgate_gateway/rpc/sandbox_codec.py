"""Sandboxes: from the domain onto the wire."""

from __future__ import annotations

from sandgate.v1 import sandbox_pb2
from sandgate_gateway.rpc.result_codec import clean, timestamp
from sandgate_gateway.sandboxes.place import SandboxState, SandboxView
from sandgate_providers.types import FactSource

STATES = {
    SandboxState.CREATING: sandbox_pb2.SANDBOX_STATE_CREATING,
    SandboxState.ACTIVE: sandbox_pb2.SANDBOX_STATE_ACTIVE,
    SandboxState.PARKED: sandbox_pb2.SANDBOX_STATE_PARKED,
    SandboxState.DELETING: sandbox_pb2.SANDBOX_STATE_DELETING,
}

FACT_SOURCES = {
    FactSource.PROBE: sandbox_pb2.FACT_SOURCE_PROBE,
    FactSource.PROVIDER: sandbox_pb2.FACT_SOURCE_PROVIDER,
}


def sandbox(view: SandboxView) -> sandbox_pb2.Sandbox:
    """Put a sandbox onto the wire."""
    message = sandbox_pb2.Sandbox(
        name=f"sandboxes/{view.name}",
        thread=view.thread,
        state=STATES[view.state],
        provider=view.provider,
        create_time=timestamp(view.created_at),
        use_time=timestamp(view.used_at),
        lease_count=view.lease_count,
        call_count=view.call_count,
    )
    for fact in sorted(view.isolation, key=lambda fact: fact.name):
        message.isolation.facts.add(
            name=fact.name, enforced=fact.enforced, detail=clean(fact.detail), source=FACT_SOURCES[fact.source]
        )
    return message
