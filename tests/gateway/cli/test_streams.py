"""Whatever a command is started with in place of a terminal, it does its work and nothing goes astray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandgate_gateway.cli.application import run

CHECK = [sys.executable, "-m", "sandgate_gateway", "config", "check"]


def test_closed_streams_are_no_mistake() -> None:
    """A daemon's starter may close them all."""
    closed = ["sh", "-c", 'exec "$0" "$@" <&- >&-', *CHECK]
    ended = subprocess.run(closed, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_no_file_takes_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """Else what a library prints to stderr would go into the first file that is opened, which is the audit."""
    file = tmp_path / "first"
    program = (
        "import os, sys\n"
        "from sandgate_gateway.cli.application import run\n"
        "run(['version'])\n"
        "with open(sys.argv[1], 'w') as file:\n"
        "    file.write(str(file.fileno()))\n"
    )
    subprocess.run(["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', sys.executable, "-c", program, str(file)], check=True)
    assert int(file.read_text(encoding="ascii")) > 2


def test_a_reader_that_leaves_early_leaves_no_traceback() -> None:
    """As `head -1` does."""
    ended = subprocess.run(["sh", "-c", '"$0" "$@" | head -1', *CHECK], capture_output=True, check=False)
    assert ended.stdout.startswith(b"setting")
    assert ended.stderr == b""


def test_what_the_encoding_cannot_say_is_escaped(tmp_path: Path) -> None:
    """A terminal of another language stops no command."""
    environment = {"SANDGATE_DATA_DIR": "/srv/\u00e9", "PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(CHECK, env=environment, capture_output=True, check=False, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"/srv/\\xe9" in ended.stdout


def test_a_path_of_other_bytes_is_told(tmp_path: Path) -> None:
    """Neither gRPC nor the audit can name it."""
    environment = {"SANDGATE_DATA_DIR": "/srv/\udcff", "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(CHECK, env=environment, capture_output=True, check=False, cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr == b'error: SANDGATE_DATA_DIR: "/srv/\\udcff" is not UTF-8; paths of settings are\n'


def test_streams_of_others_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """A program that runs a command inside itself keeps its own streams."""
    before = sys.stdout
    assert run(["version"]) == 0
    assert sys.stdout is before
    assert capsys.readouterr().out.startswith("sandgate ")
