"""The arguments of an operation, checked once more inside: what is wrong here is the gateway's mistake."""

from __future__ import annotations

from sandgate_providers.runner.failures import OperationFailed

MOST_NUMBER = (1 << 62) - 1
"""Above this the kernel has no file offset."""


def _refuse(name: str, wanted: str) -> OperationFailed:
    return OperationFailed("io-error", "argument {} must be {}".format(name, wanted))


def take_text(arguments: dict[str, object], name: str) -> str:
    """Take a text; empty when it is not given."""
    value = arguments.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _refuse(name, "a text")
    return value


def take_flag(arguments: dict[str, object], name: str) -> bool:
    """Take a truth value; false when it is not given."""
    value = arguments.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _refuse(name, "true or false")
    return value


def take_number(arguments: dict[str, object], name: str, default: int, least: int = 0) -> int:
    """Take a whole number that is not below `least`."""
    value = arguments.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST_NUMBER:
        raise _refuse(name, "a whole number from {} to {}".format(least, MOST_NUMBER))
    return value
