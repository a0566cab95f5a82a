"""The simulated world is pure and plausible."""

import hashlib
import math
import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import correlation

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.errors import ConfigurationError
from barograph_demo.files import Anchor, load_or_create_anchor
from barograph_demo.servers.rest import answer
from barograph_demo.servers.stream import liquidation_messages
from barograph_demo.servers.tickers import ticker_json
from barograph_demo.world.candles import candles
from barograph_demo.world.contracts import LIVE_SYMBOLS, Contract, listed_futures
from barograph_demo.world.world import DAMPER, RATIO_PERIOD, World, funding_rate, interest

HOUR = 3_600_000
DAY = 24 * HOUR
EPOCH = 1_789_999_200_000
SEED = 7

WORLD = World(SEED, EPOCH)


def contract(symbol: str, world: World = WORLD) -> Contract:
    found = world.contract(symbol, EPOCH)
    assert found is not None
    return found


def fingerprint(world: World, instants: list[int]) -> dict[int, str]:
    """A digest of everything the world says about each instant, asked in the order given."""
    found = {}
    for now in instants:
        parts = [
            answer(world, "/v5/market/tickers", {"category": "linear"}, now)[1],
            *liquidation_messages(world, now - HOUR, now),
        ]
        for path, extra in (
            ("account-ratio", {"period": "5min"}),
            ("open-interest", {"intervalTime": "1h"}),
            ("funding/history", {}),
            ("kline", {"interval": "15", "limit": "10"}),
        ):
            query = {"category": "linear", "symbol": "ETHUSDT", **extra}
            parts.append(answer(world, f"/v5/market/{path}", query, now)[1])
        found[now] = hashlib.sha256(b"".join(parts)).hexdigest()
    return found


INSTANTS = [EPOCH + step for step in (0, 7, HOUR - 1, HOUR, 5 * HOUR + 1_234_567, DAY, 2 * DAY + 1)]

ELSEWHERE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import msgspec
from test_world import EPOCH, INSTANTS, SEED, World, fingerprint
sys.stdout.buffer.write(msgspec.json.encode(fingerprint(World(SEED, EPOCH), INSTANTS)))
"""


@pytest.mark.thorough
def test_another_process_with_another_hash_seed_sees_the_same_world() -> None:
    environment = os.environ | {"PYTHONHASHSEED": "4242"}
    output = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], env=environment, capture_output=True, check=True
    ).stdout
    assert msgspec.json.decode(output, type=dict[int, str]) == fingerprint(WORLD, INSTANTS)


def test_a_world_follows_from_its_seed_whatever_it_is_asked_first() -> None:
    shuffled = [*INSTANTS, EPOCH + 3 * DAY + 777, EPOCH + 90 * HOUR]
    random.Random(1).shuffle(shuffled)
    assert fingerprint(World(SEED, EPOCH), shuffled) == fingerprint(
        World(SEED, EPOCH), sorted(shuffled)
    )
    other = World(SEED + 1, EPOCH)
    assert fingerprint(other, [EPOCH + HOUR]) != fingerprint(WORLD, [EPOCH + HOUR])
    with pytest.raises(ValueError, match="full hour"):
        World(SEED, EPOCH + 1)


def ticker(world: World, chosen: Contract, now: int) -> dict[str, str]:
    return msgspec.json.decode(ticker_json(world, chosen, now), type=dict[str, str])


def test_the_list_has_contracts_to_keep_and_contracts_to_ignore() -> None:
    listed = WORLD.contracts(EPOCH)
    wanted = {c.symbol for c in listed if c.symbol in LIVE_SYMBOLS}
    assert len(listed) >= 65
    assert len(wanted) >= 55
    assert wanted >= {"BTCUSDT", "1000PEPEUSDT", "SHIB1000USDT", "1000000BABYDOGEUSDT"}
    assert {c.quote for c in listed} == {"USDT", "USDC"}
    assert {c.kind for c in listed} == {"LinearPerpetual", "LinearFutures"}
    assert {c.status for c in listed} == {"Trading", "PreLaunch", "Delivering", "Closed"}
    assert {c.funding_hours for c in listed} == {8, 4, 1}
    assert [c.symbol for c in listed] == sorted(c.symbol for c in listed)


def test_a_larger_world_has_more_perpetuals_and_the_same_market() -> None:
    large = World(SEED, EPOCH, extra=100)
    symbols, known = ({each.symbol for each in of.contracts(EPOCH)} for of in (large, WORLD))
    added = symbols - known
    assert len(added) == 100
    now = EPOCH + 5 * HOUR
    for symbol in sorted(added)[::20]:
        query = {"category": "linear", "symbol": symbol, "period": "1h"}
        reply = answer(large, "/v5/market/account-ratio", query, now)[1]
        assert msgspec.json.decode(reply)["result"]
        assert ticker(large, contract(symbol, large), now)["symbol"] == symbol
    assert ticker(large, contract("BTCUSDT"), now) == ticker(WORLD, contract("BTCUSDT"), now)


def test_futures_are_delisted_at_delivery_and_replaced() -> None:
    first = min(listed_futures(EPOCH), key=lambda future: future.delivery)
    assert first in listed_futures(first.delivery - 1)
    assert WORLD.contract(first.symbol, first.delivery) is None
    assert all(future.delivery > first.delivery for future in listed_futures(first.delivery))
    assert {future.delivery % DAY for future in listed_futures(EPOCH)} == {8 * HOUR}


@pytest.mark.parametrize("symbol", ["BTCUSDT", "1000000BABYDOGEUSDT"])
def test_prices_stay_plausible_for_a_year(symbol: str) -> None:
    chosen = contract(symbol)
    prices = [WORLD.price(chosen, EPOCH + day * DAY) for day in range(365)]
    assert all(chosen.price / 12 < price < chosen.price * 12 for price in prices)


@given(st.integers(0, 20 * 24 - 1), st.integers(0, HOUR), st.sampled_from(["BTCUSDT", "WIFUSDT"]))
def test_an_hours_candle_holds_every_price_of_the_hour(hour: int, into: int, symbol: str) -> None:
    chosen, start = contract(symbol), EPOCH + hour * HOUR
    (candle,) = candles(WORLD, chosen, [start], start + 2 * HOUR)
    price = WORLD.price(chosen, start + into)
    assert candle.low * 0.999999 <= price <= candle.high * 1.000001
    assert candle.open == WORLD.price(chosen, start)
    assert candle.close == WORLD.price(chosen, start + HOUR)


@given(st.integers(0, 10 * DAY))
def test_a_ticker_agrees_with_itself(after: int) -> None:
    row = ticker(WORLD, contract("SOLUSDT"), EPOCH + after)
    last = float(row["lastPrice"])
    assert float(row["lowPrice24h"]) <= last <= float(row["highPrice24h"])
    assert float(row["lowPrice24h"]) <= float(row["prevPrice24h"]) <= float(row["highPrice24h"])
    assert float(row["bid1Price"]) <= last <= float(row["ask1Price"])
    assert math.isclose(float(row["markPrice"]), float(row["indexPrice"]), rel_tol=0.01)
    both, single = float(row["openInterest"]), float(row["singleOpenInterest"])
    assert both == pytest.approx(2 * single, abs=0.2)
    assert float(row["singleOpenInterestValue"]) == pytest.approx(single * last, rel=1e-4)
    assert float(row["turnover24h"]) > 0
    assert EPOCH + after < int(row["nextFundingTime"]) <= EPOCH + after + 8 * HOUR


premiums = st.floats(-0.05, 0.05)
hours = st.sampled_from([1, 4, 8])


@given(premiums, hours, st.floats(0.002, 0.03))
def test_the_rate_is_the_textbook_formula(premium: float, interval: int, cap: float) -> None:
    base = interest(interval)
    textbook = premium + max(-DAMPER, min(DAMPER, base - premium))
    capped = max(-cap, min(cap, textbook))
    assert funding_rate(premium, interval, cap) == pytest.approx(capped, abs=1e-15)


def test_the_pin_is_written_without_a_rounding_error() -> None:
    rows = [ticker(WORLD, contract("BTCUSDT"), EPOCH + hour * HOUR) for hour in range(24 * 20)]
    assert sum(row["fundingRate"] == "0.0001" for row in rows) > len(rows) / 2


@pytest.mark.parametrize("seed", [1, 2, SEED, 20_261_115])
def test_bitcoin_is_mostly_pinned_but_visits_the_bands_on_both_sides(seed: int) -> None:
    world = World(seed, EPOCH)
    settled = world.settlements(contract("BTCUSDT", world), EPOCH, EPOCH + 60 * DAY)
    rates = [settlement.rate * 100 for settlement in settled]
    assert len(rates) == 180
    assert sum(rate == pytest.approx(0.01) for rate in rates) > 0.6 * len(rates)
    edges = (-0.03, -0.005, 0.015, 0.03)
    assert len({sum(rate >= edge for edge in edges) for rate in rates}) >= 3
    assert min(rates) < -0.005
    assert max(rates) > 0.03


def test_coins_move_together() -> None:
    def moves(symbol: str) -> list[float]:
        prices = [WORLD.price(contract(symbol), EPOCH + hour * HOUR) for hour in range(30 * 24)]
        return [math.log(after / before) for before, after in pairwise(prices)]

    assert correlation(moves("BTCUSDT"), moves("ETHUSDT")) > 0.6
    assert correlation(moves("BTCUSDT"), moves("ARBUSDT")) > 0.4
    assert abs(correlation(moves("BTCUSDT"), moves("EURUSDUSDT"))) < 0.4


@given(st.integers(0, 5 * DAY))
def test_long_accounts_are_counted_every_five_minutes(after: int) -> None:
    chosen, now = contract("XRPUSDT"), EPOCH + after
    share = WORLD.long_share(chosen, now)
    assert 0.05 < share < 0.95
    assert share == WORLD.long_share(chosen, now - now % RATIO_PERIOD)


@given(st.lists(st.integers(0, 6 * HOUR), min_size=3, max_size=3))
def test_liquidations_of_two_spans_are_those_of_both_together(cuts: list[int]) -> None:
    first, middle, last = (EPOCH + cut for cut in sorted(cuts))
    halves = WORLD.liquidations(first, middle) + WORLD.liquidations(middle, last)
    assert halves == World.liquidations(WORLD, first, last) == sorted(set(halves))
    assert all(first <= event.time < last for event in halves)


def test_a_falling_price_liquidates_longs_and_a_rising_one_shorts() -> None:
    sides: dict[bool, list[str]] = {True: [], False: []}
    chosen = contract("BTCUSDT")
    for event in WORLD.liquidations(EPOCH, EPOCH + 8 * DAY):
        if event.symbol == "BTCUSDT":
            fell = WORLD.price(chosen, event.time) < WORLD.price(chosen, event.time - HOUR // 6)
            sides[fell].append(event.side)
    assert sides[True].count("Buy") > 0.65 * len(sides[True])
    assert sides[False].count("Sell") > 0.65 * len(sides[False])


def test_a_new_folder_gets_an_anchor_sixty_days_back_and_keeps_it(tmp_path: Path) -> None:
    anchor = load_or_create_anchor(tmp_path / "new", 5, EPOCH + 1_234_567)
    assert anchor == Anchor(5, EPOCH - 60 * DAY, id=anchor.id)
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["world.json"]
    assert load_or_create_anchor(tmp_path / "new", 6, EPOCH + 30 * DAY) == anchor
    load_or_create_anchor(tmp_path, 5, EPOCH, fresh=True)
    assert load_or_create_anchor(tmp_path, 5, EPOCH + DAY).fresh


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "can't read"),
        (b"{}", "can't read"),
        (b'{"seed":"7","epoch":0}', "can't read"),
        (b'{"seed":7,"epoch":1789999200001}', "not a full hour"),
        (b'{"seed":7,"epoch":-3600000}', "not a full hour"),
        (b'{"seed":7,"epoch":1999998000000}', "in the future"),
    ],
)
def test_an_unusable_anchor_names_the_remedy(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "world.json").write_bytes(content)
    with pytest.raises(ConfigurationError, match=said) as caught:
        load_or_create_anchor(tmp_path, 7, EPOCH)
    assert "delete the folder" in str(caught.value)
