"""Data past its bound is never shown."""

from contextlib import suppress

import pytest

from barograph.kit.database import DatabaseUnavailable
from support.clock import START
from support.markets import reading, shares
from support.service import MARKET_PATHS, Service

BOUND_MS = 30_000
STALE = b'{"error":"upstream market data is unavailable or too old; try again shortly"}'
EVERY_MARKET_PATH = pytest.mark.parametrize(
    "path", [*MARKET_PATHS, "/api/agent/derivatives?symbol=eth", "/api/agent/market?x=1"]
)


@pytest.mark.contract("derivatives.502", "market.502", "market-state.502", "errors.502")
@EVERY_MARKET_PATH
def test_data_is_shown_until_just_before_its_bound_and_then_502_until_the_next_reading(
    service: Service, path: str
) -> None:
    service.clock.now = START + BOUND_MS - 1
    etag = service.ask(path).headers["etag"]
    assert service.ask(path, if_none_match=etag).status == 304

    for late in (0, 1, 60_000, 86_400_000):
        service.clock.now = START + BOUND_MS + late
        answer, head = service.ask(path), service.ask(path, "HEAD")
        assert (answer.status, answer.body) == (502, STALE)
        assert (head.status, head.fields, head.body) == (502, answer.fields, b"")
        for tag in (etag, f"W/{etag}", "*"):
            assert service.ask(path, if_none_match=tag) == answer

    service.publish(reading(service.clock.now))
    assert service.ask(path).status == 200


@pytest.mark.contract("derivatives.502", "market.502", "market-state.502")
@EVERY_MARKET_PATH
@pytest.mark.parametrize(
    ("read_at", "now", "status"),
    [
        pytest.param(START - BOUND_MS, START, 502, id="old when it came"),
        pytest.param(START + 86_400_000, START, 502, id="far in the future"),
        pytest.param(START + 2_000, START, 200, id="a little ahead"),
        pytest.param(START, START - 86_400_000, 502, id="clock set back"),
    ],
)
@pytest.mark.outcome(
    "The clock is set back, or a reading is dated in the future",
    "502, because the age of the data is unknown.",
)
def test_only_a_reading_of_now_is_shown(
    service: Service, path: str, read_at: int, now: int, status: int
) -> None:
    service.publish(reading(read_at))
    service.clock.now = now

    assert service.ask(path).status == status


@pytest.mark.contract("derivatives.400", "errors.400")
@pytest.mark.parametrize("query", ["symbol=", "symbol=BTC-USDT", "symbol=BTC&symbol=BTC"])
def test_an_invalid_symbol_is_400_also_without_fresh_data(
    empty_service: Service, query: str
) -> None:
    service = empty_service
    assert service.ask(f"/api/agent/derivatives?{query}").status == 400
    service.publish(reading(), shares())
    service.clock.now = START + BOUND_MS

    for tag in ("", "*"):
        answer = service.ask(f"/api/agent/derivatives?{query}", if_none_match=tag)
        assert answer.status == 400


@pytest.mark.contract("derivatives.502", "derivatives.available")
def test_a_stale_feed_does_not_say_that_a_symbol_is_unknown(service: Service) -> None:
    assert service.ask("/api/agent/derivatives?symbol=NOSUCH").json()["available"] is False
    service.clock.now = START + BOUND_MS

    assert service.ask("/api/agent/derivatives?symbol=NOSUCH").status == 502


@pytest.mark.contract("derivatives.long-account-pct", "asset.long-account-pct")
@pytest.mark.outcome(
    "A contract has no long-account share, or one past its freshness limit",
    "`longAccountPct` is null. The other fields stay.",
)
def test_stale_long_account_share_is_null_and_other_fields_stay(empty_service: Service) -> None:
    service = empty_service
    service.publish(reading(), [*shares(START - 1_790_000)[:2], *shares()[2:]])
    before = service.ask("/api/agent/derivatives").json()
    service.clock.pass_seconds(9.999)
    assert service.ask("/api/agent/derivatives").json() == before
    assert before["longAccountPct"] == 61.5

    service.clock.pass_seconds(0.001)

    assert service.ask("/api/agent/derivatives").json() == {**before, "longAccountPct": None}
    for path in ("/api/agent/market", "/api/agent/market-state"):
        assets = service.ask(path).json()["assets"]
        assert [asset["longAccountPct"] for asset in assets] == [None, None, 0.0]
        assert [asset["available"] for asset in assets] == [True] * 3
        assert [asset["openInterestUsd"] for asset in assets] == [5e9, 2.5e9, 0]


def test_a_snapshot_that_cannot_be_read_leaves_what_is_known_and_the_next_one_is_taken(
    service: Service,
) -> None:
    known = [service.ask(path) for path in MARKET_PATHS]
    service.execute('UPDATE snapshots SET version = version + 1, payload = \'{"as_of": "x"}\'')

    with suppress(DatabaseUnavailable):  # the one failure after which a worker goes on following
        service.refresh()

    assert [service.ask(path) for path in MARKET_PATHS] == known
    service.clock.pass_seconds(5)
    service.publish(reading(service.clock.now))
    assert service.ask("/api/agent/market-state").json()["as_of"] == "2026-11-06T21:20:05.000Z"
