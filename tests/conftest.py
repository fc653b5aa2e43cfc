"""What holds for every test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from blockbuster import BlockBuster, blockbuster_ctx

# Between two tests nobody uses gRPC, and it would take itself down each time, leaving a pair of sockets open.
grpc.aio.init_grpc_aio()

OURS = ["sandgate_gateway", "sandgate_providers", "sandgate_agent"]


@pytest.fixture(autouse=True)
def blockbuster(request: pytest.FixtureRequest) -> Iterator[BlockBuster | None]:
    """Fail a test in which our code blocks the event loop."""
    if request.node.get_closest_marker("benchmark"):
        yield None
        return
    with blockbuster_ctx(OURS) as watch:
        # Starting a program waits until it was loaded, a millisecond or two; see there why no thread can do it.
        watch.functions["os.read"].can_block_in("sandgate_providers/local/process.py", {"_spawn"})
        yield watch


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give a folder that the users of sandboxes can pass; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="sandgate-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)
