"""Many callers that come, repeat and go away at random: every request runs at most once, and nothing is left over."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import uuid
from collections import Counter
from typing import Any

import pytest

from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.pipeline.calls import IncomingCall
from sandgate_gateway.tools.contract import ToolRun
from sandgate_providers.channel.types import End, ProcessEnd
from sandgate_providers.fake import FakeCall, Work, exited

World = Any  # the conftest's; test modules do not import each other

REQUESTS = 40
CALLERS = 400


class Storm:
    """Requests, callers, and what is seen of them."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.dice = random.Random(seed)
        self.runs: Counter[str] = Counter()
        """How often each command ran."""
        self.answers: dict[str, set[int]] = {}
        """By request: the identities of the answers that callers got."""
        self._run = world.tool.body
        world.provider.script = self.play
        world.tool.body = self.count
        self.requests: list[IncomingCall] = [
            world.incoming(
                thread=f"thread-{number % 7}",
                arguments_json=f'{{"command":"{number}"}}'.encode(),
                arguments={"command": str(number)},
            )
            for number in range(REQUESTS)
        ]

    async def play(self, _work: Work, call: FakeCall) -> End:
        """Write a little; a third of the commands wait to be cancelled."""
        for _ in range(self.dice.randrange(6)):
            await call.emit(b"x")
        if self.dice.random() < 0.3:
            await call.cancelled.wait()
            return End(reason=ProcessEnd.CANCELLED)
        return exited()

    async def count(self, run: ToolRun) -> Any:
        """Count the run, then do it."""
        self.runs[str(run.arguments["command"])] += 1
        return await self._run(run)

    async def call(self) -> None:
        """Be one caller: come at some time, ask for something, perhaps go away before the answer."""
        incoming = dataclasses.replace(self.dice.choice(self.requests), audit_id=str(uuid.uuid4()))
        await self.wait(30)
        task = asyncio.ensure_future(self.world.calls.execute(incoming))
        await self.wait(60)
        if self.dice.random() < 0.6 or not task.done():
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            self.answers.setdefault(incoming.call.request_id, set()).add(id(task.result()))

    async def wait(self, most: int) -> None:
        """Let some turns of the loop pass."""
        for _ in range(self.dice.randrange(most)):
            await asyncio.sleep(0)

    def stages(self, stage: str) -> Counter[str]:
        """Count the records of a stage by audit id."""
        return Counter(event.audit_id for event in self.world.log.events if event.code.stage.value == stage)


@pytest.mark.parametrize("seed", range(3))
async def test_a_storm_of_callers(world: World, seed: int) -> None:
    """Each request has one answer, its tool ran at most once, each run has its records, and all is let go."""
    storm = Storm(world, seed)
    async with asyncio.timeout(30):
        await asyncio.gather(*(storm.call() for _ in range(CALLERS)))
        while world.table._calls:  # noqa: ASYNC110 - abandoned calls need turns of the loop to end
            await asyncio.sleep(0)
    assert set(storm.runs.values()) == {1}
    assert storm.answers
    assert all(len(same) == 1 for same in storm.answers.values())
    decided, finished = storm.stages("decided"), storm.stages("finished")
    assert set(decided.values()) == set(finished.values()) == {1}
    assert set(decided) <= set(finished)
    assert {view.call_count for view in world.sandboxes.list("default")} == {0}
    for incoming in storm.requests:
        if storm.runs[str(incoming.arguments["command"])]:
            kept = await world.calls.execute(incoming)
            assert kept.result.outcome in (Outcome.COMPLETED, Outcome.CANCELLED)
    assert set(storm.runs.values()) == {1}
