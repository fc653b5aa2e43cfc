"""The YAML file, read by its nodes so that every value keeps its line.

Plain YAML only: one document of mappings, lists, texts, numbers and truth values. What a hand-written file of settings
does not need (tags, merge keys, dates) is refused with its line instead of being guessed at.
"""

from __future__ import annotations

import math
from pathlib import Path as FilePath

import yaml

from sandgate_gateway.configuration.problems import Layer, Origin, Path, Problem

MAX_FILE_BYTES = 1 << 20
"""A file of settings is a few kilobytes; what is larger is the wrong file."""

MAX_VALUES = 100_000
"""Aliases can make a small file endless; settings are a few hundred values."""

_PLAIN = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")}
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"

_UNREADABLE = object()
"""Instead of a value that was complained about; it is left out, so that nobody complains a second time."""


def read_document(file: FilePath) -> Layer:
    """Read a file. What is wrong with it is in the layer's problems; a syntax error ends the reading."""
    reading = _Reading(str(file))
    text = reading.load(file)
    if text is not None:
        reading.read(text)
    return reading.layer


class _Reading:
    """One file while it is read."""

    def __init__(self, name: str) -> None:
        self.layer = Layer()
        self._name = name
        self._open: set[int] = set()
        self._values = 0

    def load(self, file: FilePath) -> str | None:
        try:
            with file.open("rb") as stream:
                data = stream.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            self._complain(0, (), f"cannot be read: {error.strerror}")
            return None
        if len(data) > MAX_FILE_BYTES:
            self._complain(0, (), f"is larger than {MAX_FILE_BYTES} bytes; this is no file of settings")
            return None
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self._complain(data.count(b"\n", 0, error.start) + 1, (), "is not UTF-8")
            return None

    def read(self, text: str) -> None:
        try:
            # A SafeLoader; yaml.load is not used because it drops the lines.
            self._loader = yaml.SafeLoader(text)
            root = self._loader.get_single_node()
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            self._complain(line, (), f"a character that YAML does not allow: U+{ord(text[error.position]):04X}")
            return
        except yaml.MarkedYAMLError as error:
            self._complain(*_syntax(error))
            return
        except RecursionError:
            self._complain(0, (), "is nested too deeply; this is no file of settings")
            return
        if root is None or root.tag == _NULL:
            return
        if not isinstance(root, yaml.MappingNode):
            self._complain(_line(root), (), "must hold settings, one `name: value` a line")
            return
        self.layer.values = self._mapping(root, ())
        if self._values > MAX_VALUES:
            self._complain(0, (), f"holds more than {MAX_VALUES:,} values, those behind each alias (*) included")

    def _value(self, node: yaml.Node, path: Path) -> object:
        self._values += 1
        if self._values > MAX_VALUES:
            return _UNREADABLE
        self.layer.origins[path] = Origin(file=self._name, line=_line(node))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            self._complain(_line(node), path, "holds itself")
            return _UNREADABLE
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            assert isinstance(node, yaml.SequenceNode)
            if not node.tag.endswith(":seq"):
                self._complain(_line(node), path, f"has the tag {node.tag}; only plain values are read")
            items = [self._value(item, (*path, place)) for place, item in enumerate(node.value)]
            return [item for item in items if item is not _UNREADABLE]
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        if not node.tag.endswith(":map"):
            self._complain(_line(node), path, f"has the tag {node.tag}; only plain values are read")
        values: dict[str, object] = {}
        lines: dict[str, int] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value:
                self._complain(_line(key), path, "a name of a setting must be plain text")
                continue
            if key.tag == _MERGE:
                self._complain(_line(key), path, "merge keys (<<) are not read; write the settings out")
                continue
            # The text as written: YAML would turn a variable named NO or ON into a truth value.
            name = key.value
            if name in values:
                self._complain(_line(key), (*path, name), f"is set twice; the first is on line {lines[name]}")
                continue
            lines[name] = _line(key)
            values[name] = self._value(item, (*path, name))
            self.layer.origins[(*path, name)] = Origin(file=self._name, line=_line(key))
        return {name: value for name, value in values.items() if value is not _UNREADABLE}

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        if node.tag not in _PLAIN:
            name = node.tag.removeprefix("tag:yaml.org,2002:")
            hint = "put quotes around a text" if name in ("timestamp", "binary") else "only plain values are read"
            self._complain(_line(node), path, f"YAML takes this for {name}; {hint}")
            return _UNREADABLE
        try:
            value: object = self._loader.construct_object(node)
        except (ValueError, yaml.YAMLError):
            self._complain(_line(node), path, "is not the number that it looks like; put quotes around a text")
            return _UNREADABLE
        if isinstance(value, float) and not math.isfinite(value):
            self._complain(_line(node), path, "is no finite number")
            return _UNREADABLE
        return value

    def _complain(self, line: int, path: Path, message: str) -> None:
        self.layer.problems.append(Problem(origin=Origin(file=self._name, line=line), path=path, message=message))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _syntax(error: yaml.MarkedYAMLError) -> tuple[int, Path, str]:
    """Put a syntax error into words. Its snippet of the file is left out, for the file may hold secrets."""
    mark = error.problem_mark or error.context_mark
    line = int(mark.line) + 1 if mark else 0
    problem = error.problem or "it is no YAML"
    if "'\\t'" in problem:
        return line, (), "a tab where only spaces may be; indent with spaces"
    if "expected a single document" in (error.context or ""):
        return line, (), "a second document begins here; all settings are in one"
    if "undefined alias" in problem:
        problem = "an alias (*) of something that was not named before"
    column = f" (column {int(mark.column) + 1})" if mark else ""
    return line, (), f"no valid YAML: {problem}{column}"
