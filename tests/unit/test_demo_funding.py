"""The simulated exchange reports settled funding rates and corrects some of them later."""

import msgspec
import pytest

from barograph_demo.servers.rest import answer
from barograph_demo.world.world import CORRECTED_AFTER, World, corrections

HOUR = 3_600_000
DAY = 24 * HOUR
STEP = 8 * HOUR
EPOCH = 1_789_999_200_000
WORLD = World(7, EPOCH)


def reported(now: int, symbol: str = "BTCUSDT") -> dict[int, str]:
    """What the exchange says at an instant about the settlements before it."""
    query = {"category": "linear", "symbol": symbol}
    _, body = answer(WORLD, "/v5/market/funding/history", query, now)
    rows = msgspec.json.decode(body)["result"]["list"]
    return {int(row["fundingRateTimestamp"]): row["fundingRate"] for row in rows}


@pytest.mark.parametrize("seed", range(20))
def test_one_settlement_in_ten_days_is_corrected(seed: int) -> None:
    found = corrections(seed, EPOCH, EPOCH + 100 * DAY)

    assert 9 <= len(found) <= 11
    assert all((at - CORRECTED_AFTER) % STEP == 0 for at in found)
    assert found != corrections(seed + 1, EPOCH, EPOCH + 100 * DAY)


def test_each_correction_is_listed_once_however_the_span_is_split() -> None:
    whole = corrections(7, EPOCH, EPOCH + 60 * DAY)
    hours = range(EPOCH, EPOCH + 60 * DAY, HOUR)

    assert [at for hour in hours for at in corrections(7, hour, hour + HOUR)] == whole
    assert corrections(7, whole[0] - 1, whole[0]) == [whole[0]]
    assert corrections(7, whole[0], whole[0]) == []


def test_the_funding_history_changes_only_for_the_corrected_settlement() -> None:
    at = corrections(7, EPOCH, EPOCH + 60 * DAY)[0]
    before, after = reported(at - 1), reported(at)

    assert {time for time in before if before[time] != after[time]} == {at - CORRECTED_AFTER}
    assert reported(at - 1, "ETHUSDT") == reported(at, "ETHUSDT")
