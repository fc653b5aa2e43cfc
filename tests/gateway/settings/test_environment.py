"""Variables of the environment: how they are read, and which ones are mistakes."""

from __future__ import annotations

import pytest

from sandgate_gateway.configuration.environment import read_environment, variable_name
from sandgate_gateway.configuration.loading import load_settings
from sandgate_gateway.configuration.problems import InvalidConfiguration
from sandgate_gateway.settings import Settings


def told(**variables: str) -> list[str]:
    """Read variables and give the problems."""
    return [str(problem) for problem in read_environment(Settings, variables).problems]


def test_every_kind_of_value_can_be_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts, numbers, sizes, times, truth values, lists and mappings, in any case of letters after the prefix."""
    variables = {
        "SANDGATE_LISTEN": "127.0.0.1:50051, unix:/tmp/x.sock",
        "SANDGATE_DATA_DIR": "/srv/1",
        "SANDGATE_INSTALLATION": "12345",
        "SANDGATE_SERVER__REFLECTION": "true",
        "SANDGATE_SERVER__SHUTDOWN_GRACE": "0.5",
        "SANDGATE_SANDBOXES__MAX": "7",
        "SANDGATE_SANDBOXES__IDLE_TIME": "90",
        "SANDGATE_SANDBOXES__LIMITS__MEMORY": "2GiB",
        "SANDGATE_SANDBOXES__LIMITS__FILE_SIZE": "1048576",
        "SANDGATE_SANDBOXES__ENVIRONMENT": '{"A": "1"}',
        "SANDGATE_LOCAL__UID_RANGE": "60000,60100",
        "SANDGATE_LOCAL__READ_ONLY_MOUNTS": '["/opt/a,b"]',
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = load_settings().settings
    assert [address.target for address in settings.listen] == ["127.0.0.1:50051", "unix:/tmp/x.sock"]
    assert str(settings.data_dir) == "/srv/1"
    assert settings.installation == "12345"
    assert settings.server.reflection is True
    assert settings.server.shutdown_grace == 0.5
    assert settings.sandboxes.max == 7
    assert settings.sandboxes.idle_time == 90
    assert settings.sandboxes.limits.memory == 2 << 30
    assert settings.sandboxes.limits.file_size == 1 << 20
    assert settings.sandboxes.environment == {"A": "1"}
    assert settings.local.uid_range == (60000, 60100)
    assert [str(mount) for mount in settings.local.read_only_mounts] == ["/opt/a,b"]


def test_names_of_variables_for_commands_keep_their_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Path` and `PATH` are different variables, and a name may hold the delimiter."""
    monkeypatch.setenv("SANDGATE_SANDBOXES__ENVIRONMENT__MixedCase", "a")
    monkeypatch.setenv("SANDGATE_SANDBOXES__ENVIRONMENT__A__B", "5")
    assert load_settings().settings.sandboxes.environment == {"MixedCase": "a", "A__B": "5"}


def test_variables_that_set_nothing_are_mistakes() -> None:
    """A slip in a name would otherwise be a setting that silently does nothing."""
    assert told(SANDGATE_LISTN="x") == ["SANDGATE_LISTN: there is no such setting; did you mean listen?"]
    assert told(SANDGATE_SANDBOX__MAX="3") == [
        "SANDGATE_SANDBOX__MAX: there is no such setting; did you mean sandboxes?"
    ]
    assert told(SANDGATE_SANDBOXES__LIMITS__MEM="3") == [
        "SANDGATE_SANDBOXES__LIMITS__MEM: there is no such setting; did you mean memory?"
    ]
    assert told(SANDGATE_SERVER="3") == [
        "SANDGATE_SERVER: this is a section; set what is in it, for example SANDGATE_SERVER__MAX_REQUEST_BYTES"
    ]
    assert told(SANDGATE_DATA_DIR__X="3") == ["SANDGATE_DATA_DIR__X: there is nothing below data_dir"]
    assert told(SANDGATE_LISTEN="[1,") == [
        'SANDGATE_LISTEN: must be a list: words with commas between, or JSON such as ["a", "b"]'
    ]
    assert told(SANDGATE_SANDBOXES__ENVIRONMENT="A=1")[0].startswith(
        "SANDGATE_SANDBOXES__ENVIRONMENT: must be a JSON object"
    )


def test_variables_of_others_are_left_alone() -> None:
    """Ours that are read elsewhere, what Kubernetes sets for a service called sandgate, and everybody else's."""
    assert (
        told(
            SANDGATE_CONFIG="x",
            SANDGATE_MODEL="x",
            SANDGATE_SERVICE_HOST="10.0.0.1",
            SANDGATE_PORT="tcp://10.0.0.1:50051",
            SANDGATE_PORT_50051_TCP_ADDR="10.0.0.1",
            sandgate_listen="x",
            PATH="/bin",
        )
        == []
    )


def test_a_wrong_value_is_told_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text where a truth value or a number should be."""
    monkeypatch.setenv("SANDGATE_SERVER__REFLECTION", "yes")
    monkeypatch.setenv("SANDGATE_SANDBOXES__MAX", "1.5")
    monkeypatch.setenv("SANDGATE_SANDBOXES__IDLE_TIME", "")
    with pytest.raises(InvalidConfiguration) as caught:
        load_settings()
    assert str(caught.value).splitlines() == [
        'SANDGATE_SANDBOXES__IDLE_TIME: "" is no time; write for example 30s, 10m or a number of seconds',
        'SANDGATE_SANDBOXES__MAX: "1.5" is no whole number',
        'SANDGATE_SERVER__REFLECTION: "yes" is neither true nor false',
    ]


def test_the_name_of_a_variable() -> None:
    """It is the path in capitals."""
    assert variable_name(("sandboxes", "limits", "memory")) == "SANDGATE_SANDBOXES__LIMITS__MEMORY"
