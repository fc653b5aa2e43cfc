"""What the documents show works as it is shown."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.tool import tool_call

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


class Scripted(GenericFakeChatModel):
    """A model that calls bash once and then ends."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Know that there is a tool called bash."""
        assert "bash" in {tool.name for tool in tools}
        return self


@pytest.fixture
def target() -> Iterator[str]:
    """Start a gateway as the README says."""
    with tempfile.TemporaryDirectory(prefix="sandgate-readme-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        address = f"unix:{folder}/gateway.sock"
        configuration = folder / "sandgate.yaml"
        configuration.write_text(json.dumps({"listen": address, "data_dir": f"{folder}/data"}), encoding="utf-8")
        command = [str(Path(sys.executable).with_name("sandgate")), "serve", "--config", str(configuration)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            with grpc.insecure_channel(address) as channel:
                grpc.channel_ready_future(channel).result(timeout=60)
            yield address
            process.terminate()


@pytest.mark.local
def test_the_example_runs(target: str) -> None:
    """The Python of the README, with another model and another address, gets an answer out of a sandbox."""
    [example] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    example, models = re.subn(r'"anthropic:[^"]*",.*', "model,", example)
    example, targets = re.subn(r'"unix:[^"]*"', repr(target), example)
    assert (models, targets) == (1, 1)
    example = example.replace("agent.invoke(", "answer = agent.invoke(")
    ask = tool_call(name="bash", args={"command": "expr 6 '*' 7"}, id="call-1")
    names: dict[str, Any] = {"model": Scripted(messages=iter([AIMessage("", tool_calls=[ask]), AIMessage("42")]))}

    exec(compile(example, "README.md", "exec"), names)

    [answer] = [message for message in names["answer"]["messages"] if isinstance(message, ToolMessage)]
    assert (answer.status, answer.content) == ("success", "42")


def test_the_two_commands_are_the_first() -> None:
    """The first commands of the README are those that the Makefile has, and CI calls the second."""
    [first, *_] = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    assert [line.split("#")[0].strip() for line in first.strip().splitlines()] == ["make demo", "make test"]
    for verb in ("demo", "test"):
        shown = subprocess.run(["make", "-n", verb], cwd=ROOT, capture_output=True, text=True, check=True)
        assert ".venv/bin/" in shown.stdout
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_links_lead_somewhere() -> None:
    """Files that the documents point to are there."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists() or "://" in link, f"{page.name}: {link}"
