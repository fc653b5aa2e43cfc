"""What this client calls itself."""

from __future__ import annotations

import importlib.metadata

USER_AGENT = f"sandgate-agent/{importlib.metadata.version('sandgate')}"
"""A hint for the gateway's records, never trusted."""
