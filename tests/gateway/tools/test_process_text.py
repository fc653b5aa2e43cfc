"""What a command did, as text for a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgate_gateway.domain.result import BackgroundProcess, Capture, ProcessData, ProcessEnd
from sandgate_gateway.tools.capture import OutputCapture
from sandgate_gateway.tools.process_text import process_text


def kept(data: bytes, head: int = 131_072, tail: int = 131_072) -> Capture:
    """Capture an output."""
    capture = OutputCapture(head, tail)
    capture.add(data)
    return capture.result()


def process(stdout: bytes = b"", stderr: bytes = b"", **more: object) -> ProcessData:
    """Describe a command that exited."""
    values: dict[str, object] = {"end": ProcessEnd.EXITED, "exit_code": 0, **more}
    return ProcessData(stdout=kept(stdout), stderr=kept(stderr), **values)  # type: ignore[arg-type]  # checked by the class


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (process(), "(no output)"),
        (process(b"a\n\n"), "a"),
        (process(b"a", b"b"), "a\nStd Error:\nb"),
        (process(b"a", exit_code=1), "a\nExit Code: 1"),
        (process(end=ProcessEnd.SIGNALED, exit_code=None, signal=11), "(no output)\nEnded by signal 11 (SIGSEGV)"),
        (process(end=ProcessEnd.SIGNALED, exit_code=None, signal=40), "(no output)\nEnded by signal 40"),
    ],
)
def test_texts(data: ProcessData, text: str) -> None:
    """The reference's labels, in its order."""
    assert process_text(data, 20_000) == (text, False)


def test_background_processes_are_shown_shortly() -> None:
    """Few of many, each on one line and cut."""
    background = tuple(BackgroundProcess(pid=number, command="run\n" * 100) for number in range(100, 132))
    text, _ = process_text(process(background=background), 20_000)
    assert len(text) < 1200
    assert "100 (run\\nrun" in text
    assert "and 24 more" in text


@given(
    stdout=st.binary(max_size=3000),
    stderr=st.binary(max_size=3000),
    limit=st.integers(400, 2000),
    code=st.integers(0, 255),
)
def test_the_end_survives_any_cut(stdout: bytes, stderr: bytes, limit: int, code: int) -> None:
    """For any bytes: within the limit, and how it ended is always said."""
    data = ProcessData(
        end=ProcessEnd.EXITED, exit_code=code, stdout=kept(stdout, 300, 300), stderr=kept(stderr, 300, 300)
    )
    text, truncated = process_text(data, limit, opening="Opening.", closing="Closing.")
    assert len(text) <= limit
    assert text.startswith("Opening.\n")
    assert text.endswith(f"\nExit Code: {code}\nClosing." if code else "\nClosing.")
    if data.stdout.omitted_bytes or data.stderr.omitted_bytes:
        assert truncated


def test_a_gap_breaks_no_character() -> None:
    """What the gap cut in two is left out on both sides."""
    whole = "🎈" * 100
    for head in range(40, 45):
        for tail in range(40, 45):
            capture = kept(whole.encode(), head, tail)
            data = ProcessData(end=ProcessEnd.EXITED, exit_code=0, stdout=capture, stderr=kept(b""))
            text, truncated = process_text(data, 20_000)
            assert truncated
            assert "\ufffd" not in text
            assert f"{capture.omitted_bytes} bytes are left out here" in text
