"""Finding and replacing the texts of what a tool returned, in every shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.types import Command
from pydantic import BaseModel

from sandgate_agent.texts import MAX_TEXT_BYTES, bounded, texts_of


def told(text: Any = "one", **fields: Any) -> ToolMessage:
    """Make a tool's message."""
    return ToolMessage(content=text, tool_call_id="c", **fields)


@dataclass
class DataclassState:
    """A graph's state as a dataclass."""

    messages: list[BaseMessage]
    other: int = 1


class PydanticState(BaseModel):
    """A graph's state as a pydantic model."""

    messages: list[Any]
    other: int = 1


ANSWERS: list[tuple[Any, tuple[str, ...]]] = [
    (told(), ("one",)),
    (told([{"type": "text", "text": "a"}, "b", {"type": "image", "url": "u"}]), ("a", "b")),
    (told([]), ()),
    ([told("a"), told("b")], ("a", "b")),
    (Command(update={"messages": [told("a"), told("b")], "x": 1}), ("a", "b")),
    (Command(update={"messages": (told("a"),)}), ("a",)),
    (Command(update={"messages": told("a")}), ("a",)),
    (Command(update={"messages": [{"role": "tool", "content": "a", "tool_call_id": "c"}]}), ("a",)),
    (Command(update={"messages": [{"type": "tool", "content": ["a"], "tool_call_id": "c"}]}), ("a",)),
    (Command(update={"messages": None}), ()),
    (Command(update={"messages": [HumanMessage("h"), AIMessage("ai"), told("a")]}), ("a",)),
    (Command(update={"other": 1}), ()),
    (Command(update=[("messages", [told("a")]), ("x", 1)]), ("a",)),
    (Command(update=[told("a")]), ("a",)),
    (Command(update=told("a")), ("a",)),
    (Command(update=DataclassState(messages=[told("a")])), ("a",)),
    (Command(update=PydanticState(messages=[told("a")])), ("a",)),
    (Command(update=None, goto="there"), ()),
    ([Command(update={"messages": [told("a")]}), told("b")], ("a", "b")),
    ("neither message nor command", ()),
    (None, ()),
]


@pytest.mark.parametrize(("answer", "texts"), ANSWERS)
def test_texts_are_found_in_every_shape(answer: Any, texts: tuple[str, ...]) -> None:
    """Each text of a tool's message is found once, in order; other people's messages are not the tool's."""
    assert texts_of(answer, state={}).read() == texts


@pytest.mark.parametrize(("answer", "texts"), ANSWERS)
def test_texts_are_replaced_in_their_places(answer: Any, texts: tuple[str, ...]) -> None:
    """After a replacement the same places hold the new texts, and the original is as it was."""
    replaced = texts_of(answer, state={}).replace([text.upper() for text in texts], lambda message: message)

    assert texts_of(replaced, state={}).read() == tuple(text.upper() for text in texts)
    assert texts_of(answer, state={}).read() == texts
    assert type(replaced) is type(answer)


def test_the_rest_of_a_command_survives() -> None:
    """Other updates, the goal and the graph of a Command stay."""
    command: Any = Command(update={"messages": [told()], "x": [1]}, goto="there", graph="g", resume="r")

    replaced: Any = texts_of(command, state={}).replace(["new"], lambda message: message)

    assert (replaced.goto, replaced.graph, replaced.resume, replaced.update["x"]) == ("there", "g", "r", [1])
    assert replaced.update["messages"][0].content == "new"


def test_everything_else_of_a_message_survives() -> None:
    """Id, name, artifact and status stay with a message whose text is replaced."""
    message = told(id="m1", name="n", artifact={"a": 1}, status="error", additional_kwargs={"k": 1})

    replaced: Any = texts_of(message, state={}).replace(["new"], lambda each: each)

    assert replaced == message.model_copy(update={"content": "new"})


def test_messages_that_the_model_has_seen_are_left_alone() -> None:
    """A tool that hands the whole conversation on does not send it through the gateway again."""
    old = told("old")
    state = {"messages": [HumanMessage("h"), old]}

    assert texts_of(Command(update={"messages": [old, told("new")]}), state=state).read() == ("new",)


def test_a_failed_message_is_noticed_wherever_it_is() -> None:
    """The status of a message inside a Command counts."""
    assert texts_of(Command(update={"messages": [told(), told(status="error")]}), state={}).failed
    assert not texts_of(Command(update={"messages": [told()]}), state={}).failed


def test_texts_that_are_too_large_are_cut_in_the_middle() -> None:
    """What is sent fits into a message, keeps head and tail, and says how much is missing."""
    huge = "a" + "x" * (10 * MAX_TEXT_BYTES) + "z"

    first, second = bounded((huge, "short"))

    assert len(first.encode()) <= MAX_TEXT_BYTES
    assert first[0] == "a"
    assert first[-1] == "z"
    assert "bytes were cut out here" in first
    assert second == "short"


def test_texts_that_fit_are_not_touched_unless_they_are_no_unicode() -> None:
    """Text up to the limit passes as it is; a lone surrogate is replaced, for it cannot travel."""
    assert bounded(("x" * MAX_TEXT_BYTES,)) == ("x" * MAX_TEXT_BYTES,)
    assert bounded(("ä\ud800",)) == ("ä?",)
    assert bounded(()) == ()


def test_a_cut_never_breaks_a_character() -> None:
    """Multi-byte characters at the cut are left out, not broken."""
    (text,) = bounded(("€" * (2 * MAX_TEXT_BYTES),))

    assert "\ufffd" not in text
    assert set(text) >= {"€"}
