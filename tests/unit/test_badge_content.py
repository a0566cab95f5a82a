"""What each badge says, and the exact bytes of its SVG.

Run as a program, with `tests` on the path, it rewrites the files in `tests/golden/badges`.
"""

from itertools import product
from pathlib import Path

import pytest

from barograph.badges import documents
from barograph.badges.documents import BadgeContent, badge_document
from barograph.badges.svg import Style
from barograph.kit.documents import FOREVER
from barograph.kit.timestamps import DAY, SECOND
from barograph.markets.regime import LABELS
from support.clock import START
from support.markets import BTC, ETH, PEPE, SOL, SOURCE, changed

GOLDEN = Path(__file__).parents[1] / "golden" / "badges"
STYLES: tuple[Style, ...] = ("flat", "flat-square")
UNTIL = START + 30 * SECOND
CONTENTS: dict[str, BadgeContent] = {
    "record": documents.record(START - 431 * DAY, START).content,
    "record-one-day": documents.record(START - DAY, START).content,
    "record-not-started": documents.record_not_started().content,
    "record-invalid": documents.record(None, START).content,
    "record-future": documents.record(START + 1, START).content,
    **{f"regime-{label}": documents.regime(label, SOURCE, UNTIL).content for label in LABELS},
    "regime-unknown": documents.regime("unknown", SOURCE, UNTIL).content,
    "regime-unavailable": documents.unavailable("regime").content,
    "funding": documents.funding("BTC", BTC, SOURCE, UNTIL).content,
    "funding-negative": documents.funding("ETH", ETH, SOURCE, UNTIL).content,
    "funding-zero": documents.funding("SOL", SOL, SOURCE, UNTIL).content,
    "funding-four-hours": documents.funding("1000PEPE", PEPE, SOURCE, UNTIL).content,
    "funding-unknown": documents.funding("NOSUCH", None, SOURCE, UNTIL).content,
    "funding-unavailable": documents.unavailable("BTC funding").content,
    "signal": documents.signal("Funding regime", "long-leaning", "test venue", UNTIL).content,
    "signal-unknown": documents.signal("Funding regime", "unknown", "test venue", UNTIL).content,
    "status-ok": documents.status("ok", UNTIL).content,
    "status-degraded": documents.status("degraded", UNTIL).content,
    "status-down": documents.status("down", UNTIL).content,
    "not-found": documents.NOT_FOUND,
}
DRAWINGS = {
    f"{name}.{style}.svg": badge_document(content, style, "svg").body
    for (name, content), style in product(CONTENTS.items(), STYLES)
}
RECORDS = [name for name in CONTENTS if name.startswith("record")]
ERRORS = {
    *("record-invalid", "record-future", "regime-unknown", "regime-unavailable"),
    *("funding-unknown", "funding-unavailable", "signal-unknown", "not-found"),
}


def test_every_badge_is_drawn_as_it_was_and_no_other_drawing_is_kept() -> None:
    kept = {file.name: file.read_bytes() for file in GOLDEN.iterdir()}

    assert kept.keys() == DRAWINGS.keys()
    assert [name for name in kept if kept[name] != DRAWINGS[name]] == []


def test_exactly_the_badges_without_a_value_are_errors() -> None:
    assert {name for name, content in CONTENTS.items() if content.is_error} == ERRORS


@pytest.mark.contract(
    "badges.record.legacy-paper",
    "badges.record.day-count",
    "badges.record.continuity",
    "badges.record.not-evidence",
)
@pytest.mark.parametrize("name", RECORDS)
def test_every_record_badge_says_what_it_is_not(name: str) -> None:
    content = CONTENTS[name]

    for part in ("legacy paper-strategy record", "continuity unverified"):
        assert part in content.title
    for part in (
        "legacy paper-strategy record",
        "the time elapsed since sinceDate",
        "not a number of recorded observations and not uninterrupted operation",
        "Continuity is unverified",
        "not evidence of live-capital results or of paid stance outcomes",
    ):
        assert part in content.description


@pytest.mark.parametrize("elapsed", [-5 * DAY, -1, 0, 1, DAY - 1, DAY, 77 * DAY + 12_345])
def test_a_record_is_right_until_the_instant_at_which_it_changes(elapsed: int) -> None:
    shown = documents.record(START - elapsed, START)

    assert documents.record(START - elapsed, shown.until - 1).content == shown.content
    assert documents.record(START - elapsed, shown.until).content != shown.content


def test_what_no_time_can_change_is_right_for_ever() -> None:
    assert documents.record(None, START).until == documents.record_not_started().until == FOREVER


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
    shown = documents.funding("BTC", changed(BTC, funding_rate_pct=rate), SOURCE, UNTIL)

    assert shown.content.message == message
    assert not shown.content.is_error


if __name__ == "__main__":
    for name, body in DRAWINGS.items():
        (GOLDEN / name).write_bytes(body)
