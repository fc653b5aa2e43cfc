"""Fields, pages, identity, origin: the small checks of the border."""

from __future__ import annotations

import base64

import pytest

from sandgate_gateway.domain.principal import LOCAL_DEVELOPER
from sandgate_gateway.errors import ErrorReason, InvalidField, RequestRejected
from sandgate_gateway.rpc import fields
from sandgate_gateway.rpc.identity import Unauthenticated, principal_of
from sandgate_gateway.rpc.origin import origin_of
from sandgate_gateway.rpc.paging import page

ITEMS = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    "peer", ["unix:", "unix:/run/x.sock", "ipv4:127.0.0.1:5", "ipv4:127.9.9.9:5", "ipv6:%5B::1%5D:5"]
)
def test_local_callers_are_the_developer(peer: str) -> None:
    """The operating system decides who may connect."""
    assert principal_of(peer) == LOCAL_DEVELOPER


@pytest.mark.parametrize(
    "peer", ["", "ipv4:10.0.0.1:5", "ipv4:1127.0.0.1:5", "ipv6:%5B::2%5D:5", "ipv6:%5B::1:2%5D:5", "x"]
)
def test_nobody_else_is_anybody(peer: str) -> None:
    """Fails closed, should the gateway ever listen where others can reach it."""
    with pytest.raises(Unauthenticated):
        principal_of(peer)


def test_the_origin_is_a_hint() -> None:
    """User agent and trace are taken when they look right, and are bounded."""
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    origin = origin_of("unix:", [("user-agent", "x" * 1000), ("traceparent", f"00-{trace}-{span}-01"), ("b-bin", b"x")])
    assert (origin.peer, len(origin.user_agent), origin.trace_id, origin.span_id) == ("unix:", 256, trace, span)
    assert origin_of("unix:", [("traceparent", "00-x-y-01")]).trace_id == ""
    assert origin_of("unix:", None).user_agent == ""


def names(size: int, token: str) -> tuple[list[str], str]:
    """Get one page of the items."""
    shown, following = page(ITEMS, str, size=size, token=token)
    return list(shown), following


def test_pages_give_everything_once() -> None:
    """Walking the pages gives each item once and ends with an empty token."""
    seen: list[str] = []
    token = ""
    while True:
        shown, token = names(2, token)
        seen += shown
        if not token:
            break
    assert seen == ITEMS


def test_a_page_that_ends_the_list_has_no_token() -> None:
    """Also when the list ends exactly there, and when it is empty."""
    assert names(5, "") == (ITEMS, "")
    assert names(0, "") == (ITEMS, "")
    assert page([], str, size=3, token="") == ([], "")


def test_an_item_that_goes_away_loses_none() -> None:
    """The token names the last item that was shown, not a position."""
    _, token = names(2, "")
    shown, _ = page(["a", "c", "d"], str, size=9, token=token)
    assert list(shown) == ["c", "d"]


@pytest.mark.parametrize("token", ["x", "é", "====", base64.urlsafe_b64encode(b"zzz").decode(), "YWZ0ZXI6_w=="])
def test_tokens_that_are_not_ours_are_refused(token: str) -> None:
    """None raises anything else."""
    with pytest.raises(RequestRejected) as caught:
        names(2, token)
    assert caught.value.reason is ErrorReason.PAGE_TOKEN_INVALID


def test_page_sizes_are_clamped() -> None:
    """Zero is the default, the most is 1,000, less than nothing is refused."""
    assert (fields.page_size(0), fields.page_size(7), fields.page_size(5000)) == (100, 7, 1000)
    with pytest.raises(InvalidField):
        fields.page_size(-1)


@pytest.mark.parametrize(
    "name", ["", "sg-1", "sandboxes/", "sandboxes/A", "sandboxes/a/b", "sandboxes/" + "a" * 64, "sandboxes/a\n"]
)
def test_resource_names_have_one_form(name: str) -> None:
    """What has another form is a wrong field, not an unknown sandbox."""
    with pytest.raises(InvalidField):
        fields.sandbox_name(name)
    assert fields.sandbox_name("sandboxes/sg-0a") == "sg-0a"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "x",
        "/etc/passwd",
        "/mnt/user-data",
        "/mnt/user-data/",
        "/mnt/user-data/../x",
        "/mnt/user-data/a\0b",
        "/mnt/user-datax/y",
        "//mnt/user-data/x",
        "/mnt/user-data/" + "x" * 5000,
    ],
)
def test_transfers_stay_below_the_threads_folder(path: str) -> None:
    """Nothing else of a sandbox is read or written by callers."""
    with pytest.raises(InvalidField):
        fields.path_below("path", path, "/mnt/user-data")


@pytest.mark.parametrize("path", ["/mnt/user-data/x", "/mnt/user-data/a/../b", "/mnt/user-data/..x"])
def test_paths_below_are_taken(path: str) -> None:
    """Dots inside are no harm."""
    assert fields.path_below("path", path, "/mnt/user-data") == path
