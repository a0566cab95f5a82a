"""The pages of markets: what is chosen, in which order, and what is said about it."""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from msgspec.structs import replace

from barograph.kit.timestamps import DAY
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.symbols import find_contract, index_of, symbol_of
from barograph.markets.view import FreshnessLimits, MarketView
from barograph.site.market_facts import (
    MEANINGS,
    NAMES,
    left_out_text,
    market_facts,
)
from barograph.site.market_table import (
    NUMBERS,
    MarketsQuery,
    MarketTable,
    Week,
    market_rows,
    market_table,
    ranks_of,
    short_usd,
    table_rows,
)
from barograph.venues.records import MAJORS, Frame, LongAccounts, PastValues, Perpetual, majors_of
from support.clock import START
from support.markets import BTC, ETH, MARKET, PEPE, SOL, changed, reading, shares

FIELDS = Path(__file__).parents[2] / "docs/fields.md"
LIMITS = FreshnessLimits(
    perpetuals=30_000, long_accounts=1_800_000, liquidations=90_000, min_coverage_pct=95
)
MINUTE = 60_000


LIQUIDATED = LiquidationTotals(
    START, 99.5, 3e6, 50.0, "BTC", by_contract={"BTCUSDT": (1_234_567.0, 45_600.0)}
)
DAY_AGO = Frame(
    START - DAY,
    {
        "BTCUSDT": PastValues(60_000.0, 4_000_000_000.0, 40.0),
        "ETHUSDT": PastValues(3_600.0, 2_600_000_000.0, 26.0),
    },
)
WEEK_AGO = Frame(START - 7 * DAY, {"BTCUSDT": PastValues(60_000.0)})
RISING: Week = tuple(60_000.0 + 100 * n for n in range(43))


def view_of(
    contracts: tuple[Perpetual, ...] = MARKET,
    sampled: list[LongAccounts] | None = None,
    now: int = START,
    watched: LiquidationTotals | None = None,
    day_ago: Frame | None = None,
) -> MarketView:
    found = shares() if sampled is None else sampled
    return MarketView(
        now=now,
        limits=LIMITS,
        perpetuals=reading(contracts=contracts),
        by_name=index_of(reading(contracts=contracts)),
        shares={share.contract: share for share in found},
        watched=watched,
        regime=None,
        day_ago=day_ago,
    )


def table_of(view: MarketView, weeks: Mapping[str, Week] | None = None) -> MarketTable:
    rows = market_rows(view, view.perpetuals.contracts, weeks, WEEK_AGO if weeks else None)
    return market_table(view, rows, has_weeks=weeks is not None)


def full_table(contracts: tuple[Perpetual, ...] = MARKET) -> MarketTable:
    held = {"BTC": 50.0, "ETH": 24.0}
    listed = tuple(changed(each, open_interest_coins=held.get(each.base)) for each in contracts)
    view = view_of(listed, watched=LIQUIDATED, day_ago=DAY_AGO)
    return table_of(view, {"BTCUSDT": RISING})


def markup_of(found: MarketTable, root: str = "") -> str:
    rows = found.select(MarketsQuery())
    markup = str(table_rows(found, rows, root, ranks_of(found.rows)))
    return markup.replace("<wbr>", "<wbr/>")


def names(found: MarketTable, **asked: str) -> list[str]:
    return [row.name for row in found.select(MarketsQuery.parse(asked))]


def test_equal_numbers_go_by_their_symbols_in_either_order() -> None:
    same = tuple(changed(BTC, base=base, contract=f"{base}USDT") for base in ("C", "A", "B"))

    found = table_of(view_of(same))

    assert names(found) == names(found, order="asc") == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pe", ["1000PEPE"]),
        ("btcusdt", ["BTC"]),
        ("ETHU", ["ETH"]),
        (" sol ", ["SOL"]),
        ("usdt", []),
        ("BTC/USDT", ["BTC"]),
        ("bit coin", ["BTC"]),
        ("T", ["BTC", "ETH"]),
        ("<b>", []),
    ],
)
def test_a_search_looks_into_symbols_and_beginnings_of_names(text: str, found: list[str]) -> None:
    assert names(table_of(view_of()), q=text) == found


@pytest.mark.parametrize(
    "asked",
    [
        *({"sort": "size"}, {"order": "up"}, {"sort": "", "order": ""}, {"q": " "}),
        *({"q": "\0\n"}, {"crowd": "huge"}, {"interest": "up"}, {}),
    ],
)
def test_what_is_not_known_in_a_query_is_as_if_it_were_absent(asked: dict[str, str]) -> None:
    assert MarketsQuery.parse(asked) == MarketsQuery()
    assert MarketsQuery.parse(asked).text == ""


VALUES = st.sampled_from(["long", "short", "rising", "falling", "week", "asc"]) | st.text()


@given(st.dictionaries(st.sampled_from(["sort", "order", "q", "crowd", "interest", "x"]), VALUES))
def test_every_query_has_one_form_that_means_the_same(asked: dict[str, str]) -> None:
    choice = MarketsQuery.parse(asked)

    assert len(choice.search) <= 15
    assert MarketsQuery.parse(dict(parse_qsl(choice.text))) == choice


def test_a_listing_lives_until_its_first_number_reaches_its_bound() -> None:
    old = [LongAccounts("ETHUSDT", 50.0, START - 29 * MINUTE - 50_000)]

    assert table_of(view_of()).until == START + 30_000
    assert table_of(view_of(sampled=old)).until == START + 10_000


def cells(found: MarketTable, name: str) -> list[str]:
    body = ET.fromstring(f"<tbody>{markup_of(found, '/under')}</tbody>")
    (row,) = [row for row in body if "".join(row[0].itertext()) == name]
    return ["".join(cell.itertext()) for cell in row]


def test_a_row_has_every_number_with_its_interval_and_a_dash_for_what_is_not_known() -> None:
    found = full_table()

    assert cells(found, "BTC") == [
        *("BTC", "67,000.5", "+11.67", "+0.01008h", "$5.00B", "+25.0", "+11.7"),
        *("$1.23M$45.6k", "61.5"),
    ]
    assert cells(found, "ETH")[2:6] == ["-2.77", "-0.01258h", "$2.50B", "-7.7"]
    assert cells(found, "1000PEPE") == [
        *("1000PEPE", "0.012000", "—", "+0.01004h", "$90.00M", "—", "—", "$0$0", "—")
    ]


def test_open_interest_that_is_not_known_is_a_dash_and_comes_last() -> None:
    found = table_of(view_of((changed(BTC, open_interest_usd=None), ETH, PEPE)))

    assert names(found)[-1] == names(found, sort="open-interest", order="asc")[-1] == "BTC"
    assert cells(found, "BTC")[4:] == ["—", "—", "—", "—", "61.5"]


def test_what_is_missing_is_said_with_its_reason() -> None:
    complete = full_table().notes
    covered_little = replace(LIQUIDATED, watched_pct=40.0)
    (liquidations, changes, weeks) = table_of(view_of(watched=covered_little)).notes

    assert complete == ("We covered liquidations for 99.5 % of the last 24 hours.",)
    assert "we covered only 40 % of the last 24 hours" in liquidations
    assert changes.startswith("24-hour changes are unknown")
    assert "temporarily unavailable" in weeks


def test_filters_find_what_is_crowded_long_and_losing_open_interest() -> None:
    crowded = changed(ETH, funding_rate_pct=0.03)
    found = full_table(
        (BTC, crowded, changed(SOL, funding_rate_pct=-0.015, funding_interval_hours=4))
    )

    assert names(found, crowd="long") == ["ETH"]
    assert names(found, crowd="short") == ["SOL"]
    assert names(found, interest="rising") == ["BTC"]
    assert names(found, crowd="long", interest="falling", sort="funding") == ["ETH"]
    assert names(found, crowd="long", interest="rising") == []
    unknown = [found.unknown(MarketsQuery.parse({"interest": each})) for each in ("", "rising")]
    assert unknown == [0, 1], "the change of SOL is not known"


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "$0"),
        (950, "$950"),
        (1_234, "$1.23k"),
        (45_649, "$45.6k"),
        (300_000, "$300k"),
        (999_600, "$1.00M"),
    ],
)
def test_a_short_amount_has_three_digits(amount: float, shown: str) -> None:
    assert short_usd(amount) == shown


@pytest.mark.parametrize(
    ("week", "path"),
    [
        (RISING[:9], "M1 17l25-8 25-8"),
        ((1.0, *(None,) * 7, 3.0, *(None,) * 3, 2.0), "M1 17m33-16l17+8"),
        ((5.0,) * 9, "M1 1l25+0 25+0"),
    ],
)
def test_the_line_of_a_week_has_a_gap_where_nothing_is_recorded(week: Week, path: str) -> None:
    markup = markup_of(table_of(view_of((BTC,)), {"BTCUSDT": week}))

    assert f'<path d="{path}"/>' in markup


def test_contracts_that_are_not_crypto_are_counted_by_class() -> None:
    def told(**counts: int) -> str:
        return left_out_text(replace(reading(), left_out=counts))

    assert told() == ""
    assert told(stock=1) == "We leave out 1 contract that is not crypto: 1 stock."
    many = "We leave out 1,204 contracts that are not crypto: 1,180 stock, 12 ETF, 12 forex."
    assert told(forex=12, stock=1_180, ETF=12) == many


@pytest.mark.parametrize("sort", NUMBERS)
def test_a_script_can_sort_rows_by_their_ranks(sort: str) -> None:
    found = full_table((*MARKET, changed(ETH, base="A", contract="AUSDT")))
    place = NUMBERS.index(sort)
    body = ET.fromstring(f"<tbody>{markup_of(found)}</tbody>")
    ranks = {
        "".join(line[0].itertext()): str(line.get("data-values")).split(" ")[place] for line in body
    }

    ordered = sorted(ranks, key=lambda name: (ranks[name] == "", int(ranks[name] or 0), name))
    assert ordered == names(found, sort=sort, order="asc")
    assert ranks["A"] == ranks["ETH"] or sort in {"change", "interest-change", "long-accounts"}


def test_a_root_with_signs_of_markup_stays_one_address() -> None:
    rows = markup_of(table_of(view_of((BTC,))), '/a&b"c')

    (link,) = ET.fromstring(f"<table>{rows}</table>").iter("a")
    assert link.get("href") == '/a&b"c/markets/BTC'


def test_seven_hundred_rows_are_not_heavy() -> None:
    many = tuple(
        changed(
            BTC,
            base=f"1000TOKEN{n}",
            contract=f"1000TOKEN{n}USDT",
            last_price=n / 7,
            open_interest_coins=50.0,
        )
        for n in range(700)
    )
    full = [each.contract for each in many]
    view = view_of(
        many,
        [LongAccounts(name, 61.5, START) for name in full],
        watched=replace(LIQUIDATED, by_contract=dict.fromkeys(full, (1_234_567.0, 45_600.0))),
        day_ago=Frame(START - DAY, dict.fromkeys(full, PastValues(90.0, None, 40.0))),
    )
    weeks = {name: tuple(float(n * 17 % 43) for n in range(43)) for name in full}

    assert len(markup_of(table_of(view, weeks))) < 270_000


def test_contracts_of_a_coin_share_its_page_and_keep_the_venue() -> None:
    view = view_of((BTC, changed(BTC, contract="BTCPERP"), changed(PEPE, coin="PEPE")))

    assert [row.path for row in table_of(view).rows] == [
        *("/markets/BTC", "/markets/BTC", "/markets/PEPE")
    ]
    (row,) = market_rows(view, view.perpetuals.contracts[2:], None, venue="gate")
    assert row.path == "/markets/PEPE?venue=gate"


def test_a_major_is_the_contract_that_its_symbol_means() -> None:
    twins = reading(contracts=(changed(BTC, contract="BTCPERP"), *MARKET, changed(ETH, base="SOL")))
    index = index_of(twins)

    assert majors_of(twins) == {base: index[base] for base in MAJORS}


def test_a_symbol_means_the_contract_that_it_names() -> None:
    first, named_alike = changed(BTC, contract="1000PEPE"), changed(ETH, base="btcusdt")
    contracts = (first, BTC, ETH, PEPE, named_alike)
    index = index_of(reading(contracts=contracts))

    # An asset goes before a full name, and BTC is the contract with the usual name.
    symbols = [symbol_of(index, contract) for contract in contracts]
    assert symbols == [None, "BTC", "ETH", "1000PEPE", "BTCUSDT"]
    for contract, symbol in zip(contracts[1:], symbols[1:], strict=True):
        assert find_contract(index, symbol or "") == contract


def test_a_perpetuals_numbers_are_told_with_unit_interval_and_time() -> None:
    sampled = [LongAccounts("1000PEPEUSDT", 0.0, START - MINUTE)]

    shown = market_facts(view_of(sampled=sampled), PEPE)
    facts = {fact.name: fact for fact in shown.facts}

    assert list(facts) == list(NAMES.values())
    told = {
        name: (fact.value, Markup(fact.note).striptags().strip()) for name, fact in facts.items()
    }
    assert told["Last price"] == ("0.012000", "USDT")
    stated = "+0.0050 % per 4 h as stated, next settlement 2026-11-06 22:20 UTC"
    assert told["Funding per 8 hours"] == ("+0.0100 %", stated)
    assert told["Open interest"] == ("$90.00M", "in USD")
    assert told["Long accounts"] == ("0.0 %", "of accounts with a position")
    assert told["Liquidations in 24 hours"][1] == "no current data"
    assert facts["Long accounts"].read_at == START - MINUTE
    assert facts["Last price"].read_at == START


@pytest.mark.parametrize(
    ("base", "usd", "coins", "shown"),
    [
        ("BTC", 5e9, 74_627.4, ("$5.00B", "74,627 BTC")),
        ("1000PEPE", 9e7, 7.5e9, ("$90.00M", "7,500,000,000 units of 1000PEPE")),
        ("BTC", 0.0, 0.0, ("$0", "0 BTC")),
        ("BTC", None, 3.0, ("—", "3 BTC")),
        ("BTC", None, None, ("—", "not published by the exchange, or disputed")),
    ],
)
def test_open_interest_is_shown_in_dollars_and_coins_if_they_are_known(
    base: str, usd: float | None, coins: float | None, shown: tuple[str, str]
) -> None:
    perpetual = changed(BTC, base=base, open_interest_usd=usd, open_interest_coins=coins)
    fact = market_facts(view_of((perpetual,)), perpetual).facts[2]
    assert (Markup(fact.value).striptags(), fact.note) == shown
    assert (fact.read_at is None) == (usd is None)


def test_a_share_past_its_bound_is_not_known() -> None:
    old = [LongAccounts("BTCUSDT", 61.5, START - LIMITS.long_accounts)]

    shown = market_facts(view_of(sampled=old), BTC)
    (share,) = [fact for fact in shown.facts if fact.name == "Long accounts"]

    assert "61.5" not in share.value
    assert "unknown" in share.value
    assert share.read_at is None
    assert shown.until == START + LIMITS.perpetuals


@pytest.mark.parametrize(
    ("percent", "shown"),
    [(0.01, "+0.0100 %"), (0.012345, "+0.012345 %"), (-1.5, "-1.5000 %"), (0.0, "+0.0000 %")],
)
def test_funding_is_shown_with_every_digit_of_the_exchange(percent: float, shown: str) -> None:
    perpetual = changed(BTC, funding_rate_pct=percent)
    fact = market_facts(view_of((perpetual,)), perpetual).facts[1]
    assert fact.note.startswith(f"{shown} per 8 h")


def test_a_perpetual_is_told_with_its_changes_and_liquidations_by_side() -> None:
    btc = changed(BTC, open_interest_coins=50.0)
    view = view_of((btc,), watched=LIQUIDATED, day_ago=DAY_AGO)
    facts = market_facts(view, btc, WEEK_AGO).facts

    assert facts[0].note == "USDT, +11.67 % in 24 h, +11.67 % in 7 days"
    late = replace(WEEK_AGO, at=START - 7 * DAY - 300_001)
    assert market_facts(view, btc, late).facts[0].note == "USDT, +11.67 % in 24 h"
    assert facts[2].note == "+25.00 % in coins in 24 h; 50 BTC"
    assert facts[4].value == "$1.28M"
    assert facts[4].note == "$1.23M longs, $45.60k shorts; 99.5 % of the time covered"


def test_every_number_of_a_page_is_a_documented_field() -> None:
    documented = set(re.findall(r"^\| `(\w+)`", FIELDS.read_text("utf-8"), re.MULTILINE))

    assert NAMES.keys() == MEANINGS.keys()
    assert MEANINGS.keys() <= documented
