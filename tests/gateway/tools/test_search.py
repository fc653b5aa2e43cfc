"""The tools `glob` and `grep`, in a real sandbox."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sandgate_gateway.domain.result import EntryList, Match, MatchList
from sandgate_gateway.domain.verdict import Outcome
from sandgate_gateway.tools.bash import Bash
from sandgate_gateway.tools.search import Glob, Grep

pytestmark = pytest.mark.local


async def test_glob(use: Any, workspace: str) -> None:
    """A numbered list, sorted; `**` crosses folders."""
    await use(Bash(), command="mkdir -p src/a/b; touch src/z.py src/a/b/y.py top.py src/a/x.txt")
    result = await use(Glob(), pattern="src/**/*.py")
    assert result.text == f"Found 2 paths\n1. {workspace}/src/a/b/y.py\n2. {workspace}/src/z.py"
    assert isinstance(result.data, EntryList)
    assert [entry.path for entry in result.data.entries] == [f"{workspace}/src/a/b/y.py", f"{workspace}/src/z.py"]
    assert (await use(Glob(), pattern="*.py", path=f"{workspace}/src")).text.startswith("Found 2 paths")
    assert (await use(Glob(), pattern="src/*", include_dirs=True)).text.split("\n")[1] == f"1. {workspace}/src/a/"
    assert (await use(Glob(), pattern="*.rs")).text == "Found no paths"


async def test_glob_failures(use: Any, workspace: str) -> None:
    """A missing root and a pattern that is none are told, never shown as "found nothing"."""
    assert (await use(Glob(), pattern="*", path=f"{workspace}/missing")).failure.reason == "not-found"
    assert (await use(Glob(), pattern="../*")).failure.reason == "invalid-pattern"


@pytest.mark.parametrize(("asked", "given", "truncated"), [(2, 2, True), (3, 3, False), (0, 1, True), (9999, 3, False)])
async def test_the_number_of_results_is_clamped(asked: int, given: int, truncated: bool, use: Any) -> None:  # noqa: FBT001 - a case of the table
    """A number out of range is moved into it; truncated means that there is more."""
    await use(Bash(), command="for n in 1 2 3; do echo needle > $n.txt; done")
    found = await use(Glob(), pattern="*.txt", max_results=asked)
    matched = await use(Grep(), pattern="needle", max_results=asked)
    assert len(found.data.entries) == len(matched.data.matches) == given
    assert found.truncated is matched.truncated is truncated
    assert ("there are more" in found.text) is ("there are more" in matched.text) is truncated


async def test_grep(use: Any, workspace: str) -> None:
    """Path, line number and line; case does not count unless asked for."""
    await use(
        Bash(), command="mkdir src; printf 'a\\nNeedle ü\\n' > src/f.py; echo needle > f.txt; head -c 100 /dev/zero > z"
    )
    result = await use(Grep(), pattern="need.e")
    assert result.text == (
        f"Found 2 matches\n{workspace}/f.txt:1: needle\n{workspace}/src/f.py:2: Needle ü\n"
        "(2 files searched, 1 passed over: binary, too large or unreadable)"
    )
    assert result.data == MatchList(
        matches=(
            Match(path=f"{workspace}/f.txt", line_number=1, line="needle"),
            Match(path=f"{workspace}/src/f.py", line_number=2, line="Needle ü"),
        ),
        truncated=False,
        files_searched=2,
        files_skipped=1,
    )
    assert (await use(Grep(), pattern="needle", case_sensitive=True)).text.startswith("Found 1 match\n")
    assert (await use(Grep(), pattern="needle", glob="src/**")).data.files_searched == 1
    assert (await use(Grep(), pattern="need.e", literal=True)).text.startswith("Found no match\n(2 files searched")
    assert (await use(Grep(), pattern="needle", path=f"{workspace}/f.txt", glob=None)).data.files_searched == 1


async def test_grep_failures(use: Any, workspace: str) -> None:
    """What cannot be searched is a failure that says why."""
    await use(Bash(), command="head -c 2000000 /dev/zero | tr '\\0' x > large; printf '\\0' > binary")
    bad = await use(Grep(), pattern="(unclosed")
    assert bad.failure.reason == "invalid-pattern"
    assert "literal" in bad.text
    assert (await use(Grep(), pattern="x", path=f"{workspace}/missing")).failure.reason == "not-found"
    assert (await use(Grep(), pattern="x", path=f"{workspace}/large")).failure.reason == "too-large"
    assert (await use(Grep(), pattern="x", path=f"{workspace}/binary")).failure.reason == "binary-file"


async def test_a_hostile_pattern_is_ended_by_time(use: Any) -> None:
    """An expression that never comes to an end costs its own call alone, and the next one works."""
    await use(Bash(), command="python3 -c \"print('a' * 40 + '!')\" > f")
    begun = time.monotonic()
    result = await use(Grep(), pattern="(a+)+$", allowed_seconds=1.0)
    assert result.outcome is Outcome.TIMED_OUT
    assert result.failure.reason == "timed-out"
    assert "simpler pattern" in result.text
    assert time.monotonic() - begun < 3
    assert (await use(Grep(), pattern="a+!")).text.startswith("Found 1 match")


async def test_results_are_bounded(use: Any) -> None:
    """However long paths and lines are, the text is within its limit and says that something is left out."""
    await use(
        Bash(),
        command="d=$(printf 'd%.0s' $(seq 200)); mkdir -p $d/$d; for n in $(seq 50); do "
        "for m in $(seq 10); do echo \"needle $(printf 'x%.0s' $(seq 300))\"; done > $d/$d/$n; done",
    )
    for result in (
        await use(Grep(), pattern="needle", max_results=500),
        await use(Glob(), pattern="*", max_results=50),
    ):
        assert len(result.text) <= 50_000
    matched = await use(Grep(), pattern="needle", max_results=500)
    assert matched.truncated is True
    assert "more are left out" in matched.text
