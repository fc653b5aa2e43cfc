"""How a record becomes one line: structlog with a JSON renderer, apart from every debug log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

import structlog

from sandgate_gateway.audit.blocks import Record

_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))
"""Plain ASCII: no control, bidirectional or half character of a caller reaches a terminal that shows the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitter:
    """Who writes the log; the same for a whole process."""

    service: str
    version: str
    instance: str
    """The installation's id."""


@dataclass(frozen=True, slots=True)
class Line:
    """One rendered record."""

    data: bytes
    """The exact bytes in the file, with the line feed at their end."""
    digest: str
    """SHA-256 of `data`, in hex; what the next record names as `previous_digest`."""


class LineSink:
    """The end of the structlog chain: takes rendered text and keeps the last line."""

    def __init__(self) -> None:
        self.line: Line | None = None

    def msg(self, text: str) -> None:
        """Take one rendered record."""
        data = text.encode("ascii") + b"\n"
        self.line = Line(data, hashlib.sha256(data).hexdigest())


class RecordLogger(structlog.BoundLoggerBase):
    """A structlog logger with one verb and no levels: audit records are never filtered."""

    def record(self, record: Record) -> None:
        """Render one record and hand it to the sink, its fields in their order."""
        arguments, keywords = self._process_event("msg", None, record)
        self._logger.msg(*arguments, **keywords)


class Renderer:
    """Renders records, one after another, on one thread."""

    def __init__(self, emitter: Emitter, chain: str) -> None:
        self._sink = LineSink()
        self._emitter = {
            "service": emitter.service,
            "version": emitter.version,
            "instance": emitter.instance,
            "chain": chain,
        }
        self._logger: RecordLogger = structlog.wrap_logger(
            self._sink,
            processors=[structlog.processors.JSONRenderer(serializer=_serialize)],
            wrapper_class=RecordLogger,
            context_class=dict,
        ).bind()

    def render(self, record: Record, *, sequence: int, previous_digest: str) -> Line:
        """Render one record with its place in the chain.

        Raises:
            TypeError: the record holds something that JSON cannot say.
            ValueError: likewise, for a number that is none or a structure that holds itself.
        """
        self._logger.record({**record, **self._emitter, "sequence": sequence, "previous_digest": previous_digest})
        line = self._sink.line
        assert line is not None
        return line


def _serialize(record: MutableMapping[str, Any], **_options: object) -> str:
    # structlog offers a fallback that stores the repr of what JSON cannot say; a record with a repr in it is a bug that
    # must show, so the option is not taken.
    return _ENCODER.encode(record)
