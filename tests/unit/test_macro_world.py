"""The simulated rates and fund are pure, plausible and never published early."""

import csv
import io
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from barograph.kit.business_days import (
    business_days,
    is_business_day,
    next_business_day,
    trading_days,
)
from barograph.macro.evidence import Calendar
from barograph_demo.servers.macro_files import FUND_PATH, TREASURY_PATH, answer
from barograph_demo.world.macro import (
    BASKET,
    CoinPrices,
    MacroWorld,
    effr_published_at,
    fund_published_at,
)
from barograph_demo.world.rates import day_of, new_york
from barograph_demo.world.world import World

DAY = 86_400_000
EPOCH = 1_789_999_200_000
NOW = EPOCH + 60 * DAY
SEED = 7

WORLD = World(SEED, EPOCH)
MACRO = MacroWorld(WORLD)

CURVES = {"type": "daily_treasury_yield_curve"}
SOFR = "/api/rates/secured/sofr/last/400.json"
EFFR = "/api/rates/unsecured/effr/last/400.json"


def milliseconds(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def body(path: str, query: dict[str, str], at: int, macro: MacroWorld = MACRO) -> bytes:
    file = answer(macro, path, query, at)
    assert file.status == 200
    return file.body


def treasury(at: int, year: int = 2026, macro: MacroWorld = MACRO) -> list[dict[str, str]]:
    text = body(f"{TREASURY_PATH}/{year}/all", CURVES, at, macro).decode()
    return list(csv.DictReader(io.StringIO(text)))


def rates(path: str, at: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(body(path, {}, at))["refRates"]
    return rows


def holdings_day(at: int) -> str:
    rows = csv.reader(io.StringIO(body(FUND_PATH, {}, at).decode("utf-8-sig")))
    return next(row[1] for row in rows if row[0] == "Fund Holdings as of")


def everything(macro: MacroWorld, at: int) -> list[bytes]:
    paths = {f"{TREASURY_PATH}/2026/all": CURVES, SOFR: {}, EFFR: {}, FUND_PATH: {}}
    return [answer(macro, path, query, at).body for path, query in paths.items()]


def test_the_order_of_requests_does_not_change_any_figure() -> None:
    instants = [EPOCH + days * DAY for days in (60, 3, 41, 0, 17)]
    forwards, backwards = (MacroWorld(World(SEED, EPOCH)) for _ in range(2))
    first = {at: everything(forwards, at) for at in sorted(instants)}
    second = {at: everything(backwards, at) for at in sorted(instants, reverse=True)}
    assert first == second
    assert everything(MacroWorld(World(SEED + 1, EPOCH)), NOW) != first[NOW]


def test_every_business_day_has_a_figure_and_no_other_day_has() -> None:
    by_calendar: list[tuple[Calendar, Sequence[Any]]] = [
        (business_days, MACRO.curves(NOW)),
        (business_days, MACRO.sofr(NOW)),
        (business_days, MACRO.effr(NOW)),
        (trading_days, MACRO.fund(NOW)),
    ]
    for calendar, series in by_calendar:
        days = [each.day for each in series]
        assert days == list(calendar(days[0], days[-1]))
        assert days[0] <= day_of(EPOCH) - timedelta(days=117)
        assert days[-1] >= day_of(NOW) - timedelta(days=4)
    found = {row["Date"] for row in treasury(NOW)}
    assert {"11/10/2026", "11/12/2026"} <= found
    assert not {"11/11/2026", "10/12/2026", "09/07/2026"} & found


def test_yields_are_published_in_the_evening() -> None:
    summer, winter = milliseconds("2026-10-15T22:00"), milliseconds("2026-11-10T23:00")
    for moment, day in ((summer, "10/15/2026"), (winter, "11/10/2026")):
        assert treasury(moment)[0]["Date"] == day
        assert treasury(moment - 1)[0]["Date"] != day


def test_overnight_rates_are_published_on_the_next_business_morning() -> None:
    monday = date(2026, 10, 19)
    for path, moment in ((SOFR, new_york(monday, 8)), (EFFR, new_york(monday, 9))):
        assert rates(path, moment - 1)[0]["effectiveDate"] == "2026-10-15"
        assert rates(path, moment)[0]["effectiveDate"] == "2026-10-16"


def test_holdings_are_published_before_the_next_trading_day() -> None:
    moment = fund_published_at(date(2026, 10, 16))
    assert moment == milliseconds("2026-10-19T10:30")
    assert holdings_day(moment - 1) == "Oct 15, 2026"
    assert holdings_day(moment) == "Oct 16, 2026"


def test_a_year_has_its_own_file_and_an_empty_one_has_a_header_only() -> None:
    later = EPOCH + 150 * DAY
    assert {row["Date"][-4:] for row in treasury(later, 2027)} == {"2027"}
    assert {row["Date"][-4:] for row in treasury(later, 2026)} == {"2026"}
    assert body(f"{TREASURY_PATH}/2027/all", CURVES, NOW).count(b"\n") == 1


def test_a_maturity_is_blank_before_it_was_published_and_has_no_column_the_year_before() -> None:
    macro = MacroWorld(World(SEED, milliseconds("2025-03-03T00:00")))
    at = milliseconds("2025-03-05T00:00")
    assert not any("1.5 Month" in row for row in treasury(at, 2024, macro))
    by_day = {row["Date"]: row["1.5 Month"] for row in treasury(at, 2025, macro)}
    assert by_day["02/14/2025"] == ""
    assert float(by_day["02/18/2025"]) > 0


def test_yields_stay_plausible_and_some_worlds_invert() -> None:
    slopes = {}
    for seed in range(12):
        curves = MacroWorld(World(seed, EPOCH)).curves(NOW)
        assert all(1.5 < value < 7.0 for curve in curves for value in curve.yields)
        slopes[seed] = [
            curve.yields[11] - curve.yields[3] for curve in curves if curve.day >= day_of(EPOCH)
        ]
        moves = [abs(after - before) for before, after in pairwise(slopes[seed])]
        assert max(moves) < 0.4
    inverted = {seed for seed, found in slopes.items() if min(found) < -0.05}
    assert 2 <= len(inverted) <= 10
    # An inversion is an episode: the curve is upright again at its end.
    assert all(slopes[seed][-1] > 0 for seed in inverted)


@pytest.mark.parametrize("seed", range(5))
def test_the_target_range_changes_once_and_holds_the_funds_rate(seed: int) -> None:
    macro = MacroWorld(World(seed, EPOCH))
    rows = macro.effr(NOW)
    assert all(row.low < row.rate < row.high for row in rows)
    changes = [after for before, after in pairwise(rows) if after.low != before.low]
    assert [change.day for change in changes] == [macro.policy.since]
    assert day_of(EPOCH) < macro.policy.since < day_of(NOW)
    assert is_business_day(macro.policy.since)


def test_some_sofr_values_are_revised_in_the_afternoon_after_their_publication() -> None:
    revised = [row for row in MACRO.sofr(NOW) if row.rate != row.first]
    assert 3 <= len(revised) <= 30
    chosen = revised[-1]
    afternoon = new_york(next_business_day(chosen.day), 14, 30)
    before, after = rates(SOFR, afternoon - 1)[0], rates(SOFR, afternoon)[0]
    assert before["effectiveDate"] == after["effectiveDate"] == chosen.day.isoformat()
    assert (before["percentRate"], before["revisionIndicator"]) == (chosen.first, "")
    assert (after["percentRate"], after["revisionIndicator"]) == (chosen.rate, "r")


def test_flows_are_whole_baskets_and_change_the_coins_accordingly() -> None:
    for before, after in pairwise(MACRO.fund(NOW)):
        created = after.shares - before.shares
        assert created % BASKET == 0
        fee = before.coins * 0.0025 * (after.day - before.day).days / 365
        price = after.coin_value / after.coins
        brought = (after.coins - before.coins + fee) * price
        assert created * after.nav == pytest.approx(brought, rel=1e-3, abs=20_000)


def test_flows_come_in_streaks_of_hundreds_of_millions() -> None:
    days = MACRO.fund(NOW)
    flows = [(after.shares - before.shares) * after.nav for before, after in pairwise(days)]
    longest = streak = 0
    for before, after in pairwise(flows):
        streak = streak + 1 if before * after > 0 else 0
        longest = max(longest, streak + 1)
    assert longest >= 5
    assert any(flow > 1e8 for flow in flows)
    assert any(flow < -1e8 for flow in flows)
    assert max(map(abs, flows)) < 2.5e9


def test_coins_are_priced_by_the_worlds_own_market_at_four_in_new_york() -> None:
    contract = WORLD.contract("BTCUSDT", EPOCH)
    assert contract is not None
    for fund in MACRO.fund(NOW)[-30:]:
        price = WORLD.price(contract, new_york(fund.day, 16))
        assert fund.coin_value / fund.coins == pytest.approx(price, rel=1e-9)


def test_prices_before_the_world_join_its_first_price() -> None:
    prices = CoinPrices(WORLD)
    at_birth = prices.at(WORLD.birth)
    assert prices.at(WORLD.birth - 1) == pytest.approx(at_birth, rel=1e-6)
    walk = [prices.at(WORLD.birth - days * DAY) for days in range(118)]
    assert all(0.85 < before / after < 1.18 for before, after in pairwise(walk))
    assert len(set(walk)) == len(walk)


def test_between_two_releases_nothing_changes() -> None:
    start, end = EPOCH + 40 * DAY, EPOCH + 44 * DAY + 1
    moments = [start, *MACRO.releases(start, end)]
    seen = []
    for moment, following in pairwise([*moments, end]):
        seen.append(everything(MACRO, moment))
        assert everything(MACRO, following - 1) == seen[-1]
    assert len(set(map(tuple, seen))) >= 10
    assert effr_published_at(date(2026, 10, 30)) in moments
