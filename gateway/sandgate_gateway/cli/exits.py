"""Exit codes, and the one line on stderr that goes with each."""

from __future__ import annotations

import io
import os
import sys

from sandgate_gateway.errors import GatewayError, Misconfigured

FAILED = 1
WRONG = 2
"""The command line or the configuration is wrong; trying again does not help."""

_LAST_STANDARD = 2
"""Number of stderr."""


class CommandFailed(Exception):
    """A command could not do its work; the message is for the person who ran it."""


def mend_streams() -> None:
    """Make every standard stream fit to be written to, whatever it was started with.

    One that is closed (`2>&-`) leads to nowhere from now on: else the next file that is opened takes its number, and
    what is meant for stderr ends up in the audit. What an encoding cannot say is written as an escape.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        pass
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
