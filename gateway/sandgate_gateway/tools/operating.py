"""Runs a file operation of the runner for a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from sandgate_gateway.domain.call import JsonValue
from sandgate_gateway.domain.result import Failure, ToolResult, failed
from sandgate_gateway.tools.answers import Answer, MalformedAnswer
from sandgate_gateway.tools.contract import ToolRun
from sandgate_gateway.tools.failures import ended_early, operation_failure
from sandgate_providers.channel.types import FileOperation, ProcessEnd, Stream

T = TypeVar("T")

_SLOW = MappingProxyType(
    {
        "grep": "Search fewer files, or use a simpler pattern; literal takes it as plain text.",
        "glob": "Search a smaller folder, or use a simpler pattern.",
        "list": "List a folder deeper in.",
    }
)
"""What to do when an operation took too long."""


async def operate(
    run: ToolRun,
    name: str,
    arguments: Mapping[str, JsonValue],
    read: Callable[[Answer, bytes], T],
    *,
    content: bytes | None = None,
    most_bytes: int = 0,
) -> T | ToolResult:
    """Do one operation and read its answer.

    Args:
        run: The tool's run.
        name: Of the operation; see `sandgate_providers.runner.operations`.
        arguments: Of the operation; it has a `path`.
        read: Reads the answer and what came as output. May raise MalformedAnswer.
        content: Its input.
        most_bytes: Of its output are taken; it was asked for no more.

    Returns: what `read` gives, or the result to give instead.
    """
    work = FileOperation(
        name=name, arguments=arguments, timeout_seconds=run.timeout_seconds, with_input=content is not None
    )
    output = bytearray()
    async with run.channel.open(work) as call:
        if content is not None:
            await call.send(content)
            await call.close_input()
        async for chunk in call.chunks():
            if chunk.stream is Stream.STDOUT:
                output += chunk.data[: most_bytes - len(output)]
        end = await call.end()
    if end.reason is not ProcessEnd.EXITED:
        outcome, failure = ended_early(end, run.timeout_seconds, "The operation")
        if end.reason is ProcessEnd.TIMEOUT:
            failure = replace(failure, next_step=_SLOW.get(name, ""))
        return failed(failure, outcome=outcome)
    if end.error_code:
        path = arguments.get("path")
        return operation_failure(end, path if isinstance(path, str) else "")
    try:
        return read(Answer(end.value), bytes(output))
    except MalformedAnswer:
        return failed(
            Failure(reason="io-error", message="The sandbox gave an answer that cannot be read.", retryable=True)
        )
