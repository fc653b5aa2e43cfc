"""What of this machine is shown to every sandbox, read-only: the system's programs, and the harmless part of /etc."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")

_ETC = ("alternatives", "ld.so.cache", "localtime", "mime.types", "ssl/certs")
"""Where programs are, their libraries, the time zone, types of files, and whom to trust. No accounts, no secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """The parts of this machine that exist and are shown; /usr always is."""

    links: tuple[tuple[str, str], ...] = ()
    """Path and target of system folders that are symbolic links, such as /bin on a merged system."""
    folders: tuple[str, ...] = ()
    """System folders that are folders of their own."""
    etc: tuple[str, ...] = ()
    """Paths below /etc."""


def look(root: Path = Path("/")) -> HostView:
    """See what exists below `root`; reads names only."""
    links: list[tuple[str, str]] = []
    folders: list[str] = []
    for name in _SYSTEM_FOLDERS:
        path = root / name
        if path.is_symlink():
            links.append((f"/{name}", str(path.readlink())))
        elif path.is_dir():
            folders.append(f"/{name}")
    etc = root / "etc"
    # Debian's Python looks for its site-wide configuration there.
    pythons = sorted(item.name for item in etc.glob("python3*"))
    shown = [name for name in (*_ETC, *pythons) if (etc / name).exists()]
    return HostView(links=tuple(links), folders=tuple(folders), etc=tuple(f"/etc/{name}" for name in shown))
