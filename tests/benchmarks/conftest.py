"""A gateway as a process of its own, as it is deployed, and a table of figures at the end of the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from rich.console import Console
from rich.table import Table
from tests.benchmarks.measuring import Figures, Gateway

JSON_FILE = Path(".benchmarks/latest.json")


@pytest.fixture(scope="session")
def figures() -> Iterator[Figures]:
    """Give the table; print and store it at the end."""
    made = Figures()
    yield made
    table = Table("what", "measured", "aim", title="Sandgate benchmarks, one run")
    for row in made.rows:
        table.add_row(str(row["name"]), f"{row['value']:g} {row['unit']}", str(row["aim"]))
    Console(file=sys.__stdout__).print("", table)
    JSON_FILE.parent.mkdir(exist_ok=True)
    JSON_FILE.write_text(json.dumps(made.rows, indent=2) + "\n", encoding="utf-8")
    sys.__stdout__.write(json.dumps(made.rows) + "\n")  # type: ignore[union-attr]  # a terminal or CI's pipe


@pytest.fixture(scope="session")
def gateway() -> Iterator[Gateway]:
    """Start `sandgate serve` with a data folder of its own."""
    with tempfile.TemporaryDirectory(prefix="sandgate-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        socket = folder / "gateway.sock"
        configuration = folder / "sandgate.yaml"
        configuration.write_text(f"listen: unix:{socket}\ndata_dir: {folder / 'data'}\n", encoding="utf-8")
        command = [str(Path(sys.executable).with_name("sandgate")), "serve", "--config", str(configuration)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SANDGATE_")}
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        target = f"unix:{socket}"
        with grpc.insecure_channel(target) as channel:
            grpc.channel_ready_future(channel).result(timeout=60)
        yield Gateway(target, process)
        process.terminate()
        process.wait(timeout=60)
