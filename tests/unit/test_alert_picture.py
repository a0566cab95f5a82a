"""The picture of an alert is a PNG that shows the line, the limit and what fired."""

import struct
import zlib

from hypothesis import given
from hypothesis.strategies import floats, lists

from barograph.alerts.picture import HEIGHT, WIDTH, drawn
from barograph.kit.timestamps import HOUR
from support.clock import START

WHITE, BLUE, RED = 0, 2, 3


def pixels(picture: bytes) -> list[bytes]:
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    place, parts = 8, {}
    while place < len(picture):
        (length,) = struct.unpack_from(">I", picture, place)
        name, data = picture[place + 4 : place + 8], picture[place + 8 : place + 8 + length]
        (check,) = struct.unpack_from(">I", picture, place + 8 + length)
        assert check == zlib.crc32(name + data)
        parts[name] = data
        place += 12 + length
    assert struct.unpack(">II", parts[b"IHDR"][:8]) == (WIDTH, HEIGHT)
    body = zlib.decompress(parts[b"IDAT"])
    rows = [body[start : start + WIDTH + 1] for start in range(0, len(body), WIDTH + 1)]
    assert {row[0] for row in rows} == {0}
    return [row[1:] for row in rows]


def chart(values: list[float], limit: float | None) -> list[bytes]:
    times = range(START - (len(values) - 1) * HOUR, START + 1, HOUR)
    return pixels(drawn(list(zip(times, values, strict=True)), limit, "pct8h"))


def test_line_rises_to_the_mark_at_the_right_and_the_limit_is_between() -> None:
    rows = chart([0.0] * 23 + [0.1], 0.05)
    assert len(rows) == HEIGHT
    reds = [y for y, row in enumerate(rows) if RED in row]
    blues = [y for y, row in enumerate(rows) if row.count(BLUE) > WIDTH / 2]
    assert min(reds) < HEIGHT / 4 < max(reds) < HEIGHT * 3 / 5 < min(blues)


def test_no_limit_is_drawn_for_changes_on_either_side() -> None:
    assert max(row.count(RED) for row in chart([1.0, -2.0, 3.0], None)) < 20


@given(lists(floats(-1e12, 1e12), min_size=1, max_size=25), floats(-1e12, 1e12))
def test_every_value_can_be_drawn(values: list[float], limit: float) -> None:
    assert len(chart(values, limit)) == HEIGHT
