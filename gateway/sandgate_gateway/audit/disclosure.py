"""How much of what was asked goes on record: an operator's choice, the same for every call."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from sandgate_gateway.audit.blocks import Action
from sandgate_gateway.audit.digests import Digests
from sandgate_gateway.audit.redaction import MASK, Preview, mask, names_secret, preview, whole_words
from sandgate_gateway.domain.call import JsonValue

SHOWN_CHARACTERS = 1024
"""Of each text in the arguments; far more than a preview shows in all."""

SHOWN_VALUES = 100
"""Values in the arguments that are looked at, however they are nested; a preview has no room for more."""

T = TypeVar("T")


class DisclosureLevel(enum.Enum):
    """The setting `audit.include_arguments`."""

    NONE = "none"
    """Nothing but the tool's name."""
    METADATA = "metadata"
    """Digests and sizes."""
    PREVIEW = "preview"
    """Digests, sizes, and the first 200 characters with secrets masked."""


class Disclosure:
    """Makes the `action` block of a call's records."""

    def __init__(self, level: DisclosureLevel, digests: Digests) -> None:
        self.level = level
        self._digests = digests

    def action(
        self,
        tenant: str,
        tool: str,
        arguments_json: bytes,
        arguments: Mapping[str, JsonValue],
    ) -> Action:
        """Describe a call.

        Args:
            tenant: whose key the digests are made with.
            tool: its name.
            arguments_json: the exact bytes that the agent sent.
            arguments: the same, parsed; empty when they could not be. A text under `command` is treated as a command.
        """
        if self.level is DisclosureLevel.NONE:
            return Action(tool=tool, erased=("/arguments_digest", "/arguments_bytes"))
        command = arguments.get("command")
        text = command if isinstance(command, str) else None
        data = text.encode("utf-8", "surrogatepass") if text is not None else b""
        shown: dict[str, Preview] = {}
        if self.level is DisclosureLevel.PREVIEW:
            if text is not None:
                shown["/command_preview"] = preview(text)
            elif arguments or arguments_json == b"{}":
                shown["/arguments_preview"] = _arguments_preview(arguments)
        return Action(
            tool=tool,
            arguments_digest=self._digests.arguments(tenant, arguments_json),
            arguments_bytes=len(arguments_json),
            arguments_preview=_text(shown, "/arguments_preview"),
            command_digest=self._digests.command(tenant, data) if text is not None else "",
            command_bytes=len(data) if text is not None else None,
            command_preview=_text(shown, "/command_preview"),
            masked=tuple(pointer for pointer, made in shown.items() if made.masked),
            erased=tuple(pointer for pointer, made in shown.items() if made.cut),
        )


def _text(shown: Mapping[str, Preview], pointer: str) -> str:
    return shown[pointer].text if pointer in shown else ""


def _arguments_preview(arguments: Mapping[str, JsonValue]) -> Preview:
    """Preview an object by its texts: inside JSON, quotes and escapes would hide a secret from the patterns.

    Short values come first, so that a long one, such as the content of a file, does not push out the path.
    """
    masking = _Masking()
    parts = {name[:SHOWN_CHARACTERS]: masking.value(value, name) for name, value in masking.first(arguments.items())}
    ordered = dict(sorted(parts.items(), key=lambda part: len(json.dumps(part[1]))))
    made = preview(json.dumps(ordered, ensure_ascii=False))
    return Preview(text=made.text, masked=masking.masked or made.masked, cut=masking.cut or made.cut)


class _Masking:
    """Masks the texts of nested arguments, and stops after as many values as a preview could ever show."""

    def __init__(self) -> None:
        self.masked = False
        self.cut = False
        self._left = SHOWN_VALUES

    def first(self, items: Iterable[T]) -> Iterator[T]:
        """Give items until the allowance is used up."""
        for item in items:
            if self._left <= 0:
                self.cut = True
                return
            self._left -= 1
            yield item

    def value(self, value: JsonValue, name: str, *, secret: bool = False) -> JsonValue:
        """Mask one value.

        Args:
            value: what to mask.
            name: the key that it is under.
            secret: something around it is a secret, so that it is one whatever its own name is.
        """
        secret = secret or names_secret(name)
        if isinstance(value, dict):
            named = _named_entry(value)
            return {
                key[:SHOWN_CHARACTERS]: self.value(item, key, secret=secret or (named and key.lower() == "value"))
                for key, item in self.first(value.items())
            }
        if isinstance(value, list):
            before: list[JsonValue] = ["", *value]
            return [
                self.value(item, "", secret=secret or _is_option(earlier))
                for earlier, item in self.first(zip(before, value, strict=False))
            ]
        if secret and value is not None and not isinstance(value, bool):
            self.masked = True
            return MASK
        if not isinstance(value, str):
            return value
        shown = whole_words(value, SHOWN_CHARACTERS)
        clean, found = mask(shown)
        self.masked = self.masked or found
        self.cut = self.cut or len(shown) < len(value)
        return clean


def _named_entry(entry: Mapping[str, JsonValue]) -> bool:
    """Say whether an object is a secret written as `{"name": "PASSWORD", "value": …}`."""
    return any(
        isinstance(name, str) and names_secret(name) for key, name in entry.items() if key.lower() in ("name", "key")
    )


def _is_option(value: JsonValue) -> bool:
    """Say whether the next word of a command that is written as a list is a secret: `["--password", …]`."""
    return isinstance(value, str) and value.startswith("-") and "=" not in value and names_secret(value)
