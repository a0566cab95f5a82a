"""`/badge/…`: the badges over HTTP, with the front door and without it."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from barograph import NOTICE
from barograph.badges.svg import GaugeContent, render_gauge
from barograph.kit.documents import Document, HotKey
from support.clock import START
from support.markets import BTC, PEPE, changed, reading, shares
from support.service import Answer, Service, ask, fresh_service

BOUND_MS = 30_000
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""An image that is opened as a page runs and loads nothing."""

NAMED = ["record", "regime", "funding/BTC", "signal/btc-funding-regime", "status"]
MISSING = [
    *("nope.svg", "nope.json", "", "record", "record.png", "record.svg/", "Record.svg"),
    *("funding.svg", "funding/.svg", "funding/BTC", "funding/BTC.svg.svg", "funding/B-C.json"),
    *(
        "funding/ABCDEFGHIJKLMNOP.svg",
        "funding/%C3%9F.svg",
        "funding/BTC%0A.svg",
        "funding/a/b.svg",
    ),
    *("signal/nope.svg", "signal/nope.json", "signal/BTC-FUNDING-REGIME.svg", "signal/.svg"),
    *("accuracy/nope.svg", "accuracy/nope.json", "accuracy/RATES-DESK.svg"),
]
EVERY_BADGE = pytest.mark.parametrize("name", NAMED)
EVERY_FORM = pytest.mark.parametrize("form", ["svg", "json"])
QUERIES = ["", "?style=flat", "?style=flat-square"]


class Badges:
    """The badges of a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.clock = service.clock

    @property
    def hot(self) -> dict[HotKey, Document]:
        """Those that the front door knows."""
        hot = self.service.board.hot
        return {key: document for key, document in hot.items() if key[0].startswith("/badge/")}

    def ask(self, target: str, method: str = "GET", **headers: str) -> Answer:
        """Ask with and without the front door; both must say the same."""
        fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
        answer = ask(self.service.app, target, method, fields)
        assert answer == ask(self.service.routes, target, method, fields)
        return answer


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A fresh market that is only read."""
    folder = tmp_path_factory.mktemp("market")
    with fresh_service(folder, record_since="2026-01-01") as service:
        yield service


@pytest.fixture
def badges(market: Service) -> Iterator[Badges]:
    """The badges of a fresh market, whose clock may be moved."""
    yield Badges(market)
    market.clock.now = START


def words(answer: Answer) -> tuple[str | None, ...]:
    """Label and message of a badge."""
    if answer.headers["content-type"] == "application/json":
        return answer.json()["label"], answer.json()["message"]
    drawn = [each.text for each in ET.fromstring(answer.body).iter() if each.tag.endswith("}text")]
    return tuple(drawn[-2:])


def described(answer: Answer) -> str:
    return str(ET.fromstring(answer.body)[1].text)


@pytest.mark.contract(
    "free.badges", "badges.path", "endpoints.badge-record", "badges.further-paths"
)
@EVERY_FORM
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("record", ("paper record", "309 days")),
        ("regime", ("regime", "neutral")),
        ("funding/BTC", ("BTC funding", "+0.0100 % / 8h")),
        ("funding/btc", ("BTC funding", "+0.0100 % / 8h")),
        ("funding/BTCUSDT", ("BTCUSDT funding", "+0.0100 % / 8h")),
        ("funding/1000PEPE", ("1000PEPE funding", "+0.0100 % / 8h")),
        ("signal/btc-funding-regime", ("BTC funding regime", "neutral")),
        ("signal/btc-long-accounts", ("BTC long accounts", "unknown")),
        ("status", ("status", "ok")),
    ],
)
def test_a_badge_says_what_is_so_now(
    badges: Badges, name: str, form: str, expected: tuple[str, str]
) -> None:
    answer = badges.ask(f"/badge/{name}.{form}")

    assert answer.status == 200
    assert words(answer) == expected


@pytest.mark.contract("endpoints.badge-record", "badges.live-keyless-cached", "limits.badge-cache")
@EVERY_BADGE
@pytest.mark.parametrize("query", QUERIES)
def test_a_badge_is_an_svg_that_caches_keep_for_ten_minutes(
    badges: Badges, name: str, query: str
) -> None:
    answer = badges.ask(f"/badge/{name}.svg{query}")

    assert answer.headers == {
        "content-type": "image/svg+xml; charset=utf-8",
        "content-security-policy": POLICY,
        "content-length": str(len(answer.body)),
        "etag": answer.headers["etag"],
        "access-control-allow-origin": "*",
        "access-control-expose-headers": answer.headers["access-control-expose-headers"],
        "cache-control": "public, max-age=600",
        "x-content-type-options": "nosniff",
    }
    assert NOTICE in described(answer)


@EVERY_BADGE
@EVERY_FORM
def test_flat_square_is_another_drawing_and_any_other_style_is_flat(
    badges: Badges, name: str, form: str
) -> None:
    flat, square = (badges.ask(f"/badge/{name}.{form}?style={s}") for s in ("flat", "flat-square"))

    assert flat.body != square.body
    assert badges.ask(f"/badge/{name}.{form}?style=flat%2Dsquare&x") == square
    for query in (
        *("", "?", "?style", "?style=", "?style=social", "?style=flat-square&style=flat", "?x=1"),
        *("?style=FLAT-SQUARE", "?style=flat-square%0A", "?Style=flat-square"),
    ):
        assert badges.ask(f"/badge/{name}.{form}{query}") == flat


@EVERY_BADGE
@pytest.mark.parametrize("style", ["flat", "flat-square"])
def test_the_twin_is_exactly_what_shields_asks_of_an_endpoint(
    badges: Badges, name: str, style: str
) -> None:
    answer = badges.ask(f"/badge/{name}.json?style={style}")
    label, message = words(badges.ask(f"/badge/{name}.svg"))

    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "public, max-age=600"
    body = answer.json()
    assert re.fullmatch(r"#[0-9a-f]{6}", body.pop("color"))
    assert body == {
        "schemaVersion": 1,
        "label": label,
        "message": message,
        "isError": False,
        "style": style,
        "cacheSeconds": 600,
    }


@pytest.mark.contract("badges.live-keyless-cached")
def test_badges_follow_the_data(service: Service) -> None:
    badges = Badges(service)
    old = badges.ask("/badge/funding/BTC.svg")
    badges.service.publish(reading(contracts=(changed(BTC, funding_rate_pct=0.05), PEPE)))

    new = badges.ask("/badge/funding/BTC.svg", if_none_match=old.headers["etag"])

    assert new.status == 200
    assert words(new) == ("BTC funding", "+0.0500 % / 8h")
    assert words(badges.ask("/badge/status.svg")) == ("status", "degraded")


@pytest.mark.outcome(
    "The market feed is stale when a badge is requested",
    "Market badges turn grey and say so, for a minute in caches.",
)
@EVERY_FORM
@pytest.mark.parametrize(
    ("name", "age_ms", "expected"),
    [
        ("regime", BOUND_MS, ("regime", "unavailable")),
        ("funding/eth", BOUND_MS, ("ETH funding", "unavailable")),
        ("signal/btc-funding-regime", BOUND_MS, ("BTC funding regime", "unknown")),
        ("funding/nosuch", 0, ("NOSUCH funding", "unknown")),
    ],
)
def test_a_stale_market_feed_gives_error_badges_and_no_502(
    badges: Badges, name: str, age_ms: int, expected: tuple[str, str], form: str
) -> None:
    target = f"/badge/{name}.{form}"
    fresh = badges.ask(target)
    if age_ms:
        badges.clock.now = START + age_ms - 1
        assert badges.ask(target) == fresh

    badges.clock.now = START + age_ms
    answer = badges.ask(target, if_none_match=fresh.headers["etag"] if age_ms else "")

    assert answer.status == 200
    assert answer.headers["cache-control"] == "public, max-age=60"
    assert words(answer) == expected
    if form == "json":
        assert (answer.json()["isError"], answer.json()["cacheSeconds"]) == (True, 60)


def test_before_any_data_every_badge_is_drawn(empty_service: Service) -> None:
    badges = Badges(empty_service)
    said = {name: words(badges.ask(f"/badge/{name}.svg"))[1] for name in NAMED}

    assert said == {
        "record": "not started",
        "regime": "unavailable",
        "funding/BTC": "unavailable",
        "signal/btc-funding-regime": "unknown",
        "status": "down",
    }


def test_what_says_the_same_is_not_drawn_again(service: Service) -> None:
    badges = Badges(service)
    before = badges.hot
    badges.clock.pass_seconds(5)
    badges.service.publish(reading(START + 5_000), shares(START + 5_000))

    assert badges.hot.keys() == before.keys()
    for key, document in badges.hot.items():
        assert document.end is before[key].end
        assert document.since == START + 5_000
    regime = ("/badge/regime.svg", b"")
    assert badges.hot[regime].until == before[regime].until + 5_000


@pytest.mark.contract("badges.record.day-count", "badges.record.since-date-format")
@EVERY_FORM
@pytest.mark.parametrize(
    ("since", "message"),
    [
        ("2026-11-06", "0 days"),
        ("2026-11-05", "1 day"),
        ("2026-11-05T21:20:00.001Z", "0 days"),
        ("2026-11-05T23:20:00%2B02:00", "1 day"),
        ("2025-01-31", "644 days"),
        ("2026-11-07", "sinceDate in the future"),
        ("9999-12-31", "sinceDate in the future"),
        ("", "invalid sinceDate"),
        ("2025-02-30", "invalid sinceDate"),
        ("%3Cscript%3E", "invalid sinceDate"),
        ("2025-01-31&sinceDate=2025-01-31", "invalid sinceDate"),
    ],
)
def test_the_given_since_date_counts(badges: Badges, since: str, message: str, form: str) -> None:
    answer = badges.ask(f"/badge/record.{form}?sinceDate={since}")

    assert answer.status == 200
    assert words(answer) == ("paper record", message)
    kept = 60 if "sinceDate" in message else 600
    assert answer.headers["cache-control"] == f"public, max-age={kept}"


@pytest.mark.outcome(
    "A badge's `sinceDate` is invalid",
    "The badge says so with status 200, without the input.",
)
@pytest.mark.parametrize("text", ["zebra", "2025-99-77", "%22zebra%22", "&zebra=1&sinceDate=x"])
def test_invalid_since_date_is_not_echoed(badges: Badges, text: str) -> None:
    answer = badges.ask(f"/badge/record.svg?sinceDate={text}")

    assert answer.status == 200
    assert answer.body == badges.ask("/badge/record.svg?sinceDate=").body
    assert b"zebra" not in answer.body


def test_a_start_that_cannot_be_read_is_refused_when_the_service_starts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a day such as 2025-01-31 is needed"):
        Service(tmp_path, record_since="soon")


@pytest.mark.parametrize("path", MISSING)
def test_an_unknown_badge_is_404_with_a_badge_that_says_so(badges: Badges, path: str) -> None:
    answer = badges.ask(f"/badge/{path}", if_none_match="*", accept="text/html,*/*;q=0.8")

    assert answer.status == 404
    assert words(answer) == ("barograph", "badge not found")
    is_json = path.endswith(".json")
    assert (answer.headers["content-type"] == "application/json") == is_json
    assert answer.headers.get("content-security-policy") == (None if is_json else POLICY)
    assert answer.headers["cache-control"] == "public, max-age=60"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "etag" not in answer.headers


def test_badges_are_read_from_memory_alone(tmp_path: Path) -> None:
    with fresh_service(tmp_path) as service:
        badges = Badges(service)
        before = {name: badges.ask(f"/badge/{name}.svg") for name in NAMED}

    assert {name: badges.ask(f"/badge/{name}.svg") for name in NAMED} == before
    assert words(before["status"]) == ("status", "ok")


def test_the_gauge_shows_the_regime_and_its_rate_while_the_market_is_fresh(badges: Badges) -> None:
    fresh = badges.ask("/badge/gauge.svg")
    badges.clock.now += BOUND_MS
    stale = badges.ask("/badge/gauge.svg")

    drawn = ET.fromstring(fresh.body)
    assert drawn.get("aria-label") == "BTC funding regime: neutral, +0.0100 % / 8h"
    assert {"neutral", "shorts pay", "longs pay"} <= {each.text for each in drawn.iter()}
    assert b"simulated" not in fresh.body
    assert fresh.headers["cache-control"] == "public, max-age=600"
    assert (stale.status, stale.headers["cache-control"]) == (200, "public, max-age=60")
    assert b"BTC funding: unavailable" in stale.body
    assert b'class="marker"' not in stale.body
    assert fresh.headers.keys() == stale.headers.keys()
    assert fresh.headers["content-security-policy"] == POLICY


def test_the_gauge_of_a_demo_says_that_its_data_is_simulated() -> None:
    assert "simulated data" in render_gauge(GaugeContent("neutral", 0.01, "simulated exchange"))
