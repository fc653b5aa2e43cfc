"""What the benchmarks measure with."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc

from sandgate.v1.tool_pb2 import ToolCall, ToolResult
from sandgate.v1.tool_service_pb2 import ExecuteToolRequest
from sandgate.v1.tool_service_pb2_grpc import ToolServiceStub


@dataclass
class Figures:
    """What was measured in this run."""

    rows: list[dict[str, object]] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str, aim: str = "") -> None:
        """Note one figure."""
        self.rows.append({"name": name, "value": round(value, 3), "unit": unit, "aim": aim})


@dataclass
class Gateway:
    """A gateway that runs beside the benchmark."""

    target: str
    process: subprocess.Popen[bytes]

    def caller(self, thread: str) -> Callable[[str], ToolResult]:
        """Give a function that runs one bash command in a thread."""
        stub = ToolServiceStub(grpc.insecure_channel(self.target))

        def call(command: str) -> ToolResult:
            arguments = json.dumps({"command": command}).encode()
            request = ToolCall(request_id=str(uuid.uuid4()), thread=thread, tool="bash", arguments_json=arguments)
            return stub.ExecuteTool(ExecuteToolRequest(call=request), timeout=60).result

        return call
