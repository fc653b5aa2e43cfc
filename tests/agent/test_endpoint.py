"""Where the gateway is, and how the channel behaves."""

from __future__ import annotations

import json

import pytest

from sandgate.v1 import audit_service_pb2, sandbox_service_pb2, tool_service_pb2
from sandgate_agent.deadlines import Timeouts
from sandgate_agent.endpoint import Endpoint, Tls, channel_options, service_config
from sandgate_agent.errors import Misconfigured


@pytest.mark.parametrize("target", ["127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/run/x", "dns:///localhost:1"])
def test_a_token_may_travel_on_this_machine(target: str) -> None:
    """Loopback and Unix sockets need no TLS for a token."""
    assert Endpoint(target, token="t").metadata == (("authorization", "Bearer t"),)


@pytest.mark.parametrize("target", ["gateway.example:1", "10.0.0.1:1", "dns:///gateway:1", "localhost.example:1"])
def test_a_token_needs_tls_beyond_this_machine(target: str) -> None:
    """A token never travels in the clear."""
    with pytest.raises(Misconfigured, match="TLS"):
        Endpoint(target, token="t")
    Endpoint(target, token="t", tls=Tls())


def test_secrets_are_not_printed() -> None:
    """The repr of an endpoint shows neither token nor key."""
    endpoint = Endpoint("x:1", tls=Tls(private_key=b"k-e-y"), token="t-o-k")
    assert "t-o-k" not in repr(endpoint)
    assert "k-e-y" not in repr(endpoint)


def test_an_empty_target_is_refused() -> None:
    """The error names an example."""
    with pytest.raises(Misconfigured, match="unix:"):
        Endpoint("")


@pytest.mark.parametrize("name", ["control", "execution", "transfer", "capacity"])
def test_timeouts_are_above_zero(name: str) -> None:
    """A call without time is a mistake."""
    with pytest.raises(Misconfigured, match=name):
        Timeouts(**{name: 0.0})


def test_only_unary_methods_that_exist_are_retried() -> None:
    """Every method in the service config is one of the contract, and none of them streams."""
    files = (tool_service_pb2, sandbox_service_pb2, audit_service_pb2)
    services = {service.full_name: service for file in files for service in file.DESCRIPTOR.services_by_name.values()}
    config = json.loads(service_config())
    names = [name for method in config["methodConfig"] for name in method["name"]]

    assert names
    for name in names:
        method = services[name["service"]].methods_by_name[name["method"]]
        assert not method.client_streaming
        assert not method.server_streaming
    for method in config["methodConfig"]:
        assert method["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]
        assert method["retryPolicy"]["maxAttempts"] == 4
    assert config["retryThrottling"]["maxTokens"] > 0


def test_replies_of_the_contracts_size_are_taken() -> None:
    """The limits of the channel are those that the contract needs."""
    options = dict(channel_options("unix:/x", "agent"))
    assert int(options["grpc.max_receive_message_length"]) >= 4 * 1024 * 1024
    assert options["grpc.default_authority"] == "localhost"
    assert "grpc.default_authority" not in dict(channel_options("127.0.0.1:1", "agent"))
