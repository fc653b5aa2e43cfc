"""Where a request came from: hints that anybody can make up, so they are recorded and never trusted."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sandgate_gateway.domain.principal import Origin

_TRACE_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
"""W3C Trace Context, version 00 and what later versions keep of it."""

USER_AGENT_CHARACTERS = 256


def origin_of(peer: str, metadata: Iterable[tuple[str, str | bytes]] | None) -> Origin:
    """Take peer, user agent and trace out of what the transport knows."""
    user_agent = trace_id = span_id = ""
    for key, value in metadata or ():
        if not isinstance(value, str):
            continue
        if key == "user-agent":
            user_agent = value[:USER_AGENT_CHARACTERS]
        elif key == "traceparent" and (match := _TRACE_PARENT.fullmatch(value)):
            trace_id, span_id = match.groups()
    return Origin(peer=peer, user_agent=user_agent, trace_id=trace_id, span_id=span_id)
