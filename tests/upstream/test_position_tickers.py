"""The replay's short tickers agree with the complete ones."""

import msgspec
import pytest
from msgspec.structs import replace

from barograph.kit.timestamps import HOUR
from barograph.upstream.bybit.decode import Instrument, decode_tickers
from barograph_demo.servers.rest import answer
from barograph_demo.servers.tickers import position_tickers
from barograph_demo.world.contracts import LIVE_SYMBOLS
from barograph_demo.world.world import World

EPOCH = 1_790_000_000_000 // HOUR * HOUR
WORLD = World(3, EPOCH)
KEPT = {symbol: Instrument(symbol, symbol.removesuffix("USDT"), None) for symbol in LIVE_SYMBOLS}


@pytest.mark.parametrize("since", [0, 1, 7, 31])
@pytest.mark.parametrize("past_the_hour", [0, 5 * 60_000, HOUR - 1])
def test_short_tickers_decode_like_complete_ones(since: int, past_the_hour: int) -> None:
    at = EPOCH + since * HOUR + past_the_hour
    listed = [each for each in WORLD.contracts(at) if each.symbol in KEPT]
    _, body = answer(WORLD, "/v5/market/tickers", {"category": "linear"}, at)
    whole = msgspec.json.encode(msgspec.json.decode(body)["result"])

    short = decode_tickers(position_tickers(WORLD, listed, at), KEPT).perpetuals

    complete = decode_tickers(whole, KEPT).perpetuals
    # The replay needs no mark prices.
    assert short == tuple(replace(each, mark_price=None) for each in complete)
    assert len(short) == len(KEPT)
