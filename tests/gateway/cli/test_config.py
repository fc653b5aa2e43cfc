"""`sandgate config check`: what counts, and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandgate_gateway.cli.application import run

BAD = "sandboxes:\n  max: 0\n  limits: {memory: 1 GBB}\n"


def test_it_prints_what_counts(
    bare_machine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every setting with its value and its place; values for commands are hidden."""
    (bare_machine / "sandgate.yaml").write_text(
        "data_dir: /srv/x\nsandboxes:\n  environment: {TOKEN: hunter2}\n", encoding="utf-8"
    )
    monkeypatch.setenv("SANDGATE_SANDBOXES__MAX", "5")
    assert run(["config", "check"]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert rows["data_dir"] == ["/srv/x", "sandgate.yaml:1"]
    assert rows["sandboxes.max"] == ["5", "SANDGATE_SANDBOXES__MAX"]
    assert rows["sandboxes.environment"] == ["TOKEN=(hidden)", "sandgate.yaml:3"]
    assert rows["audit.file"] == ["/srv/x/audit/audit.jsonl", "default"]
    assert not (Path("/srv/x")).exists()


def test_it_prints_every_mistake(bare_machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, one a line, with exit code 1."""
    (bare_machine / "bad.yaml").write_text(BAD, encoding="utf-8")
    assert run(["config", "check", "--config", "bad.yaml"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "error: bad.yaml:2: sandboxes.max: 0 is out of range; from 1 to 10000",
        'error: bad.yaml:3: sandboxes.limits.memory: "1 GBB" is no size; write for example 512MiB',
    ]


def test_programs_get_json(bare_machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object on stdout, whether the settings are right or wrong."""
    assert run(["config", "check", "--json"]) == 0
    right = json.loads(capsys.readouterr().out)
    assert right["ok"] is True
    assert right["file"] is None
    assert right["settings"]["sandboxes.max"] == {"value": 64, "from": "default"}
    (bare_machine / "bad.yaml").write_text(BAD, encoding="utf-8")
    assert run(["config", "check", "--json", "-c", "bad.yaml"]) == 1
    shown = capsys.readouterr()
    wrong = json.loads(shown.out)
    assert wrong["ok"] is False
    assert wrong["problems"][0] == {
        "file": "bad.yaml",
        "line": 2,
        "variable": "",
        "key": "sandboxes.max",
        "message": "0 is out of range; from 1 to 10000",
    }
    assert shown.err == ""


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_commands_that_start_something_refuse_wrong_settings(
    bare_machine: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """The same lines, with exit code 2, before anything starts."""
    (bare_machine / "bad.yaml").write_text(BAD, encoding="utf-8")
    assert run([command, "--config", "bad.yaml"]) == 2
    assert capsys.readouterr().err.splitlines()[0].startswith("error: bad.yaml:2: sandboxes.max")
