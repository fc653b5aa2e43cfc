"""Runs the runner's operations on real files, as functions."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandgate_providers.runner import operations
from sandgate_providers.runner.failures import OperationFailed


class Operate:
    """Does operations; keeps what the last one wrote to its output."""

    def __init__(self) -> None:
        self.output = b""

    def __call__(self, name: str, path: Path | str | bytes, *, content: bytes = b"", **arguments: object) -> Any:
        """Give the answer, having checked that it survives JSON as every reader understands it."""
        shown = os.fsdecode(path)
        sink = io.BytesIO()
        value = operations.run(name, {"path": shown, **arguments}, io.BytesIO(content), sink)
        self.output = sink.getvalue()
        json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value

    def fails(self, code: str, name: str, path: Path | str | bytes, **arguments: Any) -> str:
        """Check that an operation fails with a code, and that its message is plain text; give the message."""
        with pytest.raises(OperationFailed) as caught:
            self(name, path, **arguments)
        assert caught.value.code == code, str(caught.value)
        str(caught.value).encode("utf-8")
        return str(caught.value)

    def write(self, path: Path | str | bytes, content: bytes, **arguments: Any) -> Any:
        """Write a file."""
        return self("write", path, content=content, **{"size_bytes": len(content), **arguments})

    def replace(self, path: Path | str | bytes, old: bytes, new: bytes, **arguments: Any) -> Any:
        """Replace a text."""
        return self("replace", path, content=texts(old, new), **arguments)


def texts(old: bytes, new: bytes) -> bytes:
    """Give the input of a replacement."""
    return len(old).to_bytes(4, "big") + old + new


@pytest.fixture
def operate() -> Operate:
    """Give what does operations."""
    return Operate()


@pytest.fixture
def deep_folder() -> Iterator[Path]:
    """Give a folder in which trees may grow deeper than pytest can remove."""
    folder = Path(tempfile.mkdtemp(prefix="deep-"))
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture
def as_nobody() -> Iterator[Callable[[Callable[[Path], object]], str]]:
    """Give what does something in a process without rights of root, with a folder of its own, and says what it raised.

    Root may read and write everything, so that a refusal can only be seen in somebody else's process.
    """
    folder = Path(tempfile.mkdtemp(prefix="nobody-"))
    user = 65534 if os.getuid() == 0 else os.getuid()
    os.chown(folder, user, -1)

    def run(action: Callable[[Path], object]) -> str:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            word = "crashed"
            try:
                os.setuid(user)
                action(folder)
                word = "done"
            except OperationFailed as failure:
                word = failure.code
            finally:
                os.write(writer, word.encode())
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            word = answer.read()
        os.waitpid(child, 0)
        return word

    yield run
    for place, folders, _ in os.walk(folder):
        for name in folders:
            (Path(place) / name).chmod(0o700)
    shutil.rmtree(folder)
