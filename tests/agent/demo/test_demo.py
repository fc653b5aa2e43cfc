"""The demo's command line and its failures."""

from __future__ import annotations

import builtins
import shlex
from pathlib import Path
from typing import Any

import grpc
import pytest

from sandgate.v1 import tool_pb2, verdict_pb2
from sandgate_agent.demo import progress
from sandgate_agent.demo.__main__ import main
from sandgate_agent.demo.places import REPORT, REPOSITORY, SCRIPT


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Something to study."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "main.py").write_text("def main():\n    return 1\n")
    return folder


@pytest.fixture
def working_peer(peer: Any) -> Any:
    """A peer whose tools answer as if a sandbox had done the work; the report appears with the program's run."""

    async def execute(call: tool_pb2.ToolCall) -> Any:
        if call.tool == "bash" and SCRIPT.encode() in call.arguments_json:
            peer.servicer.files[(call.thread, REPORT)] = b"# A report\n"
        return peer.result(call, text="12 ./main.py")

    peer.servicer.execute = execute
    peer.servicer.tools = [
        tool_pb2.Tool(name=name, arguments_schema_json=b"{}")
        for name in ("bash", "grep", "read_file", "str_replace", "write_file")
    ]
    return peer


def run(peer: Any, source: Path, report: Path, *more: str) -> int:
    """Run the command."""
    return main(["--target", peer.target, "--repository", str(source), "--report", str(report), *more])


def test_the_demo_leaves_the_report_that_it_downloaded(
    working_peer: Any, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It uploads, works with every kind of tool, says that its model is scripted, and writes the report."""
    assert run(working_peer, source, tmp_path / "report.md") == 0

    output = capsys.readouterr().out
    assert "scripted model" in output
    assert "✓ str_replace" in output
    assert (tmp_path / "report.md").read_bytes() == b"# A report\n"
    requests = [request.call for request in working_peer.servicer.requests("ExecuteTool")]
    assert {call.tool for call in requests} == {"bash", "grep", "read_file", "str_replace", "write_file"}
    assert {call.thread for call in requests} == {thread for thread, _ in working_peer.servicer.files}
    assert any(path == f"{REPOSITORY}/main.py" for _, path in working_peer.servicer.files)
    assert [request.call.tool for request in working_peer.servicer.requests("AuthorizeToolCall")] == ["revision"]


def test_a_missing_report_is_a_failure(peer: Any, source: Path, tmp_path: Path, capsys: Any) -> None:
    """An agent that leaves nothing has failed, and the reason is printed."""
    peer.servicer.tools = []

    assert run(peer, source, tmp_path / "report.md") == 1
    assert "there is no report" in capsys.readouterr().out
    assert not (tmp_path / "report.md").exists()


def test_a_step_that_failed_is_a_failure(working_peer: Any, source: Path, tmp_path: Path, capsys: Any) -> None:
    """One call that failed, or one command that exited with an error, makes the whole demo fail."""
    work = working_peer.servicer.execute

    async def execute(call: tool_pb2.ToolCall) -> Any:
        result = await work(call)
        if call.tool == "grep":
            result.outcome = verdict_pb2.OUTCOME_TIMED_OUT
        if call.tool == "bash":
            result.process.exit_code = 3
        return result

    working_peer.servicer.execute = execute

    assert run(working_peer, source, tmp_path / "report.md") == 1
    output = capsys.readouterr().out
    assert "Failed: grep: timed_out" in output
    assert "Failed: bash: completed, exit code 3" in output


def test_a_gateway_that_fails_is_a_failure(peer: Any, source: Path, tmp_path: Path, capsys: Any) -> None:
    """A typed error of the gateway ends the demo with a line, not with a traceback."""
    peer.servicer.fail("UploadFile", peer.Failure(grpc.StatusCode.INTERNAL, "INTERNAL", "a bug"))

    assert run(peer, source, tmp_path / "report.md") == 1
    assert "a bug" in capsys.readouterr().out


def test_what_cannot_begin_says_why(peer: Any, source: Path, tmp_path: Path, capsys: Any) -> None:
    """A model that is not installed and an empty repository end with exit code 2 and a reason."""
    assert run(peer, source, tmp_path / "report.md", "--model", "nonsense-without-a-provider") == 2
    (source / "main.py").unlink()
    assert run(peer, source, tmp_path / "report.md") == 2
    assert "no files" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(shlex.split(f"--target x --repository {tmp_path}/missing --report y"))


def test_without_rich_the_lines_are_plain(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The agent does not depend on rich."""
    real = builtins.__import__

    def without_rich(name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("rich"):
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without_rich)
    progress.printer().line("[bold]kept[/bold]", "red")

    assert capsys.readouterr().out == "[bold]kept[/bold]\n"


def test_a_sandbox_cannot_write_on_the_terminal() -> None:
    """Escape sequences in what a model or a command says are taken out."""
    assert progress.harmless("a\x1b[31mb\nc\r") == "a\N{REPLACEMENT CHARACTER}[31mb\nc\N{REPLACEMENT CHARACTER}"
