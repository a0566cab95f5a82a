"""The picture of a message: a line chart of the day before, as a PNG."""

import asyncio
import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace

from barograph.alerts.preview import preview
from barograph.alerts.records import Alert, AlertMessage
from barograph.alerts.rules import amount
from barograph.alerts.store import UNREADABLE, sentence_of
from barograph.kit.database import Database
from barograph.kit.timestamps import DAY, iso_timestamp

WIDTH, HEIGHT = 800, 360
_LEFT, _TOP, _RIGHT, _BOTTOM = 150, 30, 30, 60
_WHITE, _GREY, _BLUE, _RED, _BLACK = range(5)
_PALETTE = bytes.fromhex("ffffff c8ccd4 1f5fbf c0392b 30343c")
_DOT = 6

# Each character is five rows of three bits.
_ROWS = (
    "75557 26227 71747 71717 55711 74717 74757 71222 75757 75717 "
    "00002 00024 00700 02720 51245 36236 02020 45655 57755 65656 72222"
)
_FONT = dict(zip("0123456789.,-+%$:kMBT", _ROWS.split(), strict=True))
_SCALE = 3

Points = Sequence[tuple[int, float]]


async def picture_of(database: Database, alert: Alert, message: AlertMessage) -> bytes | None:
    """The picture of a message; None if it is about no value, or nothing is recorded.

    Raises:
        DatabaseUnavailable: the record can't be read.
    """
    fired = message.fired
    if fired.value is None or sentence_of(alert) == UNREADABLE:
        return None
    symbols = (fired.symbol,) if fired.symbol else ()
    rule = replace(alert.rule, symbols=symbols, venue=fired.venue)
    lines = (await preview(database, rule, fired.at, days=1)).lines
    points = [
        (point.at, point.value)
        for line in lines
        for point in line.points
        if point.value is not None and fired.at - DAY <= point.at < fired.at
    ]
    if not points:
        return None
    points.append((fired.at, fired.value))
    side = -1 if rule.when == "falls" else 1
    limit = None if rule.when == "changes" else side * rule.limit
    return await asyncio.to_thread(drawn, points, limit, rule.unit)


def drawn(points: Points, limit: float | None, unit: str) -> bytes:
    """A chart of values, oldest first; the last one is the one that fired."""
    end = points[-1][0]
    values = [value for _, value in points] + ([] if limit is None else [limit])
    low, high = min(values), max(values)
    height = (high - low) or abs(high) or 1.0
    chart = _Chart()

    def place(at: int, value: float) -> tuple[int, int]:
        along = (at - end + DAY) / DAY
        return (
            _LEFT + round(along * (WIDTH - _LEFT - _RIGHT)),
            HEIGHT - _BOTTOM - round((value - low) / height * (HEIGHT - _TOP - _BOTTOM)),
        )

    for value in {low, high}:
        _, y = place(end, value)
        chart.fill(_LEFT, y, WIDTH - _LEFT - _RIGHT, 1, _GREY)
        chart.text(8, y - 7, amount(value, unit).partition(" per")[0], _BLACK)
    for at in (end - DAY, end - DAY // 2, end):
        x, _ = place(at, low)
        chart.text(x - 30, HEIGHT - 36, iso_timestamp(at)[11:16], _BLACK)
    if limit is not None:
        _, y = place(end, limit)
        for x in range(_LEFT, WIDTH - _RIGHT, 12):
            chart.fill(x, y - 1, 6, 2, _RED)
    places = [place(*point) for point in points]
    for start, stop in pairwise(places):
        chart.line(start, stop)
    x, y = places[-1]
    chart.fill(x - _DOT, y - _DOT, 2 * _DOT, 2 * _DOT, _RED)
    return chart.png()


class _Chart:
    def __init__(self) -> None:
        self._rows = [bytearray(WIDTH) for _ in range(HEIGHT)]

    def fill(self, x: int, y: int, width: int, height: int, colour: int) -> None:
        left, right = max(0, x), min(WIDTH, x + width)
        for row in self._rows[max(0, y) : y + height]:
            row[left:right] = bytes([colour]) * (right - left)

    def line(self, start: tuple[int, int], stop: tuple[int, int]) -> None:
        (x0, y0), (x1, y1) = start, stop
        last = y0
        for x in range(x0, x1 + 1):
            y = y0 + round((y1 - y0) * (x - x0) / max(1, x1 - x0))
            self.fill(x - 1, min(y, last) - 1, 3, abs(y - last) + 3, _BLUE)
            last = y

    def text(self, x: int, y: int, text: str, colour: int) -> None:
        for place, character in enumerate(text):
            for row, bits in enumerate(_FONT.get(character, "00000")):
                for column in range(3):
                    if int(bits) & 4 >> column:
                        left = x + (place * 4 + column) * _SCALE
                        self.fill(left, y + row * _SCALE, _SCALE, _SCALE, colour)

    def png(self) -> bytes:
        head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 3, 0, 0, 0)
        body = zlib.compress(b"".join(b"\0" + row for row in self._rows))
        parts = [(b"IHDR", head), (b"PLTE", _PALETTE), (b"IDAT", body), (b"IEND", b"")]
        return b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
            for name, data in parts
        )
