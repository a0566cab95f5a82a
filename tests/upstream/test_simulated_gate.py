"""The simulated Gate and Aster have the shapes and limits of the real ones."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from barograph.kit.timestamps import DAY, HOUR, SECOND
from barograph_demo.servers.aster import AsterFaults, running_aster
from barograph_demo.servers.binance_stream import force_orders
from barograph_demo.servers.control import ServerAddress
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.servers.gate import LIMIT_MS, LIMIT_REQUESTS, running_gate
from barograph_demo.world.liquidations import LONG
from barograph_demo.world.venues import ASTER, GATE, VenueMarket
from barograph_demo.world.world import World
from support.clock import HandClock
from support.shapes import differences

EPOCH = 1_789_999_200_000
NOW = EPOCH + 3 * DAY + 1_234_567
WORLD = World(7, EPOCH)
SAMPLES = Path(__file__).parent / "samples"
REPLIES: dict[str, dict[str, Any]] = {
    venue: json.loads((SAMPLES / venue / "replies.json").read_text()) for venue in ("gate", "aster")
}
FUTURES = "/api/v4/futures/usdt"


def http(address: ServerAddress) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=address.url, trust_env=False, timeout=30)


@pytest.mark.parametrize("name", [name for name, each in REPLIES["gate"].items()])
async def test_a_reply_of_gate_has_the_fields_and_types_of_the_real_one(name: str) -> None:
    path, query, sample = REPLIES["gate"][name]
    async with running_gate(WORLD, HandClock(NOW)) as address, http(address) as client:
        found = (await client.get(path, params=query)).json()
    assert differences(sample, found) == []


@pytest.mark.parametrize("name", ["premium index", "funding info", "listing"])
async def test_a_reply_of_aster_has_the_fields_and_types_of_the_real_one(name: str) -> None:
    path, query, sample = REPLIES["aster"][name]
    async with running_aster(WORLD, HandClock(NOW)) as address, http(address) as client:
        found = (await client.get(path, params=query)).json()
    assert [
        each for each in differences(sample, found) if name != "listing" or "extra" not in each
    ] == []


async def test_gate_counts_contracts_on_one_side_and_signs_the_position() -> None:
    async with running_gate(WORLD, HandClock(NOW)) as address, http(address) as client:
        listed = {row["name"]: row for row in (await client.get(f"{FUTURES}/contracts")).json()}
        rows = (await client.get(f"{FUTURES}/liq_orders", params={"limit": "1000"})).json()
    market = VenueMarket(WORLD, GATE)
    pepe = market.contract("PEPE_USDT", NOW)
    assert pepe is not None
    coins = listed["PEPE_USDT"]["position_size"] * float(listed["PEPE_USDT"]["quanto_multiplier"])
    assert coins == pytest.approx(market.quote(pepe, NOW).open_interest, rel=1e-3)
    assert float(listed["PEPE_USDT"]["mark_price"]) < 0.001  # of one coin
    sides = {
        (each.time // SECOND, each.symbol): each.side
        for each in market.liquidations(NOW - HOUR, NOW)
    }
    for row in rows:
        is_long = sides[row["time"], row["contract"]] == LONG
        assert (int(row["size"]) > 0, int(row["order_size"]) < 0) == (is_long, is_long)
    assert len(rows) > 3


async def test_gate_refuses_an_address_above_the_limit_of_an_endpoint() -> None:
    clock = HandClock(NOW // LIMIT_MS * LIMIT_MS)
    async with running_gate(WORLD, clock) as address, http(address) as client:
        for _ in range(LIMIT_REQUESTS):
            await client.get("/api/v4/spot/time")
        refused = await client.get("/api/v4/spot/time")
        assert (refused.status_code, refused.json()["label"]) == (429, "TOO_MANY_REQUESTS")
        assert (await client.get(f"{FUTURES}/tickers")).status_code == 200
        clock.now += LIMIT_MS
        assert (await client.get("/api/v4/spot/time")).status_code == 200


async def test_gate_names_an_unknown_contract() -> None:
    async with running_gate(WORLD, HandClock(NOW)) as address, http(address) as client:
        unknown = await client.get(f"{FUTURES}/funding_rate", params={"contract": "NONE_USDT"})
    assert (unknown.status_code, unknown.json()["label"]) == (400, "CONTRACT_NOT_FOUND")


def test_a_liquidation_of_aster_has_the_fields_and_types_of_the_real_one() -> None:
    market = FaultyMarket(VenueMarket(WORLD, ASTER), AsterFaults())
    *_, sample = REPLIES["aster"]["liquidation"]
    assert differences(sample, force_orders(market, NOW - HOUR, NOW)) == []
