"""Text of others inside our own sentences and lines."""

from __future__ import annotations

import re

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def clean_text(text: str) -> str:
    """Replace what a reader may not be able to take by U+FFFD.

    These are lone surrogates, which UTF-8 cannot hold, and NUL, which many databases and models do not take.
    """
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def shown_text(text: str, most: int = 0) -> str:
    """Show a name or path on one line: control characters and line ends are written as escapes.

    Args:
        text: What to show.
        most: Cut it to so many characters; zero leaves it whole.
    """
    shown = _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), clean_text(text))
    return shown if not most or len(shown) <= most else shown[: most - 1] + "…"


def decode_output(data: bytes) -> str:
    """Read the bytes of a program or file as text; what is no UTF-8 becomes U+FFFD."""
    return clean_text(data.decode("utf-8", "replace"))
