"""The file operations, by name.

Each is a function that may block as long as it likes: it runs in a process of its own, which is killed when the time of
its call is over. It takes its arguments, its input and its output; what it returns goes back as JSON and holds no lone
surrogate (see `paths`).
"""

from __future__ import annotations

import errno
from typing import BinaryIO, Callable

from sandgate_providers.runner.failures import OperationFailed, from_os_error
from sandgate_providers.runner.globbing import glob_paths
from sandgate_providers.runner.listing import list_folder, stat_path
from sandgate_providers.runner.paths import parse_path, show_path
from sandgate_providers.runner.reading import read_file
from sandgate_providers.runner.replacing import replace_text
from sandgate_providers.runner.searching import grep_files
from sandgate_providers.runner.writing import write_file

OPERATIONS: dict[str, Callable[[dict[str, object], BinaryIO, BinaryIO], dict[str, object]]] = {
    "glob": glob_paths,
    "grep": grep_files,
    "list": list_folder,
    "read": read_file,
    "replace": replace_text,
    "stat": stat_path,
    "write": write_file,
}


def run(name: str, arguments: dict[str, object], source: BinaryIO, sink: BinaryIO) -> dict[str, object]:
    """Do one operation.

    Args:
        name: One of `OPERATIONS`.
        arguments: As its function says.
        source: The call's input.
        sink: The call's output; only `read` writes to it.

    Raises:
        OperationFailed: it could not be done. The message names the path that was asked for and no other.
    """
    operation = OPERATIONS.get(name)
    if operation is None:
        raise OperationFailed("io-error", "there is no such operation")
    path = show_path(parse_path(arguments))
    try:
        return operation(arguments, source, sink)
    except OSError as error:
        if error.errno == errno.ENXIO:  # opening a socket
            raise OperationFailed("unsupported-file", "{}: a socket or device".format(path)) from None
        raise from_os_error(error, path) from None
