"""Who calls. So far everybody who can connect is the one developer of this machine."""

from __future__ import annotations

from sandgate_gateway.domain.principal import LOCAL_DEVELOPER, Principal
from sandgate_gateway.errors import ErrorReason, GatewayError

_LOCAL_PEERS = ("unix:", "ipv4:127.", "ipv6:[::1]:", "ipv6:%5B::1%5D:")
"""How gRPC names peers over Unix sockets and loopback; it escapes the brackets of IPv6 addresses."""


class Unauthenticated(GatewayError):
    """Nobody vouches for the caller."""

    def __init__(self) -> None:
        # It cannot come up: the settings refuse addresses that others could reach, and this holds even if that check
        # ever fails.
        super().__init__(ErrorReason.UNAUTHENTICATED, "This gateway serves callers on its own machine only.")


def principal_of(peer: str) -> Principal:
    """Tell who calls, by the transport's word alone.

    Args:
        peer: the peer as gRPC names it.

    Raises:
        Unauthenticated: the peer is not on this machine.
    """
    if peer.startswith(_LOCAL_PEERS):
        return LOCAL_DEVELOPER
    raise Unauthenticated
