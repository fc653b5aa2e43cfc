"""The table of codes is closed, unique, and used."""

from __future__ import annotations

import re
from pathlib import Path

import sandgate_gateway
from sandgate_gateway.audit.codes import Code, Severity, Stage


def test_codes_are_unique_and_well_formed() -> None:
    """No two kinds of record share a code, and each ends in its severity."""
    codes = [code.code for code in Code]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"SG[A-Z]\d{3}[IWE]", code) for code in codes)
    assert {code.severity for code in Code} == set(Severity)


def test_event_names_have_no_variable_parts() -> None:
    """An event's name is a low-cardinality word; only a middleware adds its own part."""
    for code in Code:
        if code is Code.MIDDLEWARE_EVENT:
            assert code.event == "middleware:"
        else:
            assert re.fullmatch(r"[a-z]+(\.[a-z]+)+", code.event)


def test_a_stage_belongs_to_calls_only() -> None:
    """Records of calls have a stage and no others do."""
    for code in Code:
        assert (code.stage is not Stage.NONE) == code.event.startswith("tool.call.")


def test_every_code_is_used() -> None:
    """A code that nothing writes is a promise that nobody keeps."""
    package = Path(sandgate_gateway.__file__).parent
    own = package / "audit" / "codes.py"
    text = "\n".join(file.read_text(encoding="utf-8") for file in package.rglob("*.py") if file != own)
    text += own.read_text(encoding="utf-8").partition("def decided_code")[2]
    unused = [code.name for code in Code if f"Code.{code.name}" not in text]
    assert unused == []
