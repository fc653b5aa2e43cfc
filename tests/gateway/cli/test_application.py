"""The command line as a newcomer meets it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

from sandgate_gateway.cli.application import run
from sandgate_gateway.cli.exits import CommandFailed, report
from sandgate_gateway.errors import Misconfigured
from sandgate_providers.errors import ProviderMisconfigured, ProviderUnavailable

HEAVY = ("grpc", "pydantic", "yaml", "rich.console", "structlog", "sandgate_gateway.bootstrap")
"""What takes long to import, and what help does not need."""


@pytest.mark.parametrize("arguments", [["--help"], ["-h"]])
def test_help_explains(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """One paragraph, the commands, examples, and the variables."""
    assert run(arguments) == 0
    text = capsys.readouterr().out
    assert "Sandgate is one gateway in front of every sandbox" in text
    for word in ("serve", "demo", "config", "version", "Examples:", "SANDGATE_CONFIG", "SANDGATE_MODEL"):
        assert word in text


def test_help_fits_a_narrow_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In 80 columns no line of the examples is torn apart."""
    monkeypatch.setenv("COLUMNS", "80")
    run(["--help"])
    text = capsys.readouterr().out
    assert "  sandgate config check   show every setting, or every mistake with its line\n" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_no_command_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to do is not a success, and the help is what one looks for."""
    assert run([]) == 2
    shown = capsys.readouterr()
    assert "Usage:" in shown.out + shown.err


def test_help_answers_at_once() -> None:
    """Whatever is slow to import is imported by the command that needs it."""
    program = (
        "import sys, sandgate_gateway.cli.application as a\n"
        "code = a.run(['--help'])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_version(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """The installed version, on stdout."""
    assert run(arguments) == 0
    assert capsys.readouterr().out == f"sandgate {importlib.metadata.version('sandgate')}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["serve", "--nonsense"], ["config", "nonsense"], ["serve", "x"]])
def test_a_wrong_command_line_is_told(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """One line says what is wrong, on stderr, with exit code 2."""
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert "Error: " in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (Misconfigured("a: x\nb: y"), 2, "error: a: x\nerror: b: y\n"),
        (ProviderMisconfigured("no bubblewrap"), 2, "error: no bubblewrap\n"),
        (ProviderUnavailable("the engine is away"), 1, "error: the engine is away\n"),
        (CommandFailed("no"), 1, "error: no\n"),
        (PermissionError(13, "Permission denied", "/x"), 1, "error: /x: Permission denied\n"),
        (ExceptionGroup("g", [ExceptionGroup("h", [Misconfigured("deep")])]), 2, "error: deep\n"),
    ],
)
def test_what_a_user_can_mend_is_one_line(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int, text: str
) -> None:
    """Misconfiguration leaves with 2, any other failure with 1."""
    assert report(error) == code
    assert capsys.readouterr().err == text


def test_a_bug_keeps_its_traceback() -> None:
    """Hiding a bug behind one line would help nobody."""
    with pytest.raises(ZeroDivisionError):
        report(ZeroDivisionError())


def test_the_module_is_the_command() -> None:
    """`python -m sandgate_gateway` is the same as `sandgate`."""
    command = [sys.executable, "-m", "sandgate_gateway", "version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.startswith("sandgate ")
