"""Pages of lists that are ordered by name: a page token says after which name the next page begins."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

from sandgate_gateway.rpc import fields

_Item = TypeVar("_Item")


def page(items: Sequence[_Item], name: Callable[[_Item], str], *, size: int, token: str) -> tuple[Sequence[_Item], str]:
    """Give one page of items and the token of the next one, which is empty when there is none.

    A list may change between two pages: what was there all the time is shown once.

    Args:
        items: in order of their names.
        name: gives an item's name.
        size: as the request says; zero means the default.
        token: from an earlier page; empty means from the start.

    Raises:
        RequestRejected: the token is none of ours.
    """
    start = bisect_right(items, _after(token), key=name) if token else 0
    end = start + fields.page_size(size)
    shown = items[start:end]
    return shown, _token(name(shown[-1])) if end < len(items) else ""


def _token(name: str) -> str:
    return base64.urlsafe_b64encode(b"after:" + name.encode()).decode("ascii")


def _after(token: str) -> str:
    try:
        text = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (UnicodeError, binascii.Error) as error:
        raise fields.page_token_invalid() from error
    if not text.startswith("after:"):
        raise fields.page_token_invalid()
    return text.removeprefix("after:")
