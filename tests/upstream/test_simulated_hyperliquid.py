"""The simulated Hyperliquid answers as the real one does, and every fault has its outcome."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx2
import msgspec
import pytest

from barograph.errors import Forbidden, InvalidReply, Throttled, Unreachable, UpstreamError
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.records import Perpetual
from barograph.settings import Settings
from barograph.upstream.bybit.decode import Instrument, decode_tickers
from barograph.upstream.hyperliquid import HyperliquidExchange
from barograph_demo.servers.distortions import distorted
from barograph_demo.servers.faults import ExchangeFaults, HyperliquidFaults
from barograph_demo.servers.hyperliquid import WEIGHT_PER_MINUTE, running_hyperliquid
from barograph_demo.servers.rest import answer
from barograph_demo.world.venues import HYPERLIQUID, TRADING, VenueMarket
from barograph_demo.world.world import World

EPOCH = 1_789_999_200_000
NOW = EPOCH + 3 * DAY + 1_234_567
WORLD = World(7, EPOCH)

# The fields of a contract and of its state, as the exchange sent them in September 2026.
ASSET = {"szDecimals": int, "name": str, "maxLeverage": int, "marginTableId": int}
TEXTS = "funding openInterest prevDayPx dayNtlVlm premium oraclePx markPx midPx dayBaseVlm"
CONTEXT = dict.fromkeys(TEXTS.split(), str) | {"impactPxs": list}
DELISTED = CONTEXT | dict.fromkeys(("premium", "midPx", "impactPxs"), type(None))

T = TypeVar("T")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


class Running:
    """A venue with a client of its own and our adapter."""

    def __init__(self, url: str, faults: HyperliquidFaults, clock: Clock) -> None:
        settings = Settings(hyperliquid_url=url)
        self.exchange = HyperliquidExchange(settings, clock=clock, sleep=self._sleep, seconds=2)
        self.faults = faults
        self.clock = clock
        self.http = httpx2.AsyncClient(base_url=url, trust_env=False)

    async def _sleep(self, _seconds: float) -> None:
        await asyncio.sleep(0)

    async def info(self, **body: object) -> Any:
        return (await self.http.post("/info", json=body)).json()

    async def read(self) -> dict[str, Perpetual]:
        return {each.contract: each for each in (await self.exchange.perpetuals()).contracts}


def run(scenario: Callable[[Running], Awaitable[T]]) -> T:
    async def whole() -> T:
        faults, clock = HyperliquidFaults(), Clock()
        async with running_hyperliquid(WORLD, clock, faults) as address:
            running = Running(address.url, faults, clock)
            try:
                return await scenario(running)
            finally:
                await running.exchange.close()
                await running.http.aclose()

    return asyncio.run(whole())


def types(row: dict[str, object]) -> dict[str, type]:
    return {name: type(value) for name, value in row.items()}


def test_answers_have_the_shape_of_the_real_ones() -> None:
    async def scenario(running: Running) -> tuple[Any, Any]:
        return (
            await running.info(type="metaAndAssetCtxs"),
            await running.info(type="fundingHistory", coin="BTC", startTime=NOW - DAY),
        )

    (meta, contexts), settled = run(scenario)
    for asset, context in zip(meta["universe"], contexts, strict=True):
        is_delisted = asset.pop("isDelisted", False)
        assert types(asset) == ASSET
        assert types(context) == (DELISTED if is_delisted else CONTEXT)
    assert types(settled[0]) == {"coin": str, "fundingRate": str, "premium": str, "time": int}
    assert all(28 <= row["time"] % HOUR <= 76 for row in settled)


def test_the_adapter_reads_what_the_market_says() -> None:
    market = VenueMarket(WORLD, HYPERLIQUID)

    async def scenario(running: Running) -> tuple[dict[str, Perpetual], int, int]:
        settled = await running.exchange.past_settlements("kPEPE", NOW - DAY, NOW)
        prices = await running.exchange.past_prices("kPEPE", NOW - DAY, NOW)
        return await running.read(), len(settled), len(prices)

    found, *past = run(scenario)
    live = [each for each in market.contracts(NOW) if each.status == TRADING]
    assert set(found) == {each.name for each in live}
    for each in live:
        perpetual, rate = found[each.name], 100 * market.funding_rate(each, NOW)
        assert perpetual.last_price == pytest.approx(market.mark(each, NOW), rel=0.002)
        assert perpetual.funding_rate_pct == pytest.approx(rate, abs=1e-8)
        assert perpetual.open_interest_coins == pytest.approx(market.open_interest(each, NOW))
    assert past == [24, 24]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("reset", Unreachable),
        ("outage", Unreachable),
        ("502", Unreachable),
        ("truncated", Unreachable),
        ("geo-block", Forbidden),
        ("429", Throttled),
        ("empty-list", InvalidReply),
        ("unequal-lists", InvalidReply),
        ("stale-clock", InvalidReply),
    ],
)
def test_a_broken_venue_ends_in_the_failure_it_stands_for(
    fault: str, kind: type[UpstreamError]
) -> None:
    async def scenario(running: Running) -> int:
        running.faults.turn_on(fault, NOW)
        running.clock.now += MINUTE
        with pytest.raises(kind):
            await running.exchange.perpetuals()
        running.faults.clear()
        running.clock.now += 10 * MINUTE
        return len(await running.read())

    assert run(scenario) > 40


@pytest.mark.parametrize(
    ("fault", "factors"),
    [
        ("doubled-open-interest", (2, 1, 1)),
        ("inverted-side", (1, -1, 1)),
        ("wrong-unit", (1, 100, 0.001)),
        ("wrong-interval", (1, 8, 1)),
        ("unknown-fields", (1, 1, 1)),
    ],
)
def test_distortions_change_the_measure_they_name(
    fault: str, factors: tuple[float, float, float]
) -> None:
    async def scenario(running: Running) -> list[float]:
        before = figures((await running.read())["kPEPE"])
        running.faults.turn_on(fault, NOW)
        after = figures((await running.read())["kPEPE"])
        return [b / a for a, b in zip(before, after, strict=True)]

    assert run(scenario) == pytest.approx(factors, rel=0.02)


def figures(perpetual: Perpetual) -> tuple[float, float, float]:
    assert perpetual.open_interest_coins is not None
    return perpetual.open_interest_coins, perpetual.funding_rate_pct, perpetual.last_price


def test_an_address_that_sends_too_much_is_throttled_for_a_minute() -> None:
    async def scenario(running: Running) -> list[int]:
        body = {"type": "spotMeta"}
        sent = [(await running.http.post("/info", json=body)).status_code for _ in range(61)]
        assert set(sent[: WEIGHT_PER_MINUTE // 20]) == {200}
        running.clock.now += MINUTE
        return [sent[-1], (await running.http.post("/info", json=body)).status_code]

    assert run(scenario) == [429, 200]


@pytest.mark.parametrize(
    ("fault", "factors"),
    [
        ("doubled-open-interest", (2, 1, 1)),
        ("wrong-unit", (1, 100, 1)),
        ("wrong-interval", (1, 1, 0.5)),
        ("interval-change", (1, 0.5, 0.5)),
        ("unknown-fields", (1, 1, 1)),
    ],
)
def test_bybits_distortions_change_the_measure_they_name(
    fault: str, factors: tuple[float, float, float]
) -> None:
    faults = ExchangeFaults()
    kept = {"SOLUSDT": Instrument("SOLUSDT", "SOL", None)}

    def read() -> tuple[float, float, float]:
        path = "/v5/market/tickers"
        body = answer(WORLD, path, {"category": "linear"}, NOW)[1]
        result = msgspec.json.decode(distorted(body, path, faults, NOW))["result"]
        (sol,) = decode_tickers(msgspec.json.encode(result), kept).perpetuals
        return (*figures(sol)[:2], sol.funding_interval_hours)

    before = read()
    faults.turn_on(fault, NOW)
    assert [b / a for a, b in zip(before, read(), strict=True)] == pytest.approx(factors)
