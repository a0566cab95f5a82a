"""`/chart/…`: charts as images, with what they mark, and the text to embed them."""

import asyncio
import re
from base64 import b64encode
from hashlib import sha256
from html import unescape
from xml.etree import ElementTree as ET

import pytest

from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.markets.samples import CHARTED, DAYS
from barograph.markets.series import SeriesReader
from barograph.site.chart_reader import ChartReader
from barograph.venues.records import ContractName
from barograph.venues.registry import VENUES
from support.clock import START
from support.databases import take_away
from support.markets import reading, shares
from support.pages import NOTE
from support.service import Answer, Service

PATHS = (
    *(f"/chart/BTC/{measure}.svg?days={days}" for measure in CHARTED for days in DAYS),
    "/chart/btc/funding.svg",
    "/chart/liquidations.svg",
)


def words(answer: Answer) -> str:
    """All texts of an image, which is well-formed."""
    return " ".join(ET.fromstring(answer.body).itertext())


def record(service: Service) -> None:
    """A rate, two regime changes, one with a brief, and briefs about no coin and another venue."""
    service.execute(
        "INSERT INTO readings VALUES ('bybit', 'hour', 'BTCUSDT', $1, 1.5, 0.01, 8, 2.5, NULL, "
        "NULL, 'measured', '', NULL, NULL, NULL, NULL)",
        START // (4 * HOUR) * (4 * HOUR),
    )
    sql = "INSERT INTO regime_changes VALUES ('bybit', $1, $2, 0.05, 'measured')"
    service.execute(sql, START - DAY, "long-crowded")
    service.execute(sql, START - 2 * DAY, "neutral")
    told = NOTE._replace(slug="told", published_at=START - DAY, headline="Told", coins=("BTC",))
    service.keep_briefs(
        told,
        told._replace(published_at=START - HOUR, headline="Again", version=2),
        NOTE._replace(slug="other", published_at=START - DAY, headline="Other", coins=()),
        told._replace(slug="elsewhere", source=VENUES["binance"].source),
    )


@pytest.mark.parametrize("path", PATHS)
def test_a_chart_is_an_image_that_needs_nothing_else(service: Service, path: str) -> None:
    answer = service.ask(path)
    assert answer.status == 200
    assert answer.headers["content-type"] == "image/svg+xml; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "max-age=60" in answer.headers["cache-control"]
    style = ET.fromstring(answer.body).findtext("{http://www.w3.org/2000/svg}style") or ""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    assert answer.headers["content-security-policy"] == policy
    assert "Source: test venue." in words(answer)
    assert "not financial advice" in words(answer)


def test_an_image_says_what_it_shows_and_up_to_when(service: Service) -> None:
    record(service)
    shown = words(service.ask("/chart/BTC/funding.svg?days=1"))
    assert "BTC funding rate, 1 day" in shown
    assert "Last +0.0100 % per 8 h at 2026-11-06 20:00 UTC." in shown
    assert "simulated" not in shown


def test_only_the_first_of_equal_images_counts_as_a_render(service: Service) -> None:
    first, second = (service.ask("/chart/BTC/price.svg") for _ in range(2))
    assert "ratelimit" in first.headers
    assert "ratelimit" not in second.headers
    assert first.body == second.body


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/chart/NOSUCH/funding.svg", 404, "unknown symbol NOSUCH"),
        ("/chart/BTC/nothing.svg", 404, "unknown measure"),
        ("/chart/BTC", 404, "no such chart"),
        ("/chart/BTC/funding.svg?days=3", 400, "days must be one of 1, 7, 30, 60"),
        ("/chart/B-C/funding.svg", 400, "symbol"),
    ],
)
def test_an_image_that_cannot_be_drawn_says_why_also_to_a_browser(
    service: Service, path: str, status: int, says: str
) -> None:
    answer = service.ask(path, accept="text/html")
    assert answer.status == status
    assert answer.headers["content-type"] == "image/svg+xml; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert says in words(answer)


def test_an_image_without_data_says_so_with_200_because_proxies_hide_other_statuses(
    empty_service: Service,
) -> None:
    nothing_yet = empty_service.ask("/chart/BTC/funding.svg")
    empty_service.publish(reading(), shares())
    take_away(empty_service.settings.database_path)
    for answer in (nothing_yet, empty_service.ask("/chart/BTC/funding.svg")):
        assert answer.status == 200
        assert answer.headers["cache-control"] == "public, max-age=60"
        assert "unavailable" in words(answer)


def test_a_chart_marks_the_regime_and_briefs_of_its_coin_once(service: Service) -> None:
    record(service)
    page = service.ask("/markets/BTC", accept="text/html").body.decode()
    listed = re.findall(r'</time> <a href="(\S+)">([^<]+)</a>', page)
    regime = ("/signals/btc-funding-regime", "regime neutral")
    assert listed == [
        regime,
        ("/briefs/told", "Again"),
        ("/briefs/told/1", "Told"),
        regime,
    ]  # the first is that of now
    assert '<path class="event"' in page
    named = service.ask("/chart/BTCUSDT/funding.svg")
    assert b'<path class="event"' in named.body
    assert named.body == service.ask("/chart/BTC/funding.svg").body
    other = service.ask("/markets/1000PEPE", accept="text/html").body.decode()
    assert '<path class="event"' not in other


def test_a_page_has_the_text_that_embeds_its_badge_and_chart(service: Service) -> None:
    page = unescape(service.ask("/markets/BTC?days=30", accept="text/html").body.decode())
    found = re.search(r'<code id="funding-markdown">(.*?)</code>', page, re.DOTALL)
    assert found is not None
    badge, chart = found[1].split("\n\n")
    base = service.settings.base_url
    link = f"({base}/markets/BTC?days=30#funding)"
    assert badge == f"[![BTC funding rate]({base}/badge/funding/BTC.svg)]{link}"
    image = f"{base}/chart/BTC/funding.svg?days=30"
    assert chart == f"[![BTC funding rate, 30 days]({image})]{link}"
    assert '<figure class="chart-box" id="funding">' in page
    assert f'<img src="{image}" alt="BTC funding rate, 30 days">' in page
    assert service.ask(image.removeprefix(base)).status == 200


@pytest.mark.parametrize(("ago", "lines"), [(0, 1), (3, 1), (4, 0), (40, 0)])
def test_a_chart_around_a_moment_marks_it_and_links_to_its_data(
    service: Service, ago: int, lines: int
) -> None:
    record(service)
    charts = ChartReader(
        SeriesReader(service.database, service.clock, 95, ["bybit"]), "", service.clock
    )
    name, at = ContractName("bybit", "BTCUSDT"), START - ago * DAY
    funding = asyncio.run(charts.measure(name, "BTC", "funding", 7, moment=at))
    liquidated = asyncio.run(charts.liquidations(1, moment=at))

    assert funding.drawing.count('class="moment"') == lines  # without values nothing is marked
    for chart, half in ((funding, 7 * DAY // 2), (liquidated, DAY // 2)):
        start, end = (
            iso_timestamp(min(START, at + half) // HOUR * HOUR + each) for each in (-2 * half, HOUR)
        )
        assert f"from={start}&to={end}" in chart.json
        assert service.ask(chart.json).status == service.ask(chart.csv).status == 200
        assert chart.image == ""
