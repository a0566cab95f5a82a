"""Which venue is in use, and what changes with it."""

from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from barograph.board.feeds import Feed
from barograph.briefs.texts import labelled
from barograph.collector.judge import Conclusion, Judge
from barograph.errors import (
    Disputed,
    Forbidden,
    InvalidReply,
    Throttled,
    Unreachable,
    UpstreamError,
)
from barograph.kit.timestamps import DAY, MINUTE, SECOND
from barograph.markets.disputes import Dispute, Disputes, DisputeTracker
from barograph.markets.failover import HEALTHY, Failover, Switch, VenueInUse
from barograph.markets.view import (
    DAY_AGO,
    EXCHANGE_HEALTH,
    LIQUIDATIONS,
    LONG_ACCOUNTS,
    PERPETUALS,
    REGIME,
)
from barograph.settings import Settings
from barograph.venue_names import VENUE_NAMES
from barograph.venues.records import LongAccounts, Perpetuals
from barograph.venues.registry import BINANCE, BYBIT, HYPERLIQUID, VENUES, coin_of, source_of
from support.clock import START
from support.markets import BTC, changed, reading

R = TypeVar("R", bound=msgspec.Struct)

LIMIT = 30 * SECOND
POLL = 5 * SECOND
ORDER = ("bybit", "hyperliquid", "binance")


@pytest.fixture
def failover() -> Failover:
    return Failover(ORDER, LIMIT, START, "bybit")


def fail(
    failover: Failover, kinds: list[type[UpstreamError]], others: tuple[str, ...] = ORDER[1:]
) -> list[Switch]:
    """Let the primary fail at each poll while others are read; return the switches."""
    switches = []
    for number, kind in enumerate(kinds, start=1):
        now = START + number * POLL
        switches += [failover.succeeded(venue, now) for venue in others]
        switches.append(failover.failed("bybit", kind.kind, now))
    return [switch for switch in switches if switch is not None]


@pytest.mark.outcome(
    "The primary venue refuses this address (geo-block)",
    "After three refused readings, the next venue takes its place in all single-venue data. "
    "An event, a brief "
    "and the status page say so.",
)
def test_three_refusals_switch_to_the_next_venue(failover: Failover) -> None:
    assert fail(failover, [Forbidden] * 2) == []
    (switch,) = fail(failover, [Forbidden])
    assert switch[1:3] == ("bybit", "hyperliquid")
    assert "refused 3 readings" in switch.reason


def test_other_failures_switch_at_the_freshness_limit(failover: Failover) -> None:
    assert fail(failover, [Unreachable] * 5) == []
    (switch,) = fail(failover, [Unreachable] * 6)
    assert (switch.at, switch.after) == (START + LIMIT, "hyperliquid")


@pytest.mark.outcome(
    "The primary venue throttles us",
    "The venue stays in use. Readers get 502 once its data is past the freshness limit.",
)
def test_throttling_alone_never_switches(failover: Failover) -> None:
    assert fail(failover, [Throttled] * 100) == []
    assert fail(failover, [Throttled, InvalidReply] * 4) != []


def test_the_venue_that_returns_first_is_named(failover: Failover) -> None:
    fail(failover, [Unreachable] * 20, others=("binance",))
    first = START + 21 * POLL
    for number, venue in enumerate(["hyperliquid", "bybit"]):
        failover.succeeded(venue, first + number * POLL)
    assert failover.in_use == "binance"
    assert failover.back(first + POLL) == (first + HEALTHY, "hyperliquid")


def test_only_a_venue_that_answers_takes_over(failover: Failover) -> None:
    assert fail(failover, [Unreachable] * 20, others=()) == []
    (switch,) = fail(failover, [Unreachable] * 20, others=("binance",))
    assert switch.after == "binance"


def test_a_venue_that_begins_to_fail_a_little_later_does_not_take_over(failover: Failover) -> None:
    began = START + MINUTE
    failover.succeeded("bybit", began - 4 * SECOND)
    failover.succeeded("hyperliquid", began - SECOND)
    failover.succeeded("binance", began)
    limit = began - 4 * SECOND + LIMIT
    assert failover.failed("bybit", Unreachable.kind, began + SECOND) is None
    assert failover.failed("hyperliquid", Unreachable.kind, limit) is None
    assert failover.failed("bybit", Unreachable.kind, limit + SECOND) is None


def test_the_first_venue_after_an_outage_of_all_waits_for_the_primary(failover: Failover) -> None:
    end = START + 10 * MINUTE
    for venue in ORDER:
        failover.failed(venue, Unreachable.kind, end - POLL)
    for now in range(end, end + LIMIT, POLL):
        assert failover.succeeded("hyperliquid", now) is None
    failover.succeeded("hyperliquid", end + LIMIT)
    assert failover.in_use == "hyperliquid"


def test_the_primary_is_used_again_after_fifteen_healthy_minutes(failover: Failover) -> None:
    fail(failover, [Forbidden] * 3)
    back = START + MINUTE
    for now in range(back, back + HEALTHY + POLL, POLL):
        assert failover.in_use == "hyperliquid"
        failover.succeeded("hyperliquid", now)
        is_expected = back < now < back + HEALTHY and now != back + 5 * MINUTE + POLL
        assert failover.back(now) == ((back + HEALTHY, "bybit") if is_expected else None)
        if now == back + 5 * MINUTE:
            failover.failed("bybit", Unreachable.kind, now)  # one failed reading is no outage
        else:
            failover.succeeded("bybit", now)
    assert failover.in_use == "bybit"


@pytest.mark.parametrize("kind", [Unreachable.kind, Disputed.kind])
def test_the_primary_is_not_used_again_while_its_newest_reading_failed(
    failover: Failover, kind: str
) -> None:
    fail(failover, [Forbidden] * 3)
    back = START + MINUTE
    for now in range(back, back + HEALTHY, POLL):
        failover.succeeded("hyperliquid", now)
        failover.succeeded("bybit", now)
    failover.failed("bybit", kind, back + HEALTHY)
    failover.succeeded("hyperliquid", back + HEALTHY)
    assert failover.in_use == "hyperliquid"
    failover.succeeded("bybit", back + HEALTHY + POLL)
    assert failover.in_use == "bybit"


def test_a_refusal_or_a_gap_starts_the_fifteen_minutes_again(failover: Failover) -> None:
    fail(failover, [Forbidden] * 3)
    for now in (START + MINUTE, START + HEALTHY, START + MINUTE + HEALTHY):
        assert failover.succeeded("bybit", now) is None
    assert failover.in_use == "hyperliquid"


def test_a_clock_that_was_set_back_does_not_keep_a_venue_that_fails(failover: Failover) -> None:
    for venue in ORDER:
        failover.succeeded(venue, START + HEALTHY)
    assert failover.failed("bybit", Unreachable.kind, START) is None  # none was read by this clock
    for now in range(START + POLL, START + POLL + LIMIT, POLL):
        assert failover.succeeded("binance", now) is None
    failover.succeeded("binance", START + POLL + LIMIT)
    assert failover.in_use == "binance"


# The judge publishes what the state machine decides.


def venue_reading(at: int, venue: str, **fields: Any) -> Perpetuals:
    base = VENUES[venue]
    bitcoin = changed(BTC, contract=base.contract("BTC"), quote=base.quote, **fields)
    found = reading(at, (bitcoin,))
    return replace(found, venue=venue, source=source_of(venue, "Bybit"))


def feeds(conclusion: Conclusion | None) -> dict[str, str]:
    """What a conclusion publishes, by feed."""
    assert conclusion is not None
    return {each.feed: each.payload for each in conclusion.market.publications}


def published(conclusion: Conclusion | None, feed: Feed[R]) -> R:
    value = feed.decode(feeds(conclusion)[feed.name])
    assert value is not None
    return value


@pytest.fixture
def judge() -> Judge:
    judge = Judge(Settings(venues="bybit,hyperliquid"))
    for venue in (BYBIT, HYPERLIQUID):
        judge.written(judge.conclude(venue_reading(START, venue), START))
    return judge


def refuse(judge: Judge, times: int = 3) -> Conclusion:
    for number in range(1, times + 1):
        found = judge.conclude_failure(BYBIT, Forbidden("blocked"), START + number * SECOND)
        if number < times:
            judge.written(found)
    return found


def test_a_venue_that_is_not_in_use_publishes_to_its_own_feeds(judge: Judge) -> None:
    found = judge.conclude(venue_reading(START + POLL, HYPERLIQUID), START + POLL)
    assert PERPETUALS.name not in feeds(found)
    own = published(found, PERPETUALS.of(HYPERLIQUID))
    assert (own.venue, found.signals, list(found.briefs)) == (HYPERLIQUID, None, [])


def test_a_switch_publishes_everything_of_the_new_venue_at_once(judge: Judge) -> None:
    found = refuse(judge)
    assert EXCHANGE_HEALTH.of(BYBIT).name in feeds(found)
    plain = published(found.also, PERPETUALS)
    assert plain.source == "Hyperliquid public data (USD perpetuals, mark prices)"
    others = {REGIME.name, EXCHANGE_HEALTH.name, PERPETUALS.of(BYBIT).name}
    assert others <= feeds(found.also).keys()
    assert found.also is not None
    assert found.also.in_use == VenueInUse(
        HYPERLIQUID, START + 3 * SECOND, BYBIT, "refused 3 readings in a row"
    )
    assert found.also.signals is not None
    assert found.also.signals.signals.source.startswith("Hyperliquid")
    assert [each.rule for each in found.also.briefs] == ["venue-switch"]
    kinds = [each.type for each in found.also.events]
    assert kinds[0] == "venue.switched"
    assert "feed.down" not in kinds


def test_a_switch_that_was_not_stored_is_part_of_the_next_conclusion(judge: Judge) -> None:
    refuse(judge)  # not written
    at = START + 2 * POLL
    found = judge.conclude(venue_reading(at, HYPERLIQUID), at)
    assert found.in_use is not None
    assert "venue.switched" in [each.type for each in found.events]
    assert [each.rule for each in found.briefs] == ["venue-switch"]
    assert found.signals is not None
    assert found.signals.signals.source.startswith("Hyperliquid")
    judge.written(found)
    later = judge.conclude(venue_reading(at + POLL, HYPERLIQUID), at + POLL)
    assert (later.in_use, list(later.briefs), later.events) == (None, [], [])


def test_a_venue_that_fails_before_its_takeover_is_stored_publishes_all(judge: Judge) -> None:
    refuse(judge)  # not written
    found = judge.conclude_failure(HYPERLIQUID, Unreachable("down"), START + POLL)
    names = {each.name for each in (PERPETUALS, LIQUIDATIONS, REGIME, DAY_AGO, LONG_ACCOUNTS)}
    assert names <= feeds(found).keys()
    assert found.also is None  # or its liquidations would count as stored twice
    late = judge.conclude_failure(HYPERLIQUID, Unreachable("down"), START + 2 * LIMIT)
    assert "feed.recovered" not in [each.type for each in late.events]
    assert published(found, EXCHANGE_HEALTH).failure == Unreachable.kind


def test_the_venue_that_was_left_keeps_its_newest_state(judge: Judge) -> None:
    refuse(judge)  # not written
    at = START + POLL
    found = judge.conclude(venue_reading(at, BYBIT), at)
    assert published(found.also, PERPETUALS.of(BYBIT)).as_of == at


@pytest.mark.outcome(
    "Every exchange fails, and another one than before comes back first",
    "Events and a brief report the outage from the last reading that readers had.",
)
def test_an_outage_of_all_venues_is_counted_from_the_reading_that_readers_had(judge: Judge) -> None:
    for now in (START + POLL, START + 10 * LIMIT):
        for venue in (HYPERLIQUID, BYBIT):
            judge.written(judge.conclude_failure(venue, Unreachable("down"), now))
    at = START + 12 * LIMIT
    for now in range(at - LIMIT, at, POLL):
        judge.written(judge.conclude(venue_reading(now, HYPERLIQUID), now))
    found = judge.conclude(venue_reading(at, HYPERLIQUID), at)
    events = {each.type: each for each in found.events}
    down, recovered = events["feed.down"], events["feed.recovered"]
    assert down.cause == recovered.cause == f"bybit/{START}"
    assert (down.members["venue"], recovered.members["venue"]) == (BYBIT, HYPERLIQUID)
    (gap,) = [each for each in found.briefs if each.rule == "outage"]
    assert gap.window_start == START


def test_a_switch_never_tells_that_the_venue_that_is_down_has_recovered(judge: Judge) -> None:
    told: set[tuple[str, Any]] = set()  # the log drops repetitions
    for now in range(START + POLL, START + 2 * LIMIT, POLL):
        for venue in (BYBIT, HYPERLIQUID):
            if venue == BYBIT:
                found = judge.conclude_failure(BYBIT, Unreachable("down"), now)
            else:
                found = judge.conclude(venue_reading(now, HYPERLIQUID), now)
            events = [*found.events, *([] if found.also is None else found.also.events)]
            told |= {(each.type, each.members.get("venue")) for each in events}
            judge.written(found)
    assert {each for each in told if each[0].startswith(("feed.", "venue."))} == {
        ("feed.down", BYBIT),
        ("venue.switched", HYPERLIQUID),
        ("feed.recovered", HYPERLIQUID),
    }


def test_a_switch_tells_the_change_of_the_published_regime_once() -> None:
    judge = Judge(Settings(venues="bybit,hyperliquid"))
    hot = venue_reading(START, HYPERLIQUID, funding_rate_pct=9.0)
    for each in (venue_reading(START, BYBIT), hot):
        judge.written(judge.conclude(each, START))
    refuse(judge)  # not written
    for now in (START + POLL, START + 2 * POLL):
        found = judge.conclude(replace(hot, as_of=now), now)
        (change,) = [each for each in found.events if each.type == "regime.changed"]
        assert (change.members["previous"], change.members["label"]) == ("neutral", "long-crowded")


def test_totals_of_liquidations_and_long_accounts_do_not_fail_over() -> None:
    judge = Judge(Settings(venues="bybit,binance"))
    judge.of(BINANCE).sampled(LongAccounts("BTCUSDT", 70.0, START))
    for venue in (BYBIT, BINANCE):
        judge.written(judge.conclude(venue_reading(START, venue), START))
    also = refuse(judge).also
    assert also is not None
    assert also.signals is not None
    basis = {each.key: each.basis for each in also.signals.signals.signals}
    assert basis["liquidation-pressure"] == "Unavailable while this venue is in use."
    assert basis["btc-long-accounts"] == "Unavailable while this venue is in use."
    assert also.market.evidence is not None
    assert also.market.evidence.long_account_pct == {}


def test_a_venue_is_judged_by_its_own_rate_and_regime(judge: Judge) -> None:
    at = START + POLL
    judge.written(judge.conclude(venue_reading(at, HYPERLIQUID, funding_rate_pct=9.0), at))
    assert published(refuse(judge).also, REGIME).funding_8h_pct == 9.0


COINS = [f"C{number}" for number in range(12)]


def many(at: int, venue: str, *, funding: float = 1.0, interest: float = 1.0) -> Perpetuals:
    """A reading of BTC and twelve coins; the factors distort it."""
    hours = 1.0 if venue == HYPERLIQUID else 8.0
    contracts = tuple(
        changed(
            BTC,
            base=base,
            contract=VENUES[venue].contract(base),
            funding_rate_pct=0.01 * hours / 8 * funding,
            funding_interval_hours=hours,
            open_interest_usd=5e6 * interest,
            open_interest_coins=1e3 * interest,
        )
        for base in ("BTC", *COINS)
    )
    return replace(reading(at, contracts), venue=venue, source=venue)


UNTIL = START + 24 * MINUTE


def disputed_judge(venues: str = "bybit,hyperliquid", **distorted: float) -> Judge:
    """Two venues agree for twenty minutes; then Bybit is distorted for four."""
    judge = Judge(Settings(venues=venues))
    for now in range(START, UNTIL, POLL):
        wrong = distorted if now >= START + 20 * MINUTE else {}
        judge.written(judge.conclude(many(now, HYPERLIQUID), now))
        judge.written(judge.conclude(many(now, BYBIT, **wrong), now))
    return judge


@pytest.mark.outcome(
    "Funding or prices of the venue in use are disputed",
    "Its readings count as failed: another venue takes over at the freshness limit, or "
    "readers get 502.",
)
def test_a_venue_with_disputed_funding_is_left_at_the_freshness_limit() -> None:
    assert disputed_judge(funding=100.0).in_use == HYPERLIQUID


def test_a_reading_with_rates_in_another_unit_counts_as_failed_at_once() -> None:
    judge = Judge(Settings(venues="bybit"))
    judge.written(judge.conclude(many(START, BYBIT), START))
    at = START + POLL
    conclusion = judge.conclude(many(at, BYBIT, funding=100.0), at)

    assert published(conclusion, EXCHANGE_HEALTH).failure == Disputed.kind


def test_disputed_open_interest_of_the_venue_in_use_is_unknown() -> None:
    judge = disputed_judge(interest=2.0)
    conclusion = judge.conclude(many(UNTIL, BYBIT, interest=2.0), UNTIL)
    contracts = published(conclusion, PERPETUALS).contracts
    assert {contract.open_interest_usd for contract in contracts} == {None}
    assert judge.in_use == BYBIT


def test_disputed_readings_are_recorded_with_their_mark_and_so_are_those_before() -> None:
    judge = disputed_judge("hyperliquid,bybit", interest=2.0)
    conclusion = judge.conclude(many(UNTIL, BYBIT, interest=2.0), UNTIL)
    assert {row.disputed for row in conclusion.market.readings} == {"open-interest"}
    assert not conclusion.disputes  # marked when the dispute began

    judge = Judge(Settings(venues="hyperliquid,bybit"))
    unmarked: list[Dispute] = []
    last_good, first_wrong = START + 19 * MINUTE, START + 22 * MINUTE  # an outage between them
    for now in range(START, UNTIL + MINUTE, POLL):
        readings = [many(now, HYPERLIQUID)]
        if not last_good < now < first_wrong:
            readings.append(many(now, BYBIT, interest=2.0 if now >= first_wrong else 1.0))
        for each in readings:
            conclusion = judge.conclude(each, now)
            unmarked += conclusion.disputes
            judge.written(conclusion)
    assert [(each.venue, each.measure) for each in unmarked] == [(BYBIT, "open-interest")]
    assert last_good - MINUTE < unmarked[0].since <= last_good


def test_disputed_sides_mark_no_reading_but_the_time_of_the_dispute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Disputes(START, (Dispute(BYBIT, "liquidation-side", START, "sides"),))
    monkeypatch.setattr(DisputeTracker, "compare", lambda *_: found)
    judge = Judge(Settings(venues="bybit,binance"))
    conclusion = judge.conclude(many(START, BYBIT), START + POLL)
    assert conclusion.disputes == ()
    assert {row.disputed for row in conclusion.market.readings} == {""}
    assert len(conclusion.market.frames) == 1

    assert conclusion.market.disputed_sides == [(START, START + POLL)]
    failed = judge.conclude_failure(BYBIT, Forbidden("no"), START + 2 * POLL)
    assert failed.market.disputed_sides == [(START, START + 2 * POLL)]
    monkeypatch.setattr(DisputeTracker, "compare", lambda *_: Disputes(START + 3 * POLL))
    for later in (START + 3 * POLL, START + 2 * DAY):
        over = judge.conclude(many(later, BYBIT), later)
        is_known = published(over, LIQUIDATIONS).by_contract is not None
        assert (over.market.disputed_sides, is_known) == ([], later == START + 2 * DAY)


def test_sides_of_liquidations_that_are_disputed_are_unknown_also_while_a_venue_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disputes = [Dispute(BYBIT, each, START, "wrong") for each in ("price", "liquidation-side")]
    monkeypatch.setattr(DisputeTracker, "compare", lambda *_: Disputes(START, tuple(disputes)))
    conclusion = Judge(Settings(venues="bybit,binance")).conclude(many(START, BYBIT), START)
    assert published(conclusion, EXCHANGE_HEALTH).failure == Disputed.kind
    assert published(conclusion, LIQUIDATIONS).by_contract is None


def test_a_disputed_venue_takes_no_other_venue_s_place() -> None:
    judge = disputed_judge("hyperliquid,bybit", interest=2.0)
    for number in range(4):
        judge.written(judge.conclude_failure(HYPERLIQUID, Forbidden("no"), UNTIL + number * POLL))
    assert judge.in_use == HYPERLIQUID


def test_the_settings_name_the_venues_that_are_known() -> None:
    assert [venue.name for venue in VENUES.values()] == list(VENUE_NAMES)
    assert Settings(venues=" hyperliquid , bybit").venue_names == (HYPERLIQUID, BYBIT)
    for wrong in ("", "nowhere", "bybit,bybit", "bybit,"):
        with pytest.raises(ValueError, match="name each venue once"):
            Settings(venues=wrong)


@pytest.mark.parametrize(
    ("venue", "base", "coin", "multiplier"),
    [
        ("bybit", "1000PEPE", "PEPE", 1000),
        ("bybit", "SHIB1000", "SHIB", 1000),
        ("bybit", "1INCH", "1INCH", 1),
        ("bybit", "1000000BABYDOGE", "BABYDOGE", 10**6),
        ("binance", "1MBABYDOGE", "BABYDOGE", 10**6),
        ("binance", "牛来", "牛来", 1),
        ("binance", "1000牛来", "牛来", 1000),
        ("hyperliquid", "kPEPE", "PEPE", 1000),
        ("hyperliquid", "KAS", "KAS", 1),
    ],
)
def test_a_coin_is_found_without_its_multiplier(
    venue: str, base: str, coin: str, multiplier: int
) -> None:
    assert coin_of(venue, base) == (coin, multiplier)


def test_a_brief_about_a_switch_names_venues_by_their_titles() -> None:
    inputs = {"before": "bybit", "after": "hyperliquid"}
    assert [*labelled(inputs)] == [("Venue before", "Bybit"), ("Venue after", "Hyperliquid")]
