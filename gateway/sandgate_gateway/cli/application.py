"""The commands put together, and what happens to errors that reach the top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from sandgate_gateway.cli import config, demo, serve
from sandgate_gateway.cli.exits import mend_streams, report

INTRODUCTION = """\
Sandgate is one gateway in front of every sandbox that AI agents use. An agent sends each tool call to it; the gateway
decides whether the call may run, runs it in a sandbox, keeps the answer small enough for a model, and writes an audit
record that cannot be skipped.
"""

# "\b" on a line of its own keeps the lines of a paragraph as they are. No line is longer than 77 characters, so
# that the whole fits into 80 columns.
EPILOG = """\
\b
Examples:
  sandgate demo           watch an agent at work in a sandbox, then the audit
  sandgate serve          start a gateway on a Unix socket, for this user
  sandgate serve -c FILE  the same, with settings from a file
  sandgate config check   show every setting, or every mistake with its line

\b
Environment (wins over the file):
  SANDGATE_CONFIG         the file of settings; else ./sandgate.yaml, else
                          /etc/sandgate/sandgate.yaml, else the defaults
  SANDGATE_<KEY>__<KEY>   any setting: SANDGATE_SANDBOXES__LIMITS__MEMORY=2GiB
                          sets sandboxes.limits.memory
  SANDGATE_PROVIDER       where sandboxes run; this version knows: local
  SANDGATE_MODEL          the demo's model: any init_chat_model name
"""

app = typer.Typer(
    name="sandgate",
    help=INTRODUCTION,
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Help in boxes would take three times as long to appear: rich is loaded only where tables and colour are worth it.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.command("demo")(demo.demo)
app.add_typer(config.app, name="config")


def version_text() -> str:
    """Name the installed version."""
    import importlib.metadata  # noqa: PLC0415 - a tenth of the time that --help takes

    return f"sandgate {importlib.metadata.version('sandgate')}"


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(version_text())
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda value: _print_version(wanted=value), is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


@app.command("version")
def version_command() -> None:
    """Print the version."""
    typer.echo(version_text())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code. Whatever a user can mend is one clear line on stderr."""
    mend_streams()
    try:
        app(args=list(arguments) if arguments is not None else None)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0
    except Exception as error:  # noqa: BLE001 - the outermost boundary; what `report` does not know is raised again
        return report(error)
    return 0
