"""Exit codes, and the one line on stderr that goes with each."""

from __future__ import annotations

import sys

from sandgate_gateway.errors import GatewayError, Misconfigured

FAILED = 1
WRONG = 2
"""The command line or the configuration is wrong; trying again does not help."""


class CommandFailed(Exception):
    """A command could not do its work; the message is for the person who ran it."""


def complain(text: str) -> None:
    """Print lines on stderr, each marked as an error."""
    for line in text.splitlines() or [""]:
        print(f"error: {line}", file=sys.stderr)  # noqa: T201 - the command line's own output


def report(error: Exception) -> int:
    """Print what went wrong and give the exit code. An error that is a bug is raised again, with its traceback."""
    from sandgate_providers.errors import ProviderError, ProviderMisconfigured  # noqa: PLC0415 - keeps --help fast

    error = _single(error)
    match error:
        case Misconfigured() | ProviderMisconfigured():
            complain(str(error))
            return WRONG
        case CommandFailed() | ProviderError() | GatewayError():
            complain(str(error))
            return FAILED
        case OSError() if error.strerror:
            complain(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
            return FAILED
        case _:
            raise error


def _single(error: Exception) -> Exception:
    """Unwrap groups of one: a task group wraps what its only failing task raised."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
