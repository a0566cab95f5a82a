"""Rules judged by readings: one message per crossing, and none because data was missing."""

import asyncio
from functools import partial

import pytest

from barograph.alerts.rules import When
from barograph.alerts.store import set_state, stored_states
from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.errors import Unreachable
from barograph.kit.database import Database
from barograph.kit.timestamps import HOUR, MINUTE, SECOND
from barograph.markets.disputes import DISPUTES, Dispute, Disputes
from barograph.markets.store import record_settlement_reports
from barograph.venues.records import Liquidation, SettledRate
from barograph.venues.registry import BYBIT, HYPERLIQUID
from support.evidence import AT
from support.judged_alerts import Watch
from support.markets import BTC, ETH, PEPE, changed

pytestmark = pytest.mark.both_engines


@pytest.fixture
def watch(database: Database, runner: asyncio.Runner) -> Watch:
    return Watch(database, runner)


@pytest.mark.outcome(
    "The collector is killed, or another one leads, while the rule of an alert is met",
    "The alert fires once per crossing, because its messages are stored with the reading.",
)
@pytest.mark.parametrize("does_restart", [False, True])
def test_a_rule_fires_once_per_crossing_also_if_each_reading_has_another_collector(
    watch: Watch, does_restart: bool
) -> None:
    watch.add()
    sent = []
    for rate in (0.06, 0.01, 0.06, 0.0495, 0.06, 0.048, 0.07):
        sent.append(watch.rate(rate, after=2 * MINUTE))
        if does_restart:
            watch.restart()
    assert sent == [0, 0, 1, 1, 1, 1, 2]


def test_a_reading_that_was_not_stored_is_judged_again(watch: Watch) -> None:
    watch.add()
    watch.rate(0.01)
    high = [changed(BTC, funding_rate_pct=0.06)]
    lost = watch.conclude(BYBIT, high, 5 * SECOND)
    assert lost.alerts is not None
    assert len(lost.alerts.messages) == 1
    watch.refresh()
    assert (watch.sent, watch.rate(0.061), watch.rate(0.062)) == (0, 1, 1)


def test_a_write_that_failed_after_its_commit_is_not_repeated(watch: Watch) -> None:
    watch.add()
    watch.rate(0.01)
    high = changed(BTC, funding_rate_pct=0.06)
    watch.store(watch.conclude(BYBIT, [high], 5 * SECOND), is_confirmed=False)
    assert watch.conclude(BYBIT, [high], 5 * SECOND).alerts is None  # the database is away
    watch.refresh()
    assert watch.rate(0.061) == 1


def test_a_message_says_what_was_read_where_and_when(watch: Watch) -> None:
    watch.add(symbols=("PEPE",), measure="price", value=0.00002)
    pepe = changed(PEPE, coin="PEPE", multiplier=1000)
    watch.see(BTC, pepe)
    watch.see(BTC, changed(pepe, last_price=0.021))
    (message,) = watch.messages
    fired = message.fired
    assert (fired.symbol, fired.venue, fired.at) == ("PEPE", BYBIT, watch.at)
    assert fired.value == pytest.approx(0.000021)
    assert fired.path == "/markets/PEPE"


@pytest.mark.outcome(
    "An alert sees no value for more than five minutes",
    "It starts over with the next value, and sends no message about the time between.",
)
@pytest.mark.parametrize("does_restart", [False, True])
def test_what_happened_in_a_gap_sends_nothing_when_data_comes_back(
    watch: Watch, does_restart: bool
) -> None:
    watch.add()
    watch.rate(0.01)
    watch.at += 6 * MINUTE
    if does_restart:
        watch.restart()
    assert watch.rate(0.06) == 0
    assert watch.rate(0.01) == 0
    assert watch.rate(0.06) == 1


def test_each_exchange_has_its_own_side_and_all_share_the_limit_of_messages(watch: Watch) -> None:
    watch.add(every="1h")
    for venue in (BYBIT, HYPERLIQUID):
        watch.rate(0.0, venue)
    assert watch.rate(0.06) == 1
    assert watch.rate(0.06 / 8, HYPERLIQUID) == 1  # per hour; within the hour of the first
    watch.rate(0.0, HYPERLIQUID)
    for _ in range(14):
        watch.rate(0.0, HYPERLIQUID, after=270 * SECOND)
    assert watch.rate(0.06 / 8, HYPERLIQUID) == 2


@pytest.mark.outcome(
    "An exchange fails or returns while an alert watches a total",
    "The total keeps the exchange's last value. The alert starts over without a message.",
)
def test_a_venue_that_fails_and_comes_back_makes_no_step_in_a_total(watch: Watch) -> None:
    watch.add("open-interest", value=8e9, venue="all")
    watch.add("open-interest", "falls", 20.0, "all", within="1h")
    watch.see(BTC)
    watch.see(BTC, venue=HYPERLIQUID)
    failed = watch.judge.conclude_failure(HYPERLIQUID, Unreachable("gone"), watch.at)
    watch.store(failed)
    for _ in range(30):
        assert watch.see(BTC, after=20 * SECOND) == 0
    watch.restart()
    assert watch.see(BTC) == 0
    assert watch.see(changed(BTC, open_interest_usd=4e9), venue=HYPERLIQUID) == 0
    assert watch.see(changed(BTC, open_interest_usd=3e9)) == 0
    assert watch.see(changed(BTC, open_interest_usd=4.5e9)) == 1


def test_no_total_waits_for_long_while_an_exchange_is_away(watch: Watch) -> None:
    coins = [changed(BTC, contract=f"C{n}USDT", coin=f"C{n}") for n in range(10)]
    for coin in coins:
        watch.add(venue="all", symbols=(coin.coin,))
    for _ in range(2):
        watch.see(*coins)  # the other venue never answers
    higher = [changed(coin, funding_rate_pct=0.06) for coin in coins]
    assert [watch.see(*higher) for _ in range(2)] == [6, 10]


def test_the_mean_rate_weighs_by_open_interest(watch: Watch) -> None:
    watch.add(venue="all", value=0.02)
    watch.rate(0.01)
    watch.rate(0.01 / 8, HYPERLIQUID)
    assert watch.rate(0.029) == 0  # 0.0195
    assert watch.rate(0.031) == 1


@pytest.mark.outcome(
    "A value that crosses the limit of an alert is disputed",
    "The alert sends no message.",
)
def test_disputed_and_doubted_values_fire_nothing(watch: Watch) -> None:
    watch.add()
    watch.add("open-interest", value=6e9)
    watch.rate(0.01)
    market = watch.judge.of(BYBIT)
    market.disputed = {
        "funding": Dispute(BYBIT, "funding", watch.at, "x"),
        "open-interest": Dispute(BYBIT, "open-interest", watch.at, "x"),
    }
    for _ in range(4):  # as long as it is disputed, the reading counts as failed
        assert watch.see(changed(BTC, funding_rate_pct=0.06, open_interest_usd=7e9)) == 0
    market.disputed = {}
    jumped = changed(BTC, open_interest_usd=11e9)
    assert watch.see(jumped) == 0  # held back
    assert watch.see(changed(BTC, open_interest_usd=6.1e9)) == 1


def test_a_new_collector_takes_no_side_from_a_disputed_venue(watch: Watch) -> None:
    watch.add()
    watch.rate(0.01)
    disputes = Disputes(watch.at, (Dispute(BYBIT, "funding", watch.at, "x"),))
    watch.write(lambda tx: publish(tx, [Publication.of(DISPUTES, disputes)]))
    watch.restart()  # it has compared nothing yet
    assert (watch.rate(0.06), watch.rate(0.01), watch.rate(0.06)) == (0, 0, 1)


@pytest.mark.parametrize(
    ("when", "factor", "back"), [("rises", 1.06, 1.03), ("falls", 0.94, 1.0), ("changes", 0.9, 1)]
)
def test_changes_compare_with_the_frame_of_then(
    watch: Watch, when: When, factor: float, back: float
) -> None:
    watch.add("price", when, 5.0, within="1h")
    for _ in range(16):
        assert watch.see(BTC, after=4 * MINUTE) == 0
    moved = changed(BTC, last_price=factor * BTC.last_price)
    assert (watch.see(moved), watch.see(moved)) == (1, 1)
    watch.see(changed(BTC, last_price=back * BTC.last_price), after=4 * MINUTE)
    assert watch.see(moved, after=4 * MINUTE) == 2


def test_liquidations_are_counted_in_whole_minutes_by_side_and_coin(watch: Watch) -> None:
    watch.add("liquidations", value=1e6, venue="all", within="1h", symbols=())
    watch.add("long-liquidations", value=1e6, within="1h", symbols=("ETH",))
    watch.add("short-liquidations", value=1e6, within="1h", symbols=("BTC",))
    watch.see(BTC, ETH)
    sold = Liquidation(watch.at, "ETHUSDT", "long", 400.0, 3_000.0)
    watch.judge.of(BYBIT).liquidated([sold])
    assert watch.see(BTC, ETH) == 0  # the minute is not over
    assert watch.see(BTC, ETH, after=MINUTE) == 2
    assert watch.see(BTC, ETH, after=MINUTE) == 2


def test_settled_funding_is_judged_when_the_report_arrives(watch: Watch) -> None:
    watch.add("settled-funding", value=0.05)
    watch.at -= 2 * MINUTE
    for rate in (0.001, 0.0075):
        watch.rate(0.01)
        watch.at += 2 * MINUTE
        rates = [SettledRate("BTCUSDT", watch.at // HOUR * HOUR, rate)]
        watch.write(partial(record_settlement_reports, venue=BYBIT, rates=rates, read_at=watch.at))
        watch.at += MINUTE
        watch.refresh()
        assert watch.rate(0.01) == (rate > 0.005)  # per hour
        for _ in range(15):
            watch.rate(0.01, after=4 * MINUTE)


def test_the_widest_difference_counts_live_rates_only(watch: Watch) -> None:
    watch.add("funding-spread", value=0.03, venue="all")
    watch.rate(0.01)
    watch.rate(0.01 / 8, HYPERLIQUID)
    assert watch.rate(0.05) == 1
    watch.rate(0.01)
    for _ in range(8):
        watch.rate(0.01, after=MINUTE)
    assert watch.rate(0.05) == 1  # only one rate is known


def test_rules_change_within_seconds_and_a_paused_one_starts_over(watch: Watch) -> None:
    alert = watch.add()
    watch.rate(0.01)
    watch.write(lambda tx: set_state(tx, alert, "paused", None, watch.at))
    watch.refresh()
    assert watch.rate(0.06) == 0
    assert watch.run(stored_states(watch.database)) == []
    watch.write(lambda tx: set_state(tx, alert, "active", None, watch.at))
    watch.refresh()
    assert (watch.rate(0.06), watch.rate(0.01), watch.rate(0.06)) == (0, 0, 1)


def test_a_rule_that_has_ended_sends_nothing(watch: Watch) -> None:
    watch.add(until=AT + MINUTE)
    watch.rate(0.01)
    assert watch.rate(0.06, after=MINUTE) == 0


def test_an_alert_that_can_not_be_judged_is_logged_and_stops_no_other(
    watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    alerts = [
        watch.add(),
        watch.add("liquidations", venue="all"),  # no time to add up
        watch.add(value=None),
    ]
    watch.rate(0.01)
    assert watch.rate(0.06) == 1
    logged = " ".join(str(record.__dict__) for record in caplog.records)
    assert [each.id in logged for each in alerts] == [False, True, True]
    times = len(caplog.records)
    watch.rate(0.01)
    watch.add(symbols=("ETH",))  # which reads all rules again
    watch.rate(0.01)
    assert len(caplog.records) == times == 2, "once for each version of a rule"
    watch.execute(f"UPDATE alerts SET version = version + 999999 WHERE id = '{alerts[1].id}'")
    watch.refresh()
    watch.rate(0.01)
    assert len(caplog.records) == times + 1
