"""Where settings are found, what wins, and how mistakes are told."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from pydantic import ValidationError

from sandgate_gateway.configuration import loading
from sandgate_gateway.configuration.loading import load_settings, make_settings
from sandgate_gateway.configuration.problems import InvalidConfiguration
from sandgate_gateway.errors import Misconfigured

Write = Callable[[str], Path]


def problems(file: Path | None = None) -> list[str]:
    """Load what cannot be loaded and give the lines."""
    with pytest.raises(InvalidConfiguration) as caught:
        load_settings(file)
    return str(caught.value).splitlines()


def test_without_anything_the_defaults_count() -> None:
    """No file and no variable: the documented defaults."""
    loaded = load_settings()
    settings = loaded.settings
    assert loaded.file is None
    assert loaded.variables == ()
    assert settings.listen[0].target.startswith("unix:/")
    assert settings.server.max_request_bytes == 64 << 20
    assert settings.server.shutdown_grace == 30
    assert settings.provider == "local"
    assert settings.local.isolation == "bubblewrap"
    assert settings.sandboxes.max == 64
    assert settings.sandboxes.idle_time == 600
    assert settings.sandboxes.limits.memory == 1 << 30
    assert settings.tools.default_timeout == 60
    assert settings.audit.include_arguments == "metadata"
    assert settings.audit_file == settings.data_dir / "audit" / "audit.jsonl"
    assert settings.admission_key_file.is_relative_to(settings.data_dir)


def test_a_file_is_read(write: Write) -> None:
    """Units become bytes and seconds."""
    file = write(
        """
        listen: ["127.0.0.1:50051", "unix:/tmp/x.sock"]
        data_dir: /srv/sandgate
        sandboxes:
          idle_time: 1h30m
          limits: {memory: 1.5GiB, processes: 64}
          environment: {LANG: "de_DE.UTF-8", NO: "1"}
        """
    )
    settings = load_settings(file).settings
    assert [address.target for address in settings.listen] == ["127.0.0.1:50051", "unix:/tmp/x.sock"]
    assert settings.data_dir == Path("/srv/sandgate")
    assert settings.sandboxes.idle_time == 5400
    assert settings.sandboxes.limits.memory == 3 << 29
    assert settings.sandboxes.limits.processes == 64
    assert settings.sandboxes.limits.open_files == 1024
    assert settings.sandboxes.environment == {"LANG": "de_DE.UTF-8", "NO": "1"}


def test_settings_are_frozen() -> None:
    """Nobody changes a setting while the gateway runs."""
    settings = load_settings().settings
    with pytest.raises(ValidationError):
        settings.provider = "other"  # type: ignore[assignment]  # that is the point
    with pytest.raises(ValidationError):
        settings.sandboxes.limits.memory = 1


def test_the_environment_wins_over_the_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Key by key: what the environment does not name stays as the file has it."""
    file = write("sandboxes:\n  max: 3\n  queue_time: 1s\n  environment: {A: file, B: file}\n")
    monkeypatch.setenv("SANDGATE_SANDBOXES__MAX", "5")
    monkeypatch.setenv("SANDGATE_SANDBOXES__ENVIRONMENT__A", "variable")
    loaded = load_settings(file)
    assert loaded.settings.sandboxes.max == 5
    assert loaded.settings.sandboxes.queue_time == 1
    assert loaded.settings.sandboxes.environment == {"A": "variable", "B": "file"}
    assert loaded.variables == ("SANDGATE_SANDBOXES__ENVIRONMENT__A", "SANDGATE_SANDBOXES__MAX")


def test_the_file_is_looked_for(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`--config`, else SANDGATE_CONFIG, else ./sandgate.yaml, else the system's file."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    system, named, given = elsewhere / "system.yaml", elsewhere / "named.yaml", elsewhere / "given.yaml"
    here = bare_machine / "sandgate.yaml"
    for number, file in enumerate((system, here, named, given), start=1):
        file.write_text(f"sandboxes: {{max: {number}}}\n", encoding="utf-8")
    monkeypatch.setattr(loading, "USUAL_PLACES", (Path("sandgate.yaml"), system))
    monkeypatch.setenv("SANDGATE_CONFIG", str(named))
    assert load_settings(given).settings.sandboxes.max == 4
    assert load_settings().settings.sandboxes.max == 3
    monkeypatch.delenv("SANDGATE_CONFIG")
    assert load_settings().settings.sandboxes.max == 2
    here.unlink()
    assert load_settings().settings.sandboxes.max == 1
    system.unlink()
    assert load_settings().file is None


def test_a_named_file_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody wants the defaults when they named a file; the name of who named it is in the message."""
    assert problems(Path("nowhere.yaml")) == ["nowhere.yaml: cannot be read: No such file or directory"]
    monkeypatch.setenv("SANDGATE_CONFIG", "/nowhere.yaml")
    assert problems() == ["SANDGATE_CONFIG: there is no file /nowhere.yaml"]


def test_a_mistake_is_told_with_key_and_line(write: Write) -> None:
    """The example of the documentation, word for word."""
    file = write("# one\nsandboxes:\n  limits:\n    memory: 1 GBB\n")
    assert problems(file) == ['gateway.yaml:4: sandboxes.limits.memory: "1 GBB" is no size; write for example 512MiB']


def test_a_mistake_in_a_variable_is_told_with_its_name(monkeypatch: pytest.MonkeyPatch, write: Write) -> None:
    """Also when a file sets the same key to something that is right."""
    monkeypatch.setenv("SANDGATE_SANDBOXES__LIMITS__MEMORY", "1 GBB")
    file = write("sandboxes: {limits: {memory: 2GiB}}\n")
    assert problems(file) == ['SANDGATE_SANDBOXES__LIMITS__MEMORY: "1 GBB" is no size; write for example 512MiB']


def test_all_mistakes_are_told_at_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line each, down the file, then the environment; a mistake in one section hides none in another."""
    monkeypatch.setenv("SANDGATE_SANDBOXES__MAX", "many")
    file = write(
        """\
listen: [0.0.0.0:1, "unix:relative"]
server:
  reflection: maybe
  reflection: true
sandboxes:
  memory: 4GiB
  limits:
    memori: 1
    processes: true
    cpu_time: .inf
  environment:
    NO: yes
    A-B: x
local:
  isolation: off
tools:
  default_timeout: 20m
ledger: 5
audit:
prvider: local
data_dir: relative
installation: 2020-01-01
"""
    )
    told = problems(file)
    assert [line.split(": ")[:2] for line in told] == [
        ["gateway.yaml:1", "listen[0]"],
        ["gateway.yaml:1", "listen[1]"],
        ["gateway.yaml:3", "server.reflection"],
        ["gateway.yaml:4", "server.reflection"],
        ["gateway.yaml:6", "sandboxes.memory"],
        ["gateway.yaml:8", "sandboxes.limits.memori"],
        ["gateway.yaml:9", "sandboxes.limits.processes"],
        ["gateway.yaml:10", "sandboxes.limits.cpu_time"],
        ["gateway.yaml:12", "sandboxes.environment.NO"],
        ["gateway.yaml:13", "sandboxes.environment.A-B"],
        ["gateway.yaml:15", "local.isolation"],
        ["gateway.yaml:17", "tools.default_timeout"],
        ["gateway.yaml:18", "ledger"],
        ["gateway.yaml:20", "prvider"],
        ["gateway.yaml:21", "data_dir"],
        ["gateway.yaml:22", "installation"],
        ["SANDGATE_SANDBOXES__MAX", '"many" is no whole number'],
    ]


def test_unknown_keys_come_with_the_nearest_name(write: Write) -> None:
    """A slip is corrected, a key in the wrong section is sent to its place, anything else gets the list."""
    file = write("sandboxs: {}\nsandboxes: {memory: 1GiB, qqq: 1}\n")
    told = problems(file)
    assert told[0] == "gateway.yaml:1: sandboxs: there is no such setting; did you mean sandboxes?"
    assert told[1] == (
        "gateway.yaml:2: sandboxes.memory: there is no such setting; it belongs at sandboxes.limits.memory"
    )
    assert told[2].startswith("gateway.yaml:2: sandboxes.qqq: there is no such setting; known are max, idle_time,")


def test_settings_that_contradict_each_other_are_told(write: Write) -> None:
    """Each alone is right; the message names both."""
    assert problems(write("tools:\n  default_timeout: 20m\n")) == [
        "gateway.yaml:2: tools.default_timeout: 20m is more than max_timeout, which is 10m"
    ]
    assert problems(write("tools:\n  max_timeout: 30s\n")) == [
        "gateway.yaml:1: tools.default_timeout: 1m is more than max_timeout, which is 30s"
    ]


def test_no_value_of_a_variable_is_ever_shown(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables for commands may be secrets: neither what is wrong with one nor a broken file shows it."""
    told = problems(write('sandboxes:\n  environment:\n    TOKEN: 12345678\n    B: [hunter2]\n    C: "hunter2\\0"\n'))
    assert len(told) == 3
    assert "12345678" not in str(told)
    assert "hunter2" not in str(told)
    told = problems(write("sandboxes:\n  environment:\n    TOKEN: hunter2: x\n"))
    assert "hunter2" not in str(told)
    monkeypatch.setenv("SANDGATE_SANDBOXES__ENVIRONMENT", '{"TOKEN": hunter2}')
    assert "hunter2" not in str(problems())


def test_the_provider_checks_its_own_settings(write: Write) -> None:
    """What only the provider knows is told with the line as well."""
    told = problems(write("local:\n  read_only_mounts: [/proc]\n"))
    assert len(told) == 1
    assert told[0].startswith("gateway.yaml:2: local.read_only_mounts: /proc")


def test_settings_from_values() -> None:
    """Programs make settings from plain values; mistakes are told by key."""
    settings = make_settings({"data_dir": "/tmp/x", "sandboxes": {"queue_time": "250ms"}})
    assert settings.sandboxes.queue_time == 0.25
    with pytest.raises(Misconfigured, match=r"^sandboxes\.max: 0 is out of range; from 1 to 10000$"):
        make_settings({"sandboxes": {"max": 0}})


def test_an_empty_section_is_the_default(write: Write) -> None:
    """An example whose keys are commented out leaves headings with nothing below."""
    assert load_settings(write("server:\nsandboxes:\n  limits:\n")).settings == load_settings().settings


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "\ufeff# nothing\n"])
def test_an_empty_file_sets_nothing(write: Write, text: str) -> None:
    """It is as good as none."""
    assert load_settings(write(text)).settings == load_settings().settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sandboxes: {idle_time: 1" + "0" * 400 + "}", "a number of very many digits is out of range"),
        ("sandboxes: {max: 0x" + "f" * 9000 + "}", "a number of very many digits is out of range"),
        ('data_dir: "/tmp/\\ud800"', "is not UTF-8"),
        ('sandboxes: {environment: {A: "\\ud800"}}', "the value holds half a character"),
    ],
    ids=["time", "count", "path", "variable"],
)
def test_odd_values_are_told(write: Write, text: str, message: str) -> None:
    """Numbers that no double holds and half characters are mistakes with a line, not crashes."""
    (line,) = problems(write(text))
    assert line.startswith("gateway.yaml:1: ")
    assert message in line


def test_a_user_without_a_home_is_told_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container with a user that is in no list: the defaults have no place, unless both are written."""

    def nobody(uid: int) -> NoReturn:
        raise KeyError(uid)

    for name in ("HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    told = problems()
    assert [line.split(":")[0] for line in told] == ["listen[0]", "data_dir"]
    assert all("there is no home folder to be found; write an absolute path" in line for line in told)
    monkeypatch.setenv("SANDGATE_DATA_DIR", "/srv/x")
    monkeypatch.setenv("SANDGATE_LISTEN", "127.0.0.1:50051")
    assert load_settings().settings.data_dir == Path("/srv/x")
    monkeypatch.setenv("SANDGATE_DATA_DIR", "~/x")
    monkeypatch.setenv("SANDGATE_LISTEN", "unix:~nobody-of-this-name/x")
    assert len(problems()) == 2


def test_a_home_that_is_too_long_for_a_socket_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is checked like what is written."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.setenv("HOME", "/" + "h" * 150)
    (line,) = problems()
    assert line.startswith("listen[0]: ")
    assert "longer than the 107 bytes" in line
