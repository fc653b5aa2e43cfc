"""What a command did, as text for a model."""

from __future__ import annotations

import codecs
import signal

from sandgate_gateway.domain.result import BackgroundProcess, Capture, ProcessData, ProcessEnd
from sandgate_gateway.tools.shortening import MOST_TEXT_BYTES, shorten_middle
from sandgate_gateway.tools.shown import clean_text, decode_output, shown_text

NO_OUTPUT = "(no output)"
_SHOWN_PROCESSES = 8
_SHOWN_COMMAND_CHARACTERS = 80
_CONTINUES, _UPPER_BITS = 0x80, 0xC0
_MOST_CONTINUING = 3


def process_text(data: ProcessData, limit: int, *, opening: str = "", closing: str = "") -> tuple[str, bool]:
    """Tell what a command wrote and how it ended: at most `limit` characters (zero: no such limit) and 64 KiB.

    What is said about the end is never cut, the output is, in its middle.

    Args:
        data: What the command did.
        limit: In characters.
        opening: Stands before the output: why it is not all that there could be.
        closing: Stands after everything: what to do now.

    Returns: the text, and whether anything of the output is left out.
    """
    body = _body(data)
    before = f"{opening}\n" if opening else ""
    after = "".join(f"\n{line}" for line in [*_ending_lines(data), *([closing] if closing else [])])
    missing = data.stdout.omitted_bytes + data.stderr.omitted_bytes

    def note(_head: str, omitted: int) -> str:
        return (
            f"[… about {omitted + missing:,} bytes of the output are left out here. To see them, run the command again "
            "with its output in a file, and read that with read_file, grep, head or tail. …]"
        )

    around = len(before) + len(after)
    around_bytes = len(before.encode("utf-8")) + len(after.encode("utf-8"))
    shortened = shorten_middle(
        body,
        max(1, limit - around) if limit else 0,
        note,
        limit_bytes=max(1, MOST_TEXT_BYTES - around_bytes),
    )
    return f"{before}{shortened.text}{after}", bool(shortened.omitted or missing)


def _body(data: ProcessData) -> str:
    stdout = _text(data.stdout).rstrip("\n")
    stderr = _text(data.stderr).rstrip("\n")
    parts = [stdout] if stdout else []
    if stderr:
        parts += ["Std Error:", stderr]
    return "\n".join(parts) or NO_OUTPUT


def _text(capture: Capture) -> str:
    """Decode an output; the characters that the gap broke are part of the gap."""
    if not capture.omitted_bytes:
        return decode_output(capture.data)
    head = codecs.getincrementaldecoder("utf-8")("replace").decode(capture.data[: capture.gap_bytes])
    tail = capture.data[capture.gap_bytes :]
    begin = 0
    while begin < min(_MOST_CONTINUING, len(tail)) and tail[begin] & _UPPER_BITS == _CONTINUES:
        begin += 1
    gap = f"\n[… {capture.omitted_bytes:,} bytes are left out here …]\n"
    return clean_text(head) + gap + decode_output(tail[begin:])


def _ending_lines(data: ProcessData) -> list[str]:
    lines = []
    if data.exit_code:
        lines.append(f"Exit Code: {data.exit_code}")
    if data.end is ProcessEnd.SIGNALED and data.signal is not None:
        lines.append(f"Ended by signal {data.signal}{_signal_name(data.signal)}")
    if data.background:
        lines.append(f"Still running in the background: {_processes(data.background)}. End one with kill PID.")
    if data.output_held:
        lines.append(
            "A background process still holds the output of this command; what it writes from now on is discarded. "
            "Start such a process with its output in a file (command > log.txt 2>&1 &)."
        )
    return lines


def _signal_name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""  # a real-time signal has a number alone


def _processes(background: tuple[BackgroundProcess, ...]) -> str:
    shown = [
        f"{process.pid} ({shown_text(process.command, _SHOWN_COMMAND_CHARACTERS)})"
        for process in background[:_SHOWN_PROCESSES]
    ]
    more = len(background) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
