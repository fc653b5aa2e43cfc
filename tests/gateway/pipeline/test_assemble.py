"""The order of the stages."""

from __future__ import annotations

from typing import Any

from sandgate_gateway.domain.call import CallContext
from sandgate_gateway.domain.result import ToolResult
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.pipeline.assemble import Pipeline, fold, standard_stages
from sandgate_gateway.pipeline.stage import Handler, Phase

World = Any  # the conftest's; test modules do not import each other


class Marking:
    """A stage that writes down when it is passed."""

    def __init__(self, name: str, trace: list[str], *phases: Phase) -> None:
        self.name = name
        self.phases = frozenset(phases)
        self._trace = trace

    async def __call__(self, context: CallContext, proceed: Handler) -> ToolResult:
        """Mark the way in and the way out."""
        self._trace.append(f"{self.name} in")
        result = await proceed(context)
        self._trace.append(f"{self.name} out")
        return result


async def test_stages_are_passed_outer_to_inner(world: World) -> None:
    """The first of the list sees the call first and the result last."""
    trace: list[str] = []

    async def centre(_context: CallContext) -> ToolResult:
        trace.append("centre")
        return ToolResult(outcome=Outcome.COMPLETED, text="x")

    handler = fold((Marking("a", trace), Marking("b", trace)), centre)
    await handler(world.incoming().to_execution())
    assert trace == ["a in", "b in", "centre", "b out", "a out"]


async def test_one_list_serves_three_questions(world: World) -> None:
    """An execution passes all stages, an authorization those that decide, a completion those that shape."""
    trace: list[str] = []
    stages = (Marking("both", trace, *Phase), Marking("decide", trace, Phase.DECIDE), Marking("none", trace))

    async def centre(_context: CallContext) -> ToolResult:
        return ToolResult(outcome=Outcome.COMPLETED, text="x")

    pipeline = Pipeline(world.recorder, stages, centre)
    for handler, passed in (
        (pipeline.execute, ["both in", "decide in", "none in"]),
        (pipeline.deciding(centre), ["both in", "decide in"]),
        (pipeline.shaping(centre), ["both in"]),
    ):
        trace.clear()
        await handler(world.incoming().to_execution())
        assert [mark for mark in trace if mark.endswith("in")] == passed


def test_the_order_is_the_design_s(world: World) -> None:
    """The table shows it: the recorder outside of all, the lease outside of error handling, dispatch at the centre."""
    pipeline = Pipeline(world.recorder, standard_stages(world.sandboxes), world.pipeline.execute)
    assert pipeline.table().splitlines() == [
        "stage             execute  authorize  complete",
        "audit-recorder    yes      yes        yes",
        "sandbox-lease     yes      -          -",
        "error-handling    yes      -          -",
        "dispatch          yes      -          -",
    ]
