"""`sandgate serve` as a process: what it says, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

pytestmark = pytest.mark.local

LONG = 30.0


@pytest.fixture
def config() -> Iterator[Path]:
    """Write settings of a gateway of its own, in a folder that users of sandboxes can pass, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="sandgate-test-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        file = folder / "gateway.yaml"
        file.write_text(f"listen: [unix:{folder}/run/s.sock, '127.0.0.1:0']\ndata_dir: {folder}/data\n")
        yield file


@pytest.fixture
def gateway(config: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a gateway; end it if the test did not."""
    command = [sys.executable, "-m", "sandgate_gateway", "serve", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        yield process
        if process.poll() is None:
            process.kill()


def read_until(process: subprocess.Popen[str], words: str) -> list[str]:
    """Read what it says until a line holds these words."""
    assert process.stderr is not None
    said: list[str] = []
    for line in process.stderr:
        said.append(line.rstrip())
        if words in line:
            return said
    raise AssertionError(f"it ended without saying {words!r}: {said}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop(
    gateway: subprocess.Popen[str], config: Path, number: signal.Signals
) -> None:
    """It says where it listens, answers there, and leaves with 0 on SIGTERM and Ctrl-C; nothing is left listening."""
    said = read_until(gateway, "ready: listening on")
    text = "\n".join(said)
    assert str(config) in text
    assert f"data: {config.parent}/data" in text
    target = f"unix:{config.parent}/run/s.sock"
    assert target in said[-1]
    port = said[-1].rpartition(":")[2]
    for address in (target, f"127.0.0.1:{port}"):
        with grpc.insecure_channel(address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=LONG)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
    gateway.send_signal(number)
    rest = read_until(gateway, "stopped")
    assert signal.Signals(number).name in rest[0]
    assert gateway.wait(LONG) == 0
    records = (config.parent / "data" / "audit" / "audit.jsonl").read_text().splitlines()
    events = [json.loads(record)["event"] for record in records]
    assert (events[0], events[1], events[-1]) == ("audit.chain.opened", "gateway.started", "gateway.stopped")


def test_an_address_that_is_taken_is_one_clear_line(gateway: subprocess.Popen[str], config: Path) -> None:
    """A second gateway on the same data or socket refuses to start, with exit code 2 and without a traceback."""
    read_until(gateway, "ready: listening on")
    second = config.with_name("second.yaml")
    second.write_text(f"listen: unix:{config.parent}/run/s.sock\ndata_dir: {config.parent}/other\n")
    for file, words in ((config, "another gateway writes it"), (second, "another gateway listens on")):
        command = [sys.executable, "-m", "sandgate_gateway", "serve", "--config", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG)
        assert done.returncode == 2
        assert words in done.stderr.splitlines()[-1]
        assert done.stderr.splitlines()[-1].startswith("error: ")
        assert "Traceback" not in done.stderr


def test_a_data_folder_that_cannot_be_made_is_one_clear_line(config: Path) -> None:
    """With the setting and the system's reason."""
    config.write_text(f"data_dir: {os.devnull}/data\n")
    command = [sys.executable, "-m", "sandgate_gateway", "serve", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "error: data_dir: /dev/null/data cannot be used: Not a directory"
