"""Where a runner begins: standard input and output are its line."""

from __future__ import annotations

import os
import resource

from sandgate_providers.runner import service


def main() -> None:
    """Move the line away from the standard descriptors, so that nothing writes into it by accident, and serve it."""
    source = os.dup(0)
    sink = os.dup(1)
    nothing = os.open("/dev/null", os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    service.Runner().serve(source, sink)
