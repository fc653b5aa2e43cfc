"""The keys that sign admissions: a small text file, shared between replicas, rotated by key id."""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandgate_gateway.errors import Misconfigured

KEY_BYTES = 32
_KEY_ID = re.compile(r"[A-Za-z0-9-]{1,32}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KeyRing:
    """Keys by id. It has no repr, so that no key reaches a log."""

    signing_id: str
    keys: Mapping[str, bytes]

    def __post_init__(self) -> None:
        if self.signing_id not in self.keys:
            raise ValueError("the signing key is one of the keys")


def load_key_ring(path: Path) -> KeyRing:
    """Read the key file; make it (mode 0600) with one fresh key when it is missing. Blocks.

    Each line is a key id, a space, and 32 bytes in base64. The last line signs, all of them verify. To rotate: add a
    line on every replica, and take the old one out when the admissions that it signed have run out.

    Raises:
        Misconfigured: it cannot be read or made, others may read it, or a line is no key.
    """
    try:
        if not path.exists():
            _make(path)
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(1 << 16).decode("ascii", "replace")
    except OSError as error:
        raise Misconfigured(f"the key file {path} cannot be used: {error.strerror}") from error
    if mode & 0o077:
        raise Misconfigured(f"the key file {path} may be read by others; run: chmod 600 {path}")
    keys: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            key_id, key = _parse(path, number, line)
            keys[key_id] = key
    if not keys:
        raise Misconfigured(f"the key file {path} holds no key; remove it to get a fresh one")
    return KeyRing(signing_id=list(keys)[-1], keys=keys)


def _parse(path: Path, number: int, line: str) -> tuple[str, bytes]:
    key_id, _, encoded = line.strip().partition(" ")
    try:
        key = base64.b64decode(encoded.strip(), validate=True)
    except binascii.Error:
        key = b""
    if not _KEY_ID.fullmatch(key_id) or len(key) < KEY_BYTES:
        raise Misconfigured(
            f"the key file {path}, line {number}: expected an id, a space and {KEY_BYTES} bytes in base64"
        )
    return key_id, key


def _make(path: Path) -> None:
    """Make a file that appears whole or not at all; when two gateways start at once, both use the same one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    line = f"{secrets.token_hex(4)} {base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode('ascii')}\n"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)
        except FileExistsError:
            return  # another gateway was first
    finally:
        fresh.unlink()
