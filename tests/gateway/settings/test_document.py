"""Files that are no settings are refused with the line, and never guessed at."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandgate_gateway.configuration.document import read_document


def told(tmp_path: Path, data: bytes | str) -> list[tuple[int, str, str]]:
    """Read a file and give line, key and message of each problem."""
    file = tmp_path / "x.yaml"
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return [(problem.origin.line, problem.key, problem.message) for problem in read_document(file).problems]


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        ("a: 1\n\tb: 2\n", 2, "a tab where only spaces may be; indent with spaces"),
        ("a:\n\t- b\n", 2, "a tab where only spaces may be; indent with spaces"),
        ("a: 1\nb: [1, 2\n", 3, "no valid YAML"),
        ("a: 'x\n", 2, "no valid YAML"),
        ("a: b: c\n", 1, "no valid YAML"),
        ("a: *x\n", 1, "no valid YAML: an alias (*) of something that was not named before"),
        ("a: 1\n---\nb: 2\n", 2, "a second document begins here; all settings are in one"),
        ("just text\n", 1, "must hold settings, one `name: value` a line"),
        ("- a\n- b\n", 1, "must hold settings, one `name: value` a line"),
        (b"a: 1\nb: \xff\n", 2, "is not UTF-8"),
        (b"a: 1\nb: \x00\n", 2, "a character that YAML does not allow: U+0000"),
        (b"# " + b"x" * (1 << 20), 0, "is larger than 1048576 bytes; this is no file of settings"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_broken_file_is_told_with_its_line(tmp_path: Path, data: bytes | str, line: int, message: str) -> None:
    """A tab, an open bracket, a second document, wrong bytes: each in words, with the line and no key."""
    found = told(tmp_path, data)
    assert len(found) == 1
    assert found[0][0] == line
    assert found[0][1] == ""
    assert found[0][2].startswith(message)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", (3, "a", "is set twice; the first is on line 1")),
        ("s:\n  a: 1\n  a: 1\n", (3, "s.a", "is set twice; the first is on line 2")),
        ("s: &x {a: 1}\nt:\n  <<: *x\n", (3, "t", "merge keys (<<) are not read; write the settings out")),
        (
            "a: !!python/name:os.system x\n",
            (1, "a", "YAML takes this for python/name:os.system; only plain values are read"),
        ),
        ("a: !mine x\n", (1, "a", "YAML takes this for !mine; only plain values are read")),
        ("a: !!set {x}\n", (1, "a", "has the tag tag:yaml.org,2002:set; only plain values are read")),
        ("a: 2020-01-01\n", (1, "a", "YAML takes this for timestamp; put quotes around a text")),
        ("a: !!binary aGk=\n", (1, "a", "YAML takes this for binary; put quotes around a text")),
        ("a: .nan\n", (1, "a", "is no finite number")),
        ("a: 1.0e+999\n", (1, "a", "is no finite number")),
        ("a: !!int x\n", (1, "a", "is not the number that it looks like; put quotes around a text")),
        ("a: " + "9" * 5000 + "\n", (1, "a", "is not the number that it looks like; put quotes around a text")),
        ("? [a, b]\n: 1\n", (1, "", "a name of a setting must be plain text")),
        ("'': 1\n", (1, "", "a name of a setting must be plain text")),
        ("a: &x\n  - *x\n", (1, "a[0]", "holds itself")),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_settings_do_not_need_is_refused(tmp_path: Path, data: str, expected: tuple[int, str, str]) -> None:
    """Doubled keys, merge keys, tags, dates and endless things are told with key and line."""
    assert expected in told(tmp_path, data)


def test_names_are_read_as_written(tmp_path: Path) -> None:
    """YAML would turn these names into truth values and numbers; a variable may be called NO."""
    file = tmp_path / "x.yaml"
    file.write_text("NO: a\non: b\n1: c\n~: d\n", encoding="utf-8")
    assert read_document(file).values == {"NO": "a", "on": "b", "1": "c", "~": "d"}


def test_every_value_knows_its_line(tmp_path: Path) -> None:
    """The line of its key; of an item in a list, its own."""
    file = tmp_path / "x.yaml"
    file.write_text("a:\n  b:\n    - 1\n    - 2\n\n  c: >\n    text\n", encoding="utf-8")
    layer = read_document(file)
    lines = {path: origin.line for path, origin in layer.origins.items()}
    assert lines == {("a",): 1, ("a", "b"): 2, ("a", "b", 0): 3, ("a", "b", 1): 4, ("a", "c"): 6}
    assert layer.values == {"a": {"b": [1, 2], "c": "text\n"}}


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """What cannot be read is told with the system's reason."""
    assert [str(problem) for problem in read_document(tmp_path).problems] == [
        f"{tmp_path}: cannot be read: Is a directory"
    ]


def test_aliases_cannot_make_a_file_endless(tmp_path: Path) -> None:
    """Each level names the one before it ten times: a trillion values in a kilobyte."""
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for level in range(1, 12):
        text += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n"
    found = told(tmp_path, text)
    assert (0, "", "holds more than 100,000 values, those behind each alias (*) included") in found


def test_endless_nesting_is_told(tmp_path: Path) -> None:
    """A file of brackets is a mistake, not a crash."""
    assert told(tmp_path, "a: " + "[" * 5000 + "]" * 5000) == [
        (0, "", "is nested too deeply; this is no file of settings")
    ]
