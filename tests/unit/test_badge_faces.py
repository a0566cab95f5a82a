"""What each badge says, and the very bytes of its drawing.

Run as a program, with `tests` on the path, it writes the drawings in `tests/golden/badges` anew.
"""

from itertools import product
from pathlib import Path

import pytest

from barograph.badges import content as faces
from barograph.badges.content import Face
from barograph.badges.documents import badge_document
from barograph.badges.svg import AMBER, BLUE, GREEN, GREY, RED, Style
from barograph.kit.documents import FOREVER
from barograph.kit.timestamps import DAY, SECOND
from barograph.markets.regime import LABELS
from support.clock import START
from support.markets import BTC, ETH, PEPE, SOL, SOURCE, changed

GOLDEN = Path(__file__).parents[1] / "golden" / "badges"
STYLES: tuple[Style, ...] = ("flat", "flat-square")
UNTIL = START + 30 * SECOND
FACES: dict[str, Face] = {
    "record": faces.record(START - 431 * DAY, START).face,
    "record-one-day": faces.record(START - DAY, START).face,
    "record-not-started": faces.record_not_started().face,
    "record-invalid": faces.record(None, START).face,
    "record-future": faces.record(START + 1, START).face,
    **{f"regime-{label}": faces.regime(label, SOURCE, UNTIL).face for label in LABELS},
    "regime-unknown": faces.regime("unknown", SOURCE, UNTIL).face,
    "regime-unavailable": faces.unavailable("regime").face,
    "funding": faces.funding("BTC", BTC, SOURCE, UNTIL).face,
    "funding-negative": faces.funding("ETH", ETH, SOURCE, UNTIL).face,
    "funding-zero": faces.funding("SOL", SOL, SOURCE, UNTIL).face,
    "funding-four-hours": faces.funding("1000PEPE", PEPE, SOURCE, UNTIL).face,
    "funding-unknown": faces.funding("NOSUCH", None, SOURCE, UNTIL).face,
    "funding-unavailable": faces.unavailable("BTC funding").face,
    "signal": faces.signal("Funding regime", "long-leaning", "test venue", UNTIL).face,
    "signal-unknown": faces.signal("Funding regime", None, "test venue", UNTIL).face,
    "status-ok": faces.status("ok", UNTIL).face,
    "status-degraded": faces.status("degraded", UNTIL).face,
    "status-down": faces.status("down", UNTIL).face,
    "not-found": faces.NOT_FOUND,
}
DRAWINGS = {
    f"{name}.{style}.svg": badge_document(face, style, "svg").body
    for (name, face), style in product(FACES.items(), STYLES)
}
RECORDS = [name for name in FACES if name.startswith("record")]
ERRORS = {
    *("record-invalid", "record-future", "regime-unknown", "regime-unavailable"),
    *("funding-unknown", "funding-unavailable", "signal-unknown", "not-found"),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_each_face_is_drawn_as_it_was(name: str) -> None:
    assert DRAWINGS[name] == (GOLDEN / name).read_bytes()


def test_no_other_drawings_are_kept() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == DRAWINGS.keys()


@pytest.mark.parametrize(
    ("name", "label", "message", "colour"),
    [
        ("record", "paper record", "431 days", BLUE),
        ("record-one-day", "paper record", "1 day", BLUE),
        ("record-not-started", "paper record", "not started", GREY),
        ("record-invalid", "paper record", "invalid sinceDate", GREY),
        ("record-future", "paper record", "sinceDate in the future", GREY),
        ("regime-short-crowded", "regime", "short-crowded", RED),
        ("regime-long-leaning", "regime", "long-leaning", AMBER),
        ("regime-neutral", "regime", "neutral", GREEN),
        ("regime-unknown", "regime", "unknown", GREY),
        ("regime-unavailable", "regime", "unavailable", GREY),
        ("funding", "BTC funding", "+0.0100 % / 8h", BLUE),
        ("funding-negative", "ETH funding", "\N{MINUS SIGN}0.0125 % / 8h", BLUE),
        ("funding-zero", "SOL funding", "0.0000 % / 8h", BLUE),
        ("funding-four-hours", "1000PEPE funding", "+0.0050 % / 4h", BLUE),
        ("funding-unknown", "NOSUCH funding", "unknown", GREY),
        ("funding-unavailable", "BTC funding", "unavailable", GREY),
        ("signal", "Funding regime", "long-leaning", BLUE),
        ("signal-unknown", "Funding regime", "unknown", GREY),
        ("status-ok", "status", "ok", GREEN),
        ("status-degraded", "status", "degraded", AMBER),
        ("status-down", "status", "down", RED),
    ],
)
def test_a_face_has_its_words_and_colour(name: str, label: str, message: str, colour: str) -> None:
    face = FACES[name]

    assert (face.label, face.message, face.colour) == (label, message, colour)
    assert face.title.startswith(f"{label}: {message}")


def test_exactly_the_faces_that_know_nothing_are_errors() -> None:
    assert {name for name, face in FACES.items() if face.is_error} == ERRORS


@pytest.mark.contract(
    "badges.record.legacy-paper",
    "badges.record.day-count",
    "badges.record.continuity",
    "badges.record.not-evidence",
)
@pytest.mark.parametrize("name", RECORDS)
def test_every_record_badge_says_what_it_is_not(name: str) -> None:
    face = FACES[name]

    for part in ("legacy paper-strategy record", "continuity unverified"):
        assert part in face.title
    for part in (
        "legacy paper-strategy record",
        "the time elapsed since sinceDate",
        "not a number of recorded observations and not uninterrupted operation",
        "Continuity is unverified",
        "no evidence of results with live capital or of the outcomes of paid stances",
    ):
        assert part in face.description


@pytest.mark.contract("badges.record.day-count")
@pytest.mark.parametrize(
    ("elapsed", "message"),
    [
        (0, "0 days"),
        (DAY - 1, "0 days"),
        (DAY, "1 day"),
        (2 * DAY - 1, "1 day"),
        (2 * DAY, "2 days"),
        (1000 * DAY + 5, "1000 days"),
        (-1, "sinceDate in the future"),
        (-400 * DAY, "sinceDate in the future"),
    ],
)
def test_days_are_whole_days_of_elapsed_time(elapsed: int, message: str) -> None:
    assert faces.record(START - elapsed, START).face.message == message


@pytest.mark.parametrize("elapsed", [-5 * DAY, -1, 0, 1, DAY - 1, DAY, 77 * DAY + 12_345])
def test_a_record_is_right_until_the_instant_at_which_it_changes(elapsed: int) -> None:
    shown = faces.record(START - elapsed, START)

    assert faces.record(START - elapsed, shown.until - 1).face == shown.face
    assert faces.record(START - elapsed, shown.until).face != shown.face


def test_what_no_time_can_change_is_right_for_ever() -> None:
    assert faces.record(None, START).until == faces.record_not_started().until == FOREVER


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (0.00004, "0.0000 % / 8h"),
        (-0.00004, "0.0000 % / 8h"),
        (-0.0, "0.0000 % / 8h"),
        (0.00006, "+0.0001 % / 8h"),
        (-0.00006, "\N{MINUS SIGN}0.0001 % / 8h"),
        (2.5, "+2.5000 % / 8h"),
    ],
)
def test_a_rate_has_four_decimals_and_zero_has_no_sign(rate: float, message: str) -> None:
    shown = faces.funding("BTC", changed(BTC, funding_rate_pct=rate), SOURCE, UNTIL)

    assert shown.face.message == message
    assert not shown.face.is_error


def test_market_badges_name_their_source() -> None:
    for name in ("funding", "funding-unknown", "regime-neutral", "regime-unknown"):
        assert f"Source: {SOURCE}." in FACES[name].description


if __name__ == "__main__":
    for name, body in DRAWINGS.items():
        (GOLDEN / name).write_bytes(body)
