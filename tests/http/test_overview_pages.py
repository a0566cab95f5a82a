"""`/heatmap`, `/funding` and `/liquidations`: the market at once, and how complete numbers are."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.board.feeds import Publication
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.view import DAY_AGO, PERPETUALS
from barograph.site.funding import FundingQuery
from barograph.venues.records import Frame, Liquidation, PastValues, Perpetuals
from support.clock import START
from support.markets import BTC, ETH, MARKET, changed
from support.pages import SiteService
from support.two_venues import BYBIT_IN_USE, bybit, hyperliquid, settled

MIDNIGHT = START // DAY * DAY
CELL = re.compile(r'<a class="([\w-]+)" href="([^"]+)"><title>([^<]+)</title>')


@pytest.fixture
def two(tmp_path: Path) -> Iterator[SiteService]:
    """Bybit in use, and Hyperliquid on standby."""
    site = SiteService(tmp_path, venues="bybit,hyperliquid")
    day_ago = Frame(START - DAY, {"BTCUSDT": PastValues(60_000.0, 1e9, None)})
    past = Publication.of(DAY_AGO, day_ago)
    site.service.put(bybit(*MARKET), past, hyperliquid(), BYBIT_IN_USE)
    pepe = {"1000PEPEUSDT": 0.06}
    site.service.put(
        settled("bybit", BTCUSDT=0.01, ETHUSDT=-0.01, SOLUSDT=0.0, **pepe),
        settled("hyperliquid", BTC=0.08, ETH=-0.1),
    )
    yield site
    site.close()


def cells(site: SiteService, path: str = "/heatmap") -> dict[str, tuple[str, str]]:
    """The tint and title of each cell by its address."""
    body = site.ask(path).text
    drawn = body[body.index('class="map broad"') : body.index('class="map tall"')]
    return {address: (tint, title) for tint, address, title in CELL.findall(drawn)}


def test_a_heatmap_has_a_cell_per_contract_with_its_numbers_and_tint(two: SiteService) -> None:
    by_funding, by_change = cells(two), cells(two, "/heatmap?by=change")

    tint, title = by_funding["/markets/BTC"]
    assert tint == "tint-up-1"
    assert title.startswith("BTC: open interest $6.00B, 69.8 % of all, funding +0.0217 % per 8 h")
    assert title.endswith("price in 24 h +11.67 %")
    assert by_funding["/markets/ETH"][0] == "tint-down-1"
    assert "/markets/SOL" not in by_funding  # without open interest it has no area
    assert by_change["/markets/BTC"][0] == "tint-up-4"
    assert by_change["/markets/ETH"][0] == "tint-unknown"


def test_a_heatmap_says_who_pays_and_what_it_does_not_draw(two: SiteService) -> None:
    text = two.look("/heatmap").text.replace("\xa0", " ")

    assert list(cells(two)) == ["/markets/BTC", "/markets/ETH", "/markets"]
    assert "open interest is zero or unknown: 1." in text
    assert "71 % in coins where longs pay, 29 % where shorts pay." in text


def test_small_contracts_are_one_cell_that_says_how_many(two: SiteService) -> None:
    many = [
        changed(BTC, contract=f"C{n}USDT", base=f"C{n}", open_interest_usd=1e5) for n in range(600)
    ]
    two.service.put(bybit(BTC, ETH, *many))

    assert list(cells(two)) == ["/markets/BTC", "/markets/ETH", "/markets"]
    assert "Others: 600 coins" in two.ask("/heatmap").text


def test_every_cell_has_its_name_and_every_outlier_its_number(two: SiteService) -> None:
    paid = {"open_interest_usd": 1e6, "funding_rate_pct": 0.2}
    names = [f"1000BABY{n}" for n in range(99)]
    two.service.put(
        bybit(*(changed(BTC, contract=f"{name}USDT", base=name, **paid) for name in names))
    )

    for cell in re.findall(r"<a class=.tint-up-4.*?</a>", two.ask("/heatmap").text):
        assert re.search(r">1000(BABY\d|</text><text[^>]+>BABY\d)", cell)
        assert ">+0.2" in cell


def test_names_full_of_markup_stay_text_in_a_drawing(two: SiteService) -> None:
    two.service.put(bybit(changed(BTC, contract="<b>USDT", base="<b>", coin='"<i>')))

    body = two.ask("/heatmap").text

    assert not re.search("<[bi]>", body)
    assert "&lt;i&gt;: open interest" in body


def test_a_stale_feed_leaves_no_cell_and_no_rate(two: SiteService) -> None:
    two.clock.now += 30_000
    heat, funding = two.look("/heatmap"), two.look("/funding")

    assert "stale We last read the exchange at" in heat.text
    assert not CELL.search(two.ask("/heatmap").text)
    assert "stale We have no current reading of any venue." in funding.text
    assert "+0.0100" not in heat.text + funding.text


def rates(site: SiteService, query: str = "?show=all") -> dict[str, list[str]]:
    """The cells of the funding table by coin."""
    rows = site.look(f"/funding{query}").tables[0][1:]
    return {row[0]: [cell.replace("\xa0", " ") for cell in row[1:]] for row in rows}


PAIR = "short Hyperliquid, long Bybit smaller side $1.00B"


def test_each_coin_has_its_live_and_settled_rates_and_its_best_pair(two: SiteService) -> None:
    by_coin, body = rates(two), two.ask("/funding?show=all").text

    assert by_coin["BTC"] == [
        *("$6.00B Bybit 83 %, Hyperliquid 17 %", "+0.0217 % +23.7 %/y", "—", "—", "—", "22:20 "),
        *("+0.0100 live +0.0100", "+0.0800 live +0.0800, 1 h", f"+76.65 % {PAIR}"),
    ]
    assert by_coin["SOL"][7] == "—"
    assert '<td data-head="Hyperliquid" class="tint-up-3">+0.0800 <small>live' in body
    # A rate that does not count has no tint and says so.
    assert by_coin["ETH"][7] == "-0.1000 live -0.1000, 1 h different asset"
    assert 'class="tint-down-4">-0.1000' not in body


def test_a_week_has_sums_weighted_by_open_interest_and_names_what_it_lacks(
    two: SiteService,
) -> None:
    two.service.put(
        settled("bybit", BTCUSDT=(0.01, 0.03, 0.07), ETHUSDT=(0.02, 0.06, 0.14)),
        settled("hyperliquid", BTC=(0.08, 0.24, 0.7)),
    )
    week = rates(two, "?window=7d&show=all")

    assert week["BTC"][2:5] == ["+0.0650", "+0.1750", "—"]  # 5 and 1 billion USD
    assert week["BTC"][6:] == ["+0.0700 +3.6 %/y", "+0.7000 +36.5 %/y", f"+32.85 % {PAIR}"]
    text = two.look("/funding").text.replace("\xa0", " ")
    assert "Best pair, 7 days +32.85 % BTC per year: short Hyperliquid, long Bybit" in text
    assert "Highest live funding +0.0217 % BTC per 8 h, +23.7 %/y" in text
    two.clock.now += 6_000  # a comparison is kept for a few seconds
    two.service.put(settled("hyperliquid", BTC=0.08))
    assert rates(two)["BTC"][2] == "+0.0300 1 of 2"


def test_a_venue_that_is_missing_is_named_and_keeps_what_it_settled(two: SiteService) -> None:
    two.clock.now += 30_000
    two.service.put(bybit(*MARKET, as_of=two.clock.now))
    btc = rates(two)["BTC"]

    assert btc[0].startswith("$5.00B without Hyperliquid, size unknown")
    assert btc[1] == "+0.0100 % +10.9 %/y without Hyperliquid"
    assert btc[6:8] == ["+0.0100 live +0.0100", "+0.0800 +87.6 %/y stale"]
    assert btc[8].startswith("+76.65 % short Hyperliquid (stale), long Bybit")
    assert "Hyperliquid is missing: its last reading is from" in two.look("/funding").text


def test_only_large_coins_are_listed_until_all_are_asked_for(two: SiteService) -> None:
    many = [
        changed(BTC, contract=f"C{n}USDT", base=f"C{n}", open_interest_usd=1e7 - n % 2)
        for n in range(60)
    ]
    two.service.put(bybit(BTC, *many))

    assert len(rates(two, "")) == 25
    assert "C1" not in rates(two, "")
    assert list(rates(two, "?q=C1&sort=symbol"))[:2] == ["C1", "C10"]
    assert len(rates(two)) == 62


def test_former_pages_lead_to_funding(two: SiteService) -> None:
    moved = {
        path: two.ask(path).headers["location"]
        for path in ("/cross", "/cross?q=btc&sort=volume", "/carry", "/carry?window=30d")
    }

    assert [*moved.values()] == [
        "/funding",
        "/funding?q=btc",
        "/funding?sort=pair&order=desc&window=7d",
        "/funding?sort=pair&order=desc&window=30d",
    ]
    assert {two.ask(path).status_code for path in moved} == {308}


@pytest.mark.parametrize(
    ("query", "coins"),
    [
        ("", ["BTC", "ETH", "PEPE"]),
        ("?sort=hyperliquid&order=asc&show=all", ["BTC", "ETH", "PEPE", "SOL"]),
        ("?sort=bybit&show=all", ["PEPE", "BTC", "SOL", "ETH"]),
        ("?sort=bybit&order=asc&show=all", ["ETH", "SOL", "BTC", "PEPE"]),
        ("?sort=binance&show=all", ["BTC", "ETH", "PEPE", "SOL"]),
        ("?sort=symbol&order=desc&show=all", ["SOL", "PEPE", "ETH", "BTC"]),
        ("?q=bitcoin", ["BTC"]),
        ("?q=%3Cb%3E", []),
    ],
)
def test_funding_is_sorted_and_searched(two: SiteService, query: str, coins: list[str]) -> None:
    pepe = changed(MARKET[3], coin="PEPE", multiplier=1000)
    two.service.put(bybit(*MARKET[:3], pepe))

    assert list(rates(two, query)) == coins


def test_every_heading_leads_to_an_order_that_is_read_back() -> None:
    for sort in FundingQuery.sorts:
        query = FundingQuery().sorted_by(sort).sorted_by(sort)
        given = dict(each.split("=") for each in query.text.split("&") if each)
        assert FundingQuery.parse(given) == query


def liquidated(site: SiteService, *, gap: int = 0) -> None:
    """Record a long of 300 USD and a short of 100 USD yesterday, and nothing today."""
    noon = MIDNIGHT - 12 * HOUR
    events = [
        Liquidation(noon, "BTCUSDT", "long", 3.0, 100.0),
        Liquidation(noon + MINUTE, "ETHUSDT", "short", 2.0, 50.0),
    ]
    spans = [(MIDNIGHT - 2 * DAY, noon + HOUR), (noon + HOUR + gap, START)]
    site.service.record_market(liquidations=events, watched=spans)


def test_a_day_with_disputed_sides_has_no_share_of_longs(two: SiteService) -> None:
    liquidated(two)
    span = (MIDNIGHT - 13 * HOUR, MIDNIGHT - 11 * HOUR)
    two.service.execute("INSERT INTO disputed_sides VALUES ('bybit', $1, $2)", *span)
    page = two.look("/liquidations?day=yesterday").text.replace("\xa0", " ")
    assert "$400 was liquidated at Bybit yesterday. Its sides contradict the price" in page
    assert "may be wrong: 2026-11-05 11:00 to 13:00 UTC." in page


def test_one_sentence_says_how_much_of_yesterday_were_longs_and_how_complete_it_is(
    two: SiteService,
) -> None:
    liquidated(two)
    page = two.look("/liquidations?day=yesterday")

    assert (
        "Longs were 75.0 % of the value liquidated at Bybit yesterday: $300 of $400. Complete: "
        "Bybit publishes every liquidation, and we covered 100 % of the time."
    ) in page.text.replace("\xa0", " ")
    assert "stale" not in page.text
    by_coin, largest = page.tables
    assert by_coin[1:] == [
        ["All", "$300", "$100", "$400", "100.0 %"],
        ["BTC", "$300", "$0", "$300", "75.0 %"],
        ["ETH", "$0", "$100", "$100", "25.0 %"],
    ]
    assert largest[1] == ["12:00:00", "BTC", "long", "$300", "100.000"]


def test_what_is_missing_is_named_and_makes_a_lower_bound(two: SiteService) -> None:
    liquidated(two, gap=2 * HOUR)
    page = two.look("/liquidations?day=yesterday").text.replace("\xa0", " ")

    assert "$300 of $400. Lower bounds: Bybit publishes every liquidation" in page
    assert "but we covered only 91.6 % of the time. Missing: 2026-11-05 13:00 to 15:00 UTC." in page


def test_a_day_that_nobody_watched_is_unknown_and_not_zero(two: SiteService) -> None:
    latest, yesterday = two.look("/liquidations"), two.look("/liquidations?day=yesterday")

    assert "We did not watch Bybit yesterday, so the total is unknown." in yesterday.text
    assert "stale We have not watched Bybit in the last 24 hours." in latest.text.replace(
        "\xa0", " "
    )
    assert latest.tables == yesterday.tables == []
    assert "$0" not in latest.text + yesterday.text


def test_liquidations_say_whose_they_are_while_another_venue_is_in_use(two: SiteService) -> None:
    liquidated(two)
    used = Perpetuals(START, "other source", (BTC,), venue="hyperliquid")
    two.service.put(Publication.of(PERPETUALS, used))

    assert (
        "Market data now comes from Hyperliquid, which publishes no liquidations. The "
        "liquidations on this page are still from Bybit."
    ) in two.look("/liquidations").text


def test_a_single_venue_says_that_it_is_alone_and_that_it_publishes_none(tmp_path: Path) -> None:
    one = SiteService(tmp_path, venues="hyperliquid")
    page = one.look("/liquidations").text
    alone = one.look("/funding").text
    one.close()

    assert "Hyperliquid publishes no liquidations, so we have none to show." in page
    assert "This instance reads one venue, Hyperliquid, so there is nothing to compare" in alone


def test_recorded_liquidations_that_cannot_be_read_are_a_503(two: SiteService) -> None:
    two.service.execute("ALTER TABLE liquidations RENAME TO away")

    assert two.ask("/liquidations").status_code == 503
