"""`sandgate demo` as a newcomer runs it: it works, explains itself, and leaves nothing behind."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from sandgate_gateway.cli.application import run

LONG = 60.0


@pytest.fixture
def repository(bare_machine: Path) -> Path:
    """Make a small thing to look at."""
    folder = bare_machine / "repository"
    folder.mkdir()
    (folder / "hello.py").write_text('"""Greets."""\n\n\ndef greet() -> str:\n    return "hello"\n', encoding="utf-8")
    (folder / "README.md").write_text("# Hello\n", encoding="utf-8")
    return folder


@dataclass(frozen=True)
class Demo:
    """A demo that was run to its end."""

    pid: int
    code: int
    stdout: str
    stderr: str

    @property
    def left_behind(self) -> list[str]:
        """List what it left: its folder, and processes below this one."""
        children = psutil.Process().children(recursive=True)
        return [*map(str, Path("/tmp").glob(f"sandgate-demo-{self.pid}-*")), *map(str, children)]


def demo(*arguments: str, **variables: str) -> Demo:
    """Run a demo to its end."""
    command = [sys.executable, "-m", "sandgate_gateway", "demo", *arguments]
    environment = {**os.environ, **variables}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        stdout, stderr = process.communicate(timeout=LONG)
    return Demo(process.pid, process.returncode, stdout, stderr)


@pytest.mark.local
def test_it_shows_the_work_the_report_and_the_trail(repository: Path) -> None:
    """An agent works through the gateway; its report and one row a call are shown; then nothing is left."""
    done = demo("--repository", str(repository))
    assert done.code == 0, done.stderr
    assert "Model: scripted." in done.stdout
    assert "SANDGATE_MODEL=" in done.stdout
    assert "The report, downloaded from the sandbox" in done.stdout
    trail = done.stdout.partition("The audit trail")[2]
    for tool in ("bash", "grep", "read_file", "write_file"):
        assert re.search(rf"^ ?\d\d:\d\d:\d\d +{tool} .*pass +completed", trail, re.MULTILINE), tool
    assert "the chain is whole" in trail
    assert done.stderr == ""
    assert done.left_behind == []


@pytest.mark.local
def test_the_folder_can_be_kept(repository: Path) -> None:
    """`--keep` leaves the data and says where."""
    done = demo("--repository", str(repository), "--keep")
    assert done.code == 0, done.stderr
    found = re.search(r"Kept: (/tmp/sandgate-demo-\S+)", done.stdout)
    assert found is not None
    folder = Path(found[1])
    assert (folder / "audit" / "audit.jsonl").is_file()
    assert (folder / "report.md").is_file()
    assert done.left_behind == [str(folder)]
    shutil.rmtree(folder)


@pytest.mark.local
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(repository: Path, number: signal.Signals) -> None:
    """While the agent works: Ctrl-C, which the whole group gets, or SIGTERM. It ends at once, and nothing is left."""
    command = [sys.executable, "-m", "sandgate_gateway", "demo", "--repository", str(repository)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Gateway: "):
                break
        if number is signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        rest = process.stdout.read()
        done = Demo(process.pid, process.wait(LONG), rest, "")
    assert done.code in (1, 130), "which one depends on the version of typer"
    assert "Traceback" not in rest
    assert done.left_behind == []


@pytest.mark.local
def test_an_agent_that_fails_fails_the_demo(repository: Path) -> None:
    """A model that does not exist: its own message, what is missing in one line each, exit code 1, nothing left."""
    done = demo("--repository", str(repository), "--model", "nobody:nothing")
    assert done.code == 1
    assert "error: the agent ended with exit code" in done.stderr
    assert "error: the agent left no report" in done.stderr
    assert done.left_behind == []


@pytest.mark.local
def test_a_gateway_that_cannot_start_is_one_clear_line(repository: Path) -> None:
    """The provider's reason, exit code 2, nothing left."""
    done = demo("--repository", str(repository), SANDGATE_LOCAL__BUBBLEWRAP="/nowhere/bwrap")
    assert done.code == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert "/nowhere/bwrap" in done.stderr
    assert done.left_behind == []


def test_a_missing_agent_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without LangChain the demo says what to install, before anything starts."""
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "langchain" else real(name))
    assert run(["demo"]) == 1
    error = capsys.readouterr().err
    assert error == (
        "error: the demo's agent needs langchain, which is not installed; "
        "install Sandgate with its extras agent, gateway and local\n"
    )


def test_a_missing_repository_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything starts."""
    assert run(["demo", "--repository", "/nowhere"]) == 1
    assert capsys.readouterr().err == "error: --repository: there is no folder /nowhere\n"
