"""Rows in the shape of the real files: what we read of them, and that the simulated ones match.

What each fault of the simulated publishers leads to is in tests/cli/test_doctor.
"""

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from barograph.collector.app import macro_sources
from barograph.errors import InvalidReply
from barograph.macro.records import Figure
from barograph.settings import Settings
from barograph.upstream.etf import decode_holdings
from barograph.upstream.files import FileClient
from barograph.upstream.interest_rates import decode_effr, decode_sofr, decode_yields
from barograph_demo.servers.control import send_command
from barograph_demo.servers.faults import MacroFaults
from barograph_demo.servers.macro_files import FUND_PATH, TREASURY_PATH, answer
from barograph_demo.servers.macro_server import running_macro
from barograph_demo.world.macro import MacroWorld
from barograph_demo.world.world import World

SAMPLES = Path(__file__).parent / "samples" / "macro"
DAY = 86_400_000
EPOCH = 1_789_999_200_000
NOW = EPOCH + 60 * DAY
MACRO = MacroWorld(World(7, EPOCH))


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def simulated(path: str, **query: str) -> bytes:
    return answer(MACRO, path, query, NOW).body


def values(figures: list[Figure]) -> list[tuple[str, str, float]]:
    return [(each.series, each.day, each.value) for each in figures]


def treasury_fields(body: bytes) -> list[str]:
    return body.decode().splitlines()[0].split(",")


def rate_rows(body: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(body)["refRates"]
    return rows


def ishares_rows(body: bytes) -> list[list[str]]:
    return [
        [cell.strip() for cell in row] for row in csv.reader(io.StringIO(body.decode("utf-8-sig")))
    ]


def ishares_fields(body: bytes) -> list[str]:
    rows = ishares_rows(body)
    start = next(place for place, row in enumerate(rows) if row[0] == "Ticker")
    return [row[0] for row in rows[1:start] if len(row) > 1] + rows[start]


def test_a_cell_without_a_yield_costs_only_that_yield() -> None:
    assert values(decode_yields(sample("treasury_2026.csv"), 2026, "")) == [
        ("us3m", "2026-07-01", 3.84),
        ("us10y", "2026-07-01", 4.47),
        ("us3m", "2026-07-02", 3.82),
        ("us2y", "2026-07-02", 4.14),
        ("us10y", "2026-07-02", 4.49),
    ]


@pytest.mark.outcome(
    "A publisher sends `NA` instead of a rate",
    "Only that value is missing.",
)
def test_an_unavailable_rate_costs_only_that_value() -> None:
    assert values(decode_sofr(sample("nyfed_sofr.json"), "")) == [
        ("sofr", "2026-06-12", 3.66),
        ("sofr", "2026-06-16", 3.63),
    ]
    assert values(decode_effr(sample("nyfed_effr.json"), "")) == [
        ("effr", "2026-08-05", 3.62),
        ("effr", "2026-08-06", 3.63),
        ("effr-low", "2026-08-06", 3.5),
        ("effr-high", "2026-08-06", 3.75),
    ]


def test_a_fund_is_read_without_stated_assets_and_with_an_empty_cash_row() -> None:
    shares, worth = 1_412_720_000.0, 66_755_340_897.25

    assert values(decode_holdings(sample("ishares_ibit.csv"), "IBIT", "")) == [
        ("etf-ibit-shares", "2026-09-28", shares),
        ("etf-ibit-nav", "2026-09-28", worth / shares),
        ("etf-ibit-btc", "2026-09-28", 800_535.2892),
        ("etf-ibit-aum", "2026-09-28", worth),
    ]


def test_simulated_publishers_send_the_same_fields_in_the_same_order_and_form() -> None:
    year = simulated(f"{TREASURY_PATH}/2026/all", type="daily_treasury_yield_curve")
    assert treasury_fields(year) == treasury_fields(sample("treasury_2026.csv"))
    for rate, place in (("sofr", "secured"), ("effr", "unsecured")):
        ours = rate_rows(simulated(f"/api/rates/{place}/{rate}/last/5.json"))[0]
        real = rate_rows(sample(f"nyfed_{rate}.json"))[0]
        assert list(ours) == list(real)
        assert [type(each) for each in ours.values()] == [type(each) for each in real.values()]
    fund, real_fund = simulated(FUND_PATH), sample("ishares_ibit.csv")
    assert ishares_fields(fund) == ishares_fields(real_fund)
    held, really_held = (
        [row for row in ishares_rows(each) if row[0] in {"BTC", "USD"}]
        for each in (fund, real_fund)
    )
    for column in (0, 1, 2, 3, 8, 9):  # the cells that are words
        assert [row[column] for row in held] == [row[column] for row in really_held]


async def test_collector_asks_each_simulated_publisher_once_for_the_figures_of_the_world() -> None:
    faults, figures = MacroFaults(), dict[str, Figure]()
    async with running_macro(MACRO, faults, clock=lambda: NOW) as address:
        url = address.url
        settings = Settings(rates_url=url, etf_url=url + FUND_PATH)
        files = FileClient(seconds=30, clock=lambda: NOW)
        sources = macro_sources(settings, files, clock=lambda: NOW)
        for source in sources:
            figures |= {figure.series: figure for figure in await source.read()}
        counted = await asyncio.to_thread(send_command, url, {"count": True})
        faults.turn_on("revised", NOW)
        revised = {figure.series: figure for source in sources for figure in await source.read()}
        faults.turn_on("missing-columns", NOW)
        for source in sources:
            with pytest.raises(InvalidReply):
                await source.read()
        await files.close()
    assert counted["requests"] == dict.fromkeys(("treasury", "sofr", "effr", "etf"), 1)
    curve, effr, fund = MACRO.curves(NOW)[-1], MACRO.effr(NOW)[-1], MACRO.fund(NOW)[-1]
    expected = {
        **{name: curve.yields[place] for name, place in (("us3m", 3), ("us2y", 7), ("us10y", 11))},
        "sofr": MACRO.sofr(NOW)[-1].rate,
        "effr": effr.rate,
        "effr-low": effr.low,
        "effr-high": effr.high,
        "etf-ibit-shares": fund.shares,
        "etf-ibit-btc": fund.coins,
        "etf-ibit-aum": fund.net_assets,
        "etf-ibit-nav": pytest.approx(fund.nav, abs=1e-4),
    }
    assert {name: figure.value for name, figure in figures.items()} == expected
    for name, more in (("us10y", 0.06), ("sofr", 0.02), ("effr", 0.02), ("etf-ibit-shares", 1e6)):
        assert revised[name].day == figures[name].day
        assert revised[name].value - figures[name].value == pytest.approx(more)
