"""The id of an installation: made once, kept in the data folder, the same after every restart. Blocks."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from sandgate_gateway.errors import Misconfigured
from sandgate_gateway.settings import Settings

DATA_DIR_MODE = 0o711
"""Users of sandboxes pass through on the way to their own folder, and can list nothing."""

_ID = re.compile(r"[A-Za-z0-9-]{1,63}", re.ASCII)


def installation_id(settings: Settings) -> str:
    """Give the id from the settings, else from the data folder; make both id and folder when they are missing.

    Raises:
        Misconfigured: the folder cannot be used, or the file in it holds no id.
    """
    folder = settings.data_dir
    file = folder / "installation"
    try:
        _make_folder(folder)
        if settings.installation is not None:
            return settings.installation
        if not file.exists():
            _make_id(file)
        text = file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise Misconfigured(f"data_dir: {folder} cannot be used: {error.strerror}") from error
    if not _ID.fullmatch(text):
        raise Misconfigured(f"{file} holds no id; put the old one back, or remove the file to get a new one")
    return text


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(DATA_DIR_MODE)


def _make_id(file: Path) -> None:
    """Make a file that appears whole or not at all; when two gateways start at once, both use the same one."""
    fresh = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    fresh.write_text(secrets.token_hex(8) + "\n", encoding="ascii")
    try:
        os.link(fresh, file)
    except FileExistsError:
        return  # another gateway was first
    finally:
        fresh.unlink()
