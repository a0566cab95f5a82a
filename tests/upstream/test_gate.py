"""Gate: contracts of several coins on one side, liquidations by the side of the position.

The rows have the shape of replies of 2026-09; the values are our own.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from barograph.errors import InvalidReply, Throttled, UnknownToUpstream
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.settings import Settings
from barograph.venues.gate import exchange as gate
from barograph.venues.gate.exchange import GateExchange
from barograph.venues.records import Liquidation, Perpetual
from barograph_demo.servers.gate import running_gate
from barograph_demo.world.liquidations import LONG
from barograph_demo.world.venues import GATE, VenueMarket
from barograph_demo.world.world import World
from support.clock import HandClock
from support.scripted_venue import ScriptedVenue

REPLIES = json.loads((Path(__file__).parent / "samples/gate/replies.json").read_text())
SAMPLES = {path: reply for path, _, reply in REPLIES.values()}
NOW = SAMPLES[GateExchange.time_path]["server_time"] + 250
EPOCH = 1_789_999_200_000
LATER = EPOCH + 3 * DAY + 1_234_567
WORLD = World(7, EPOCH)
CONTRACTS = SAMPLES[gate.CONTRACTS]


class Venue(ScriptedVenue[GateExchange]):
    """Gate with replies that can be replaced by their path."""

    def __init__(self, **replies: Any) -> None:
        super().__init__(GateExchange, NOW)
        paths = {"TIME": GateExchange.time_path, **vars(gate)}
        self.replies = {paths[name]: reply for name, reply in replies.items()}

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        reply = (SAMPLES | self.replies)[request.url.path]
        return reply if isinstance(reply, httpx2.Response) else httpx2.Response(200, json=reply)

    def read(self, call: Callable[[GateExchange], Awaitable[Any]] = GateExchange.perpetuals) -> Any:
        return self.run(call)


class Heard:
    """What a watcher is told."""

    def __init__(self) -> None:
        self.found: list[Liquidation] = []
        self.spans: list[tuple[int, int]] = []

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        self.found += liquidations

    def watched(self, start: int, end: int) -> None:
        self.spans.append((start, end))


async def at_once(_seconds: float) -> None:
    """A pause that takes no time."""


def test_a_reading_of_the_samples_is_the_crypto_perpetuals_with_coins_on_one_side() -> None:
    reading = Venue().read()
    assert (reading.as_of, reading.venue) == (NOW - 250, "gate")
    assert reading.contracts == (
        Perpetual(
            "BB_USDT",
            "BB",
            0.00862,
            0.004,
            4.0,
            1_790_265_600_000,
            612_340 * 0.00861,
            612_340.0,
            mark_price=0.00861,
            index_price=0.0086,
            volume_24h_usd=103_829.0,
            volume_24h_coins=12_045_110.0,
        ),
    )
    assert reading.left_out == {"stocks": 1, "metals": 1}
    assert reading.unknown_classes == []


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        ({"status": "delisted"}, "delisted"),
        ({"in_delisting": True}, "delisted"),
        ({"is_pre_market": True}, "pre-market"),
        ({"contract_type": "prediction"}, "prediction"),
        ({"contract_type": None}, "unclassified"),
    ],
)
def test_a_contract_that_is_not_crypto_or_not_live_is_left_out(
    changed: dict[str, object], left: str
) -> None:
    other = {**CONTRACTS[0], "name": "ETH_USDT", **changed}
    reading = Venue(CONTRACTS=[*CONTRACTS, other]).read()
    assert [each.contract for each in reading.contracts] == ["BB_USDT"]
    assert (left in reading.left_out) == (left != "delisted")
    assert (left in reading.unknown_classes) == (left in {"prediction", "unclassified"})


@pytest.mark.parametrize("multiplier", [None, "0", "-1", "nan"])
def test_without_a_multiplier_the_open_interest_is_unknown(multiplier: str | None) -> None:
    rows = [{**CONTRACTS[0], "quanto_multiplier": multiplier}]
    (found,) = Venue(CONTRACTS=rows).read().contracts
    assert (found.open_interest_usd, found.open_interest_coins) == (None, None)


def test_numbers_may_be_texts_and_without_an_interval_there_is_no_contract() -> None:
    rows = [{**CONTRACTS[0], "position_size": "61234"}]
    (found,) = Venue(CONTRACTS=rows).read().contracts
    assert found.open_interest_coins == 612_340.0
    rows = [CONTRACTS[0], {**CONTRACTS[0], "name": "ETH_USDT", "funding_interval": 0}]
    reading = Venue(CONTRACTS=rows).read()
    assert ([each.contract for each in reading.contracts], reading.unusable) == (
        ["BB_USDT"],
        ["ETH"],
    )


def test_an_old_clock_or_a_refusal_is_no_reading() -> None:
    late = {"server_time": NOW - HOUR}
    assert isinstance(Venue(TIME=late).read(), InvalidReply)
    refused = httpx2.Response(429, json={"label": "TOO_MANY_REQUESTS", "message": "slow down"})
    assert isinstance(Venue(TICKERS=refused).read(), Throttled)


async def test_liquidations_have_the_side_of_the_position_and_leave_no_gap_after_a_failure() -> (
    None
):
    heard, venue = Heard(), Venue()
    at = NOW // SECOND - 5
    rows = [
        {**SAMPLES[gate.LIQUIDATIONS][0], "time": at},
        {**SAMPLES[gate.LIQUIDATIONS][1], "time": at},
    ]
    venue.replies[gate.LIQUIDATIONS] = [*rows, {**rows[0], "contract": "CAT_USDT"}]
    exchange = venue.exchange
    assert await exchange.liquidations(["BB_USDT"], NOW - MINUTE, heard) == NOW
    assert heard.found == [
        Liquidation(at * SECOND, "BB_USDT", "long", 760.0, 0.00851),
        Liquidation(at * SECOND, "BB_USDT", "short", 950.0, 0.00869),
    ]
    assert heard.spans == [(NOW - MINUTE, NOW)]
    venue.replies[gate.LIQUIDATIONS] = rows * (1000 // 2)
    await exchange.liquidations(["BB_USDT"], NOW - MINUTE, heard)
    assert len(heard.spans) == 1  # a full page may lack some


async def test_a_liquidation_that_cannot_be_read_costs_only_itself_and_its_span() -> None:
    heard, venue = Heard(), Venue()
    row = {**SAMPLES[gate.LIQUIDATIONS][0], "time": NOW // SECOND - 5}
    venue.replies[gate.LIQUIDATIONS] = [{**row, "fill_price": "?"}, {**row, "size": 0}, row]

    assert await venue.exchange.liquidations(["BB_USDT"], NOW - MINUTE, heard) == NOW
    assert (len(heard.found), heard.spans) == (1, [])
    venue.replies[gate.LIQUIDATIONS] = [row]
    later = venue.now = NOW + 10 * SECOND
    assert await venue.exchange.liquidations(["BB_USDT"], NOW, heard) == later
    assert heard.spans == [(NOW, later)]


async def test_it_reads_the_simulated_gate_as_its_market_is() -> None:
    clock, market = HandClock(LATER), VenueMarket(WORLD, GATE)
    async with running_gate(WORLD, clock) as address:
        settings = Settings(venue_urls=f"gate={address.url}")
        exchange = GateExchange(settings, clock=clock, sleep=at_once)
        reading = await exchange.perpetuals()
        kept = {each.contract: each for each in reading.contracts}
        end = LATER // HOUR * HOUR
        span = "PEPE_USDT", end - 2 * DAY, end
        prices = await exchange.past_prices(*span)
        coins = await exchange.past_open_interest(*span)
        shares = await exchange.past_long_accounts(*span)
        rates = await exchange.past_settlements(*span)
        share = await exchange.long_accounts("PEPE_USDT")
        heard = Heard()
        await exchange.liquidations(list(kept), LATER - HOUR // 2, heard)
        with pytest.raises(UnknownToUpstream):
            await exchange.past_settlements("NONE_USDT", *span[1:])
        await exchange.close()
    live = [each for each in market.contracts(LATER) if each.asset_class == "COIN"]
    assert kept.keys() == {each.name for each in live}
    for each in live:
        assert kept[each.name].open_interest_coins == pytest.approx(
            market.quote(each, LATER).open_interest, rel=0.05
        )
    pepe = market.contract("PEPE_USDT", LATER)
    assert pepe is not None
    for values in (prices, coins, shares):
        assert [each.at for each in values] == list(range(span[1], end, HOUR))
    assert prices[-1].value == pytest.approx(market.quote(pepe, end - HOUR).price, rel=1e-3)
    assert coins[-1].value == pytest.approx(market.quote(pepe, end - HOUR).open_interest, rel=1e-3)
    assert shares[-1].value == pytest.approx(100 * market.long_share(pepe, end - HOUR), abs=0.1)
    assert share.long_account_pct == pytest.approx(shares[-1].value, abs=5)
    settled = market.settlements(pepe, span[1], end - 1)
    assert [rate.at for rate in rates] == [time for time, _ in settled]
    for ours, theirs in zip(rates, settled, strict=True):
        assert ours.funding_rate_pct == pytest.approx(100 * theirs.rate, abs=1e-4)
    happened = {
        (it.time // SECOND, it.symbol): "long" if it.side == LONG else "short"
        for it in market.liquidations(LATER - HOUR, LATER + SECOND)
    }
    assert heard.found
    for found in heard.found:
        assert happened[found.at // SECOND, found.contract] == found.side
