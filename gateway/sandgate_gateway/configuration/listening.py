"""Addresses to listen on. Only this machine can be reached through any of them."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from sandgate_gateway.configuration.quantities import below_home, shown

LONGEST_SOCKET_PATH = 107
"""Bytes that the kernel takes as the path of a Unix socket."""

HIGHEST_PORT = 65535

_TCP = re.compile(r"(?:\[(?P<bracketed>[^\[\]]*)\]|(?P<plain>[^\[\]:]*)):(?P<port>\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """One address, checked: a Unix socket or a loopback address with a port."""

    target: str
    """As gRPC takes it, with an IP address instead of a name, so that it cannot resolve to another place later:
    `unix:/run/sandgate/sandgate.sock`, `127.0.0.1:50051`, `[::1]:50051`."""
    socket: Path | None = None
    """Path of the Unix socket; None for a port."""

    def __str__(self) -> str:
        return self.target


def listen_address(value: object) -> ListenAddress:
    """Check an address.

    Raises:
        ValueError: it is none, or others than this machine could reach it. No TLS and no authenticator exists yet, so
            nothing can allow that.
    """
    if isinstance(value, ListenAddress):
        return value
    if not isinstance(value, str) or not value:
        raise ValueError(f"{shown(value)} is no address; {_EXAMPLES}")
    if value.startswith("unix-abstract:"):
        raise ValueError(
            f"{shown(value)}: an abstract socket has no permissions, so every user of this machine could connect; "
            "write unix:/absolute/path"
        )
    if value.startswith("unix:"):
        return _unix(value)
    return _tcp(value)


_EXAMPLES = "write for example unix:/run/sandgate/sandgate.sock or 127.0.0.1:50051"


def _unix(value: str) -> ListenAddress:
    text = value.removeprefix("unix:").removeprefix("//")
    path = below_home(text)
    if not path.is_absolute() or "\0" in text or text.endswith("/"):
        raise ValueError(f"{shown(value)}: the socket's path must be absolute and name a file")
    if len(bytes(path)) > LONGEST_SOCKET_PATH:
        raise ValueError(f"{shown(value)}: the socket's path is longer than the {LONGEST_SOCKET_PATH} bytes that fit")
    return ListenAddress(target=f"unix:{path}", socket=path)


def _tcp(value: str) -> ListenAddress:
    match = _TCP.fullmatch(value)
    if match is None or int(match["port"]) > HIGHEST_PORT:
        hint = "put an IPv6 address into brackets: [::1]:50051" if value.count(":") > 1 else _EXAMPLES
        raise ValueError(f"{shown(value)} is no address; {hint}")
    host = match["bracketed"] if match["bracketed"] is not None else match["plain"]
    addresses = [_unmapped(address) for address in _resolve(value, host)]
    wide = [address for address in addresses if not address.is_loopback]
    if wide:
        at = "" if str(wide[0]) == host else f" ({wide[0]})"
        raise ValueError(
            f"{shown(value)}{at} can be reached from other machines, which takes the settings `tls` and "
            "`authentication`. This version has neither yet, so it listens only on unix:/path, 127.0.0.1, [::1] and "
            "localhost"
        )
    chosen = min(addresses, key=lambda address: address.version)
    bracketed = f"[{chosen}]" if chosen.version == 6 else str(chosen)  # noqa: PLR2004 - IPv6
    return ListenAddress(target=f"{bracketed}:{int(match['port'])}")


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _resolve(value: str, host: str) -> list[_Address]:
    if host in ("", "*"):
        return [ipaddress.IPv4Address(0)]  # every interface, as most programs read it
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass  # a name, or a short form of an address that the system's resolver knows
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{shown(value)}: the name {shown(host)} cannot be resolved") from error
    return [ipaddress.ip_address(entry[4][0]) for entry in found]


def _unmapped(address: _Address) -> _Address:
    """Look at the IPv4 address inside an IPv6 one: `::ffff:0.0.0.0` is every interface."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
