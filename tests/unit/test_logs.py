"""Logs are an event name and fields, one line each."""

import json
import logging
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.kit.logs import (
    LINES_PER_MINUTE,
    MAX_EVENTS,
    EventFormatter,
    JsonFormatter,
    RepeatLimit,
)


def line(message: str, *args: object, **extra: object) -> str:
    logger = logging.getLogger("barograph.sample")
    record = logger.makeRecord(
        logger.name, logging.WARNING, __file__, 1, message, args, None, extra=extra
    )
    return EventFormatter().format(record)


def test_a_line_is_time_level_logger_event_and_fields() -> None:
    written = line("exchange fails", kind="throttled", seconds=1.5, contract=None)

    assert written.endswith(
        " warning barograph.sample: exchange fails kind='throttled' seconds=1.5 contract=None"
    )
    assert written[:2] == "20"
    assert line("collector leads").endswith(" warning barograph.sample: collector leads")
    assert line("started %s of %d", "one", 2).endswith(": started one of 2")


@pytest.mark.parametrize("value", ["two\nlines", "a\r\nb", "x\x1b[31m", "\u2028"])
def test_a_field_cannot_start_a_new_line(value: str) -> None:
    assert len(line("event", reason=value).splitlines()) == 1
    assert "\x1b" not in line("event", reason=value)


def test_a_failure_is_written_below_its_event() -> None:
    try:
        int("wrong")
    except ValueError:
        record = logging.getLogger("a").makeRecord(
            "a", logging.ERROR, __file__, 1, "unexpected failure", (), sys.exc_info()
        )
    first, *trace = EventFormatter().format(record).splitlines()

    assert first.endswith(" error a: unexpected failure")
    assert trace[-1].startswith("ValueError: invalid literal")


def test_a_json_line_is_one_object_with_the_fields_and_the_traceback() -> None:
    record = logging.makeLogRecord({"name": "a", "levelname": "ERROR", "created": 1e9})
    vars(record).update(msg="read x\ny", contracts=["BTC"], path=Path("/srv"), level="no field's")
    record.exc_info = ValueError, ValueError("wrong"), None
    (written,) = JsonFormatter().format(record).splitlines()

    assert written == (
        '{"time": "2001-09-09T01:46:40.000Z", "level": "error", "logger": "a", '
        '"message": "read x\\ny", "contracts": ["BTC"], "path": "/srv", '
        '"exception": "ValueError: wrong"}'
    )
    vars(record).update(msg="%d", args=("x",), n=1, ratio=math.nan, time=b"", keys={b"k": b"\xff"})
    found = json.loads(JsonFormatter().format(record))
    assert found["message"] == "%d ('x',)"
    assert (found["n"], found["ratio"], found["keys"]) == (1, "nan", r"{b'k': b'\xff'}")


class Kept(logging.Handler):
    """Keeps the lines that go out, by a clock held by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.lines: list[str] = []
        self.setFormatter(EventFormatter())
        self.addFilter(RepeatLimit(lambda: self.now))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record).partition(": ")[2])


@pytest.fixture
def kept() -> Iterator[Kept]:
    kept, logger = Kept(), logging.getLogger("barograph.sample")
    logger.addHandler(kept)
    yield kept
    logger.removeHandler(kept)


def test_event_that_repeats_is_bounded_per_minute_and_counts_what_was_left_out(kept: Kept) -> None:
    logger = logging.getLogger("barograph.sample")

    def repeat(times: int, **extra: object) -> None:
        for number in range(times):
            logger.warning("read %s unavailable", number, extra=extra)

    repeat(1000)
    assert len(kept.lines) == LINES_PER_MINUTE
    assert kept.lines[-1] == "read 9 unavailable repeats='left out for a minute'"
    logger.warning("another event")
    for payment in ("pay_a", "pay_b"):  # an operator needs the lines of every payment
        repeat(1, payment=payment)
    assert kept.lines[LINES_PER_MINUTE:] == [
        "another event",
        "read 0 unavailable payment='pay_a'",
        "read 0 unavailable payment='pay_b'",
    ]
    kept.now = 60.0
    repeat(2)
    assert kept.lines[-2:] == ["read 0 unavailable left_out=990", "read 1 unavailable"]


def test_one_failure_that_repeats_does_not_hide_another(kept: Kept) -> None:
    logger = logging.getLogger("barograph.sample")
    for error in (*[ValueError("harmless")] * 50, KeyError("real")):
        logger.error("unexpected failure", exc_info=error)
    assert len(kept.lines) == LINES_PER_MINUTE + 1
    assert "KeyError: 'real'" in kept.lines[-1]


def test_only_so_many_events_are_remembered_and_the_oldest_is_forgotten(kept: Kept) -> None:
    logger = logging.getLogger("barograph.sample")

    def log(payment: int, times: int = 1) -> int:
        before = len(kept.lines)
        for _ in range(times):
            logger.warning("event", extra={"payment": payment})
        return len(kept.lines) - before

    log(0, LINES_PER_MINUTE + 1)
    for number in range(1, MAX_EVENTS):
        log(number)
    assert log(0) == 0
    log(MAX_EVENTS)
    assert log(0) == 1


CONFIGURED = """
import logging
from barograph.kit.logs import configure_logs

logging.basicConfig(format="another form: %(message)s")
configure_logs("info")
logging.getLogger("barograph.a").info("kept", extra={"n": 1})
logging.getLogger("barograph.a").debug("too quiet")
logging.getLogger("httpx2").info("GET https://exchange.example/secret")
logging.getLogger("websockets.client").info("connected to wss://exchange.example")
for _ in range(1000):
    logging.getLogger("httpx2").warning("strange")
"""


def test_configured_logs_go_to_standard_error_without_the_addresses_that_clients_ask() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CONFIGURED], capture_output=True, text=True, check=True, timeout=60
    )

    assert ran.stdout == ""
    kept, *strange = ran.stderr.splitlines()
    assert kept.endswith(" info barograph.a: kept n=1")
    said = [each.partition(" warning ")[2] for each in strange]
    assert said == ["httpx2: strange"] * 9 + ["httpx2: strange repeats='left out for a minute'"]


UNCAUGHT = """
import logging, threading, warnings
from barograph.kit.logs import configure_logs

configure_logs("info", "json")
warnings.warn("old")
threading.Thread(target=int, args=("thread",)).start()

class Dying:
    def __del__(self):
        int("deleted")

Dying()
for _ in range(1000):
    logging.getLogger("barograph.a").info("kept", extra={"n": 1})
int("main")
"""


def test_everything_on_standard_error_is_json_if_chosen() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", UNCAUGHT], capture_output=True, text=True, check=False, timeout=60
    )

    assert (ran.returncode, ran.stdout) == (1, "")
    lines = [json.loads(each) for each in ran.stderr.splitlines()]
    assert [each["message"] for each in lines].count("kept") == LINES_PER_MINUTE
    assert "UserWarning: old" in lines[0]["message"]
    uncaught = [each["exception"] for each in lines if each["message"] == "uncaught exception"]
    assert sorted(each.rpartition(": ")[2] for each in uncaught) == [
        "'deleted'",
        "'main'",
        "'thread'",
    ]
