"""The package as a whole: what it exports, what it pulls in, and how long that takes."""

from __future__ import annotations

import inspect
import subprocess
import sys

import sandgate_agent
from sandgate_agent import errors


def run(program: str) -> str:
    """Run a program in a fresh interpreter and return what it prints."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], stdout=subprocess.PIPE, text=True, check=True, timeout=60
    ).stdout.strip()


def test_the_public_names_are_sorted_and_real() -> None:
    """Everything that is listed can be imported, and every error is listed."""
    assert sandgate_agent.__all__ == sorted(sandgate_agent.__all__)
    for name in sandgate_agent.__all__:
        assert getattr(sandgate_agent, name).__name__ == name
    assert set(sandgate_agent.__all__) <= set(dir(sandgate_agent))
    classes = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    assert classes <= set(sandgate_agent.__all__)
    assert not hasattr(sandgate_agent, "nothing")


def test_every_error_is_in_the_drawn_tree() -> None:
    """The tree at the top of `errors` names each class, below its parent."""
    drawn = inspect.getdoc(errors) or ""
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, Exception):
            assert name in drawn


def test_importing_the_package_loads_nothing() -> None:
    """The name alone costs neither gRPC nor LangChain."""
    loaded = run("import sys, sandgate_agent; print(*[m for m in ('grpc', 'langchain', 'google') if m in sys.modules])")
    assert loaded == ""


def test_the_client_does_not_need_langchain() -> None:
    """A program that only calls the gateway does not pay for agents."""
    loaded = run(
        "import sys; from sandgate_agent import GatewayClient; "
        "print(*sorted(m for m in sys.modules if m.split('.')[0] in ('langchain', 'langchain_core', 'langgraph')))"
    )
    assert loaded == ""


def test_the_middleware_pulls_in_no_engine_and_no_gateway() -> None:
    """An agent's machine needs neither Docker, Kubernetes, the providers nor the gateway."""
    loaded = run(
        "import sys; from sandgate_agent import GatewayMiddleware; "
        "names = ('docker', 'kubernetes', 'sandgate_gateway', 'sandgate_providers', 'structlog'); "
        "print(*[name for name in names if name in sys.modules])"
    )
    assert loaded == ""


def test_gets_ready_for_forks_unless_told_otherwise() -> None:
    """GRPC is told to survive forks, except where an operator decided or gRPC was loaded before."""
    show = "import os; print(os.environ.get('GRPC_ENABLE_FORK_SUPPORT'))"
    assert run(f"import os; os.environ.pop('GRPC_ENABLE_FORK_SUPPORT', None); import sandgate_agent; {show}") == "1"
    assert run(f"import os; os.environ['GRPC_ENABLE_FORK_SUPPORT'] = '0'; import sandgate_agent; {show}") == "0"
    assert (
        run(f"import os; os.environ.pop('GRPC_ENABLE_FORK_SUPPORT', None); import grpc, sandgate_agent; {show}")
        == "None"
    )
