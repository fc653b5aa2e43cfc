"""The gRPC server: where it listens, its limits, and how it stops."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from sandgate_gateway.configuration.listening import ListenAddress
from sandgate_gateway.errors import Misconfigured
from sandgate_gateway.rpc.boundary import ServiceHandlers

MAX_METADATA_BYTES = 16 << 10
"""Of one request; a trace and a token fit many times over."""

KEEPALIVE_MS = 60_000
KEEPALIVE_TIMEOUT_MS = 20_000
"""A caller whose machine is gone is noticed after these two; a local one is noticed at once."""

LEAST_PING_INTERVAL_MS = 10_000
"""Clients may ping this often while a call is quiet; our own client pings every 30 s."""

PROBE_SECONDS = 1.0

SOCKET_UMASK = 0o177
"""A new socket is its owner's alone (mode 0600)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What the server takes."""

    max_request_bytes: int
    """Above it gRPC itself refuses, without a reason; our own limits are below and give one."""
    max_concurrent_calls: int
    reflection: bool


def build_server(
    options: ServerOptions, handlers: Sequence[ServiceHandlers], health: health_pb2_grpc.HealthServicer
) -> grpc.aio.Server:
    """Make a server with its services; it listens nowhere yet."""
    server = grpc.aio.server(
        options=(
            ("grpc.max_receive_message_length", options.max_request_bytes),
            ("grpc.max_send_message_length", options.max_request_bytes),
            ("grpc.max_metadata_size", MAX_METADATA_BYTES),
            ("grpc.keepalive_time_ms", KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", LEAST_PING_INTERVAL_MS),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.so_reuseport", 0),  # a second gateway on the same port must fail, not share its calls
        ),
        maximum_concurrent_rpcs=options.max_concurrent_calls,
    )
    server.add_generic_rpc_handlers(handlers)
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    if options.reflection:
        names = [handler.service_name() for handler in handlers if isinstance(handler, grpc.ServiceRpcHandler)]
        health_name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
        reflection.enable_server_reflection([*names, health_name, reflection.SERVICE_NAME], server)
    return server


async def listen(server: grpc.aio.Server, addresses: Sequence[ListenAddress]) -> list[str]:
    """Bind to every address; give them as clients write them, with the real port where 0 was asked for.

    Raises:
        Misconfigured: an address is taken or cannot be used.
    """
    bound = []
    for address in addresses:
        if address.socket is None:
            bound.append(_bind_port(server, address))
        else:
            await asyncio.to_thread(_clear_socket, address.socket)
            _bind_socket(server, address, address.socket)
            bound.append(address.target)
    return bound


def _bind_port(server: grpc.aio.Server, address: ListenAddress) -> str:
    host = address.target.rpartition(":")[0]
    try:
        port = server.add_insecure_port(address.target)
    except RuntimeError as error:  # all that gRPC says; the port is taken, in practice
        raise Misconfigured(f"listen: {address.target} cannot be used; is another program listening there?") from error
    return f"{host}:{port}"


def _bind_socket(server: grpc.aio.Server, address: ListenAddress, path: Path) -> None:
    # gRPC makes the socket itself, so its mode comes from the umask. Nothing else runs on this thread meanwhile; files
    # that other threads make in this moment are more private than they need be.
    previous = os.umask(SOCKET_UMASK)
    try:
        server.add_insecure_port(address.target)
    except RuntimeError as error:
        raise Misconfigured(f"listen: the socket {path} cannot be made; check its folder") from error
    finally:
        os.umask(previous)


def _clear_socket(path: Path) -> None:
    """Make the folder, and remove a socket that nobody listens on any more. gRPC would take over a live one. Blocks."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise Misconfigured(f"listen: the socket {path} cannot be made: {error.strerror}") from error
    if not stat.S_ISSOCK(mode):
        raise Misconfigured(f"listen: {path} exists and is no socket; remove it or name another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_SECONDS)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise Misconfigured(f"listen: the socket {path} cannot be used: {error.strerror or error}") from error
    raise Misconfigured(f"listen: another gateway listens on {path}")
