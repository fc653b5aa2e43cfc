"""Checking the audit file: each record names its number in its chain and the digest of the record before it. Blocks."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandgate_gateway.audit.codes import Code
from sandgate_gateway.audit.file import Head

LONGEST_LINE_BYTES = 4 << 20
"""What is longer is no record; it is read in pieces and reported."""

LIMITS = (
    "Not noticed: that the newest records were cut off or the very last one was changed while no gateway was running; "
    "that somebody who may write the file rewrote everything from some record on."
)
"""What a chain of plain digests in one file cannot show, whoever checks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a check found."""

    record_count: int
    """Records that were read before the first problem."""
    chain_count: int
    """Lives of a gateway that are recorded in the file."""
    problem: str
    """The first problem with its line; empty when every chain is whole."""
    limits: str = LIMITS
    """What the check cannot notice."""

    @property
    def intact(self) -> bool:
        """True when nothing was found."""
        return not self.problem


@dataclass(frozen=True, slots=True)
class _Link:
    """What a record says about its place."""

    code: str
    chain: str
    sequence: int
    previous_digest: str


class _Broken(Exception):
    """The first problem."""


class _Walk:
    """The state of a check, line by line."""

    def __init__(self) -> None:
        self.records = 0
        self.chains: set[str] = set()
        self._last: _Link | None = None
        self._digest = ""

    def step(self, number: int, line: bytes) -> None:
        """Check one line against the one before it."""
        link = _link(line)
        if link is None:
            raise _Broken(f"line {number}: this is no record")
        if link.code == Code.CHAIN_OPENED.code:
            self._open(number, link)
        else:
            self._continue(number, link)
        self._last = link
        self._digest = hashlib.sha256(line).hexdigest()
        self.records += 1

    def _open(self, number: int, link: _Link) -> None:
        if link.chain in self.chains or link.sequence != 1:
            raise _Broken(f"line {number}: this chain was opened before; records were copied or moved")
        if self._last is None and link.previous_digest:
            raise _Broken(f"line {number}: the records before the first line are missing")
        if link.previous_digest != self._digest:
            raise _Broken(
                f"line {number}: the record before this line was changed or removed, or others behind it were removed"
            )
        self.chains.add(link.chain)

    def _continue(self, number: int, link: _Link) -> None:
        last = self._last
        if last is None:
            raise _Broken(f"line {number}: the records before the first line are missing")
        if link.chain != last.chain:
            raise _Broken(f"line {number}: this record belongs to another chain; records were removed or moved")
        if link.sequence <= last.sequence:
            raise _Broken(
                f"line {number}: record {link.sequence} comes after record {last.sequence}; "
                "records were moved or copied"
            )
        if link.sequence > last.sequence + 1:
            raise _Broken(
                f"line {number}: records {last.sequence + 1} to {link.sequence - 1} before this one "
                "are missing or moved"
            )
        if link.previous_digest != self._digest:
            raise _Broken(f"line {number - 1}: this record was changed after it was written")


def verify_file(path: Path, *, head: Head | None, cancelled: threading.Event) -> Verification:
    """Walk the file from its start.

    Args:
        path: the file.
        head: the newest record that its writer vouches for; None: no writer is at hand.
        cancelled: set it to stop early; the result is then of no use.

    Raises:
        OSError: the file cannot be read.
    """
    walk = _Walk()
    try:
        _follow(walk, path, head, cancelled)
    except _Broken as broken:
        problem = str(broken)
    else:
        problem = ""
    return Verification(record_count=walk.records, chain_count=len(walk.chains), problem=problem)


def _follow(walk: _Walk, path: Path, head: Head | None, cancelled: threading.Event) -> None:
    offset = 0
    number = 0
    seen_head = head is None
    for line in _whole_lines(path):
        if cancelled.is_set():
            return
        number += 1
        offset += len(line)
        walk.step(number, line)
        if head is not None and offset == head.end_bytes:
            seen_head = hashlib.sha256(line).hexdigest() == head.digest
    if not seen_head:
        raise _Broken(f"line {number}: the newest records are missing or changed; the gateway wrote others here")


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Yield lines with their line feed. Half a line at the end is being written at the moment, or is repaired later."""
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE_BYTES):
            if not line.endswith(b"\n"):
                if len(line) == LONGEST_LINE_BYTES:
                    yield b""
                return
            yield line


def _link(line: bytes) -> _Link | None:
    try:
        record = json.loads(line)
        link = _Link(record["code"], record["chain"], record["sequence"], record["previous_digest"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    texts = (link.code, link.chain, link.previous_digest)
    return link if all(isinstance(text, str) for text in texts) and type(link.sequence) is int else None
