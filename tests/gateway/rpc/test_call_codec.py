"""Calls as they come from the wire."""

from __future__ import annotations

import contextlib
import uuid
from datetime import UTC, datetime

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from sandgate.v1 import tool_pb2
from sandgate_gateway.domain.principal import LOCAL_DEVELOPER, Origin
from sandgate_gateway.errors import InvalidField
from sandgate_gateway.pipeline.calls import IncomingCall
from sandgate_gateway.rpc.call_codec import incoming_call, json_object
from sandgate_gateway.rpc.request import Request
from sandgate_gateway.tools.parsing import MOST_ARGUMENTS_BYTES

REQUEST_ID = "123E4567-e89b-12d3-a456-426614174000"


def take(**fields: object) -> IncomingCall:
    """Take a call that is well formed but for these fields."""
    values: dict[str, object] = {
        "request_id": REQUEST_ID,
        "thread": "t",
        "tool": "bash",
        "arguments_json": b'{"command":"ls"}',
    }
    message = tool_pb2.ToolCall(**{**values, **fields})  # type: ignore[arg-type]  # a test writes what it means
    request = Request(
        audit_id=str(uuid.uuid4()),
        principal=LOCAL_DEVELOPER,
        origin=Origin(),
        received_at=datetime.now(UTC),
        deadline=1.0,
    )
    return incoming_call(message, request)


def test_a_call_is_taken_as_it_is() -> None:
    """Every field arrives, the argument bytes exactly; a UUID is one id in upper and lower case."""
    taken = take(
        tool_call_id="c",
        run="r",
        lease="l",
        execution_timeout=Duration(seconds=1, nanos=500_000_000),
        claims=tool_pb2.AgentClaims(agent_name="n", agent_instance="i", on_behalf_of="o"),
    )
    call = taken.call
    assert call.request_id == REQUEST_ID.lower()
    assert (call.thread, call.tool, call.arguments_json) == ("t", "bash", b'{"command":"ls"}')
    assert (call.tool_call_id, call.run, call.lease) == ("c", "r", "l")
    assert call.execution_timeout_seconds == 1.5
    assert (call.claims.agent_name, call.claims.agent_instance, call.claims.on_behalf_of) == ("n", "i", "o")
    assert taken.arguments == {"command": "ls"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("request_id", ""),
        ("request_id", "not-a-uuid"),
        ("request_id", REQUEST_ID + "\n"),
        ("thread", ""),
        ("thread", "a\0b"),
        ("thread", "a\nb"),
        ("thread", "a\x7fb"),
        ("thread", "a\x85b"),
        ("thread", "x" * 257),
        ("thread", "é" * 129),
        ("tool", ""),
        ("tool", "x" * 257),
        ("tool_call_id", "x" * 257),
        ("run", "x" * 257),
        ("lease", "\0"),
        ("execution_timeout", Duration(seconds=-1)),
        ("arguments_json", b""),
        ("arguments_json", b"{"),
        ("arguments_json", b"[]"),
        ("arguments_json", b"null"),
        ("arguments_json", b'{"a":\xff}'),
        ("arguments_json", b'{"a":"\xff"}'),
        ("arguments_json", '{"a":1}'.encode("utf-16")),
        ("arguments_json", b'{"a":NaN}'),
        ("arguments_json", b'{"a":-Infinity}'),
        ("arguments_json", b'{"a":' + b"9" * 5000 + b"}"),
        ("arguments_json", b'{"a":' * 100_000),
        ("arguments_json", b'{"a":"\0"}'),
        ("arguments_json", b'{"a":"' + b"x" * MOST_ARGUMENTS_BYTES + b'"}'),
    ],
)
def test_what_is_wrong_is_refused_with_its_field(field: str, value: object) -> None:
    """Each violation of the contract names the field that holds it."""
    with pytest.raises(InvalidField) as caught:
        take(**{field: value})
    assert caught.value.field == f"call.{field}"
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("field", "value"),
    [("thread", "x" * 256), ("thread", "é" * 128), ("thread", "a b/c:d"), ("arguments_json", b" {} ")],
)
def test_what_is_just_right_is_taken(field: str, value: object) -> None:
    """The limits themselves are inside."""
    take(**{field: value})


@pytest.mark.parametrize("claim", ["agent_name", "agent_instance", "on_behalf_of"])
def test_claims_are_bounded(claim: str) -> None:
    """What an agent says of itself cannot fill the audit."""
    with pytest.raises(InvalidField) as caught:
        take(claims=tool_pb2.AgentClaims(**{claim: "x" * 257}))
    assert caught.value.field == f"call.claims.{claim}"


def test_whole_numbers_stay_whole() -> None:
    """An integer beyond 2**53 arrives exactly, which is why arguments travel as JSON bytes."""
    assert take(arguments_json=b'{"n":9007199254740993}').arguments == {"n": 9007199254740993}


def test_arguments_are_read_only() -> None:
    """No stage can change what another one judged."""
    with pytest.raises(TypeError):
        take().arguments["command"] = "rm"  # type: ignore[index]  # that is the point


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    """Whatever comes, it is an object or an InvalidField."""
    with contextlib.suppress(InvalidField):
        assert json_object("f", data, limit_bytes=1000) is not None
