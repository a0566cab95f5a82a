"""What the home page says: only what is fresh, and why the rest is missing."""

from typing import Any

import pytest

from barograph.errors import UpstreamUnavailable
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.cross import CrossMarket, VenueFacts, cross_market
from barograph.markets.liquidations import LiquidationTotals, LiquidationTracker
from barograph.markets.regime import Regime
from barograph.markets.samples import LiquidationColumn, LiquidationSeries, Measure
from barograph.markets.view import FreshnessLimits, MarketView
from barograph.site.home_content import Asset, MarketNow, figures_of, liquidation_line, market_now
from barograph.site.templating import UNKNOWN
from barograph.venues.records import Frame, LongAccounts, PastValues, Perpetual
from barograph.venues.registry import VENUES
from barograph.venues.spans import WatchedSpans
from support.clock import START
from support.markets import BTC, ETH, MARKET, PEPE, SOL, changed, reading

LIMITS = FreshnessLimits(
    perpetuals=30_000, long_accounts=1_800_000, liquidations=60_000, min_coverage_pct=95.0
)
REGIME = Regime("neutral", START, 0.01, START)
TOTALS = LiquidationTotals(START, 100.0, 1_000.0, 62.5, "BTC")
NOTHING = LiquidationTotals(START, 99.99, 0.0, None, None)


def a_view(*contracts: Perpetual, **fields: Any) -> MarketView:
    listed = contracts or MARKET
    view = MarketView(
        now=START,
        limits=LIMITS,
        perpetuals=reading(contracts=listed),
        by_name={each.base: each for each in listed},
        shares={"BTCUSDT": LongAccounts("BTCUSDT", 61.5, START)},
        watched=TOTALS,
        regime=REGIME,
    )
    return view._replace(**fields)


def market_of(view: MarketView) -> CrossMarket:
    """The market of one venue."""
    facts = VenueFacts(VENUES["bybit"], view.perpetuals, view.watched, day_ago=view.day_ago)
    return cross_market({"bybit": facts}, LIMITS, START)


def now_of(view: MarketView, counted: LiquidationTotals | None = None) -> MarketNow:
    return market_now(market_of(view), view, counted or view.watched, "bybit")


FLAT = Frame(START - DAY, {"BTCUSDT": PastValues(67_000.0, 4e9, 500.0, None)})
MOVED = Frame(START - DAY, {"BTCUSDT": PastValues(60_000.0, 4e9, 625.0, None)})
INTEREST = "Its open interest at Bybit is $5.00B."
INTEREST_FELL = "Its open interest at Bybit is $5.00B, down 20.0 % in coins over 24 hours."
INTEREST_SAME = "Its open interest at Bybit is $5.00B, unchanged in coins over 24 hours."
LONGS_PAY = "At Bybit, longs pay shorts 0.0100 % per 8 h (regime: neutral)."
SHORTS_PAY = "At Bybit, shorts pay longs 0.0125 % per 8 h (regime: short-leaning)."
MOST = ", 62.5 % of it longs"
LIQUIDATED = "Over all coins, $1.00k was liquidated at Bybit in 24 hours"


@pytest.mark.parametrize(
    ("facts", "headline", "lead"),
    [
        (
            {"day_ago": MOVED},
            "BTC rose 11.7 % in 24 hours to 67,000.5 USDT at Bybit.",
            f"{INTEREST_FELL} {LONGS_PAY} {LIQUIDATED}{MOST}.",
        ),
        (
            {"day_ago": FLAT, "regime": Regime("short-leaning", START, -0.0125, START)},
            "BTC is unchanged in 24 hours at 67,000.5 USDT at Bybit.",
            f"{INTEREST_SAME} {SHORTS_PAY} {LIQUIDATED}{MOST}.",
        ),
        (
            {"regime": None, "watched": LiquidationTotals(START, 94.97, 10.0, 50.0, "BTC")},
            "BTC is at 67,000.5 USDT at Bybit.",
            INTEREST,
        ),
        (
            {"regime": Regime("neutral", START, -0.00004, START), "watched": NOTHING},
            "BTC is at 67,000.5 USDT at Bybit.",
            (
                f"{INTEREST} At Bybit, neither side pays (regime: neutral). "
                f"{LIQUIDATED.replace('$1.00k', 'nothing')}."
            ),
        ),
        (
            {
                "regime": Regime("unknown", START, None, START),
                "watched": None,
                "perpetuals": reading(contracts=(ETH,)),
            },
            "No venue has a current price of BTC.",
            "",
        ),
    ],
    ids=["moved", "unchanged", "little is known", "zero is known", "nothing is known"],
)
def test_the_market_is_told_in_a_sentence_that_leaves_out_what_is_unknown(
    facts: dict[str, Any], headline: str, lead: str
) -> None:
    btc = changed(BTC, open_interest_coins=500.0)
    now = now_of(a_view(btc, ETH, **facts))

    assert (now.headline, now.lead) == (headline, lead)


def test_funding_is_brought_to_eight_hours_and_zero_is_a_number() -> None:
    four_hourly = changed(ETH, funding_interval_hours=4)
    assets = now_of(a_view(BTC, four_hourly, changed(SOL, open_interest_usd=1.0))).assets

    assert [figures_of(each, "", {})[1].text for each in assets] == [
        *("+0.0100 %", "-0.0250 %", "+0.0000 %")
    ]


def test_a_share_of_accounts_that_is_unknown_or_old_is_none_and_zero_is_a_share() -> None:
    shares = {
        "BTCUSDT": LongAccounts("BTCUSDT", 61.5, START - LIMITS.long_accounts),
        "SOLUSDT": LongAccounts("SOLUSDT", 0.0, START),
    }
    assets = now_of(a_view(shares=shares)).assets

    assert [asset.long_account_pct for asset in assets] == [None, None, 0.0]


def test_without_any_of_the_majors_nothing_is_known() -> None:
    with pytest.raises(UpstreamUnavailable):
        now_of(a_view(PEPE))


LOST_AT = START - LIMITS.liquidations - 1
LOST = LiquidationTotals(START, 50.0, 10.0, 50.0, "BTC", LOST_AT, START - DAY, START + HOUR)
TOO_LITTLE = LiquidationTotals(START, 94.97, 10.0, 50.0, "BTC")
TOO_OLD = LiquidationTotals(START - LIMITS.liquidations, 100.0, 10.0, 50.0, "BTC")


@pytest.mark.parametrize(
    ("counted", "usd", "note"),
    [
        (NOTHING, 0.0, "all contracts; 99.9 % of the day covered"),
        (TOO_LITTLE, None, "only 94.9 % of the day covered; 95 % needed"),
        (LOST, None, "only 50 % of the day covered; 95 % needed"),
        (TOO_OLD, None, "no recent count"),
        (None, None, "no recent count"),
    ],
    ids=["nothing", "never rounded up to enough", "no stream", "too old", "none"],
)
def test_a_day_without_a_total_says_why_and_promises_no_time(
    counted: LiquidationTotals | None, usd: float | None, note: str
) -> None:
    now = now_of(a_view(watched=NOTHING if usd == 0.0 else None), counted)

    assert (now.liquidated_usd, now.sides, now.liquidated_in) == (usd, (), "")
    assert now.liquidated_note == note


@pytest.mark.parametrize(
    ("watched", "big", "note"),
    [
        ([(21, 0)], "in 1 h 48 min", "23:08 UTC. We have covered 21 h of the"),
        ([(22.795, 0)], "in 1 min", "21:21 UTC. We have covered 22 h 47 min of the"),
        ([(40, 15), (12, 0)], "in 10 h 48 min", "2026-11-07 08:08 UTC. We have covered 21 h of"),
        ([(90, 80), (3, 0)], "in 19 h 48 min", "2026-11-07 17:08 UTC. We have covered 3 h of"),
    ],
    ids=["young", "soon", "after a gap", "after days"],
)
def test_a_countdown_leads_to_the_total_also_after_a_gap(
    watched: list[tuple[float, float]], big: str, note: str
) -> None:
    spans = [(round(START - since * HOUR), round(START - until * HOUR)) for since, until in watched]
    counted = LiquidationTracker(LIMITS.min_coverage_pct, spans=spans).totals(START, {})
    now = now_of(a_view(watched=None), counted)

    assert (now.liquidated_usd, now.liquidated_in) == (None, big)
    assert now.liquidated_note.startswith(f"The 24-hour total appears at about {note}")
    assert counted.covered_at is not None
    at = counted.covered_at
    for then, is_enough in ((at - 1, False), (at, True)):
        later = WatchedSpans([*spans, (START, then)])
        assert (later.watched_pct(then) >= LIMITS.min_coverage_pct) == is_enough


def test_what_is_said_ends_with_the_first_of_its_bounds() -> None:
    assert now_of(a_view()).until == START + LIMITS.perpetuals
    old = LiquidationTotals(START - 50_000, 10.0, 10.0, 50.0, "BTC")
    now = now_of(a_view(watched=None), old)
    assert (now.until, now.reading_until) == (START + 10_000, START + LIMITS.perpetuals)


def test_a_figure_has_its_change_and_its_week_and_says_what_is_unknown() -> None:
    before = Frame(START - DAY, {"BTCUSDT": PastValues(100_000.0, None, None, 0.02)})
    btc = now_of(a_view(day_ago=before)).assets[0]
    week: dict[Measure, tuple[float, ...]] = {"price": (1.0, 2.0)}

    price, funding, interest, _, long = figures_of(btc, "Bybit", {"BTC": week})

    assert (price.text, price.change, price.change_tint) == ("67,000.5", "-33.0 %", "tint-down-4")
    assert 'class="spark up"' in price.line
    assert (funding.text, funding.tint, funding.line) == ("+0.0100 %", "tint-0", "")
    assert (interest.text, interest.change) == ("$5.00B", UNKNOWN)
    assert (long.text, long.change) == ("61.5 %", "")
    assert {each.text for each in figures_of(Asset("SOL"), "", {})} == {UNKNOWN}


def test_the_line_of_liquidations_leaves_out_hours_that_were_not_covered() -> None:
    hours = [LiquidationColumn(START + n * HOUR, n, 1.0, 100.0, partial=n == 2) for n in range(5)]

    line = liquidation_line(LiquidationSeries(1, HOUR, START, tuple(hours)))

    assert 'd="M1 21l29-7m57-13"' in line  # two, a gap, one; not the running one
    assert liquidation_line(None) == ""
