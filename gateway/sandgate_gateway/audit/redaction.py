"""Short previews of text that may hold secrets: masked first, then made harmless for terminals, then cut.

This catches what secrets usually look like. It cannot know them all, which is why previews are off unless a
configuration asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

PREVIEW_CHARACTERS = 200
"""Enough to recognise a command, little enough to hold no document."""

LOOKED_AT_CHARACTERS = 4096
"""No more of a text is searched; what comes behind could not be shown anyway."""

MASK = "[masked]"
CUT = "…"

_SECRET_WORDS = re.compile(
    r"key|secret|token|passw|passphrase|pwd|credential|dsn|auth|bearer|cookie|private|(?<![a-z])pa(?:ss|t)(?![a-z])",
    re.IGNORECASE,
)
"""A name with one of these in it names a secret; too many rather than too few."""

_VALUE = r"""(?:"[^"]*+"?|'[^']*+'?|[^\s"'&;|,]++)"""

# Possessive quantifiers throughout: each pattern reads a text once, however hostile it is.
_URL_CREDENTIALS = re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]*+://)[^\s/@\"']++@")
_AUTHORIZATION = re.compile(r"(?i)(authorization[\"']?\s*+[:=]\s*+)[^\"'\n]++")
_BEARER = re.compile(r"(?i)(\bbearer\s++)[\w.~+/=-]++")
_ASSIGNMENT = re.compile(rf"(?<![\w.-])([\w.-]++)([\"']?\s*+[:=]\s*+){_VALUE}")
_OPTION = re.compile(rf"(?<!\S)(--?[A-Za-z][\w-]*+)(\s++)(?!-){_VALUE}")
_USER_OPTION = re.compile(r"(?<!\S)(-u|--user|--proxy-user)(\s++|=)([^\s:\"']*+:[^\s\"']++|\"[^\"]*+\"|'[^']*+')")
_KNOWN_SHAPES = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_\w{20,}+|glpat-[\w-]{16,}+|sk-[\w-]{16,}+|xox[abeoprs]-[\w-]{10,}+"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}+|npm_[A-Za-z0-9]{30,}+|eyJ[\w-]{8,}+\.[\w-]++\.[\w-]++"
    r"|-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY-----[^-]*+(?:-----END [A-Z0-9 ]{1,80}-----)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The start of a text, fit to be stored and shown."""

    text: str
    masked: bool
    """Something looked like a secret and was replaced."""
    cut: bool
    """There is more."""


def preview(text: str, *, limit: int = PREVIEW_CHARACTERS) -> Preview:
    """Make a preview of at most `limit` characters, plus a mark when something was cut."""
    start = text[:LOOKED_AT_CHARACTERS]
    if len(text) > LOOKED_AT_CHARACTERS:
        # The last word may be half a secret, which no pattern would know any more.
        start = start.rstrip() if text[LOOKED_AT_CHARACTERS].isspace() else start[: _last_space(start)]
    clean, masked = mask(start)
    shown = escape(clean)
    cut = len(shown) > limit or len(start) < len(text)
    return Preview(text=shown[:limit] + CUT if cut else shown, masked=masked, cut=cut)


def mask(text: str) -> tuple[str, bool]:
    """Replace what looks like a secret; say whether anything did."""
    clean = text
    for pattern, replace in _RULES:
        clean = pattern.sub(replace, clean)
    return clean, clean != text


def names_secret(name: str) -> bool:
    """Say whether a variable, key or option of this name would hold a secret."""
    return _SECRET_WORDS.search(name) is not None


def escape(text: str) -> str:
    """Write control, bidirectional and half characters as escapes, so that they do nothing to who looks at them."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def _last_space(text: str) -> int:
    return max((place for place, character in enumerate(text) if character.isspace()), default=0)


def _mask_named(match: re.Match[str]) -> str:
    return match[1] + match[2] + MASK if names_secret(match[1]) else match[0]


def _mask_behind(match: re.Match[str]) -> str:
    return match[1] + MASK


_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (_URL_CREDENTIALS, lambda match: f"{match[1]}{MASK}@"),
    (_AUTHORIZATION, _mask_behind),
    (_BEARER, _mask_behind),
    (_USER_OPTION, lambda match: f"{match[1]}{match[2]}{MASK}"),
    (_ASSIGNMENT, _mask_named),
    (_OPTION, _mask_named),
    (_KNOWN_SHAPES, lambda _match: MASK),
)
