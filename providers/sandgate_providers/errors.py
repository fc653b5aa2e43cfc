"""What can go wrong in a provider, split by what the caller can do next.

    ProviderError
    ├── ProviderUnavailable      cannot make or reach sandboxes now; waiting may help
    ├── ProviderMisconfigured    will never work like this; an operator must act
    ├── CapacityExhausted        every place is taken; try again after a while
    ├── SandboxLost              the sandbox died; its calls are lost, a new one can be made
    ├── ChannelClosed            this line was closed by us
    ├── CallRefused              the runner would not take the call; nothing ran
    └── FileOperationFailed      the sandbox is fine, the file is not

Vendor errors are chained as causes and never shown to a model: a message is free of host paths where its class says so.
"""

from __future__ import annotations


class ProviderError(Exception):
    """Base of all errors of this package."""


class ProviderUnavailable(ProviderError):
    """The provider cannot make or reach sandboxes at the moment.

    The message is for operators; it may name host paths.
    """


class ProviderMisconfigured(ProviderError):
    """The provider refuses to start as it is configured; the message says which setting to change."""


class CapacityExhausted(ProviderError):
    """Every place for a sandbox is taken."""

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class SandboxLost(ProviderError):
    """The sandbox died, by itself or from inside; what ran in it has no known end."""


class ChannelClosed(ProviderError):
    """The channel was closed on our side before or while it was used."""


class CallRefused(ProviderError):
    """The runner did not take a call: its frame was bad, its id was used before, or there is no room. Nothing ran."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class FileOperationFailed(ProviderError):
    """A file operation could not be done. The message names only paths inside the sandbox.

    `code` is one of `not-found`, `not-a-directory`, `is-a-directory`, `permission-denied`, `no-space`, `too-large`,
    `not-unique`, `no-match`, `binary-file`, `invalid-pattern`, `invalid-path`, `size-mismatch`, `unsupported-file`,
    `io-error`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
