"""The runner's loop by itself."""

from __future__ import annotations

from sandgate_providers.runner.loop import Loop


def test_cancelled_timers_are_forgotten() -> None:
    """Calls that end long before their time leave nothing that grows."""
    loop = Loop()
    kept = loop.after(1000, lambda: None)
    for _ in range(10_000):
        loop.after(3600, lambda: None).cancel()
    assert len(loop._timers) < 1000
    assert any(entry[2] is kept for entry in loop._timers)
