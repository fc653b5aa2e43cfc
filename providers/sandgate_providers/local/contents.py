"""Small files without a name, made once and read by every jail."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Mapping

from sandgate_providers.errors import ProviderUnavailable

_SEALED = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class Contents:
    """Contents in memory, of which every reader gets a descriptor of its own, at the start and only for reading."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        """Put them into memory and seal them, so that no reader can change what the next one reads."""
        self._descriptors: dict[str, int] = {}
        for name, data in contents.items():
            descriptor = os.memfd_create("sandgate", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            self._descriptors[name] = descriptor
            os.write(descriptor, data)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALED)

    def opened(self, readers: contextlib.ExitStack) -> dict[str, int]:
        """Give a new descriptor for each, closed with `readers`.

        Raises:
            ProviderUnavailable: they were closed.
        """
        if not self._descriptors:
            message = "the local provider was stopped"
            raise ProviderUnavailable(message)
        return {name: _reopened(readers, descriptor) for name, descriptor in self._descriptors.items()}

    def close(self) -> None:
        """Forget them. Idempotent."""
        while self._descriptors:
            _, descriptor = self._descriptors.popitem()
            os.close(descriptor)


def _reopened(readers: contextlib.ExitStack, descriptor: int) -> int:
    # Opened rather than duplicated: two readers of one opening would share how far they have read.
    reader = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    readers.callback(os.close, reader)
    return reader
