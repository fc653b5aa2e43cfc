"""Nobody but this machine can reach the gateway: no TLS and no authenticator exists yet."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from sandgate_gateway.configuration.listening import ListenAddress, listen_address


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("127.0.0.1:50051", "127.0.0.1:50051"),
        ("127.0.0.2:0", "127.0.0.2:0"),
        ("127.255.255.254:1", "127.255.255.254:1"),
        ("[::1]:50051", "[::1]:50051"),
        ("[0:0:0:0:0:0:0:1]:1", "[::1]:1"),
        ("[::ffff:127.0.0.1]:7", "127.0.0.1:7"),
        ("localhost:50051", "127.0.0.1:50051"),
        ("LOCALHOST:00050", "127.0.0.1:50"),
        ("127.1:50051", "127.0.0.1:50051"),
        ("2130706433:50051", "127.0.0.1:50051"),
    ],
)
def test_loopback_is_possible(text: str, target: str) -> None:
    """However it is written; what gRPC gets is the address itself, which cannot resolve to another place later."""
    assert listen_address(text) == ListenAddress(target=target)


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0:50051",
        "[::]:50051",
        "[::0]:1",
        ":50051",
        "*:50051",
        "[]:50051",
        "0:50051",
        "0x0:50051",
        "10.0.0.1:50051",
        "192.168.1.1:1",
        "169.254.169.254:1",
        "8.8.8.8:1",
        "[::ffff:0.0.0.0]:1",
        "[::ffff:10.0.0.1]:1",
        "[::127.0.0.1]:1",
        "[fe80::1]:1",
        "[fe80::1%lo]:1",
        "[2001:db8::1]:1",
        "128.0.0.1:1",
    ],
)
def test_wider_addresses_are_refused_and_why(text: str) -> None:
    """The message names the settings that would be needed and says that this version does not have them."""
    with pytest.raises(ValueError, match="can be reached from other machines") as caught:
        listen_address(text)
    assert "`tls`" in str(caught.value)
    assert "`authentication`" in str(caught.value)
    assert "This version has neither" in str(caught.value)


def test_a_name_counts_as_what_it_resolves_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with one address outside is refused, even `localhost`; with none it is pinned to its address."""
    answers: dict[str, list[str]] = {
        "localhost": ["127.0.0.1", "10.1.2.3"],
        "inside.example": ["::1", "127.0.0.5"],
        "six.example": ["::1"],
        "outside.example": ["203.0.113.7"],
    }

    def resolve(host: str, *_arguments: object, **_options: object) -> list[tuple[object, ...]]:
        if host not in answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (address, 0)) for address in answers[host]]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)  # stands in for the machine's resolver
    assert listen_address("inside.example:1").target == "127.0.0.5:1"
    assert listen_address("six.example:1").target == "[::1]:1"
    for name, address in (("localhost", "10.1.2.3"), ("outside.example", "203.0.113.7")):
        with pytest.raises(ValueError, match=rf'"{name}:1" \({address}\) can be reached from other machines'):
            listen_address(f"{name}:1")
    with pytest.raises(ValueError, match=r'the name "nowhere\.example" cannot be resolved'):
        listen_address("nowhere.example:1")


@pytest.mark.parametrize(
    "value",
    ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1", "http://127.0.0.1:1", 50051, None,
     "127.0.0.1:1 ", "[::1", "tcp:1:2", True, ["127.0.0.1:1"], "127.0.0.1:¹"],
)  # fmt: skip
def test_what_is_no_address_is_refused(value: object) -> None:
    """With an example of one."""
    with pytest.raises(ValueError, match="is no address"):
        listen_address(value)


def test_an_ipv6_address_wants_brackets() -> None:
    """Without them nobody knows where the port begins."""
    with pytest.raises(ValueError, match=r"put an IPv6 address into brackets"):
        listen_address("::1:50051")


def test_unix_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways that gRPC writes them, and the home folder."""
    monkeypatch.setenv("HOME", "/home/somebody")
    plain = ListenAddress(target="unix:/run/x.sock", socket=Path("/run/x.sock"))
    assert listen_address("unix:/run/x.sock") == plain
    assert listen_address("unix:///run/x.sock") == plain
    assert str(plain) == "unix:/run/x.sock"
    assert listen_address("unix:~/x.sock").socket == Path("/home/somebody/x.sock")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("unix:x.sock", "must be absolute"),
        ("unix:", "must be absolute"),
        ("unix:/run/", "must be absolute and name a file"),
        ("unix:/a\0b", "must be absolute"),
        ("unix:/" + "x" * 107, "longer than the 107 bytes"),
        ("unix:/" + "é" * 54, "longer than the 107 bytes"),
        ("unix-abstract:sandgate", "no permissions"),
    ],
)
def test_sockets_that_cannot_be_protected_or_made_are_refused(text: str, problem: str) -> None:
    """Relative, too long for the kernel, or without permissions."""
    with pytest.raises(ValueError, match=problem):
        listen_address(text)
