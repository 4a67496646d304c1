"""Structured logs: one JSON object a line.  They name principals, routes, codes and request ids; never SQL, a
value, a token or a query string."""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
from pathlib import Path
from traceback import extract_tb
from typing import Any, TextIO

log = logging.getLogger("defray.service")
_SPELLED = json.JSONEncoder(default=str)


def event(name: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with its fields.  Nobody looks for where in the code that was."""
    if log.isEnabledFor(level):
        extra = {"fields": fields}
        log.handle(log.makeRecord(log.name, level, "", 0, name, (), None, extra=extra))


class Lines(logging.Formatter):
    """A record as one line of JSON.  Of an exception only its kind and place: its text may quote rows."""

    def format(self, record: logging.LogRecord) -> str:
        at = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "at": at,
            "level": record.levelname.lower(),
            "event": record.getMessage() if record.exc_info is None else "fault",
            **getattr(record, "fields", {}),
        }
        if record.exc_info is not None and record.exc_info[0] is not None:
            frames = extract_tb(record.exc_info[2])[-4:]
            line["kind"] = record.exc_info[0].__name__
            line["where"] = [f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames)]
        return _SPELLED.encode(line)


def to(stream: TextIO | None = None) -> None:
    """Send the logs of Defray and of the server to a stream (stderr), as lines of JSON.  No line names a
    thread or a process, so nothing looks for them."""
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Lines())
    for name, level in (("defray", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
