"""What can go wrong between an agent and its gateway, split by what the caller can do next.

    SandgateError                   reason, message, metadata; the class of every reason that this version does not know
    ├── RequestRejected             the request is wrong; sending it again does not help
    │   ├── RequestTooLarge         it is larger than the gateway accepts
    │   ├── RequestIdReused         its id was used before with other content
    │   ├── AdmissionInvalid        the admission is forged, changed, or somebody else's
    │   └── AdmissionCompleted      the admission was completed before with other content
    ├── AccessDenied                the gateway does not know the caller, or the caller lacks a role
    ├── NotFound                    no such sandbox or file, or none that the caller may see
    ├── StateConflict               right request, wrong moment; a change is needed first
    │   ├── RequestIdExpired        the id is older than the gateway remembers; mint a new one
    │   └── AdmissionExpired        the admission ran out before its call was completed
    ├── TryAgainLater               waiting helps; `retry_after_seconds` says how long when the gateway does
    │   ├── CapacityExhausted       every place is taken
    │   └── GatewayUnavailable      the gateway, or something that it needs, is away
    ├── CallTimedOut                no answer before the deadline; the end of the call is not known
    ├── TransportLimitReached       a limit of gRPC itself: a message too large, or too many calls at once
    ├── GatewayFault                a bug in the gateway, or a version that lacks the method
    ├── ProtocolViolation           the gateway answered something that the contract does not allow
    ├── ForkUnsupported             this process was forked while calls ran, without gRPC's support for that
    ├── NameClash                   two tools of one agent have the same name
    └── Misconfigured               what the program passed cannot work; the message says what to change

An outcome of a tool (denied, failed, timed out, lost) is a result, never one of these. `status` alone turns gRPC
statuses into these classes, by a closed table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType


class SandgateError(Exception):
    """Base of all errors of this package.

    Args:
        message: what went wrong, in one or two sentences.
        reason: the stable reason that the gateway sent, without its prefix; empty when it sent none.
        code: name of the gRPC status code, for example `UNAVAILABLE`; empty when no RPC was made.
        metadata: every variable part of the message, as the gateway sent it.
    """

    def __init__(
        self, message: str, *, reason: str = "", code: str = "", metadata: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.code = code
        self.metadata: Mapping[str, str] = MappingProxyType(dict(metadata or {}))

    @property
    def audit_id(self) -> str:
        """The call's id in the audit; empty when the gateway sent none."""
        return self.metadata.get("audit_id", "")


class RequestRejected(SandgateError):
    """The request is wrong; sending it again does not help."""


class RequestTooLarge(RequestRejected):
    """The request is larger than the gateway accepts."""


class RequestIdReused(RequestRejected):
    """The request id was used before with other content."""


class AdmissionInvalid(RequestRejected):
    """The admission is forged, changed, or belongs to another principal."""


class AdmissionCompleted(RequestRejected):
    """The admission was completed before with other content."""


class AccessDenied(SandgateError):
    """The gateway does not know the caller, or the caller lacks a role."""


class NotFound(SandgateError):
    """No such sandbox or file, or none that the caller may see."""


class StateConflict(SandgateError):
    """The request is right but the moment is not; something must change first."""


class RequestIdExpired(StateConflict):
    """The request id is older than the gateway remembers; whether it ran is not known any more."""


class AdmissionExpired(StateConflict):
    """The admission ran out before its call was completed."""


class TryAgainLater(SandgateError):
    """Waiting helps."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        code: str = "",
        metadata: Mapping[str, str] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, reason=reason, code=code, metadata=metadata)
        self.retry_after_seconds = retry_after_seconds
        """How long to wait; None when the gateway did not say."""


class CapacityExhausted(TryAgainLater):
    """Every place for a sandbox, a call or a queue is taken."""


class GatewayUnavailable(TryAgainLater):
    """The gateway, or something that it needs, is away."""


class CallTimedOut(SandgateError):
    """No answer came before the deadline, or too little time was left to start. A repeat with the same id is safe."""


class TransportLimitReached(SandgateError):
    """A limit of gRPC itself was reached: a message is too large, or the gateway takes no more calls at once."""


class GatewayFault(SandgateError):
    """A bug in the gateway, or a gateway of a version that lacks the method."""


class ProtocolViolation(SandgateError):
    """The gateway answered something that the contract does not allow."""


class ForkUnsupported(SandgateError):
    """This process was forked while calls ran and gRPC was loaded without support for that."""

    def __init__(self) -> None:
        super().__init__(
            "this process was forked while calls to the gateway were running, and gRPC was loaded without support for "
            "that; set GRPC_ENABLE_FORK_SUPPORT=1 before the program starts, or start workers with the spawn method"
        )


class NameClash(SandgateError, ValueError):
    """Two tools of one agent have the same name, so the model could not say which one it means."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(sorted(names))
        super().__init__(
            f"the agent has tools of its own with names that the gateway's tools use: {', '.join(self.names)}; rename "
            "them, or leave the gateway's out with `only=`"
        )


class Misconfigured(SandgateError, ValueError):
    """What the program passed cannot work; the message says what to change."""
