"""`/markets` and the page of each perpetual: what they show, and when they cannot."""

import re
from html import unescape
from urllib.parse import quote

import httpx2
import pytest
from msgspec.structs import replace

from barograph import NOTICE
from barograph.kit.timestamps import DAY, MINUTE
from barograph.markets.frames import frame_of, stored
from barograph.site.market_facts import MEANINGS
from barograph.site.market_table import MarketsQuery, columns_of
from support.clock import START
from support.markets import BTC, ETH, MARKET, PEPE, SOL, changed, reading, shares
from support.pages import Checked
from support.service import BASE_URL, Service

LIST = "/markets"
PAGE = "/markets/BTC"
EVIL = '"><script>x</script>'
HTML = {"accept": "text/html,application/xhtml+xml"}


class Read(Checked):
    """A page with its form and its table."""

    def __init__(self, response: httpx2.Response, status: int = 200) -> None:
        assert response.status_code == status
        self.fields: dict[str, str | None] = {}
        self.sorted_by: dict[str, str] = {}
        super().__init__(response)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attributes)
        given = dict(attributes)
        assert tag not in {"b", "marquee"}
        if tag == "input":
            self.fields[str(given["name"])] = given["value"]
        if tag == "th" and "aria-sort" in given:
            self.sorted_by[str(given["data-sort"])] = str(given["aria-sort"])

    @property
    def listed(self) -> list[str]:
        """The symbols of the table, from top to bottom."""
        return [cells[0] for cells in self.tables[0][1:]]


def read(service: Service, address: str, status: int = 200) -> Read:
    return Read(service.get(address, **HTML), status)


def test_every_live_perpetual_is_listed_with_price_funding_interest_and_accounts(
    market: Service,
) -> None:
    page = read(market, LIST)

    assert [" ".join(each.split()) for each in page.tables[0][0]] == [
        *("Symbol", "Price (USDT)", "24 h %", "Funding % per 8 h", "Open interest"),
        *("OI 24 h % in coins", "7 days %", "Liquidated 24 h long, short", "Long accounts %"),
    ]
    assert page.tables[0][1:] == [
        ["BTC", "67,000.5", "—", "+0.01008h", "$5.00B", "—", "—", "$0$0", "61.5"],
        ["ETH", "3,500.25", "—", "-0.01258h", "$2.50B", "—", "—", "$0$0", "55.0"],
        ["1000PEPE", "0.012000", "—", "+0.01004h", "$90.00M", "—", "—", "$0$0", "—"],
        ["SOL", "180.100", "—", "+0.00008h", "$0", "—", "—", "$0$0", "0.0"],
    ]
    assert "live As of 2026-11-06 21:20 UTC" in page.text
    assert "Source: test venue" in page.text
    assert "We covered liquidations for 100 % of the last 24 hours." in page.text
    assert "4 of 4 perpetuals" in page.text
    assert {f"/markets/{each.base}" for each in MARKET} <= set(page.targets)


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("sort=symbol", "1000PEPE BTC ETH SOL"),
        ("sort=symbol&order=desc", "SOL ETH BTC 1000PEPE"),
        ("sort=price&order=asc", "1000PEPE SOL ETH BTC"),
        ("sort=funding", "1000PEPE BTC SOL ETH"),
        ("sort=funding&order=asc", "ETH SOL 1000PEPE BTC"),
        ("sort=open-interest&order=asc", "SOL 1000PEPE ETH BTC"),
        ("sort=long-accounts&order=desc", "BTC ETH SOL 1000PEPE"),
        ("sort=long-accounts&order=asc", "SOL ETH BTC 1000PEPE"),
        ("sort=liquidations&order=desc", "1000PEPE BTC ETH SOL"),
        ("sort=week&order=desc", "1000PEPE BTC ETH SOL"),
    ],
)
def test_the_table_is_sorted_by_the_query_and_says_so(
    market: Service, query: str, order: str
) -> None:
    page = read(market, f"{LIST}?{query}")

    assert page.listed == order.split()
    sort = query.removeprefix("sort=").partition("&")[0]
    is_up = query == "sort=symbol" or query.endswith("asc")
    assert page.sorted_by == {sort: "ascending" if is_up else "descending"}


def test_every_heading_that_sorts_is_a_link_that_turns_the_order(market: Service) -> None:
    usual, turned = read(market, LIST), read(market, f"{LIST}?sort=price&order=desc&q=e")

    for column in columns_of("bybit"):
        assert f"{LIST}?{MarketsQuery().sorted_by(column.sort).text}" in usual.targets
    assert f"{LIST}?sort=open-interest&order=asc" in usual.targets
    assert f"{LIST}?sort=price&order=asc&q=e" in turned.targets
    assert f"{LIST}?q=e" in turned.targets
    assert usual.sorted_by == {"open-interest": "descending"}
    assert turned.fields == {"q": "e", "sort": "price", "order": "desc"}
    assert usual.fields == {"q": ""}


def test_filters_are_links_and_stay_in_the_address(market: Service) -> None:
    usual, crowded = read(market, LIST), read(market, f"{LIST}?sort=funding&crowd=short&x=1")

    assert {f"{LIST}?crowd=long", f"{LIST}?interest=falling"} <= set(usual.targets)
    assert crowded.listed == []
    assert "0 of 4 perpetuals" in crowded.text
    assert f"{LIST}?sort=funding&order=desc" in crowded.targets
    assert f"{LIST}?sort=funding&order=desc&crowd=short&interest=rising" in crowded.targets
    assert crowded.fields["crowd"] == "short"
    assert f'data-live="{LIST}?crowd=short"' in market.ask(f"{LIST}?crowd=short").body.decode()


def test_the_change_of_a_week_compares_with_a_reading_of_7_days_ago(service: Service) -> None:
    past = frame_of(START - 7 * DAY - MINUTE, (changed(BTC, last_price=60_000.0),))
    service.execute("INSERT INTO frames VALUES ('bybit', $1, $2)", *stored(past))

    (btc, *others) = read(service, LIST).tables[0][1:]

    assert btc[6] == "+11.7"
    assert {each[6] for each in others} == {"—"}
    assert "+11.67 % in 7 days" in read(service, PAGE).text


def test_contracts_that_are_not_crypto_have_no_page_and_are_only_counted(service: Service) -> None:
    service.publish(replace(reading(), left_out={"stock": 180, "commodity": 3}))

    told = "We leave out 183 contracts that are not crypto: 180 stock, 3 commodity."
    assert f"Source: test venue. {told}" in read(service, LIST).text
    assert f"We read Bybit. {told}" in read(service, "/markets/ZS", 404).text


def test_a_search_shows_what_matches_and_markup_in_it_stays_text(market: Service) -> None:
    page, evil = (
        read(market, f"{LIST}?q={quote(text)}") for text in ("btcusdt", EVIL + "x" * 5_000)
    )

    assert (page.listed, page.fields["q"]) == (["BTC"], "btcusdt")
    assert "1 of 4 perpetuals" in page.text
    assert (evil.listed, evil.fields["q"]) == ([], EVIL[:15])
    assert "0 of 4 perpetuals" in evil.text


def test_names_full_of_markup_stay_text(service: Service) -> None:
    evil = changed(ETH, base="<b>ETH", contract=EVIL)
    service.publish(reading(contracts=(BTC, evil)))

    page = read(service, LIST)

    assert page.listed == ["BTC", "<b>ETH"]
    assert not any("<b>" in unescape(target) for target in page.targets)


@pytest.mark.outcome(
    "The market feed is stale while a visitor reads the home page or a market page",
    "The page shows charts, when the exchange was last read, and no old number as current.",
)
@pytest.mark.parametrize("path", [LIST, PAGE, f"{LIST}?q=btc", f"{PAGE}?days=30"])
def test_stale_feed_is_reported_and_shows_no_number(service: Service, path: str) -> None:
    assert "67,000.5" in read(service, path).text
    service.clock.pass_seconds(30)

    answer = service.get(path, **HTML)
    page = Read(answer)

    assert "stale We last read the exchange at 2026-11-06 21:20 UTC" in page.text
    assert not [target for target in page.targets if target.startswith("/badge/")]
    assert "test venue" in page.text
    assert ' show old numbers as current. <a href="/status">' in answer.text
    shown = re.sub(r"(?s)<svg.*?</svg>", "", answer.text)
    assert not re.search(r"67,000|67000|0\.0100 %|5\.00B|61\.5|\blive</span>", shown)
    kept = "private" if "?q=" in path else "public"
    assert f"{kept}, max-age=1, stale-while-revalidate=0," in answer.headers["cache-control"]

    service.publish(reading(service.clock()), shares(service.clock()))
    assert "67,000.5" in read(service, path).text


@pytest.mark.parametrize("path", [LIST, PAGE])
def test_a_script_is_told_when_the_reading_reaches_its_bound(service: Service, path: str) -> None:
    service.publish(reading(START - 1_000), shares())

    bounds = set(re.findall(r'data-bound="(\d+)"', service.ask(path, **HTML).body.decode()))

    assert bounds == {str(START + 29_000)}


def test_before_the_first_reading_there_is_no_number_and_no_perpetual(
    empty_service: Service,
) -> None:
    empty_service.refresh()

    text = read(empty_service, LIST).text
    assert "stale We have not read the exchange yet. Status" in text
    assert "Source: test venue" in text
    answer = empty_service.ask(PAGE, **HTML)
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")


def test_a_perpetual_is_shown_with_unit_venue_interval_time_and_meaning(market: Service) -> None:
    page = read(market, "/markets/1000PEPE")
    facts = {cells[0]: cells[1:] for cells in page.tables[0][1:]}

    for words in (
        "Last price 0.012000 USDT",
        "Funding per 8 hours +0.0100 % +0.0050 % per 4 h as stated",
        "as stated, next settlement 2026-11-06 22:20 UTC",
        "Open interest $90.00M in USD",
        "Long accounts — no recent sample",
        "Liquidations in 24 hours $0 $0 longs, $0 shorts; 100 % of the time covered",
    ):
        assert words in page.text
    assert [cells[-1] for cells in facts.values()] == list(MEANINGS.values())
    read_at = {name: cells[0] for name, cells in facts.items()}
    assert read_at.pop("Long accounts") == "—"
    assert set(read_at.values()) == {"2026-11-06 21:20 UTC "}
    assert f'data-since="{START}"' in market.ask("/markets/1000PEPE").body.decode()


def test_a_perpetual_can_be_called_cited_and_embedded(market: Service) -> None:
    page = read(market, PAGE)

    api = "/api/agent/derivatives?symbol=BTC"
    badge = "/badge/funding/BTC.svg"
    assert {api, badge} <= set(page.targets)
    assert f"curl -s '{BASE_URL}{api}'" in page.text
    assert f"[![BTC funding]({BASE_URL}{badge})]({BASE_URL}/markets/BTC)" in page.text
    cited = f"BTC perpetual as of 2026-11-06 21:20:00 UTC. Source: test venue. {NOTICE}"
    assert f"Barograph, {cited}" in page.text
    assert market.ask(api).json()["available"] is True
    assert market.ask(badge).status == 200


@pytest.mark.parametrize("days", [1, 7, 30, 60])
def test_four_charts_go_over_the_days_that_were_asked_for(market: Service, days: int) -> None:
    page = read(market, f"{PAGE}?days={days}")
    charts = market.ask(f"{PAGE}?days={days}").body.decode()

    assert charts.count("<figure ") == charts.count('<svg class="chart') == 4
    assert f'{PAGE}?days={days}#recorded" aria-current="true"' in charts
    for measure in ("price", "funding", "open-interest", "long-accounts"):
        for folder in (f"/api/v1/series/{measure}?", f"/api/v1/series/{measure}.csv?"):
            (data,) = {each for each in page.targets if each.startswith(folder)}
            assert "symbol=BTC" in data
            assert market.ask(data).status == 200


def test_days_that_are_not_offered_are_seven(market: Service) -> None:
    usual = market.ask(PAGE).body

    for query in ("days=7", "days=2", "days=", "days=x", "days=07"):
        assert market.ask(f"{PAGE}?{query}").body == usual
    assert market.ask(f"{PAGE}?days=1").body != usual


@pytest.mark.parametrize(
    ("asked", "there"),
    [
        ("/markets/btc", "/markets/BTC"),
        ("/markets/BTCUSDT", "/markets/BTC"),
        ("/markets/1000pepeusdt?days=30&x=1", "/markets/1000PEPE?days=30&x=1"),
        ("/cross/bTc?days=5", "/markets/BTC?days=5"),
    ],
)
def test_another_form_of_a_symbol_leads_to_the_one_page(
    market: Service, asked: str, there: str
) -> None:
    answer = market.ask(asked)

    assert (answer.status, answer.headers["location"], answer.body) == (308, there, b"")
    page = market.ask(there)
    address = there.partition("?")[0]
    assert f'<link rel="canonical" href="{BASE_URL}{address}">' in page.body.decode()


@pytest.mark.parametrize(
    "symbol",
    ["NOPE", "nope", "BTC-USDT", "B" * 16, "%EF%BC%A2TC", quote("<b>&"), "a" * 3_000, "%00"],
)
def test_a_symbol_that_is_not_known_is_a_page_that_says_so(market: Service, symbol: str) -> None:
    answer = market.get(f"/markets/{symbol}", **HTML)

    assert "We don't know a coin or contract called" in Read(answer, 404).text
    assert answer.headers["cache-control"] == "no-store"
    assert len(answer.content) < 6_000
    assert market.ask(f"/markets/{symbol}").body == b'{"error":"not found"}'


def test_a_coin_that_is_no_longer_listed_keeps_its_past(service: Service) -> None:
    assert "SOL at Bybit live" in read(service, "/markets/SOL").text
    for _ in range(17):  # readings that lack it for less than 15 minutes may be an error
        service.clock.pass_seconds(60)
        service.publish(reading(service.clock(), contracts=(BTC, ETH, PEPE)))

    page = read(service, "/markets/SOL")
    assert "SOL at Bybit not listed" in page.text
    assert "Bybit doesn't list SOL now." in page.text
    assert re.search(
        r"Bybit listed SOLUSDT from 2026-\d\d-\d\d .* to 2026-11-06 21:2\d UTC", page.text
    )
    assert not re.search(r"180\.1|\$0", page.text)
    assert service.ask("/markets/SOL").body.count(b"<figure") == 4
    assert {"/api/v1/listings?coin=SOL"} <= set(page.targets)
    assert service.ask("/markets/solusdt").headers["location"] == "/markets/SOL"
    assert SOL.base not in read(service, LIST).listed
    assert service.ask("/api/agent/derivatives?symbol=SOL").json()["available"] is False


@pytest.mark.outcome(
    "Stored readings are unreadable while a visitor reads the home page or a market page",
    "The page shows current numbers from memory and says that history is unavailable.",
)
def test_live_numbers_are_shown_while_stored_readings_are_unreadable(service: Service) -> None:
    service.execute("ALTER TABLE readings RENAME TO away")

    answer = service.get(PAGE, **HTML)

    assert "67,000.5" in Read(answer).text
    assert "Recorded data is temporarily unavailable" in Read(answer).text
    assert "<figure" not in answer.text
    assert "public, max-age=1, stale-while-revalidate=0," in answer.headers["cache-control"]
    service.execute("ALTER TABLE away RENAME TO readings")
    service.clock.pass_seconds(2)
    assert service.ask(PAGE).body.count(b"<figure") == 4
