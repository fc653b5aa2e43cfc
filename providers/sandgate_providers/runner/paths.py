"""Paths as an operation takes them and as its answer shows them.

A path arrives as JSON text and is bytes from then on. A byte that is not UTF-8 travels in an argument as the lone
surrogate that Python's `surrogateescape` gives it, so that each file can be named. In an answer it is U+FFFD, because
not every reader of JSON takes lone surrogates; a second field `path_base64` then holds the exact bytes, so that two
names which look the same can be told apart. The field is there only when the text alone does not say it all.
"""

from __future__ import annotations

import base64

from sandgate_providers.runner.failures import OperationFailed

MOST_PATH_BYTES = 4095
"""The kernel's PATH_MAX without its end."""


def parse_path(arguments: dict[str, object], name: str = "path") -> bytes:
    """Take an absolute path out of the arguments.

    Raises:
        OperationFailed: `invalid-path`: it is missing, relative, too long, holds NUL or is no file name's text.
    """
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise OperationFailed("invalid-path", "{} must be a text that is not empty".format(name))
    try:
        path = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise OperationFailed("invalid-path", "{} holds characters that no file name can have".format(name)) from None
    if b"\0" in path:
        raise OperationFailed("invalid-path", "{} holds a NUL character".format(name))
    if not path.startswith(b"/"):
        raise OperationFailed("invalid-path", "{}: the path must be absolute".format(show_path(path)))
    if len(path) > MOST_PATH_BYTES:
        raise OperationFailed("invalid-path", "{} is longer than {} bytes".format(name, MOST_PATH_BYTES))
    return path


def show_path(path: bytes) -> str:
    """Give a path as text that every JSON reader takes."""
    return path.decode("utf-8", "replace")


def answer_path(path: bytes) -> dict[str, object]:
    """Give the fields of an answer that name a path."""
    try:
        return {"path": path.decode("utf-8")}
    except UnicodeDecodeError:
        return {"path": show_path(path), "path_base64": base64.b64encode(path).decode("ascii")}


def path_text(path: bytes) -> str:
    """Give a path as text to match against; nothing of it is lost."""
    return path.decode("utf-8", "surrogateescape")


def join_path(folder: bytes, relative: bytes) -> bytes:
    """Give the path of something below a folder."""
    if not relative:
        return folder
    return folder.rstrip(b"/") + b"/" + relative
