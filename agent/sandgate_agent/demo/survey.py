"""Measures a source tree and writes a report. The demo's agent writes this file into the sandbox and runs it there.

Usage: python3 survey.py FOLDER REPORT [REVISION]

It needs only the standard library of Python 3.9, for it runs on whatever the sandbox has.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

SHOWN = 12
LARGEST_FILE_BYTES = 2_000_000
REMARKS = "_No remarks yet._"
NOTES = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


class Source:
    """One Python file."""

    def __init__(self, root: Path, path: Path, text: str) -> None:
        self.place = path.relative_to(root).as_posix()
        self.module = module_name(root, path)
        self.is_package = path.name == "__init__.py"
        self.lines = text.count("\n") + 1
        self.problem = ""
        self.functions: list[tuple[int, str, int]] = []
        self.imports: set[str] = set()
        try:
            self.read(ast.parse(text))
        except (SyntaxError, ValueError) as error:
            self.problem = str(error)

    def read(self, tree: ast.Module) -> None:
        """Collect functions with their lengths, and imports."""
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                self.functions.append((length, node.name, node.lineno))
            elif isinstance(node, ast.Import):
                self.imports.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self.base_of(node)
                self.imports.update(f"{base}.{alias.name}" if base else alias.name for alias in node.names)

    def base_of(self, node: ast.ImportFrom) -> str:
        """Resolve the package that a `from` import starts at."""
        if not node.level:
            return node.module or ""
        package = self.module.split(".") if self.is_package else self.module.split(".")[:-1]
        kept = package[: len(package) - node.level + 1]
        return ".".join([*kept, *([node.module] if node.module else [])])


def module_name(root: Path, path: Path) -> str:
    """Name a module as Python would: from the outermost folder that is a package."""
    parts = [] if path.name == "__init__.py" else [path.stem]
    folder = path.parent
    while folder != root and (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts) or path.parent.name


def fan_in(sources: list[Source]) -> Counter[str]:
    """Count for each module how many others of the tree import it."""
    known = {source.module for source in sources}
    importers: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        for name in source.imports:
            target = name if name in known else name.rpartition(".")[0]
            if target in known and target != source.module:
                importers[target].add(source.module)
    return Counter({module: len(names) for module, names in importers.items()})


def table(headings: list[str], rows: list[tuple[object, ...]]) -> list[str]:
    """Write a Markdown table, or say that there is nothing."""
    if not rows:
        return ["_None._", ""]
    lines = ["| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return [*lines, ""]


def report(root: Path, revision: str) -> str:
    """Measure a tree and write what was found."""
    kinds: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    sources: list[Source] = []
    for path in sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink()):
        size = path.stat().st_size
        kind = path.suffix or "(none)"
        kinds[kind] += 1
        sizes[kind] += size
        if size > LARGEST_FILE_BYTES:
            continue
        text = path.read_bytes().decode("utf-8", errors="replace")
        if found := len(NOTES.findall(text)):
            notes[path.relative_to(root).as_posix()] = found
        if path.suffix == ".py":
            sources.append(Source(root, path, text))
    functions = sorted(
        ((length, name, f"{source.place}:{line}") for source in sources for length, name, line in source.functions),
        reverse=True,
    )
    return "\n".join(
        [
            "# What is in this repository",
            "",
            f"Revision {revision}: {sum(kinds.values())} files, {sum(sizes.values())} bytes; "
            f"{len(sources)} Python modules with {sum(source.lines for source in sources)} lines and "
            f"{len(functions)} functions.",
            "",
            "## Remarks",
            "",
            REMARKS,
            "",
            "## Kinds of files",
            "",
            *table(["kind", "files", "bytes"], [(kind, n, sizes[kind]) for kind, n in kinds.most_common(SHOWN)]),
            "## Largest modules",
            "",
            *table(
                ["module", "lines", "functions"],
                [
                    (source.place, source.lines, len(source.functions))
                    for source in sorted(sources, key=lambda source: -source.lines)[:SHOWN]
                ],
            ),
            "## Longest functions",
            "",
            *table(["function", "lines", "where"], [(name, n, where) for n, name, where in functions[:SHOWN]]),
            "## Most imported modules",
            "",
            *table(["module", "imported by"], list(fan_in(sources).most_common(SHOWN))),
            "## Open notes in the code",
            "",
            *table(["file", "notes"], list(notes.most_common(SHOWN))),
            "## Modules that Python cannot read",
            "",
            *table(["module", "why"], [(source.place, source.problem) for source in sources if source.problem]),
        ]
    )


def main(arguments: list[str]) -> int:
    """Write the report and say what was measured."""
    if len(arguments) not in (2, 3):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    root, target = Path(arguments[0]), Path(arguments[1])
    revision = arguments[2] if len(arguments) > 2 else "unknown"  # noqa: PLR2004 - the optional third one
    text = report(root.resolve(), revision)
    target.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{text.splitlines()[2]}\nwritten to {target}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
