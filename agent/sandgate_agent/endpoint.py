"""Where the gateway is, and how the channel to it behaves."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import grpc

from sandgate_agent.errors import Misconfigured

MAX_RECEIVE_BYTES = 8 * 1024 * 1024
"""Twice gRPC's default. Replies stay well under 4 MiB by contract."""

RETRY_BUFFER_BYTES = 4 * 1024 * 1024
"""gRPC does not retry a request above this; its default of 256 KiB would leave out the larger `write_file` calls."""

KEEPALIVE_SECONDS = 30
"""How long a line with a running call may be silent before it is pinged. The gateway allows pings every 10 s."""

KEEPALIVE_TIMEOUT_SECONDS = 20

RECONNECT_SECONDS = (0.1, 2.0)
"""First and longest wait between attempts to connect. gRPC's default maximum, two minutes, is far too long here."""

CONNECT_TIMEOUT_SECONDS = 5
"""How long one attempt may take: many times a TLS handshake across an ocean. gRPC's default is 20."""

IDEMPOTENT_METHODS: dict[str, Sequence[str]] = {
    "sandgate.v1.ToolService": ("ListTools", "ExecuteTool", "AuthorizeToolCall", "CompleteToolCall"),
    "sandgate.v1.SandboxService": (
        "GetSandbox",
        "ListSandboxes",
        "AcquireSandbox",
        "ReleaseSandbox",
        "DeleteSandbox",
    ),
    "sandgate.v1.AuditService": ("RecordEvents",),
}
"""Unary methods whose repeat is harmless: by request id, event id, admission, or because they only read. Streams are
never repeated by the transport."""

RETRY_POLICY = {
    "maxAttempts": 4,
    "initialBackoff": "0.2s",
    "maxBackoff": "3s",
    "backoffMultiplier": 4,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
"""Four tries with jittered waits of about 0.2, 0.8 and 3 seconds: long enough for a gateway that restarts."""

RETRY_THROTTLING = {"maxTokens": 20, "tokenRatio": 0.2}
"""When half of the tokens are gone (each failure takes one, each success gives 0.2), nothing is retried any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The certificates of a connection, as PEM bytes. Without `private_key` the agent shows none of its own."""

    root_certificates: bytes | None = None
    """None: the certificate authorities that gRPC ships with."""
    private_key: bytes | None = field(default=None, repr=False)
    certificate_chain: bytes | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A gateway: `unix:///run/sandgate.sock`, `127.0.0.1:7243`, or `dns:///gateway.example:443` with TLS.

    Raises:
        Misconfigured: the target is empty, or a token would travel in the clear.
    """

    target: str
    tls: Tls | None = None
    token: str | None = field(default=None, repr=False)
    """Sent as `authorization: Bearer …`."""

    def __post_init__(self) -> None:
        if not self.target:
            raise Misconfigured("the target of the gateway is empty; pass for example unix:///run/sandgate.sock")
        if self.token is not None and self.tls is None and not _is_local(self.target):
            raise Misconfigured("a token needs TLS beyond this machine: pass `tls=Tls()` with it")

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What travels with every call."""
        return () if self.token is None else (("authorization", f"Bearer {self.token}"),)

    def open_channel(self, user_agent: str) -> grpc.Channel:
        """Open the channel. It connects at the first call."""
        options = channel_options(self.target, user_agent)
        if self.tls is None:
            return grpc.insecure_channel(self.target, options=options)
        credentials = grpc.ssl_channel_credentials(
            root_certificates=self.tls.root_certificates,
            private_key=self.tls.private_key,
            certificate_chain=self.tls.certificate_chain,
        )
        return grpc.secure_channel(self.target, credentials, options=options)


def service_config() -> str:
    """Say which methods the transport may repeat, and how."""
    methods = [
        {
            "name": [{"service": service, "method": method} for method in names],
            "retryPolicy": RETRY_POLICY,
        }
        for service, names in IDEMPOTENT_METHODS.items()
    ]
    return json.dumps({"methodConfig": methods, "retryThrottling": RETRY_THROTTLING})


def channel_options(target: str, user_agent: str) -> list[tuple[str, int | str]]:
    """List gRPC's options for a channel to this target."""
    first, longest = RECONNECT_SECONDS
    options: list[tuple[str, int | str]] = [
        ("grpc.primary_user_agent", user_agent),
        ("grpc.service_config", service_config()),
        ("grpc.enable_retries", 1),
        ("grpc.per_rpc_retry_buffer_size", RETRY_BUFFER_BYTES),
        ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
        ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_SECONDS * 1000),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.initial_reconnect_backoff_ms", round(first * 1000)),
        ("grpc.min_reconnect_backoff_ms", CONNECT_TIMEOUT_SECONDS * 1000),
        ("grpc.max_reconnect_backoff_ms", round(longest * 1000)),
        # Connections are not shared with other channels of this process, so that closing ours closes its lines.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if target.startswith("unix"):
        # A socket's path is no host name, and servers refuse it as one.
        options.append(("grpc.default_authority", "localhost"))
    return options


def _is_local(target: str) -> bool:
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    host = target.removeprefix("dns:///").removeprefix("ipv4:").removeprefix("ipv6:").rsplit(":", 1)[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
