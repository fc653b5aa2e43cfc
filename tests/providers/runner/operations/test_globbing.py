"""The operation `glob`, and its patterns."""

from __future__ import annotations

import contextlib
import fnmatch
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgate_providers.runner.failures import OperationFailed
from sandgate_providers.runner.patterns import PathPattern

TREE = [
    "top.py",
    "README.md",
    ".hidden.py",
    "src/one.py",
    "src/two.ts",
    "src/three.tsx",
    "src/pkg/four.py",
    "src/pkg/deep/five.py",
    "docs/six.md",
    "docs/[x].md",
    "node_modules/lib/seven.py",
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a small project."""
    for path in TREE:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    return tmp_path


def found(operate: Any, root: Path, pattern: str, **arguments: Any) -> list[str]:
    """Give the paths that match, below the root."""
    answer = operate("glob", root, pattern=pattern, **arguments)
    return [entry["path"].removeprefix(f"{root}/") for entry in answer["entries"]]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", [".hidden.py", "src/one.py", "src/pkg/deep/five.py", "src/pkg/four.py", "top.py"]),
        ("**/*.py", [".hidden.py", "src/one.py", "src/pkg/deep/five.py", "src/pkg/four.py", "top.py"]),
        ("./*.py", [".hidden.py", "top.py"]),
        ("src/*.py", ["src/one.py"]),
        ("src/**/*.py", ["src/one.py", "src/pkg/deep/five.py", "src/pkg/four.py"]),
        ("src/**", ["src/one.py", "src/pkg/deep/five.py", "src/pkg/four.py", "src/three.tsx", "src/two.ts"]),
        ("**/pkg/**/*.py", ["src/pkg/deep/five.py", "src/pkg/four.py"]),
        ("**/**/deep/**/five.py", ["src/pkg/deep/five.py"]),
        ("*.{ts,tsx}", ["src/three.tsx", "src/two.ts"]),
        ("{src,docs}/*.{ts,md}", ["docs/[x].md", "docs/six.md", "src/two.ts"]),
        ("src/{pkg/four,one}.py", ["src/one.py", "src/pkg/four.py"]),
        ("{s{r,x}c,lib}/one.py", ["src/one.py"]),
        ("src/????.py", []),
        ("src/???.py", ["src/one.py"]),
        ("src/[no]*.py", ["src/one.py"]),
        ("src/[!o]*.ts", ["src/two.ts"]),
        ("docs/[[]x].md", ["docs/[x].md"]),
        ("docs/\\[x\\].md", ["docs/[x].md"]),
        ("docs/[", []),
        ("src/one.py", ["src/one.py"]),
        ("src/one.py/x", []),
        ("missing/**/*.py", []),
        ("top.py", ["top.py"]),
        ("TOP.py", []),
        ("node_modules/**/*.py", ["node_modules/lib/seven.py"]),
        ("{one}.py", []),
        ("}{", []),
    ],
)
def test_patterns(pattern: str, expected: list[str], tree: Path, operate: Any) -> None:
    """`**` crosses levels, a pattern without a slash matches at any depth, and the result is sorted."""
    assert found(operate, tree, pattern) == expected


def test_folders_on_request(tree: Path, operate: Any) -> None:
    """Files alone by default; folders with `include_dirs`; a slash at the end means folders alone."""
    assert found(operate, tree, "src/*") == ["src/one.py", "src/three.tsx", "src/two.ts"]
    assert found(operate, tree, "src/*", include_dirs=True) == ["src/one.py", "src/pkg", "src/three.tsx", "src/two.ts"]
    assert found(operate, tree, "**/*/") == ["docs", "src", "src/pkg", "src/pkg/deep"]


def test_a_pattern_may_begin_with_the_root(tree: Path, operate: Any) -> None:
    """An absolute pattern below the root is understood, another one refused."""
    assert found(operate, tree, f"{tree}/src/*.py") == ["src/one.py"]
    operate.fails("invalid-pattern", "glob", tree, pattern="/etc/*")


@pytest.mark.parametrize(
    "pattern",
    ["", "/", "///", ".", "../*", "src/../../*", "a\0b", "[z-a]", "{a,b}" * 7, "\ud800/x", "[" * 3 + "z-a" + "]" * 3],
)
def test_patterns_that_mean_nothing_are_refused(pattern: str, tree: Path, operate: Any) -> None:
    """What cannot be a pattern is a failure and not an empty result."""
    operate.fails("invalid-pattern", "glob", tree, pattern=pattern)


def test_the_root_must_be_a_folder(tree: Path, operate: Any) -> None:
    """A missing root is a failure; one under an ignored name is searched."""
    operate.fails("not-found", "glob", tree / "missing", pattern="*")
    operate.fails("not-a-directory", "glob", tree / "top.py", pattern="*")
    assert found(operate, tree / "node_modules", "*.py") == ["lib/seven.py"]


def test_truncated_only_above_the_limit(tree: Path, operate: Any) -> None:
    """Exactly the limit is whole; the first ones in order are kept."""
    assert operate("glob", tree, pattern="*.py", limit=5)["truncated"] is False
    cut = operate("glob", tree, pattern="*.py", limit=4)
    assert cut["truncated"] is True
    assert len(cut["entries"]) == 4
    assert cut["entries"][0]["path"].endswith(".hidden.py")


def test_links_are_found_and_not_followed(tree: Path, operate: Any) -> None:
    """A link matches by its own name; what lies behind it is not searched."""
    (tree / "link").symlink_to("src")
    (tree / "link.py").symlink_to("top.py")
    answer = operate("glob", tree, pattern="link*")
    assert [entry["kind"] for entry in answer["entries"]] == ["symlink", "symlink"]
    assert found(operate, tree, "link/*.py") == ["link/one.py"]


SIMPLE = st.text(alphabet="ab.*?", min_size=1, max_size=8).filter(
    lambda text: text not in (".", "..") and "**" not in text
)
NAMES = st.text(alphabet="ab.", min_size=1, max_size=8)


@given(pattern=SIMPLE, name=NAMES)
def test_a_simple_pattern_matches_as_fnmatch_does(pattern: str, name: str) -> None:
    """For one name, `*` and `?` mean what they mean everywhere."""
    assert PathPattern(pattern, b"/root").matches(name.encode()) == fnmatch.fnmatchcase(name, pattern)


@given(pattern=st.text(max_size=20))
def test_no_pattern_breaks_the_matcher(pattern: str) -> None:
    """Each text is a pattern or is refused as one."""
    with contextlib.suppress(OperationFailed):
        PathPattern(pattern, b"/root").matches(b"some/path")
