"""How much of a call goes on record follows the setting."""

from __future__ import annotations

import json

import pytest

from sandgate_gateway.audit.blocks import Action
from sandgate_gateway.audit.digests import Digests
from sandgate_gateway.audit.disclosure import Disclosure, DisclosureLevel
from sandgate_gateway.domain.call import JsonValue

DIGESTS = Digests(bytes(range(32)))


def action(level: DisclosureLevel, tool: str, arguments: dict[str, JsonValue]) -> Action:
    """Describe a call at a level."""
    return Disclosure(level, DIGESTS).action("default", tool, json.dumps(arguments).encode(), arguments)


def test_none_shows_the_tool_only() -> None:
    """Not even digests; and the record says that they were left out."""
    made = action(DisclosureLevel.NONE, "bash", {"command": "ls"})
    assert made == Action(tool="bash", erased=("/arguments_digest", "/arguments_bytes"))


def test_metadata_shows_digests_and_sizes() -> None:
    """Of the arguments as they were sent, and of the command as bytes; nothing that can be read."""
    made = action(DisclosureLevel.METADATA, "bash", {"command": "echo é"})
    assert made.arguments_digest == DIGESTS.arguments("default", json.dumps({"command": "echo é"}).encode())
    assert made.arguments_bytes == len(json.dumps({"command": "echo é"}))
    assert made.command_digest == DIGESTS.command("default", "echo é".encode())
    assert made.command_bytes == 7
    assert (made.command_preview, made.arguments_preview) == ("", "")
    assert (made.masked, made.erased) == ((), ())


def test_preview_shows_a_command() -> None:
    """Its first characters, masked, with pointers to what was masked and cut."""
    made = action(DisclosureLevel.PREVIEW, "bash", {"command": "TOKEN=abc123 ./run " + "x" * 300})
    assert made.command_preview.startswith("TOKEN=[masked] ./run xxx")
    assert made.arguments_preview == ""
    assert made.masked == ("/command_preview",)
    assert made.erased == ("/command_preview",)


def test_preview_shows_other_arguments() -> None:
    """Texts are masked one by one, for inside JSON a secret would hide behind quotes and escapes."""
    made = action(
        DisclosureLevel.PREVIEW,
        "write_file",
        {"path": "/mnt/user-data/workspace/x", "content": 'password="hunter2"\n', "api_key": "hunter2", "append": True},
    )
    assert "hunter2" not in made.arguments_preview
    assert '"path": "/mnt/user-data/workspace/x"' in made.arguments_preview
    assert '"append": true' in made.arguments_preview
    assert made.masked == ("/arguments_preview",)
    assert made.command_digest == ""
    assert made.command_bytes is None


@pytest.mark.parametrize("arguments", [{}, {"command": 5}, {"command": None, "x": [1, {"y": 2}]}])
def test_strange_arguments_are_described_too(arguments: dict[str, JsonValue]) -> None:
    """Arguments that no schema allows are on record as well: refused calls are recorded before anybody trusts them."""
    for level in DisclosureLevel:
        made = action(level, "bash", arguments)
        assert made.command_digest == ""


def test_nested_arguments_are_masked_and_bounded() -> None:
    """However deep a secret hides, it is masked; however much there is, only the start of it is looked at."""
    nested: JsonValue = {"token": ["hunter2"], "x": [{"y": 'password="hunter2"'}]}
    for _ in range(60):
        nested = [nested]
    made = action(DisclosureLevel.PREVIEW, "tool", {"a": nested})
    assert "hunter2" not in made.arguments_preview
    assert made.masked == ("/arguments_preview",)
    many: list[JsonValue] = [[{"password": "hunter2"}]] * 100_000
    made = action(DisclosureLevel.PREVIEW, "tool", {"a": many})
    assert "hunter2" not in made.arguments_preview
    assert made.erased == ("/arguments_preview",)


@pytest.mark.parametrize(
    "arguments",
    [
        {"credentials": {"user": "bob", "value": "hunter2"}},
        {"secret": [{"x": ["hunter2"]}]},
        {"password": 72727272},
        {"argv": ["mysql", "--password", "hunter2", "db"]},
        {"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]},
        {"content": "TOKEN=" + "a" * 1000 + " ghp_hunter2hunter2hunter2"},
    ],
)
def test_a_secret_is_known_by_what_is_around_it(arguments: dict[str, JsonValue]) -> None:
    """By the name of an object or list around it, by the option before it; half of one at a cut is not shown."""
    made = action(DisclosureLevel.PREVIEW, "tool", arguments)
    assert "hunter2" not in made.arguments_preview
    assert "7272" not in made.arguments_preview
    assert made.masked == ("/arguments_preview",)


def test_half_characters_do_no_harm() -> None:
    """JSON can say half a character; digest and preview take it."""
    made = action(DisclosureLevel.PREVIEW, "bash", {"command": "echo \ud800"})
    assert made.command_preview == "echo \\ud800"
    assert made.command_bytes == 8
