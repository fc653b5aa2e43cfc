"""Digests of what was asked. Keyed, because a short command with a password in it can be guessed from a plain hash."""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from sandgate_gateway.errors import Misconfigured

KEY_BYTES = 32
DIGEST = "sha256"
_TENANT_LABEL = b"sandgate audit digests of tenant\0"
_PAGES_LABEL = b"sandgate audit page tokens"


class Digests:
    """Makes digests with a key of the tenant's own, so that two tenants' equal commands look different."""

    def __init__(self, key: bytes) -> None:
        if len(key) < KEY_BYTES:
            raise ValueError(f"the key has at least {KEY_BYTES} bytes")
        self._key = key
        self._tenants: dict[str, bytes] = {}

    @classmethod
    def load(cls, path: Path) -> Digests:
        """Read the key file; make it (mode 0600) when it is missing. Blocks.

        Raises:
            Misconfigured: it cannot be read or made, or it is no key.
        """
        return cls(load_key(path))

    @property
    def page_key(self) -> bytes:
        """A key for page tokens, derived from the same file."""
        return hmac.digest(self._key, _PAGES_LABEL, DIGEST)

    def arguments(self, tenant: str, data: bytes) -> str:
        """Digest the exact bytes of a call's arguments: `hmac-sha256:` and 64 hex digits."""
        return self._digest(tenant, b"arguments\0", data)

    def command(self, tenant: str, data: bytes) -> str:
        """Digest the exact bytes of a command, in the same form."""
        return self._digest(tenant, b"command\0", data)

    def _digest(self, tenant: str, label: bytes, data: bytes) -> str:
        key = self._tenants.get(tenant)
        if key is None:
            key = self._tenants[tenant] = hmac.digest(self._key, _TENANT_LABEL + tenant.encode(), DIGEST)
        return "hmac-sha256:" + hmac.digest(key, label + data, DIGEST).hex()


def load_key(path: Path) -> bytes:
    """Read a key file; make it (mode 0600) when it is missing. Blocks.

    Raises:
        Misconfigured: it cannot be read or made, it is too short, or others may read it.
    """
    try:
        if not path.exists():
            _make(path)
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(4096)
    except OSError as error:
        raise Misconfigured(f"the key file {path} cannot be used: {error.strerror}") from error
    if mode & 0o077:
        raise Misconfigured(f"the key file {path} may be read by others; run: chmod 600 {path}")
    if len(key) < KEY_BYTES:
        raise Misconfigured(f"the key file {path} holds {len(key)} bytes; a key has at least {KEY_BYTES}")
    return key


def _make(path: Path) -> None:
    """Make a key that appears whole or not at all; when two gateways start at once, both use the same one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)
        except FileExistsError:
            return  # another gateway was first
    finally:
        fresh.unlink()
