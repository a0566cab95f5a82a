"""The simulated exchange sends the fields and types of the samples: they can't drift apart."""

import json
from pathlib import Path
from typing import Any

import pytest

from barograph.demo.servers.rest import answer
from barograph.demo.servers.stream import liquidation_messages
from barograph.demo.world.world import World
from barograph.kit.timestamps import DAY, HOUR
from support.bybit_fields import WORDS
from support.shapes import differences

SAMPLES = Path(__file__).parent / "samples/bybit"
NOW = 1_794_787_212_345
WORLD = World(7, NOW // HOUR * HOUR - 3 * DAY)
ENDPOINTS = {
    "tickers": ("tickers", {}),
    "instruments": ("instruments-info", {"limit": "1000"}),
    "kline": ("kline", {"interval": "60"}),
    "open_interest": ("open-interest", {"intervalTime": "1h"}),
    "account_ratio": ("account-ratio", {"period": "1h"}),
    "funding_history": ("funding/history", {}),
}


def simulated(name: str) -> Any:
    endpoint, params = ENDPOINTS[name]
    symbol = {} if name in {"tickers", "instruments"} else {"symbol": "BTCUSDT"}
    query = {"category": "linear", **symbol, **params}
    status, body = answer(WORLD, f"/v5/market/{endpoint}", query, NOW)
    assert status == 200
    return json.loads(body)


@pytest.mark.parametrize("name", ENDPOINTS)
def test_a_simulated_reply_has_the_shape_of_its_sample(name: str) -> None:
    assert differences(json.loads((SAMPLES / f"{name}.json").read_text()), simulated(name)) == []


def test_a_simulated_liquidation_has_the_shape_of_its_sample() -> None:
    sample = json.loads((SAMPLES / "stream.jsonl").read_text().splitlines()[0])
    WORLD.simulate_to(NOW)
    found = [json.loads(each) for each in liquidation_messages(WORLD, NOW - HOUR, NOW)]
    assert differences([sample], found) == []


def test_the_simulated_list_has_every_word_of_the_samples() -> None:
    rows = simulated("instruments")["result"]["list"]
    for field, words in WORDS.items():
        assert words <= {row[field.removeprefix("list[].")] for row in rows}
