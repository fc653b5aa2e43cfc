"""What makes two requests the same."""

from __future__ import annotations

import enum
import hashlib
from typing import NamedTuple

from sandgate_gateway.domain.call import ToolCall
from sandgate_gateway.domain.principal import Principal


class RequestKind(enum.Enum):
    """What a request asks for. One id cannot be used for two kinds."""

    EXECUTION = "execution"
    """Run a tool, streamed or not."""
    AUTHORIZATION = "authorization"
    COMPLETION = "completion"


class RequestKey(NamedTuple):
    """Whose request it is: ids of different agents never meet."""

    tenant: str
    agent: str
    request_id: str


def call_key(principal: Principal, request_id: str) -> RequestKey:
    """Name the entry of a call or an authorization."""
    return RequestKey(principal.tenant, principal.agent, request_id)


def completion_key(principal: Principal, audit_id: str) -> RequestKey:
    """Name the entry of a completion. The prefix is no UUID, so it never meets a request id."""
    return RequestKey(principal.tenant, principal.agent, f"completion:{audit_id}")


def call_digest(kind: RequestKind, call: ToolCall) -> bytes:
    """Digest what would run: the kind, the thread, the tool and the bytes of its arguments.

    Run, lease, timeout and claims are left out, because a resumed graph node repeats its request under another run and
    lease and still means the same call.
    """
    return content_digest(
        kind.value.encode(), call.thread.encode("utf-8", "surrogatepass"), call.tool.encode(), call.arguments_json
    )


def content_digest(*parts: bytes) -> bytes:
    """Digest parts behind their lengths, so that no two ways of splitting collide."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()
