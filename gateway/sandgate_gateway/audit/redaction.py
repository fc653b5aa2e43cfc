"""Short previews of text that may hold secrets: masked first, then made harmless for terminals, then cut.

This catches what secrets usually look like. It cannot know them all, which is why previews are off unless a
configuration asks for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PREVIEW_CHARACTERS = 200
"""Enough to recognise a command, little enough to hold no document."""

LOOKED_AT_CHARACTERS = 4096
"""No more of a text is searched; what comes behind could not be shown anyway."""

MASK = "[masked]"
CUT = "…"

_SECRET_WORDS = re.compile(
    r"key|secret|token|passw|pass(?![a-z])|passphrase|pwd|credential|dsn|auth|bearer|cookie|private|session|signature|jwt"
    r"|mnemonic|webhook|(?<![a-z])(?:pat|sig|sid|otp|pin)(?![a-z])",
    re.IGNORECASE,
)
"""A name with one of these in it names a secret; too many rather than too few."""

# Possessive quantifiers throughout: each pattern reads a text once, however hostile it is.
_STRING = (
    r"""(?:\\"(?:[^\\]|\\(?!"))*+(?:\\")?|\\'(?:[^\\]|\\(?!'))*+(?:\\')?"""  # quotes inside other quotes
    r"""|"(?:[^"\\]|\\[\s\S])*+"?|'(?:[^'\\]|\\[\s\S])*+'?)"""
)
_BARE = r"""(?:[^\s"'&;|,\\]|,(?![\s"'])|\\(?!["'])[\s\S])"""
# Behind the first piece of a word, a quote with nothing of a word behind it is one that was opened before the name
# (`-H "x-api-key: abc" …`); and what closes a list or an object is no part of the string before it.
_MORE = rf"""(?:(?<!["']){_BARE}|(?<=["'])(?![,:)}}\]]){_BARE}|(?=\\?["'][^\s,;:&|)}}\]\\]){_STRING})"""
_WORD = rf"""(?:(?:[A-Za-z$]{{1,2}}(?=\\?["']))?{_STRING}|{_BARE}){_MORE}*+"""
_VALUE = re.compile(rf"{_WORD}(?:\s*+=++\s*+{_WORD})?")

_HEADER = re.compile(r"(?i)((?:authorization|cookie)[\\\"']*+\s*+[:=]\s*+)[^\\\"'\n]++")
_BEARER = re.compile(r"(?i)(\bbearer\s++)[\w.~+/=-]++")
_URL_CREDENTIALS = re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]*+://)(?:[^\s/@\"']*+@)++")
_USER_OPTION = re.compile(
    rf"(?<!\S)(-[uU]|--user|--proxy-user)(\s*+=?+)(?:[^\s:%\"']*+[:%]{_WORD}|{_STRING}(?::{_WORD})?)"
)
_PASSWORD_OPTION = re.compile(
    r"(?<![\w-])((?:(?:sshpass|mysql\w*+|mariadb\w*+|mongo\w*+|7z\w?+|login)\b[^|;&\n]{0,200}?\s-p"
    r"|redis-cli\b[^|;&\n]{0,200}?\s-a|ldap\w++[^|;&\n]{0,200}?\s-w|openssl\b[^|;&\n]{0,200}?\s-k"
    rf"|(?:(?:un)?zip|sqlcmd)\b[^|;&\n]{{0,200}}?\s-P)\s*+)(?!-){_WORD}"
)
"""Programs that take a password behind a single letter."""
_PHRASE = re.compile(
    rf"(?<![\w-])((?:(?i:password|passwd|passphrase|identified\s++by|requirepass)|AUTH)\s++)(?![-=:|<>]){_WORD}"
)
"""As in SQL, .netrc and Redis."""
_NAMES = (
    re.compile(r"(?<![\w.-])([\w.-]++)[\\\"'\])]*+\s*+(?::=|=>|<<<|[:=]++)\s*+(?:[|>][-+]?+\s++)?+"),
    re.compile(r"(?<![^\s\"'(])(--?[A-Za-z][\w-]*+)\s++(?:<<<\s*+)?+(?!-)"),
    re.compile(r"(?<![\w-])(?:set|setenv|ENV|ARG)\s++(?:-\w++\s++)?+([\w./:-]++)\s++(?![-=:])"),
)
"""Names with what stands between them and a value: assignments and fields, options, settings. The value is no part of
the pattern: behind a name that is no secret's, another may follow (`--env=PASSWORD=…`, `https://host/?token=…`)."""
_KNOWN_SHAPES = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_\w{20,}+|gl[a-z]{2,5}+-[\w-]{16,}+|(?<![A-Za-z0-9])sk-[\w-]{16,}+"
    r"|[rs]k_(?:live|test)_\w{10,}+|whsec_[\w+/=]{16,}+|xox[abeoprs]-[\w-]{10,}+|xapp-[\w-]{10,}+"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}+|ya29\.[\w.-]{16,}+|GOCSPX-[\w-]{16,}+|npm_[A-Za-z0-9]{30,}+"
    r"|pypi-[\w-]{16,}+|hf_[A-Za-z0-9]{20,}+|SG\.[\w-]{16,}+\.[\w-]{16,}+|hv[sb]\.[\w.-]{16,}+|do[opr]_v1_\w{16,}+"
    r"|shp[a-z]{2}_[A-Fa-f0-9]{16,}+|AGE-SECRET-KEY-1\w{10,}+|eyJ[\w-]{8,}+\.[\w-]++\.[\w-]++"
    r"|(?<=hooks\.slack\.com/services/)[\w/]++|(?<=/api/webhooks/)[\w/-]++"
    r"|-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[^-]|-(?!----END ))*+(?:-----END [A-Z0-9 ]{1,80}-----)?"
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
    start = whole_words(text, LOOKED_AT_CHARACTERS)
    clean, masked = mask(start)
    shown = escape(clean)
    cut = len(shown) > limit or len(start) < len(text)
    return Preview(text=shown[:limit] + CUT if cut else shown, masked=masked, cut=cut)


def mask(text: str) -> tuple[str, bool]:
    """Replace what looks like a secret; say whether anything did."""
    clean = _KNOWN_SHAPES.sub(MASK, text)
    for pattern, replacement in _RULES:
        clean = pattern.sub(replacement, clean)
    for pattern in _NAMES:
        clean = _mask_named(pattern, clean)
    return clean, clean != text


def whole_words(text: str, limit: int) -> str:
    """Give the start of a text, cut before a word: half a secret has no shape that a pattern would know."""
    start = text[:limit]
    if len(text) <= limit:
        return start
    return start.rstrip() if text[limit].isspace() else start[: _last_space(start)]


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


def _mask_named(pattern: re.Pattern[str], text: str) -> str:
    """Mask what follows the names of secrets."""
    pieces: list[str] = []
    done = place = 0
    while (match := pattern.search(text, place)) is not None:
        place = match.end()
        if names_secret(match[1]) and (value := _VALUE.match(text, place)) is not None:
            pieces += [text[done:place], MASK]
            done = place = value.end()
    return "".join([*pieces, text[done:]])


_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (_URL_CREDENTIALS, rf"\1{MASK}@"),
    (_HEADER, rf"\1{MASK}"),
    (_BEARER, rf"\1{MASK}"),
    (_USER_OPTION, rf"\1\2{MASK}"),
    (_PASSWORD_OPTION, rf"\1{MASK}"),
    (_PHRASE, rf"\1{MASK}"),
)
