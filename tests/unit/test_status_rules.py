"""What the status says about everybody's health."""

from typing import Any

import pytest
from msgspec.structs import replace

from barograph.history.records import CurrentStance, NotIssuedYet, Stances
from barograph.history.witnesses import WitnessState
from barograph.kit.timestamps import HOUR, MINUTE, iso_timestamp
from barograph.macro.records import MacroHealth, SourceHealth
from barograph.markets.disputes import Dispute, Disputes
from barograph.markets.failover import VenueInUse
from barograph.markets.liquidations import LiquidationTotals, LiquidationTracker
from barograph.markets.reader import freshness_limits
from barograph.markets.records import BackfillProgress, ExchangeHealth, LongAccountShares
from barograph.settings import Settings
from barograph.status.rules import (
    BACKFILL_FAILING_MS,
    Check,
    Reachability,
    ServiceStatus,
    StandbyVenue,
    StatusInputs,
    assess,
)
from barograph.terms.sources import Unconfirmed
from support.clock import START
from support.markets import BTC, ETH, SOL, reading, shares

LIMITS = freshness_limits(Settings.model_validate({}))
NOW = START + 2_000
WELL = StatusInputs(
    now=NOW,
    started_at=START - 60_000,
    version="1.2.3",
    limits=LIMITS,
    polled_at=NOW - 250,
    perpetuals=reading(START),
    shares=LongAccountShares({share.contract: share for share in shares(START)}),
    liquidations=LiquidationTotals(START, 99.5, 1_000.0, 60.0, "BTC", START),
    health=ExchangeHealth(START),
    backfill=BackfillProgress(START, total=467, done=467),
)


COSIGNED = WitnessState("log.example/b", "first", 7, START, "", False, None)


def away(minutes: int) -> WitnessState:
    return WitnessState(
        "log.example/a", "first", 0, None, "it failed", False, NOW - minutes * MINUTE
    )


def check(status: ServiceStatus, name: str) -> Check:
    (found,) = [each for each in status.checks if each.name == name]
    return found


def verdict(seen: StatusInputs, name: str) -> str:
    return check(assess(seen), name).status


@pytest.mark.parametrize(
    ("reach", "condition", "identity", "payments"),
    [
        (None, "not_configured", "not configured", "this instance does not sell Feed by x402"),
        (Reachability(), "ok", "not called yet", "not called yet"),
        (Reachability(START), "ok", *["answered at 2026-11-06T21:20:00.000Z"] * 2),
        (Reachability(START, NOW), "degraded", *["unreachable since 2026-11-06T21:20:02.000Z"] * 2),
        (
            Reachability(None, START),
            "degraded",
            *["unreachable since 2026-11-06T21:20:00.000Z"] * 2,
        ),
        (
            Reachability(START, START, NOW),
            "degraded",
            *["unreachable since 2026-11-06T21:20:00.000Z, last tried at 2026-11-06T21:20:02.000Z"]
            * 2,
        ),
        (
            Reachability(START, START, NOW, "empty"),
            "degraded",
            "empty; failing since 2026-11-06T21:20:00.000Z, last tried at 2026-11-06T21:20:02.000Z",
            "empty; failing since 2026-11-06T21:20:00.000Z, last tried at 2026-11-06T21:20:02.000Z",
        ),
    ],
)
def test_who_is_asked_by_some_requests_only_is_told_as_far_as_it_is_known(
    reach: Reachability | None, condition: str, identity: str, payments: str
) -> None:
    status = assess(WELL._replace(identity=reach, payments=reach))

    assert [tuple(check(status, name))[1:] for name in ("identity", "payments")] == [
        (("status", condition), ("detail", identity)),
        (("status", condition), ("detail", payments)),
    ]
    overall = "degraded" if condition == "degraded" else "ok"
    assert (status.status, status.api.status, status.feed.status) == (overall, "ok", "ok")


@pytest.mark.outcome(
    "A publisher of daily figures fails",
    "The collector reads the others and retries. `/api/status` shows the kind of failure and "
    "its start.",
)
def test_a_source_of_figures_that_fails_is_named() -> None:
    sources = {
        "sofr": SourceHealth(NOW, newest_day="2026-11-13"),
        "treasury": SourceHealth(NOW, "unreachable", NOW - 60_000, "2026-11-12"),
    }
    status = assess(WELL._replace(macro=MacroHealth(sources)))

    assert check(status, "daily-figures").status == "degraded"
    since = iso_timestamp(NOW - 60_000)
    assert check(status, "daily-figures").detail == f"treasury unreachable since {since}"
    for left, condition in (({"sofr": sources["sofr"]}, "ok"), ({}, "not_configured")):
        assert verdict(WELL._replace(macro=MacroHealth(left)), "daily-figures") == condition


LOST = CurrentStance(
    kind="rates-desk",
    leg_id="rates-desk:2026-11-13T00:00:00.000Z",
    revision=1,
    issued_at=NOW,
    expires_at=NOW + 1,
    leg="{}",
    history_durable=False,
    history_digest=None,
    sequence=None,
    previous_digest=None,
    salt=None,
)


@pytest.mark.outcome(
    "A stance has no fresh evidence or can't be recorded",
    "`/api/status` names the kind and the reason.",
)
def test_a_stance_that_is_not_issued_or_not_recorded_is_named() -> None:
    long_running = WELL._replace(started_at=START - HOUR)
    silent = assess(long_running._replace(stances=Stances(NOW, (), {"rates-desk": "no yields"})))
    assert check(silent, "stances").status == "degraded"
    assert check(silent, "stances").detail == "rates-desk: no yields"

    assert check(assess(WELL._replace(stances=Stances(NOW, (LOST,), {}))), "stances").detail == (
        "not recorded: rates-desk"
    )
    old = replace(LOST, expires_at=NOW, history_durable=True)
    found = check(assess(WELL._replace(stances=Stances(NOW, (old,), {}))), "stances")
    assert (found.status, found.detail) == ("degraded", "expired: rates-desk")


NO_SOURCE = NotIssuedYet("no source is configured")
KNOWN_DAYS = "days are known; the operator can add earlier days: barograph macro import FILE"


@pytest.mark.parametrize(
    ("waiting", "etf"),
    [
        (NO_SOURCE, ("not_configured", NO_SOURCE.why)),
        (
            NotIssuedYet("3 of 20 days are known", NOW + 1),
            ("warming_up", f"warming up until 2026-11-06T21:21:00.000Z: 3 of 20 {KNOWN_DAYS}"),
        ),
    ],
)
@pytest.mark.outcome(
    "Fewer than 20 days of ETF figures are known",
    "No ETF stance. `/api/status` shows `warming_up`, the known days, and how to import "
    "earlier ones.",
)
def test_a_stance_that_waits_for_a_source_or_for_more_days_is_no_failure(
    waiting: NotIssuedYet, etf: tuple[str, str]
) -> None:
    stances = Stances(NOW, (), {}, waiting={"btc-etf-stance": waiting})
    status = assess(WELL._replace(stances=stances))
    found, issued = check(status, "etf-flows"), check(status, "stances")

    assert (found.status, found.detail) == etf
    assert issued.status == status.status == "ok"
    assert issued.detail == f"issued and recorded; btc-etf-stance: {waiting.why}"


def test_etf_flows_that_are_too_old_are_a_failure() -> None:
    why = "the newest holdings are from 2026-10-30"
    status = assess(WELL._replace(stances=Stances(NOW, (), {"btc-etf-stance": why})))

    found = [check(status, name).status for name in ("etf-flows", "stances")]
    assert found == ["degraded", "ok"]  # one cause, one incident
    assert check(status, "etf-flows").detail == why


def test_etf_days_are_not_waited_for_while_their_source_fails() -> None:
    waiting = {"btc-etf-stance": NotIssuedYet("0 of 20 days are known", NOW + HOUR)}
    sources = {"etf-ibit": SourceHealth(NOW, "unreachable", NOW)}
    stances = Stances(NOW, (), {}, waiting=waiting)
    seen = WELL._replace(stances=stances, macro=MacroHealth(sources))

    assert verdict(seen, "etf-flows") == "degraded"
    assert verdict(seen._replace(macro=None), "etf-flows") == "warming_up"


@pytest.mark.parametrize(
    ("seen", "name"),
    [(WELL._replace(unsigned="why"), "history"), (WELL._replace(wrong_clock="why"), "database")],
)
def test_an_unsigned_history_or_a_wrong_clock_degrades_and_says_why(
    seen: StatusInputs, name: str
) -> None:
    found = check(assess(seen), name)

    assert (found.status, found.detail) == ("degraded", "why")


def test_a_silent_collector_is_degraded_and_says_for_how_long() -> None:
    now = START + 30_000
    status = assess(WELL._replace(now=now, polled_at=now))

    assert check(status, "collector").status == "degraded"
    assert check(status, "collector").detail == "has not reported for 30 s"
    assert verdict(WELL._replace(now=START + 29_999), "collector") == "ok"


def test_a_share_past_its_bound_counts_as_missing() -> None:
    assert WELL.shares is not None
    old = replace(WELL.shares.shares["BTCUSDT"], sampled_at=NOW - LIMITS.long_accounts)
    seen = WELL._replace(shares=LongAccountShares({**WELL.shares.shares, "BTCUSDT": old}))

    assert check(assess(seen), "long-accounts").detail == "no fresh share for BTC"


def test_other_contracts_need_no_share() -> None:
    assert verdict(WELL, "long-accounts") == "ok"
    assert verdict(WELL._replace(perpetuals=reading(START, (BTC, ETH, SOL))), "long-accounts") == (
        "ok"
    )


@pytest.mark.parametrize(
    ("fields", "condition"),
    [
        ({"watched_pct": 95.0}, "ok"),
        ({"watched_pct": 94.99}, "degraded"),
        ({"watched_pct": 0.0}, "degraded"),
        ({"as_of": NOW - LIMITS.liquidations}, "degraded"),
        ({"as_of": NOW - LIMITS.liquidations + 1}, "ok"),
        ({"watched_until": NOW - LIMITS.liquidations}, "degraded"),
        ({"watched_until": None}, "degraded"),
        ({"total_usd": 0.0, "long_pct": None, "top_asset": None}, "ok"),
    ],
)
def test_liquidations_need_coverage_and_freshness_but_not_events(
    fields: dict[str, Any], condition: str
) -> None:
    assert WELL.liquidations is not None
    seen = WELL._replace(liquidations=replace(WELL.liquidations, **fields))

    assert verdict(seen, "liquidations") == condition


def test_too_little_coverage_is_said_with_what_is_needed() -> None:
    seen = WELL._replace(liquidations=LiquidationTotals(START, 12.5, 0.0, None, None, START))
    status = assess(seen)

    assert check(status, "liquidations").detail == (
        "12.5 % of the last 24 hours covered, 95 % needed"
    )
    assert (status.status, status.feed.status) == ("degraded", "ok")


def test_contracts_of_other_classes_or_without_a_topic_are_counted_and_no_failure() -> None:
    left_out = {"commodity": 20, "stock": 180, "weather": 2}
    found = replace(reading(START), left_out=left_out, unknown_classes=["weather"])
    status = assess(WELL._replace(perpetuals=replace(found, unwatched=["PEPEUSDT", "SOLUSDT"])))
    exchange, liquidations = check(status, "exchange"), check(status, "liquidations")

    assert exchange.status == liquidations.status == "ok"
    assert exchange.detail == (
        "the last reading succeeded; left out 202 contracts that are not crypto: 180 stock, "
        "20 commodity, 2 weather; this version does not know the class weather"
    )
    assert liquidations.detail.endswith("covered; contracts without a liquidation topic: 2")


def test_values_that_were_refused_are_counted_by_field() -> None:
    refused = {"lastPrice": ["BTCUSDT", "ETHUSDT"], "openInterestUsd": ["SOLUSDT"]}
    status = assess(WELL._replace(perpetuals=replace(reading(START), refused=refused)))

    assert check(status, "exchange") == Check(
        name="exchange",
        status="degraded",
        detail="values out of range are not shown: 2 of lastPrice, 1 of openInterestUsd",
    )


@pytest.mark.outcome(
    "An instance has tracked liquidations for less than a day",
    "`/api/status` shows `warming_up` and until when, the home page a countdown. That is no "
    "failure.",
)
@pytest.mark.parametrize(
    ("hours", "missed", "condition", "ready_at"),
    [
        (0, 0, "warming_up", "2026-11-07T20:08:00.000Z"),
        (12, 0, "warming_up", "2026-11-07T08:08:00.000Z"),
        (12, 1, "warming_up", "2026-11-07T09:08:00.000Z"),  # a restart that took an hour
        (12, 2, "degraded", None),  # more than the first day may miss
        (23, 2, "degraded", None),
        (30, 2, "degraded", None),  # a stream that was lost after the first day
    ],
)
def test_the_first_day_of_liquidations_warms_up_and_a_lost_stream_is_a_failure(
    hours: int, missed: int, condition: str, ready_at: str | None
) -> None:
    middle = START - hours * HOUR // 2
    spans = [(START - hours * HOUR, middle), (middle + missed * HOUR, START)]
    totals = LiquidationTracker(95.0, spans=spans).totals(START, {})
    status = assess(WELL._replace(liquidations=totals))
    found = check(status, "liquidations")

    assert (found.status, status.status) == (condition, "ok" if ready_at else condition)
    assert found.detail.startswith("" if ready_at is None else f"warming up until {ready_at}: ")


@pytest.mark.parametrize(("passed", "condition"), [(0, "warming_up"), (1, "degraded")])
def test_a_first_connection_that_is_never_heard_from_is_a_failure(
    passed: int, condition: str
) -> None:
    began = NOW - LIMITS.liquidations + 1 - passed
    totals = LiquidationTracker(95.0, since=began).totals(NOW, {})

    assert verdict(WELL._replace(liquidations=totals), "liquidations") == condition


def test_unconfirmed_source_is_not_configured_and_no_failure() -> None:
    unconfirmed = Unconfirmed(("hyperliquid", "treasury", "selling"))
    others = {"hyperliquid": StandbyVenue(None, None, None)}
    status = assess(WELL._replace(unconfirmed=unconfirmed, payments=None, others=others))
    checks = {each.name: each for each in status.checks}
    assert len(checks) == len(status.checks)

    assert status.status == "ok"
    assert checks["payments"].status == "not_configured"
    for name in ("hyperliquid", "treasury"):
        assert checks[name].status == "not_configured"
        assert f"add {name} to BAROGRAPH_ACCEPT_TERMS" in checks[name].detail
    assert "add selling to BAROGRAPH_ACCEPT_TERMS" in checks["payments"].detail


def test_flows_whose_terms_are_not_confirmed_have_a_source() -> None:
    stances = Stances(NOW, (), {}, waiting={"btc-etf-stance": NO_SOURCE})
    inputs = WELL._replace(stances=stances, unconfirmed=Unconfirmed(("ishares",)))
    found = check(assess(inputs), "etf-flows")

    assert found.status == "not_configured"
    assert "terms are not confirmed" in found.detail


def test_a_venue_that_was_in_use_before_the_order_changed_needs_no_reason() -> None:
    found = assess(WELL._replace(in_use=VenueInUse("hyperliquid", NOW)))
    since = iso_timestamp(NOW)
    assert check(found, "venue").detail == f"hyperliquid has been in use since {since}"


def test_each_dispute_between_venues_is_named_and_degrades_the_service() -> None:
    dispute = Dispute("binance", "open-interest", NOW - MINUTE, "it doubled")
    several = WELL._replace(venues=2)
    disputed = assess(several._replace(disputes=Disputes(NOW, (dispute,))))

    assert verdict(WELL, "cross-venue") == "not_configured"
    assert verdict(several, "cross-venue") == "warming_up"
    young = Disputes(NOW, ready_at=NOW + 1)
    assert verdict(several._replace(disputes=young), "cross-venue") == "warming_up"
    assert verdict(several._replace(disputes=Disputes(NOW)), "cross-venue") == "ok"
    assert disputed.status == check(disputed, "cross-venue").status == "degraded"
    assert check(disputed, "cross-venue").detail == (
        "binance open-interest disputed since 2026-11-06T21:19:02.000Z: it doubled"
    )


def test_a_backfill_warms_up_until_it_is_ready_and_degrades_only_when_it_keeps_failing() -> None:
    def seen(progress: BackfillProgress | None, now: int = NOW) -> tuple[str, str]:
        found = check(assess(WELL._replace(now=now, backfill=progress)), "backfill")
        return found.status, found.detail

    assert seen(None) == ("warming_up", "it starts after the first reading")
    begun = BackfillProgress(NOW, total=467, done=120)
    done = "120 of 467 contracts are back-filled"
    assert seen(begun) == ("warming_up", done)
    paced = replace(begun, ready_at=NOW + MINUTE)
    assert seen(paced) == ("warming_up", f"warming up until 2026-11-06T21:22:00.000Z: {done}")
    assert seen(paced, NOW + MINUTE + 1) == ("warming_up", done)
    failing = replace(paced, failure="throttled", failing_since=NOW)
    assert seen(failing, NOW + BACKFILL_FAILING_MS - 1)[0] == "warming_up"
    assert seen(failing, NOW + BACKFILL_FAILING_MS) == (
        "degraded",
        f"{done}; throttled since 2026-11-06T21:20:02.000Z",
    )
    nothing = replace(failing, done=0, failure="invalid reply")
    assert seen(nothing, NOW + MINUTE - 1)[0] == "warming_up"
    why = "0 of 467 contracts are back-filled; invalid reply since 2026-11-06T21:20:02.000Z"
    assert seen(nothing, NOW + MINUTE) == ("degraded", why)
    venue = StandbyVenue(ExchangeHealth(NOW + MINUTE), None, nothing)
    later = WELL._replace(now=NOW + MINUTE, others={"hyperliquid": venue})
    standby = check(assess(later), "hyperliquid")
    assert (standby.status, standby.detail.split("; ", 1)[1]) == ("degraded", why)
    whole = BackfillProgress(NOW, total=467, done=467)
    assert seen(whole) == ("ok", "467 of 467 contracts are back-filled")


@pytest.mark.parametrize("others", [0, 1], ids=["first start", "a source was added"])
def test_a_start_has_two_minutes_to_read_what_first_stances_need(others: int) -> None:
    issued = (replace(LOST, kind="funding-regime-stance", history_durable=True),) * others
    new = WELL._replace(
        started_at=NOW - 119_999, stances=Stances(NOW, issued, {"rates-desk": "no yields"})
    )
    found = check(assess(new), "stances")

    assert found.status == "warming_up"
    assert found.detail == "warming up until 2026-11-06T21:21:00.000Z: rates-desk: no yields"
    assert verdict(new._replace(started_at=NOW - 120_000), "stances") == "degraded"


@pytest.mark.parametrize(
    ("states", "status", "says"),
    [
        ([], "warming_up", "has not cosigned yet"),
        ([COSIGNED], "ok", "has cosigned 1 log, the last one 2 s ago"),
        ([COSIGNED, away(10)], "ok", "log.example/a: it failed since 2026-11-06T21:10:02.000Z"),
        ([COSIGNED, away(11)], "degraded", "it failed since"),
        ([COSIGNED, replace(away(0), is_fork=True)], "down", "do not trust this log"),
    ],
)
def test_witness_check_says_whether_it_cosigns_fails_or_refuses(
    states: list[WitnessState], status: str, says: str
) -> None:
    seen = assess(WELL._replace(witnesses={"first": states}))
    assert check(seen, "witness-first").status == status
    assert says in check(seen, "witness-first").detail
    assert seen.status == ("ok" if status in ("ok", "warming_up") else "degraded")


def test_without_a_policy_no_witness_is_mentioned() -> None:
    assert "witness" not in str(assess(WELL))
