"""Logs are an event name and fields, one line each."""

import logging
import sys

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class EventFormatter(logging.Formatter):
    """Writes `time level logger: event field=value …`."""

    def format(self, record: logging.LogRecord) -> str:
        """Put the record's own fields behind its event."""
        fields = "".join(
            f" {name}={value!r}" for name, value in vars(record).items() if name not in _STANDARD
        )
        line = f"{self.formatTime(record)} {record.levelname.lower()} {record.name}: "
        line += record.getMessage() + fields
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure_logs(level: str) -> None:
    """Log to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(EventFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Clients log each request with its address, and at debug every header field.
    for name in ("httpx", "httpcore", "websockets"):
        logging.getLogger(name).setLevel(logging.WARNING)
