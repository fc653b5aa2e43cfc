"""`sandgate config check`: what is set, where it comes from, and everything that is wrong with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandgate_gateway.cli.exits import FAILED, complain
from sandgate_gateway.cli.serve import ConfigOption

if TYPE_CHECKING:
    from sandgate_gateway.configuration.effective import Effective
    from sandgate_gateway.configuration.problems import Problem

WIDTH = 200

app = typer.Typer(help="Look at the settings.", no_args_is_help=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]


@app.callback()
def _group() -> None:
    """Keep `config` a group while it has a single command."""


@app.command("check")
def check(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print every setting with its value and its place, or all mistakes with their lines.

    Starts nothing and changes nothing. Leaves with exit code 1 when a gateway would refuse these settings.
    """
    from sandgate_gateway.configuration.effective import effective_settings  # noqa: PLC0415 - these keep --help fast
    from sandgate_gateway.configuration.loading import load_settings  # noqa: PLC0415
    from sandgate_gateway.configuration.problems import InvalidConfiguration  # noqa: PLC0415

    try:
        loaded = load_settings(config)
    except InvalidConfiguration as error:
        if as_json:
            typer.echo(json.dumps({"ok": False, "problems": [_problem(item) for item in error.problems]}, indent=2))
        else:
            complain(str(error))
        raise typer.Exit(FAILED) from None
    effective = effective_settings(loaded)
    if as_json:
        typer.echo(json.dumps(_settings(effective, loaded.file), indent=2))
    else:
        _print_table(effective, loaded.file)


def _problem(problem: Problem) -> dict[str, str | int]:
    return {
        "file": problem.origin.file,
        "line": problem.origin.line,
        "variable": problem.origin.variable,
        "key": problem.key,
        "message": problem.message,
    }


def _settings(effective: list[Effective], file: Path | None) -> dict[str, object]:
    return {
        "ok": True,
        "file": str(file) if file else None,
        "settings": {item.key: {"value": item.value, "from": item.origin} for item in effective},
    }


def _print_table(effective: list[Effective], file: Path | None) -> None:
    from rich.console import Console  # noqa: PLC0415 - these keep --help fast
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("setting", "value", "from"):
        table.add_column(heading, overflow="fold")
    for item in effective:
        style = "dim" if item.is_default else ""
        table.add_row(Text(item.key), Text(item.text), Text(item.origin), style=style)
    # A file or a pipe has no width; lines that are cut there cannot be searched.
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(table)
    console.print(Text(f"\nThese settings can be used ({file or 'no file was found; these are the defaults'})."))
