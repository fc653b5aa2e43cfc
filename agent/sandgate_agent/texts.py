"""The texts in what a tool returned: taken out to be shaped by the gateway, and put back in their places.

A tool of the agent may return a message, a `Command` with messages somewhere in its update, or a list of these.
Messages have a text or a list of parts; parts that are no text stay where they are. Everything is copied, so that
what the tool still holds does not change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Command
from pydantic import BaseModel

MAX_TEXT_BYTES = 3 * 1024 * 1024
"""What is sent to the gateway at most: its messages end at 4 MiB. The middle of more is cut here; the gateway would cut
far more of it."""

CUT = "\n[… {count} bytes were cut out here before the output was shaped …]\n"

Rewrite = Callable[[str], str]
Edit = Callable[[ToolMessage], ToolMessage]


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of one answer, in order."""

    answer: object
    seen: frozenset[int]
    """Identities of messages that the model has seen before: a tool that hands the conversation on returns them too."""

    def read(self) -> tuple[str, ...]:
        """List the texts."""
        found: list[str] = []

        def note(text: str) -> str:
            found.append(text)
            return text

        self._walk(note, lambda message: message)
        return tuple(found)

    def replace(self, texts: Iterable[str], edit: Edit) -> object:
        """Make a copy with other texts in the same places; `edit` is applied to each message of the tool."""
        remaining = iter(texts)
        return self._walk(lambda _: next(remaining), edit)

    @property
    def failed(self) -> bool:
        """True when a message says that the tool failed."""
        statuses: list[str] = []

        def note(message: ToolMessage) -> ToolMessage:
            statuses.append(message.status)
            return message

        self._walk(lambda text: text, note)
        return "error" in statuses

    def _walk(self, rewrite: Rewrite, edit: Edit) -> object:
        return _answer(self.answer, _Visitor(rewrite, edit, self.seen))


def texts_of(answer: object, *, state: object) -> Texts:
    """Look for the texts of an answer; messages that are in the graph's state already are left alone."""
    messages = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
    known = messages if isinstance(messages, list | tuple) else ()
    return Texts(answer, frozenset(id(message) for message in known))


def bounded(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Cut texts so that they fit into a message to the gateway, and make them valid Unicode."""
    encoded = [text.encode("utf-8", errors="replace") for text in texts]
    if sum(map(len, encoded)) > MAX_TEXT_BYTES:
        share = MAX_TEXT_BYTES // len(encoded)
        encoded = [data if len(data) <= share else _cut(data, share) for data in encoded]
    return tuple(data.decode("utf-8", errors="ignore") for data in encoded)


def _cut(data: bytes, limit: int) -> bytes:
    half = max(0, limit - len(CUT) - 20) // 2
    return data[:half] + CUT.format(count=len(data) - 2 * half).encode() + data[len(data) - half :]


@dataclass(frozen=True, slots=True)
class _Visitor:
    rewrite: Rewrite
    edit: Edit
    seen: frozenset[int]


def _answer(answer: object, visitor: _Visitor) -> object:
    if isinstance(answer, Command):
        return dataclasses.replace(answer, update=_update(answer.update, visitor))
    if isinstance(answer, list):
        return [_answer(item, visitor) for item in answer]
    return _message(answer, visitor)


def _update(update: object, visitor: _Visitor) -> object:
    """Rewrite the update of a Command: a mapping, a list of pairs, or whatever a graph's own state is made of."""
    if isinstance(update, Mapping):
        return {key: _messages(value, visitor) if key == "messages" else value for key, value in update.items()}
    if isinstance(update, list | tuple):
        return [
            (item[0], _messages(item[1], visitor))
            if isinstance(item, tuple) and len(item) == 2 and item[0] == "messages"  # noqa: PLR2004 - a pair
            else _message(item, visitor)
            for item in update
        ]
    if isinstance(update, BaseMessage):
        return _message(update, visitor)
    if isinstance(update, BaseModel) and hasattr(update, "messages"):
        return update.model_copy(update={"messages": _messages(update.messages, visitor)})
    if dataclasses.is_dataclass(update) and not isinstance(update, type) and hasattr(update, "messages"):
        return dataclasses.replace(update, messages=_messages(update.messages, visitor))
    return update


def _messages(value: object, visitor: _Visitor) -> object:
    if isinstance(value, list):
        return [_message(item, visitor) for item in value]
    if isinstance(value, tuple):
        return tuple(_message(item, visitor) for item in value)
    return _message(value, visitor)


def _message(message: object, visitor: _Visitor) -> object:
    if id(message) in visitor.seen:
        return message
    if isinstance(message, ToolMessage):
        content = cast("str | list[object]", message.content)
        return visitor.edit(message.model_copy(update={"content": _content(content, visitor)}))
    if isinstance(message, Mapping) and "tool" in (message.get("role"), message.get("type")):
        return {**message, "content": _content(message.get("content"), visitor)}
    return message


def _content(content: object, visitor: _Visitor) -> object:
    if isinstance(content, str):
        return visitor.rewrite(content)
    if isinstance(content, list):
        return [_part(part, visitor) for part in content]
    return content


def _part(part: object, visitor: _Visitor) -> object:
    if isinstance(part, str):
        return visitor.rewrite(part)
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return {**part, "text": visitor.rewrite(part["text"])}
    return part
