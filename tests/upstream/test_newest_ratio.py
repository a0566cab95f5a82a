"""The replay's short account ratios agree with the complete ones."""

import msgspec
import pytest

from barograph.kit.timestamps import HOUR
from barograph.upstream.bybit.decode import decode_long_accounts
from barograph_demo.servers.rest import answer
from barograph_demo.servers.tickers import newest_ratio
from barograph_demo.world.world import World

EPOCH = 1_790_000_000_000 // HOUR * HOUR
WORLD = World(3, EPOCH)


@pytest.mark.parametrize("symbol", ["BTCUSDT", "ETHUSDT", "1000PEPEUSDT", "ZECUSDT", "IMXUSDT"])
@pytest.mark.parametrize("since", [0, 1, 7, 31, 60 * 24])
@pytest.mark.parametrize("past_the_hour", [0, 1, 5 * 60_000, 21 * 60_000, HOUR - 1])
def test_the_short_reply_decodes_like_the_newest_of_the_complete_one(
    symbol: str, since: int, past_the_hour: int
) -> None:
    at = EPOCH + since * HOUR + past_the_hour
    query = {"category": "linear", "symbol": symbol, "period": "5min", "limit": "3"}
    _, body = answer(WORLD, "/v5/market/account-ratio", query, at)
    whole = msgspec.json.encode(msgspec.json.decode(body)["result"])
    contract = WORLD.contract(symbol, at)
    assert contract is not None

    share = decode_long_accounts(newest_ratio(WORLD, contract, at), symbol)

    assert share == decode_long_accounts(whole, symbol)
    assert 0 <= at - share.sampled_at < 5 * 60_000


def test_a_share_equals_the_worlds() -> None:
    contract = WORLD.contract("ADAUSDT", EPOCH)
    assert contract is not None

    share = decode_long_accounts(newest_ratio(WORLD, contract, EPOCH + HOUR), "ADAUSDT")

    assert share.long_account_pct == pytest.approx(
        100 * WORLD.long_share(contract, EPOCH + HOUR), abs=0.005
    )
