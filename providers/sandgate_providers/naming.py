"""Names of sandboxes: derived, never stored, so that any replica finds a sandbox again."""

from __future__ import annotations

import hashlib

from sandgate_providers.types import SandboxKey

PREFIX = "sg-"
DIGEST_DIGITS = 32


def sandbox_name(installation: str, key: SandboxKey) -> str:
    """Name the sandbox of a key: `sg-` and 32 hex digits.

    The same inputs always give the same name, other inputs another: each part is hashed behind its length, so that no
    two ways of splitting collide. The result is lower case, a valid DNS label, and tells nothing about its key.
    """
    digest = hashlib.sha256()
    for part in (installation, key.tenant, key.thread):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return PREFIX + digest.hexdigest()[:DIGEST_DIGITS]
