"""Log lines: an event name and fields."""

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Final

MINUTE_SECONDS: Final = 60
LINES_PER_MINUTE: Final = 10
MAX_EVENTS: Final = 1000

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class EventFormatter(logging.Formatter):
    """Writes `time level logger: event field=value …`."""

    def format(self, record: logging.LogRecord) -> str:
        """Append the record's own fields to its event."""
        fields = "".join(f" {name}={value!r}" for name, value in _fields(record).items())
        line = f"{self.formatTime(record)} {record.levelname.lower()} {record.name}: "
        line += record.getMessage() + fields
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """Writes one JSON object per line: time, level, logger, message and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Write the record's own fields beside its event."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        standard: dict[str, object] = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),  # the name that log collectors expect
        }
        written = {**standard, **_fields(record), **standard}
        if record.exc_info:
            written["exception"] = self.formatException(record.exc_info)
        members = (f"{json.dumps(name)}: {_json(value)}" for name, value in written.items())
        return f"{{{', '.join(members)}}}"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):  # Python would print its own complaint instead of the line
        return f"{record.msg} {record.args}"


def _json(value: object) -> str:
    try:
        return json.dumps(value, default=str, allow_nan=False)
    except (TypeError, ValueError):  # a value that JSON doesn't have
        return json.dumps(str(value))


FORMATTERS: Final = {"text": EventFormatter, "json": JsonFormatter}


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class RepeatLimit(logging.Filter):
    """Limits an event to ten lines per minute, because callers can cause some events at will.

    An event is identified by its line of code and its exception type, so that one failure can't
    hide another. Each payment counts separately, because an operator needs its lines. The tenth
    line says that more are left out, and the first line of the next minute says how many.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = Lock()
        self._minutes: dict[tuple[object, ...], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Count the record, and return whether to write it."""
        event = _event(record)
        now = self._clock()
        with self._lock:
            start, count = self._minutes.get(event, (now, 0))
            if now - start >= MINUTE_SECONDS:
                if count > LINES_PER_MINUTE:
                    record.left_out = count - LINES_PER_MINUTE
                start, count = now, 0
            if event not in self._minutes and len(self._minutes) >= MAX_EVENTS:
                del self._minutes[next(iter(self._minutes))]
            self._minutes[event] = start, count + 1
        if count == LINES_PER_MINUTE - 1:
            record.repeats = "left out for a minute"
        return count < LINES_PER_MINUTE


def _event(record: logging.LogRecord) -> tuple[object, ...]:
    place = record.name, record.pathname, record.lineno
    failure = record.exc_info[0] if record.exc_info else None
    return *place, failure, getattr(record, "payment", None)


def configure_logs(level: str, form: str = "text") -> None:
    """Log to standard error from now on; as JSON, also warnings and uncaught exceptions."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATTERS[form]())
    limit = RepeatLimit()
    # Granian has its own handlers.
    for each in (handler, *logging.getLogger("_granian").handlers):
        each.addFilter(limit)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Clients log each request with its address, and at debug every header field.
    for name in ("httpx2", "httpcore2", "websockets"):
        logging.getLogger(name).setLevel(logging.WARNING)
    if form == "json":
        logging.captureWarnings(True)
        uncaught = partial(logging.getLogger("barograph").critical, "uncaught exception")
        sys.excepthook = lambda *raised: uncaught(exc_info=raised)
        threading.excepthook = lambda raised: uncaught(exc_info=raised.exc_value)
        sys.unraisablehook = lambda raised: uncaught(exc_info=raised.exc_value)


def logs_are_json() -> bool:
    """Whether this process writes its log as JSON."""
    return any(
        isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers
    )
