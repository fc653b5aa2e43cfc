"""Page tokens: where the next page goes on, sealed so that nobody can make one up."""

from __future__ import annotations

import base64
import binascii
import hmac

from sandgate_gateway.audit.stored import EventFilter
from sandgate_gateway.errors import ErrorReason, RequestRejected

_SEAL_BYTES = 16
_OFFSET_BYTES = 8


class PageTokens:
    """Makes and reads tokens. A token fits the filter that it was made for and no other."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def make(self, filter_: EventFilter, offset_bytes: int) -> str:
        """Make a token that stands for a place in the file."""
        offset = offset_bytes.to_bytes(_OFFSET_BYTES, "big")
        return base64.urlsafe_b64encode(offset + self._seal(filter_, offset)).decode("ascii")

    def read(self, filter_: EventFilter, token: str) -> int:
        """Give the place.

        Raises:
            RequestRejected: the token was not made by this query.
        """
        try:
            data = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
        except (UnicodeEncodeError, binascii.Error) as error:
            raise _invalid() from error
        offset, seal = data[:_OFFSET_BYTES], data[_OFFSET_BYTES:]
        if not hmac.compare_digest(seal, self._seal(filter_, offset)):
            raise _invalid()
        return int.from_bytes(offset, "big")

    def _seal(self, filter_: EventFilter, offset: bytes) -> bytes:
        return hmac.digest(self._key, offset + filter_.digest().encode("ascii"), "sha256")[:_SEAL_BYTES]


def _invalid() -> RequestRejected:
    return RequestRejected(ErrorReason.PAGE_TOKEN_INVALID, "page_token: it was not made by this query")
