"""The border that every request passes: bytes in, bytes or one status out.

Methods are registered from the service descriptors with raw bytes, because gRPC itself answers a request that it cannot
decode with INTERNAL, and one that is too large with RESOURCE_EXHAUSTED, both without a reason. Whatever a servicer
raises ends here: errors of the gateway become their status, anything else is a bug and becomes INTERNAL.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from sandgate_gateway.errors import DeadlineTooShort, ErrorReason, GatewayError, RequestRejected
from sandgate_gateway.ledger.table import shutting_down
from sandgate_gateway.rpc import status
from sandgate_gateway.rpc.identity import principal_of
from sandgate_gateway.rpc.origin import origin_of
from sandgate_gateway.rpc.request import Request

MAX_REQUEST_BYTES = 4 << 20
"""Of a unary request: the contract's largest field, one MiB of arguments, with room to spare."""

MAX_PART_BYTES = 2 << 20
"""Of one part of an upload; the contract says one MiB of data."""

ENDLESS = frozenset({"sandgate.v1.AuditService.TailEvents"})
"""Methods that go on for as long as the caller likes, when it sets no deadline."""

LEAST_SECONDS = 0.2
"""A request with less time left is refused: its answer could hardly arrive."""

ServiceHandlers = grpc.GenericRpcHandler
"""What a server takes for one service."""

RawContext = grpc.aio.ServicerContext[bytes, bytes]

_Input = TypeVar("_Input")
_Output = TypeVar("_Output")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Method:
    """One method of a service, with the servicer's part of it."""

    name: str
    request_class: type[Message]
    serve: Callable[[Any, Request], Any]


class Boundary:
    """Turns servicers into gRPC handlers.

    A servicer has one method for each of its service's, in snake case. It takes the message, or an iterator of
    messages, and a `Request`; it returns the reply, or is an asynchronous generator of replies.
    """

    def __init__(self, *, max_seconds: float) -> None:
        """Set the time that a caller gets who sets no deadline.

        One that stops reading its replies then holds nothing of ours any more; its RPC stays open until it reads on or
        goes away, since gRPC sends no status past replies that nobody takes.
        """
        self._max_seconds = max_seconds
        self._refusing = False
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def refuse(self) -> None:
        """Answer every new request with `SHUTTING_DOWN` from now on; those that run go on."""
        self._refusing = True

    async def idle(self) -> None:
        """Wait until no request runs."""
        await self._idle.wait()

    def handlers(self, service: ServiceDescriptor, servicer: object) -> ServiceHandlers:
        """Give the handlers of one service.

        Raises:
            AttributeError: the servicer lacks a method.
        """
        methods = {item.name: self._handler(item, servicer) for item in service.methods}
        return grpc.method_handlers_generic_handler(service.full_name, methods)

    def _handler(self, item: MethodDescriptor, servicer: object) -> grpc.RpcMethodHandler[bytes, bytes]:
        serve = getattr(servicer, _snake_case(item.name))
        method = _Method(item.full_name, GetMessageClass(item.input_type), serve)
        match (item.client_streaming, item.server_streaming):
            case (False, False):
                return grpc.unary_unary_rpc_method_handler(self._guard(method, self._unary))
            case (False, True):
                return grpc.unary_stream_rpc_method_handler(self._guard(method, self._replies))
            case (True, False):
                return grpc.stream_unary_rpc_method_handler(self._guard(method, self._parts))
            case _:
                raise TypeError(f"{item.full_name}: the contract has no streams in both directions")

    def _guard(
        self, method: _Method, serve: Callable[[_Method, _Input, RawContext, Request], Awaitable[_Output]]
    ) -> Callable[[_Input, RawContext], Awaitable[_Output]]:
        async def handle(data: _Input, context: RawContext) -> _Output:
            audit_id = str(uuid.uuid4())
            self._running += 1
            self._idle.clear()
            granted = asyncio.timeout(None)
            try:
                async with granted:
                    request = self._request(context, audit_id)
                    if context.time_remaining() is None and method.name not in ENDLESS:
                        granted.reschedule(request.deadline)  # a caller's own deadline is gRPC's to keep
                    return await serve(method, data, context, request)
            except GatewayError as error:
                answer = status.to_status(error, audit_id)
            except grpc.aio.BaseError:
                raise  # the transport's own: the caller is gone
            except Exception as error:  # the border: whatever it is, a caller gets a status and nothing else of it
                if isinstance(error, TimeoutError) and granted.expired():
                    answer = status.to_status(_overdue(self._max_seconds), audit_id)
                else:
                    _logger.exception("%s failed; call %s.", method.name, audit_id)
                    answer = status.internal(audit_id)
            finally:
                self._running -= 1
                if not self._running:
                    self._idle.set()
            return await context.abort(answer.code, answer.details, answer.trailing_metadata)

        return handle

    def _request(self, context: RawContext, audit_id: str) -> Request:
        if self._refusing:
            raise shutting_down()
        peer = context.peer()
        remaining = cast("float | None", context.time_remaining())  # None without a deadline, whatever the stub says
        if remaining is None:
            remaining = self._max_seconds
        elif remaining < LEAST_SECONDS:
            raise DeadlineTooShort(f"Less than {LEAST_SECONDS:g} s are left, which is too little to start.")
        return Request(
            audit_id=audit_id,
            principal=principal_of(peer),
            origin=origin_of(peer, context.invocation_metadata()),
            received_at=datetime.now(UTC),
            deadline=asyncio.get_running_loop().time() + remaining,
        )

    @staticmethod
    async def _unary(method: _Method, data: bytes, _context: RawContext, request: Request) -> bytes:
        reply: Message = await method.serve(_decode(method, data, MAX_REQUEST_BYTES), request)
        return reply.SerializeToString()

    @staticmethod
    async def _replies(method: _Method, data: bytes, context: RawContext, request: Request) -> None:
        message = _decode(method, data, MAX_REQUEST_BYTES)
        async with aclosing(method.serve(message, request)) as replies:
            async for reply in replies:
                await context.write(reply.SerializeToString())

    @staticmethod
    async def _parts(method: _Method, parts: AsyncIterator[bytes], _context: RawContext, request: Request) -> bytes:
        messages = (_decode(method, data, MAX_PART_BYTES) async for data in parts)
        reply: Message = await method.serve(messages, request)
        return reply.SerializeToString()


def _overdue(seconds: float) -> DeadlineTooShort:
    return DeadlineTooShort(f"Without a deadline a request has {seconds:g} s, and these are over.")


def _decode(method: _Method, data: bytes, limit_bytes: int) -> Message:
    if len(data) > limit_bytes:
        raise RequestRejected(
            ErrorReason.REQUEST_TOO_LARGE,
            f"The message has {len(data)} bytes; the limit is {limit_bytes}.",
            metadata={"limit_bytes": str(limit_bytes), "size_bytes": str(len(data))},
        )
    try:
        message = method.request_class.FromString(data)
    except DecodeError as error:
        raise RequestRejected(
            ErrorReason.MALFORMED_REQUEST, "The message cannot be read: broken encoding, or text that is not UTF-8."
        ) from error
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size:
        raise RequestRejected(
            ErrorReason.UNKNOWN_FIELD,
            "The message has a field that this gateway does not know; a newer client needs a newer gateway.",
        )
    return message


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
