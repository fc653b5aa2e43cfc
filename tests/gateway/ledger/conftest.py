"""What the ledger's tests share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from sandgate_gateway.domain.result import ToolResult
from sandgate_gateway.domain.verdict import Outcome, Verdict
from sandgate_gateway.ledger.answer import CallAnswer
from sandgate_gateway.ledger.request import RequestKey

MakeAnswer = Callable[..., CallAnswer]
MakeKey = Callable[[str], RequestKey]


@pytest.fixture
def key() -> MakeKey:
    """Make keys of one agent."""
    return lambda request_id: RequestKey("tenant", "agent", request_id)


@pytest.fixture
def answer() -> MakeAnswer:
    """Make answers that differ in their text."""

    def make(text: str = "done", outcome: Outcome = Outcome.COMPLETED) -> CallAnswer:
        return CallAnswer(
            request_id="r",
            audit_id="a",
            verdict=Verdict.PASS,
            reasons=(),
            sandbox="",
            received_at=datetime.now(UTC),
            duration_seconds=0.0,
            result=ToolResult(outcome=outcome, text=text),
        )

    return make
