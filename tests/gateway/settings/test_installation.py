"""The id of an installation stays the same for ever."""

from __future__ import annotations

import re
import stat
import threading
from pathlib import Path

import pytest

from sandgate_gateway.configuration.installation import installation_id
from sandgate_gateway.configuration.loading import make_settings
from sandgate_gateway.errors import Misconfigured


def test_it_is_made_once(tmp_path: Path) -> None:
    """The first start makes it, with the folder; later starts and gateways that start together find the same."""
    settings = make_settings({"data_dir": str(tmp_path / "a" / "data")})
    barrier = threading.Barrier(8)
    found: list[str] = []

    def load() -> None:
        barrier.wait()
        found.append(installation_id(settings))

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert set(found) == {installation_id(settings)}
    assert re.fullmatch(r"[0-9a-f]{16}", found[0])
    assert stat.S_IMODE(settings.data_dir.stat().st_mode) == 0o711
    assert [file.name for file in settings.data_dir.iterdir()] == ["installation"]


def test_a_setting_wins(tmp_path: Path) -> None:
    """Replicas share an id by setting it; then none is made."""
    settings = make_settings({"data_dir": str(tmp_path), "installation": "blue-1"})
    assert installation_id(settings) == "blue-1"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "two words", "x" * 64, "ü", "a/b"])
def test_a_file_without_an_id_is_not_replaced(tmp_path: Path, text: str) -> None:
    """A new id would lose every sandbox that the old one names, so a person decides."""
    (tmp_path / "installation").write_text(text, encoding="utf-8")
    with pytest.raises(Misconfigured, match="holds no id"):
        installation_id(make_settings({"data_dir": str(tmp_path)}))


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """With the setting and the system's reason."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(Misconfigured, match=r"^data_dir: .*/file/data cannot be used: Not a directory$"):
        installation_id(make_settings({"data_dir": str(tmp_path / "file" / "data")}))
