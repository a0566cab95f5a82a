"""`/heatmap`, `/funding` and `/liquidations`: the market at once, and how complete numbers are."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.board.feeds import Publication
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.frames import stored
from barograph.markets.last_known import LastKnown, with_reading
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.view import DAY_AGO, LAST_KNOWN, LIQUIDATIONS, PERPETUALS
from barograph.site.funding import FundingQuery
from barograph.venues.records import Frame, Liquidation, PastValues, Perpetuals
from support.clock import START
from support.markets import BTC, ETH, MARKET, SOURCE, changed
from support.pages import SiteService
from support.two_venues import BYBIT_IN_USE, OTHER, bybit, hyperliquid, own, settled

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


PAIR = "short Hyperliquid, long Bybit"


def test_each_coin_has_its_live_and_settled_rates_and_its_best_pair(two: SiteService) -> None:
    by_coin, body = rates(two), two.ask("/funding?show=all").text

    assert by_coin["BTC"] == [
        *("$6.00B Bybit 83 %, Hyperliquid 17 %", "+0.0217 +23.7 %/y", "—", "—", "—", "22:20 "),
        *(
            "+0.0100 live +0.0100",
            "+0.0800 live +0.0800, 1 h",
            f"+0.0700 {PAIR} +76.7 %/y, smaller side $1.00B",
        ),
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
    assert week["BTC"][6:8] == ["+0.0700 +3.6 %/y", "+0.7000 +36.5 %/y"]
    assert week["BTC"][8] == f"+0.6300 {PAIR} +32.9 %/y, smaller side $1.00B"
    text = two.look("/funding").text.replace("\xa0", " ")
    assert f"Best pair, 7 days +0.63 % in 7 days BTC, before fees: {PAIR}; +32.9 %/y, " in text
    assert "Highest live funding +0.0217 % BTC per 8 h, +23.7 %/y" in text
    assert "These three figures compare coins with at least $10.00M of open interest" in text
    two.clock.now += 6_000  # a comparison is kept for a few seconds
    two.service.put(settled("hyperliquid", BTC=0.08))
    assert rates(two)["BTC"][2] == "+0.0300 1 of 2"


def test_a_venue_that_is_missing_is_named_and_keeps_what_it_settled(two: SiteService) -> None:
    two.clock.now += 30_000
    two.service.put(bybit(*MARKET, as_of=two.clock.now))
    btc = rates(two)["BTC"]

    assert btc[0].startswith("$5.00B without Hyperliquid, size unknown")
    assert btc[1] == "+0.0100 +10.9 %/y without Hyperliquid"
    assert btc[6:8] == ["+0.0100 live +0.0100", "+0.0800 +87.6 %/y stale"]
    assert btc[8].startswith("+0.0700 short Hyperliquid (stale), long Bybit +76.7 %/y")
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


def test_coins_are_grouped_by_the_directions_of_price_and_positions(two: SiteService) -> None:
    before = {"BTCUSDT": PastValues(60_000.0, 4e9, 40_000.0), "ETHUSDT": PastValues(1.0, 1e9, 1e9)}
    hour = Frame(START - HOUR, {"BTCUSDT": PastValues(60_000.0, 4e9, 80_000.0)})
    btc = changed(BTC, open_interest_usd=5e9, open_interest_coins=50_000.0)
    two.service.put(bybit(btc, ETH), Publication.of(DAY_AGO, Frame(START - DAY, before)))
    two.service.record_market(frames=[stored(hour)])
    page = two.look("/open-interest")
    text = page.text.replace("\xa0", " ")

    assert "Price up, positions up 1 coin, often new longs: +$1.00B (price +" in text
    largest, group = page.tables
    totals = [cell.replace("\xa0", " ") for cell in largest[1]]
    assert totals == ["BTC", "$6.00B", "+$1.00B", "+25.0 %", "Bybit 83 %, Hyperliquid 17 %"]
    row = [cell.replace("\xa0", " ") for cell in group[-1]]
    assert row[:5] == ["BTC", "+11.7 %", "-37.5 %", "—", "+25.0 %"]
    assert "we don't know the changes of 1" in text  # ETH sends no coins
    two.clock.now += 30_000
    assert "We have no current reading of any venue." in two.look("/open-interest").text


def test_changes_of_hours_keep_the_last_value_of_a_venue_that_is_away(two: SiteService) -> None:
    held = {
        "bybit": changed(BTC, open_interest_coins=50_000.0),
        "hyperliquid": own(BTC, open_interest_coins=40_000.0),
    }
    for hours, coins in ((1, 100_000.0), (4, 50_000.0), (24, 25_000.0)):
        for venue, each in held.items():
            past = {each.contract: PastValues(60_000.0, 4e9, coins)}
            frame = Frame(START - hours * HOUR, past)
            two.service.record_market(venue, frames=[stored(frame)])
            feed = DAY_AGO if venue == "bybit" else DAY_AGO.of(venue)
            two.service.put(Publication.of(feed, frame))
    known = with_reading(LastKnown(), Perpetuals(START, "", (held["hyperliquid"],)))
    last = Publication.of(LAST_KNOWN.of("hyperliquid"), known)
    two.service.put(last, hyperliquid(held["hyperliquid"]))
    seen = []
    for age in (0, 30_000):
        two.clock.now = START + age
        two.service.put(bybit(held["bybit"], as_of=two.clock.now))
        page = two.look("/open-interest")
        seen.append([cell.replace("\xa0", " ") for cell in page.tables[-1][-1]])
        assert ("with the last values of Hyperliquid" in page.text) == bool(age)

    assert seen == [["BTC", "+11.7 %", "-55.0 %", "-10.0 %", "+80.0 %", *seen[0][5:]]] * 2


def liquidated(site: SiteService, *, gap: int = 0) -> None:
    """Record a long of 300 USD two hours ago, and a short of 100 USD just now."""
    end = START // MINUTE * MINUTE
    events = [
        Liquidation(end - 2 * HOUR, "BTCUSDT", "long", 3.0, 100.0),
        Liquidation(end - MINUTE, "ETHUSDT", "short", 2.0, 50.0),
    ]
    spans = [(end - 2 * DAY, end - 6 * HOUR), (end - 6 * HOUR + gap, START)]
    site.service.record_market(liquidations=events, watched=spans)


def totals(site: SiteService) -> str:
    """The page as far as the list of single liquidations."""
    text = site.look("/liquidations").text.replace("\xa0", " ")
    return text[text.index("1 hour ") : text.index("Newest liquidations")].strip()


def test_four_spans_have_both_sides_and_say_that_they_are_whole(two: SiteService) -> None:
    liquidated(two)
    both = "$400 longs $300, shorts $100 Watched all the time."

    assert totals(two) == (
        "1 hour $100 longs $0, shorts $100 Watched all the time. "
        f"4 hours {both} 12 hours {both} 24 hours {both}"
    )
    newest, by_coin, by_venue = two.look("/liquidations").tables
    assert [row[1:] for row in newest[1:]] == [
        ["ETH", "short", "$100", "50.000", "Bybit"],
        ["BTC", "long", "$300", "100.000", "Bybit"],
    ]
    assert by_coin[1] == [
        *("BTC", "$0", "$300", "$300", "$300", "$300", "$0", "under 0.001\N{NO-BREAK SPACE}%")
    ]
    assert by_venue[1][1:7] == [
        *("$100 0.0 % longs", "$400 75.0 % longs", "$400 75.0 % longs", "$400 75.0 % longs"),
        *("every liquidation", "none"),
    ]


def test_what_nobody_watched_makes_a_lower_bound_and_is_named(two: SiteService) -> None:
    liquidated(two, gap=2 * HOUR)
    shown = totals(two)

    assert "4 hours $400 longs $300, shorts $100 Watched all the time." in shown
    assert "12 hours at least $400 longs $300, shorts $100 Not watched: Bybit 2 h." in shown


def test_a_total_without_some_contracts_is_a_lower_bound(two: SiteService) -> None:
    liquidated(two)
    reading = Perpetuals(START, SOURCE, MARKET, unwatched=["SOLUSDT"])
    two.service.put(Publication.of(PERPETUALS, reading))

    assert "4 hours at least $400 longs $300, shorts $100" in totals(two)
    assert two.look("/liquidations").tables[2][1][5] == "every liquidation, but none for 1 contract"


def test_sides_that_contradict_the_price_are_not_shown(two: SiteService) -> None:
    liquidated(two)
    span = (START - 3 * HOUR, START - 2 * HOUR)
    two.service.execute("INSERT INTO disputed_sides VALUES ('bybit', $1, $2)", *span)

    assert "4 hours $400 sides disputed at Bybit" in totals(two)
    assert "1 hour $100 longs $0, shorts $100" in totals(two)


def test_time_that_nobody_watched_is_unknown_and_not_zero(two: SiteService) -> None:
    assert totals(two).count("— We did not watch any venue.") == 4
    assert "stale Totals up to" in two.look("/liquidations").text
    assert "$0" not in totals(two)


@pytest.mark.parametrize(
    ("query", "coins"),
    [
        ("side=long", ["BTC"]),
        ("q=ethereum", ["ETH"]),
        ("least=1000", []),
        ("least=nothing&side=up", ["ETH", "BTC"]),
    ],
)
def test_single_liquidations_are_filtered(two: SiteService, query: str, coins: list[str]) -> None:
    liquidated(two)
    page = two.look(f"/liquidations?{query}")

    if coins:
        assert [row[1] for row in page.tables[0][1:]] == coins
    else:
        assert "We saw no such liquidation in the last 24 hours." in page.text


def test_an_unknown_coin_and_a_former_dated_page_show_no_other_data(two: SiteService) -> None:
    liquidated(two)

    assert (
        "No venue that publishes liquidations lists a coin NOPE"
        in two.look("/liquidations?q=NOPE").text
    )
    assert two.ask("/liquidations?day=yesterday").status_code == 404


def test_a_single_venue_says_that_it_is_alone_and_that_it_publishes_none(tmp_path: Path) -> None:
    one = SiteService(tmp_path, venues="hyperliquid")
    page = one.look("/liquidations").text
    alone = one.look("/funding").text
    one.close()

    assert "Hyperliquid publishes no liquidations." in page
    assert "This instance reads one venue, Hyperliquid, so there is nothing to compare" in alone


def test_liquidations_are_those_of_the_first_venue_that_publishes_them(tmp_path: Path) -> None:
    site = SiteService(tmp_path, venues="hyperliquid,bybit")
    liquidated(site)
    totals = LiquidationTotals(START, 100.0, 400.0, 75.0, "BTC", START)
    other = Perpetuals(START, "other source", OTHER, venue="hyperliquid")
    site.service.put(
        Publication.of(PERPETUALS, other),
        Publication.of(PERPETUALS.of("bybit"), Perpetuals(START, SOURCE, MARKET)),
        Publication.of(LIQUIDATIONS.of("bybit"), totals),
    )
    home, page = (site.look(path).text.replace("\xa0", " ") for path in ("/", "/liquidations"))
    site.close()

    assert "Liquidated in 24 hours at Bybit $400 all contracts, most in BTC" in home
    assert "Liquidated, last hour ETH $100 0 % longs" in home
    assert "Liquidations at Bybit: " in home
    assert "at Bybit" in page[page.index("By hour") :]


def test_recorded_liquidations_that_cannot_be_read_are_a_503(two: SiteService) -> None:
    two.service.execute("ALTER TABLE liquidations RENAME TO away")

    assert two.ask("/liquidations").status_code == 503
