"""`python -m sandgate_agent.demo`: run the demo's agent against a gateway that is running."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from sandgate_agent.demo.progress import Printer, printer
from sandgate_agent.demo.work import Assignment, carry_out
from sandgate_agent.errors import SandgateError

FAILED = 1
NOT_POSSIBLE = 2


def main(arguments: list[str] | None = None) -> int:
    """Run the demo. Returns 0 when every step and the report succeeded, 1 when not, 2 when it could not begin."""
    assignment = _assignment(arguments)
    output = printer()
    try:
        failures = asyncio.run(carry_out(assignment, output))
    except SandgateError as error:
        return _fail(output, f"the gateway at {assignment.target}: {error}", FAILED)
    except (ImportError, OSError, ValueError) as error:
        # A repository that cannot be sent, a report that cannot be written, a model whose package or key is missing.
        return _fail(output, str(error), NOT_POSSIBLE)
    for failure in failures:
        output.line(f"Failed: {failure}", "red")
    return FAILED if failures else 0


def _assignment(arguments: list[str] | None) -> Assignment:
    parser = argparse.ArgumentParser(
        prog="python -m sandgate_agent.demo",
        description="Let a LangGraph agent study a repository in a sandbox and leave a report.",
    )
    parser.add_argument(
        "--target", required=True, help="where the gateway listens, for example unix:/run/sandgate.sock"
    )
    parser.add_argument("--repository", required=True, type=Path, metavar="DIR", help="what the agent studies")
    parser.add_argument("--report", required=True, type=Path, metavar="FILE", help="where the report is written")
    parser.add_argument(
        "--model",
        default=os.environ.get("SANDGATE_MODEL") or None,
        metavar="NAME",
        help="a real model, any name of LangChain's init_chat_model (default: SANDGATE_MODEL, else a scripted one)",
    )
    chosen = parser.parse_args(arguments)
    if not chosen.repository.is_dir():
        parser.error(f"--repository: there is no folder {chosen.repository}")
    return Assignment(
        target=chosen.target, repository=chosen.repository.resolve(), report=chosen.report, model=chosen.model
    )


def _fail(output: Printer, text: str, code: int) -> int:
    output.line(f"Failed: {text}", "red")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
