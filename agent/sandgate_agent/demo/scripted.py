"""A chat model that plays a fixed part, so that the demo runs without a key and without a network.

It is no language model. Its lines are fixed, but what it fills in comes from the answers to its earlier calls: which
file it reads, which revision it passes on, what it remarks.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.tool import ToolCall as ModelCall
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration, ChatResult

from sandgate_agent.demo.places import REPORT, REPOSITORY, SCRIPT
from sandgate_agent.demo.survey import REMARKS

NAME = "scripted model"

READ_LINES = 40
"""How much of a file it reads to get an impression."""


class ScriptedModel(BaseChatModel):
    """Says the next line of the part, by how often it has spoken before."""

    @property
    def _llm_type(self) -> str:
        return NAME

    def bind_tools(self, tools: Sequence[object], **_: object) -> BaseChatModel:
        """Take any tools: the part names the ones that it needs."""
        del tools
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: object,
    ) -> ChatResult:
        del stop, run_manager
        turn = sum(isinstance(message, AIMessage) for message in messages)
        answers = [message for message in messages if isinstance(message, ToolMessage)]
        line = PART[turn](answers) if turn < len(PART) else AIMessage("The work is done already.")
        return ChatResult(generations=[ChatGeneration(message=line)])


def _look_around(_: list[ToolMessage]) -> AIMessage:
    return _says(
        "First I look at what there is, and which revision it is.",
        _call("revision", {}),
        _call(
            "bash",
            {
                "command": f"cd {REPOSITORY} && ls -F && find . -type f | wc -l && "
                "find . -name '*.py' -exec wc -c {} + | grep -v ' total$' | sort -rn | head -n 5"
            },
        ),
    )


def _search(_: list[ToolMessage]) -> AIMessage:
    return _says(
        "I search for errors of its own and for open notes.",
        _call("grep", {"pattern": r"class \w+\((\w*Error|Exception)\)", "path": REPOSITORY, "glob": "*.py"}),
        _call("grep", {"pattern": r"\b(TODO|FIXME)\b", "path": REPOSITORY}),
    )


def _read(answers: list[ToolMessage]) -> AIMessage:
    path = _largest_module(answers) or _some_file(answers)
    return _says(
        f"I read the beginning of {path}.",
        _call("read_file", {"path": f"{REPOSITORY}/{path}", "start_line": 1, "end_line": READ_LINES}),
    )


def _write(_: list[ToolMessage]) -> AIMessage:
    program = Path(__file__).with_name("survey.py").read_text(encoding="utf-8")
    return _says("I write a program that measures it.", _call("write_file", {"path": SCRIPT, "content": program}))


def _run(answers: list[ToolMessage]) -> AIMessage:
    revision = next((_text(answer) for answer in answers if answer.name == "revision"), "")
    named = re.fullmatch(r"[\w.-]{1,64}", revision)
    command = f"python3 {SCRIPT} {REPOSITORY} {REPORT} {named[0] if named else 'unknown'}"
    return _says("I run it.", _call("bash", {"command": command}))


def _check(_: list[ToolMessage]) -> AIMessage:
    return _says("I check the report.", _call("read_file", {"path": REPORT}))


def _remark(answers: list[ToolMessage]) -> AIMessage:
    report = _text(answers[-1])
    return _says(
        "I add what I think of it.",
        _call("str_replace", {"path": REPORT, "old_str": REMARKS, "new_str": remarks_on(report)}),
    )


def _finish(answers: list[ToolMessage]) -> AIMessage:
    failed = [answer for answer in answers if answer.status == "error"]
    if failed:
        return AIMessage(f"The report may be wrong: {len(failed)} of my calls failed.")
    return AIMessage(f"The report is in {REPORT}.")


PART: Sequence[Callable[[list[ToolMessage]], AIMessage]] = (
    _look_around,
    _search,
    _read,
    _write,
    _run,
    _check,
    _remark,
    _finish,
)
"""The lines, in order. Each is given the answers to all calls so far."""


def remarks_on(report: str) -> str:
    """Say something about a report: the longest function and the most imported module, as read from its tables."""
    longest = _first_row(report, "Longest functions")
    imported = _first_row(report, "Most imported modules")
    remarks = [
        f"- The longest function is `{longest[0]}` with {longest[1]} lines ({longest[2]})." if longest else "",
        f"- `{imported[0]}` is imported by {imported[1]} modules, so a change of it reaches far." if imported else "",
    ]
    return "\n".join(remark for remark in remarks if remark) or "There is no Python in it to remark on."


def _first_row(report: str, heading: str) -> list[str]:
    """Read the first row of the table below a heading; lines may carry the numbers that `read_file` adds."""
    _, _, rest = report.partition(f"## {heading}")
    rows = re.findall(r"\|\s(.*)\s\|\s*$", rest.partition("\n## ")[0], flags=re.MULTILINE)
    cells = [row.split(" | ") for row in rows if "---" not in row]
    return cells[1] if len(cells) > 1 else []


def _largest_module(answers: list[ToolMessage]) -> str:
    listing = next((_text(answer) for answer in answers if answer.name == "bash"), "")
    found = re.search(r"^\s*\d+\s+\./(\S+\.py)\s*$", listing, flags=re.MULTILINE)
    return found[1] if found else ""


def _some_file(answers: list[ToolMessage]) -> str:
    listing = next((_text(answer) for answer in answers if answer.name == "bash"), "")
    names = [line for line in listing.splitlines() if re.fullmatch(r"[\w.-]+", line)]
    readme = [name for name in names if name.lower().startswith("readme")]
    return (readme or names or ["README.md"])[0]


def _says(text: str, *calls: ModelCall) -> AIMessage:
    return AIMessage(text, tool_calls=list(calls))


def _call(name: str, arguments: dict[str, object]) -> ModelCall:
    return tool_call(name=name, args=arguments, id=f"call-{uuid.uuid4().hex[:12]}")


def _text(answer: ToolMessage) -> str:
    return answer.text.strip()
