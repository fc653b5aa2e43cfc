"""Digests tell calls apart without telling what they were."""

from __future__ import annotations

import hashlib
import re
import stat
import threading
from pathlib import Path

import pytest

from sandgate_gateway.audit.digests import Digests
from sandgate_gateway.errors import Misconfigured


def test_equal_content_has_equal_digests_within_a_tenant(tmp_path: Path) -> None:
    """The same bytes of the same tenant give the same digest, also after a restart; anything else gives another."""
    digests = Digests.load(tmp_path / "keys" / "audit.key")
    again = Digests.load(tmp_path / "keys" / "audit.key")
    digest = digests.arguments("a", b"{}")
    assert re.fullmatch(r"hmac-sha256:[0-9a-f]{64}", digest)
    assert again.arguments("a", b"{}") == digest
    others = {
        digests.arguments("b", b"{}"),
        digests.arguments("a", b"{ }"),
        digests.command("a", b"{}"),
        Digests(bytes(32)).arguments("a", b"{}"),
        "hmac-sha256:" + hashlib.sha256(b"{}").hexdigest(),
    }
    assert len(others) == 5
    assert digest not in others


def test_the_key_is_made_once_and_private(tmp_path: Path) -> None:
    """It is 32 bytes for the owner only; gateways that start together all use the one that was first."""
    path = tmp_path / "audit.key"
    barrier = threading.Barrier(8)
    found: list[str] = []

    def load() -> None:
        barrier.wait()
        found.append(Digests.load(path).arguments("a", b""))

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_bytes()) == 32
    assert list(tmp_path.iterdir()) == [path]


def test_a_key_that_is_none_is_refused(tmp_path: Path) -> None:
    """Too short, readable by others, or a folder: each is named, and no key is shown."""
    short = tmp_path / "short"
    short.write_bytes(b"secret")
    short.chmod(0o600)
    with pytest.raises(Misconfigured, match="holds 6 bytes") as caught:
        Digests.load(short)
    assert "secret" not in str(caught.value)
    wide = tmp_path / "wide"
    wide.write_bytes(bytes(32))
    wide.chmod(0o640)
    with pytest.raises(Misconfigured, match="chmod 600"):
        Digests.load(wide)
    with pytest.raises(Misconfigured, match="cannot be used"):
        Digests.load(tmp_path)


def test_page_tokens_have_a_key_of_their_own() -> None:
    """It differs from the key in the file, so that one can never stand for the other."""
    digests = Digests(bytes(32))
    assert len(digests.page_key) == 32
    assert digests.page_key != bytes(32)
