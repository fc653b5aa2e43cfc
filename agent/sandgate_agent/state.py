"""What the gateway's middleware keeps in the state of a graph."""

from __future__ import annotations

from typing import Annotated, NotRequired

from langchain.agents.middleware.types import AgentState, PrivateStateAttr
from typing_extensions import TypedDict


class SandboxState(TypedDict):
    """The sandbox that serves the thread."""

    sandbox_id: str


def latest_sandbox(known: SandboxState | None, reported: SandboxState | None) -> SandboxState | None:
    """Keep the sandbox that was reported last.

    Two tools that run at once may both report the first sandbox, and a sandbox that died is replaced by another one;
    neither is an error.
    """
    return known if reported is None else reported


class GatewayState(AgentState):
    """The state of an agent that works through a gateway."""

    sandbox: NotRequired[Annotated[SandboxState | None, latest_sandbox]]
    sandgate_invocation: NotRequired[Annotated[str, PrivateStateAttr]]
    """Minted when an agent begins, kept when its graph is resumed. It is private, so no subagent inherits it."""


def sandbox_id_of(state: object) -> str:
    """Find the sandbox in a graph's state; empty when there is none."""
    sandbox = state.get("sandbox") if isinstance(state, dict) else getattr(state, "sandbox", None)
    found = sandbox.get("sandbox_id") if isinstance(sandbox, dict) else None
    return found if isinstance(found, str) else ""


def invocation_of(state: object) -> str:
    """Find the id of the invocation in a graph's state; empty when the graph was not built with the middleware."""
    found = state.get("sandgate_invocation") if isinstance(state, dict) else getattr(state, "sandgate_invocation", None)
    return found if isinstance(found, str) else ""
