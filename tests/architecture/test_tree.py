"""The shape of the tree: small modules, honest names, and packages that say what they are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateway/sandgate_gateway", "providers/sandgate_providers", "agent/sandgate_agent")
MOST_LINES = 300
LONGER: dict[str, str] = {}
"""Modules that are longer, each with its reason."""
VAGUE = re.compile(r"(^|_)(utils?|helpers?|common|misc|base|shared)(_|$)")


def modules() -> list[Path]:
    """List the modules that people write."""
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_is_small_and_says_what_it_is(path: Path) -> None:
    """A module has one noun: at most 300 lines, a name that says something, and a docstring."""
    text = path.read_text(encoding="utf-8")
    name = str(path.relative_to(ROOT))
    assert name in LONGER or len(text.splitlines()) <= MOST_LINES
    assert not VAGUE.search(path.stem)
    assert ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("folder", ["proto", "gateway", "providers", "agent"])
def test_import_roots_are_no_packages(folder: str) -> None:
    """The four folders are import roots: a package of such a name would hide other projects' packages."""
    assert not (ROOT / folder / "__init__.py").exists()


def test_longer_modules_still_are() -> None:
    """The list of exceptions holds nothing that is short by now."""
    for name in LONGER:
        assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) > MOST_LINES, name


def test_every_test_states_its_promise() -> None:
    """Each test has a docstring."""
    silent = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                silent += [] if ast.get_docstring(node) else [f"{path.relative_to(ROOT)}:{node.name}"]
    assert silent == []
