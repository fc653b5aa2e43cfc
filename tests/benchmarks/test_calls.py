"""What a call costs: a plain subprocess beside the same command as an audited tool call through the gateway."""

from __future__ import annotations

import subprocess
import threading
import time
import uuid
from collections.abc import Callable

import grpc
import psutil
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from tests.benchmarks.measuring import Figures, Gateway

from sandgate.v1.tool_pb2 import ToolCall
from sandgate.v1.tool_service_pb2 import StreamToolRequest
from sandgate.v1.tool_service_pb2_grpc import ToolServiceStub
from sandgate.v1.verdict_pb2 import OUTCOME_COMPLETED

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

ROUNDS = 1000


def percentile(times: list[float], part: float) -> float:
    """Give the time, in milliseconds, below which this part of all lies."""
    return sorted(times)[min(len(times) - 1, int(part * len(times)))] * 1000


def test_true(benchmark: BenchmarkFixture, gateway: Gateway, figures: Figures) -> None:
    """One `true`, plain and through the gateway, in turns so that both meet the same noise."""
    call = gateway.caller("bench")
    plain: list[float] = []

    def plainly() -> None:
        begun = time.perf_counter()
        subprocess.run(["sh", "-c", "true"], check=True)
        plain.append(time.perf_counter() - begun)

    def through_the_gateway() -> None:
        assert call("true").outcome == OUTCOME_COMPLETED

    pedantic: Callable[..., None] = benchmark.pedantic
    pedantic(through_the_gateway, setup=plainly, rounds=ROUNDS, warmup_rounds=50)
    assert benchmark.stats is not None
    called = benchmark.stats.stats.data
    plain = plain[-ROUNDS:]
    p50, p99 = percentile(plain, 0.5), percentile(plain, 0.99)
    figures.add("plain subprocess.run sh -c true, p50", p50, "ms")
    figures.add("plain subprocess.run sh -c true, p99", p99, "ms")
    figures.add("bash `true` through the gateway, p50", percentile(called, 0.5), "ms")
    figures.add("bash `true` through the gateway, p99", percentile(called, 0.99), "ms")
    figures.add("ratio at p50", percentile(called, 0.5) / p50, "times", "at most 5")
    figures.add("ratio at p99", percentile(called, 0.99) / p99, "times", "at most 10")


def test_32_callers(gateway: Gateway, figures: Figures) -> None:
    """Thirty-two callers at once, each with calls of its own that it must get back unmixed."""
    callers, calls = 32, 40
    wrong: list[str] = []
    lock = threading.Lock()

    def work(number: int) -> None:
        call = gateway.caller(f"bench-{number % 4}")
        for turn in range(calls):
            mark = f"{number}-{turn}-{uuid.uuid4()}"
            result = call(f"echo {mark}")
            if result.outcome != OUTCOME_COMPLETED or result.process.stdout.decode() != mark + "\n":
                with lock:
                    wrong.append(mark)

    begun = time.perf_counter()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    assert wrong == []
    figures.add("32 callers on 4 threads: calls lost or mixed", len(wrong), f"of {callers * calls}", "0")
    figures.add("32 callers on 4 threads: rate", callers * calls / took, "calls/s")


def test_a_gibibyte_of_output(gateway: Gateway, figures: Figures) -> None:
    """One GiB of standard output through StreamTool, and how much the gateway and the runner grew."""
    gateway.caller("bench-stream")("true")
    family = psutil.Process(gateway.process.pid)
    runners = [process for process in family.children(recursive=True) if process.name().startswith("python")]
    watched = {"gateway": [family], "runner": runners}
    before = {name: sum(p.memory_info().rss for p in group) for name, group in watched.items()}
    most = dict(before)
    arguments = b'{"command": "head -c 1073741824 /dev/zero"}'
    call = ToolCall(request_id=str(uuid.uuid4()), thread="bench-stream", tool="bash", arguments_json=arguments)
    total = 0
    begun = time.perf_counter()
    with grpc.insecure_channel(gateway.target) as channel:
        for turn, event in enumerate(ToolServiceStub(channel).StreamTool(StreamToolRequest(call=call), timeout=240)):
            total += len(event.output.data)
            if turn % 64 == 0:
                for name, group in watched.items():
                    most[name] = max(most[name], sum(p.memory_info().rss for p in group if p.is_running()))
    took = time.perf_counter() - begun
    assert total == 1 << 30
    figures.add("1 GiB of stdout streamed", 1024 / took, "MiB/s")
    for name in watched:
        figures.add(f"growth of the {name} meanwhile", (most[name] - before[name]) / 2**20, "MiB", "below 64")
