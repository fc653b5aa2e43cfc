"""How a file operation says that it could not be done."""

from __future__ import annotations

import errno


class OperationFailed(Exception):
    """A file operation failed; `code` is one of those that `sandgate_providers.errors.FileOperationFailed` lists."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


_CODES = {
    errno.ENOENT: "not-found",
    errno.ENOTDIR: "not-a-directory",
    errno.EISDIR: "is-a-directory",
    errno.EACCES: "permission-denied",
    errno.EPERM: "permission-denied",
    errno.EROFS: "permission-denied",
    errno.ENOSPC: "no-space",
    errno.EDQUOT: "no-space",
    errno.EFBIG: "too-large",
    errno.ENAMETOOLONG: "invalid-path",
    errno.ELOOP: "invalid-path",
}


def from_os_error(error: OSError, path: str) -> OperationFailed:
    """Say an operating system error in our words."""
    code = _CODES.get(error.errno or 0, "io-error")
    return OperationFailed(code, "{}: {}".format(path, error.strerror or "input/output error"))
