"""The shape of a gRPC failure, which gRPC itself does not type: an RpcError that is a Call as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import grpc


class RpcFailure(Protocol):
    """What every error of a sync or asyncio channel offers."""

    def code(self) -> grpc.StatusCode:
        """Return the status code."""
        ...

    def details(self) -> str | None:
        """Return the status message."""
        ...

    def trailing_metadata(self) -> Sequence[tuple[str, str | bytes]] | None:
        """Return the trailers, in which the details travel."""
        ...
