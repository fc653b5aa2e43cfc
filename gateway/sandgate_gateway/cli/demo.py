"""`sandgate demo`: a gateway, an agent, a real piece of work, and the audit trail of it."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandgate_gateway.cli.exits import CommandFailed
from sandgate_gateway.cli.serve import ConfigOption, log_to_stderr

if TYPE_CHECKING:
    from sandgate_gateway.settings import Settings

FOLDER_MODE = 0o711
"""Users of sandboxes pass through on the way to their own folder, and can list nothing."""

RepositoryOption = Annotated[
    Path | None,
    typer.Option(
        "--repository",
        metavar="DIR",
        help="What the agent looks at (default: the git checkout around here, else Sandgate's own source).",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", envvar="SANDGATE_MODEL", help="A real model, for example openai:gpt-4.1."),
]
KeepOption = Annotated[bool, typer.Option("--keep", help="Leave the data folder, and say where it is.")]


def demo(
    *,
    repository: RepositoryOption = None,
    model: ModelOption = None,
    keep: KeepOption = False,
    config: ConfigOption = None,
) -> None:
    """Watch an agent at work in a sandbox, then the audit.

    Lets an agent do a real piece of work, then shows its report and the audit trail. Starts a gateway of its own in a
    fresh folder, runs a LangGraph agent in a second process against it, and removes everything again.

    The model is scripted unless you name one: it plays a fixed part, so that the demo needs no key and no network. The
    calls, the sandbox and the audit are real either way.
    """
    _require_agent()
    source = _repository(repository)
    from sandgate_gateway.configuration.loading import load_settings  # noqa: PLC0415 - these keep --help fast

    loaded = load_settings(config)
    from sandgate_gateway.cli.demonstration import Demonstration, demonstrate  # noqa: PLC0415

    log_to_stderr(logging.WARNING)
    with _folder(keep=keep) as folder:
        settings = _own_settings(loaded.settings, folder)
        demonstration = Demonstration(settings=settings, folder=folder, repository=source, model=model)
        try:
            problems = asyncio.run(demonstrate(demonstration))
        except asyncio.CancelledError:
            raise CommandFailed("stopped by SIGTERM before the end") from None
    if problems:
        raise CommandFailed("\n".join(problems))


def _require_agent() -> None:
    missing = [name for name in ("langchain", "langgraph") if importlib.util.find_spec(name) is None]
    if missing:
        raise CommandFailed(
            f"the demo's agent needs {' and '.join(missing)}, which is not installed; "
            "install Sandgate with its extras agent, gateway and local"
        )


def _repository(named: Path | None) -> Path:
    """Find what the agent looks at."""
    if named is not None:
        if not named.is_dir():
            raise CommandFailed(f"--repository: there is no folder {named}")
        return named.resolve()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".git").exists():
            return folder
    return Path(__file__).resolve().parents[1]


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    """Make a fresh folder, and remove it in the end, whatever happened."""
    # Not below TMPDIR: that may be a folder which users of sandboxes cannot pass, or too long for a socket's path.
    folder = Path(tempfile.mkdtemp(prefix=f"sandgate-demo-{os.getpid()}-", dir="/tmp"))
    folder.chmod(FOLDER_MODE)
    try:
        yield folder
    finally:
        if keep:
            typer.echo(f"\nKept: {folder} (audit/audit.jsonl is the audit trail, report.md the report)")
        else:
            shutil.rmtree(folder)


def _own_settings(settings: Settings, folder: Path) -> Settings:
    """Keep the demo to itself: its own folder, socket, keys and name, whatever else is configured."""
    from sandgate_gateway.configuration.listening import listen_address  # noqa: PLC0415 - keeps --help fast

    sockets = folder / "run"
    sockets.mkdir(mode=0o700)
    audit = settings.audit.model_copy(update={"file": None, "key_file": None, "include_arguments": "preview"})
    admissions = settings.admissions.model_copy(update={"key_file": None})
    return settings.model_copy(
        update={
            "listen": (listen_address(f"unix:{sockets}/sandgate.sock"),),
            "data_dir": folder,
            "installation": f"demo-{os.getpid()}",
            "audit": audit,
            "admissions": admissions,
        }
    )
