"""The order of the stages, in one place.

Outer to inner:

    audit recorder        opened outside; wraps executions, authorizations and completions alike
      (output budget)       shapes results                  SHAPE
        sandbox lease
          (guardrail)         may refuse                    DECIDE
            (bash audit)        may refuse                  DECIDE
              error handling
                (tool visibility)  may refuse               DECIDE
                  dispatch          runs the tool

Stages in parentheses are still to come; this is where they go. `stages` is that list without the two ends: the recorder
is outside whatever else there is, and what is at the centre depends on the question.

One list serves three questions. To run a tool, a call passes all stages and ends in dispatch. To authorize a call of
the agent's own process, it passes the stages that decide, and *decided* is recorded at the centre. To complete such a
call, its texts pass the stages that shape, and *finished* is recorded outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sandgate_gateway.domain.call import CallContext
from sandgate_gateway.domain.result import ToolResult
from sandgate_gateway.pipeline.error_handling import ErrorHandling
from sandgate_gateway.pipeline.recorder import Recorder
from sandgate_gateway.pipeline.sandbox_lease import SandboxLease
from sandgate_gateway.pipeline.stage import Handler, Phase, Stage
from sandgate_gateway.sandboxes.manager import SandboxManager


def standard_stages(sandboxes: SandboxManager) -> tuple[Stage, ...]:
    """Give the stages between the recorder and the centre, outer to inner."""
    return (SandboxLease(sandboxes), ErrorHandling())


class Pipeline:
    """The stages, folded."""

    def __init__(self, recorder: Recorder, stages: Sequence[Stage], dispatch: Handler) -> None:
        self._recorder = recorder
        self._stages = tuple(stages)
        self.execute: Handler = self.recorded(fold(self._stages, dispatch))
        """Runs a call of a tool of ours."""

    def recorded(self, handler: Handler) -> Handler:
        """Put the recorder around a handler."""
        return fold((self._recorder,), handler)

    def deciding(self, centre: Handler) -> Handler:
        """Fold the stages that may refuse around a centre."""
        return fold(self._of(Phase.DECIDE), centre)

    def shaping(self, centre: Handler) -> Handler:
        """Fold the stages that shape results around a centre."""
        return fold(self._of(Phase.SHAPE), centre)

    def table(self) -> str:
        """Show the stages, outer to inner, and which questions each one takes part in."""
        rows = [("stage", "execute", "authorize", "complete"), (self._recorder.name, "yes", "yes", "yes")]
        for stage in self._stages:
            decides, shapes = ("yes" if phase in stage.phases else "-" for phase in (Phase.DECIDE, Phase.SHAPE))
            rows.append((stage.name, "yes", decides, shapes))
        rows.append(("dispatch", "yes", "-", "-"))
        return "\n".join(f"{name:<18}{execute:<9}{decide:<11}{shape}" for name, execute, decide, shape in rows)

    def _of(self, phase: Phase) -> Iterable[Stage]:
        return (stage for stage in self._stages if phase in stage.phases)


class _Layer:
    """One stage with what is inside it."""

    __slots__ = ("_inner", "_stage")

    def __init__(self, stage: Stage, inner: Handler) -> None:
        self._stage = stage
        self._inner = inner

    async def __call__(self, context: CallContext) -> ToolResult:
        return await self._stage(context, self._inner)


def fold(stages: Iterable[Stage], centre: Handler) -> Handler:
    """Make one handler of stages, outer to inner, around a centre."""
    handler = centre
    for stage in reversed(tuple(stages)):
        handler = _Layer(stage, handler)
    return handler
