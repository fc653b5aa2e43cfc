"""Events to write, and logs to write them to."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandgate_gateway.audit.codes import Code
from sandgate_gateway.audit.event import Action, Actor, AuditEvent, Correlation, Judgement, Result
from sandgate_gateway.audit.log import AuditLog
from sandgate_gateway.audit.rendering import Emitter
from sandgate_gateway.domain.verdict import Verdict


@pytest.fixture
def emitter() -> Emitter:
    """Who writes."""
    return Emitter(service="sandgate", version="0.1.0", instance="test")


@pytest.fixture
def audit_file(tmp_path: Path) -> Path:
    """Where it is written."""
    return tmp_path / "audit" / "audit.jsonl"


@pytest.fixture
def make_event() -> Callable[..., AuditEvent]:
    """Give a function that makes the last record of a call."""

    def make(
        *,
        code: Code = Code.CALL_COMPLETED,
        thread: str = "thread-1",
        tool: str = "bash",
        tenant: str = "default",
        verdict: Verdict = Verdict.PASS,
        occurred_at: datetime | None = None,
    ) -> AuditEvent:
        return AuditEvent(
            code=code,
            occurred_at=occurred_at or datetime.now(UTC),
            audit_id=str(uuid.uuid4()),
            correlation=Correlation(request_id=str(uuid.uuid4()), thread=thread),
            actor=Actor(tenant=tenant, principal="local", principal_kind="human", auth_method="none"),
            action=Action(tool=tool),
            judgement=Judgement(verdict=verdict),
            result=Result(exit_code=0),
        )

    return make


@pytest.fixture
async def open_log(audit_file: Path, emitter: Emitter) -> AsyncIterator[Callable[[], Awaitable[AuditLog]]]:
    """Give a function that starts a log on the file; whatever is still open is stopped in the end."""
    logs: list[AuditLog] = []

    async def start() -> AuditLog:
        log = AuditLog(audit_file, emitter)
        await log.start()
        logs.append(log)
        return log

    yield start
    for log in logs:
        await log.stop()
