"""What the status page makes of a status and its record."""

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.site.charts.small import Cell, strip
from barograph.site.status import (
    components,
    detail_html,
    headline,
    incidents,
    recorded_time,
    uptime_strips,
)
from barograph.site.templating import duration_text
from barograph.status.incidents import ConditionCount, Incident, StatusHistory
from barograph.status.rules import Check, CheckStatus, Condition, ServiceStatus
from barograph.venues.registry import BYBIT, HYPERLIQUID
from support.clock import START

NOW = "2026-11-06T21:20:00.000Z"
NOTHING = StatusHistory(START, (), (), {})


def status(feed: dict[str, Any] | None = None, **checks: CheckStatus) -> ServiceStatus:
    """A status with these checks, named with underscores; the API is ok."""
    conditions: dict[str, CheckStatus] = {"market_feed": "ok", **checks}
    return ServiceStatus.model_validate(
        {
            "status": "ok",
            "as_of": NOW,
            "feed": {
                "status": "ok",
                "source": "test venue",
                "last_update": "2026-11-06T21:19:59.999Z",
                "age_seconds": 0.0,
                "max_age_seconds": 30.0,
                "liquidation_coverage_pct": 100.0,
                **(feed or {}),
            },
            "api": {"status": "ok", "version": "1", "started_at": NOW, "uptime_seconds": 1.0},
            "checks": [
                Check(name=name.replace("_", "-"), status=condition, detail=f"{name} detail")
                for name, condition in conditions.items()
            ],
            "notice": "",
        }
    )


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (0, ""),
        (1, "in the 1 minute recorded so far"),
        (125, "in the 2 hours recorded so far"),
        (3 * 24 * 60, "in the 3 days recorded so far"),
        (59 * 24 * 60, "in the last 60 days"),
    ],
)
def test_time_without_incidents_is_recorded_time(minutes: int, words: str) -> None:
    counts = [
        ConditionCount("day", "api", START, minutes, 0, 0),
        ConditionCount("day", "limits", START, minutes // 2, 0, 0),
        ConditionCount("hour", "api", START, minutes, 0, 0),
    ]
    assert recorded_time(StatusHistory(START, counts, (), {})) == words


def test_parts_come_as_people_look_for_them_and_an_unknown_one_last() -> None:
    names = ("stances", "new_check", "limits", "payments", "identity", "database", "exchange")
    checks: dict[str, CheckStatus] = dict.fromkeys(names, "ok")

    assert [part.title for part in components(status(None, **checks))] == [
        *("Market feed", "API", "Database", "Identity provider", "Payments"),
        *("Rate-limit store", "Readings of the venue in use", "Stances", "new-check"),
    ]


def test_what_is_wrong_with_the_feed_is_said_as_the_check_says_it() -> None:
    (feed, *_) = components(status(market_feed="down"))
    assert (feed.condition, feed.detail) == ("down", "market_feed detail")

    (unread, *_) = components(status(feed={"last_update": None}, market_feed="down"))
    assert (unread.at, unread.detail) == (None, "market_feed detail")


def test_times_of_a_detail_are_written_for_people_with_the_day_where_it_is_another() -> None:
    detail = "a <b> since 2026-11-05T16:39:05.123Z, asked at 2026-11-06T21:20:00.000Z"

    assert detail_html(detail, START) == (
        'a &lt;b&gt; since <time datetime="2026-11-05T16:39:05.123Z">2026-11-05 16:39:05 UTC'
        '</time>, asked at <time datetime="2026-11-06T21:20:00.000Z">21:20:00 UTC</time>'
    )
    assert detail_html("nothing of time", START) == "nothing of time"


def cells(drawing: str) -> list[tuple[str, str]]:
    """The condition and the text of each cell."""
    root = ET.fromstring(drawing)
    assert root.get("role") == "img"
    assert root.get("aria-label")
    return [(each.get("class", ""), each[0].text or "") for each in root]


def test_each_cell_is_the_worst_of_its_time_and_says_how_long_it_was_what() -> None:
    hour, day = START // HOUR * HOUR, START // DAY * DAY
    record = NOTHING._replace(
        counts=[
            ConditionCount("hour", "api", hour, 20, 0, 0),
            ConditionCount("hour", "api", hour - HOUR, 50, 6, 4),
            ConditionCount("hour", "api", hour - 23 * HOUR, 59, 1, 0),
            ConditionCount("hour", "api", hour - 24 * HOUR, 60, 0, 0),
            ConditionCount("day", "api", day, 1_000, 0, 0),
            ConditionCount("day", "api", day - 59 * DAY, 1_439, 0, 1),
            ConditionCount("day", "other", day, 0, 0, 7),
        ]
    )
    last_day, months = uptime_strips(record, ["api"])["api"]

    assert cells(last_day.drawing)[0] == (
        "degraded",
        "22:00\N{EN DASH}23:00 UTC: 59 min ok, 1 min degraded",
    )
    assert cells(last_day.drawing)[-2:] == [
        ("down", "20:00\N{EN DASH}21:00 UTC: 50 min ok, 6 min degraded, 4 min down"),
        ("ok", "21:00\N{EN DASH}22:00 UTC: 20 min ok"),
    ]
    assert last_day.uptime == "ok for 92.1 % of the 2 h 20 min recorded"
    assert cells(months.drawing)[0] == ("down", "8 Sep: 23 h 59 min ok, 1 min down")
    assert (months.period, len(cells(months.drawing))) == ("Last 60 days", 60)
    assert months.uptime == "ok for 99.9 % of the 1 d 16 h recorded"
    label = ET.fromstring(months.drawing).get("aria-label")
    assert label == "API, last 60 days, oldest first: 1 day ok, 1 day down, 58 days not recorded"


def test_lengths_of_time_are_said_in_the_two_largest_units() -> None:
    lengths = (0, 59 * MINUTE, HOUR, 3 * HOUR + 12 * MINUTE, DAY, 41 * DAY + 3 * HOUR + MINUTE)
    words = ["0 min", "59 min", "1 h", "3 h 12 min", "1 d", "41 d 3 h"]

    assert [duration_text(length) for length in lengths] == words


def test_an_incident_says_how_long_it_was_only_where_somebody_watched_it_all() -> None:
    over = Incident("api", START - DAY, START - DAY + 12 * MINUTE, "down", "so")
    holey = over._replace(
        unwatched_from=START - DAY + MINUTE,
        unwatched_until=START - DAY + 6 * MINUTE,
        unwatched_ms=5 * MINUTE,
    )
    first, second = incidents(NOTHING._replace(incidents=[over, holey]), START)

    assert (first.title, first.lasted, first.unwatched) == ("API", "12 min", None)
    assert (second.lasted, second.unwatched) == (None, "5 min")


@pytest.mark.parametrize(("minutes", "told"), [(0, False), (4, False), (5, True)])
def test_an_unwatched_incident_says_when_it_was_seen_last(minutes: int, *, told: bool) -> None:
    last_at = START - minutes * MINUTE
    record = NOTHING._replace(
        incidents=[Incident("api", START - DAY, None, "down", "so")], last_at={"api": last_at}
    )
    (shown,) = incidents(record, START)

    assert shown.last_at == (last_at if told else None)


conditions: st.SearchStrategy[Condition | None] = st.sampled_from(["ok", "degraded", "down", None])


@given(st.lists(st.tuples(conditions, st.text(st.characters(min_codepoint=32, codec="ascii")))))
def test_a_strip_has_one_text_per_cell(given_cells: list[tuple[Condition | None, str]]) -> None:
    drawing = strip([Cell(*cell) for cell in given_cells], 'a "label" & <more>')

    assert cells(drawing) == [(condition or "none", text) for condition, text in given_cells]
    heights = {cell.get("class"): cell.get("height") for cell in ET.fromstring(drawing)}
    assert len(set(heights.values())) == len(heights)  # nobody needs colours


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (status(), "All components are working."),
        (status(cross_venue="warming_up"), "No component is failing; 1 is warming up."),
        (status(market_feed="down"), "The market data is incomplete."),
        (status({"last_update": None}, market_feed="down"), "We have no market data yet."),
        (
            status({"last_update": "2026-11-06T21:10:00.000Z"}, market_feed="down"),
            "Market data has been stale since 21:10 UTC.",
        ),
        (
            status({"last_update": "2026-11-05T12:04:00.000Z"}, market_feed="down"),
            "Market data has been stale since 2026-11-05 12:04 UTC.",
        ),
        (status(database="down"), "The database is unavailable."),
        (status(liquidations="degraded"), "Affected: Liquidations."),
        (
            status(exchange="degraded", limits="down", stances="degraded", history="degraded"),
            "Affected: Rate-limit store, Readings of the venue in use, Stances and 1 more.",
        ),
    ],
)
def test_the_headline_names_what_fails(found: ServiceStatus, words: str) -> None:
    assert headline(found, BYBIT, BYBIT) == words


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        ({"bybit": "degraded"}, "Bybit is down; Hyperliquid is in use."),
        ({}, "Hyperliquid is in use, not Bybit."),
        (
            {"bybit": "degraded", "gate": "degraded"},
            "Bybit is down; Hyperliquid is in use. Affected: Gate.",
        ),
    ],
)
def test_the_headline_names_the_venue_in_use_instead(checks: dict[str, Any], words: str) -> None:
    assert headline(status(venue="degraded", **checks), HYPERLIQUID, BYBIT) == words
