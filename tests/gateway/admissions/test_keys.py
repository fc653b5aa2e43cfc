"""The file of keys."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from sandgate_gateway.admissions.keys import KEY_BYTES, load_key_ring
from sandgate_gateway.errors import Misconfigured


def line(name: str, byte: bytes) -> str:
    """Write one key."""
    return f"{name} {base64.b64encode(byte * KEY_BYTES).decode()}\n"


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    """Write a key file."""
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_first_start_makes_a_key(tmp_path: Path) -> None:
    """A missing file is made, private, and the next start reads the same key."""
    path = tmp_path / "keys" / "admissions.key"
    first = load_key_ring(path)
    assert path.stat().st_mode & 0o777 == 0o600
    again = load_key_ring(path)
    assert first.keys == again.keys
    assert first.signing_id == again.signing_id
    assert [entry.name for entry in path.parent.iterdir()] == ["admissions.key"]


def test_the_last_line_signs_and_all_verify(tmp_path: Path) -> None:
    """Rotation is adding a line."""
    ring = load_key_ring(write(tmp_path / "k", line("a", b"a") + "\n" + line("b", b"b")))
    assert ring.signing_id == "b"
    assert ring.keys == {"a": b"a" * KEY_BYTES, "b": b"b" * KEY_BYTES}


@pytest.mark.parametrize("text", ["", "\n", "a\n", "a b\n", "a !!!!\n", "not/an/id AAAA\n", "a AAAA\n"])
def test_what_is_no_key_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    """An operator learns which file, and which line when there is one."""
    with pytest.raises(Misconfigured, match=r"key file .*k"):
        load_key_ring(write(tmp_path / "k", text))


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """A key that others know signs nothing."""
    with pytest.raises(Misconfigured, match="chmod 600"):
        load_key_ring(write(tmp_path / "k", line("a", b"a"), mode=0o640))


def test_a_path_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """A folder in the place of the file is named in the error."""
    (tmp_path / "k").mkdir()
    with pytest.raises(Misconfigured, match="cannot be used"):
        load_key_ring(tmp_path / "k")
