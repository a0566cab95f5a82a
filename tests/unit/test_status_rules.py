"""What the status says about everybody's health."""

from typing import Any

import pytest
from msgspec.structs import replace

from barograph.history.records import CurrentStance, NotIssuedYet, Stances
from barograph.history.witnesses import WitnessState
from barograph.kit.timestamps import HOUR, MINUTE
from barograph.macro.records import MacroHealth, SourceHealth
from barograph.markets.disputes import Dispute, Disputes
from barograph.markets.failover import VenueInUse
from barograph.markets.liquidations import LiquidationTotals, LiquidationTracker
from barograph.markets.reader import freshness_limits
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
from barograph.venues.records import (
    BackfillProgress,
    ExchangeHealth,
    LongAccounts,
    LongAccountShares,
)
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


def told(name: str, seen: StatusInputs = WELL, **changes: Any) -> tuple[str, str]:
    """The condition and the words of one check."""
    verdict = check(assess(seen._replace(**changes)), name)
    return verdict.status, verdict.detail


def condition(name: str, seen: StatusInputs = WELL, **changes: Any) -> str:
    return told(name, seen, **changes)[0]


BEGAN, TRIED = "2026-11-06T21:20:00.000Z", "2026-11-06T21:20:02.000Z"


@pytest.mark.parametrize(
    ("reach", "verdict", "detail"),
    [
        (None, "not_configured", "not configured"),
        (Reachability(), "ok", "not called yet"),
        (Reachability(START), "ok", f"answered at {BEGAN}"),
        (Reachability(START, NOW), "degraded", f"unreachable since {TRIED}"),
        (Reachability(None, START), "degraded", f"unreachable since {BEGAN}"),
        (
            Reachability(START, START, NOW),
            "degraded",
            f"unreachable since {BEGAN}, last tried at {TRIED}",
        ),
        (
            Reachability(START, START, NOW, "empty"),
            "degraded",
            f"empty; failing since {BEGAN}, last tried at {TRIED}",
        ),
    ],
)
def test_who_is_asked_by_some_requests_only_is_told_as_far_as_it_is_known(
    reach: Reachability | None, verdict: str, detail: str
) -> None:
    seen = WELL._replace(identity=reach, payments=reach)
    unsold = "this instance does not sell Feed by x402"

    assert told("identity", seen) == (verdict, detail)
    assert told("payments", seen) == (verdict, unsold if reach is None else detail)
    status = assess(seen)
    overall = "degraded" if verdict == "degraded" else "ok"
    assert (status.status, status.api.status, status.feed.status) == (overall, "ok", "ok")


@pytest.mark.outcome(
    "A publisher of daily figures fails",
    "The collector reads the others and retries. `/api/status` shows the kind of failure and "
    "its start.",
)
def test_a_source_of_figures_that_fails_is_named() -> None:
    works = {"sofr": SourceHealth(NOW, newest_day="2026-11-13")}
    fails = {"treasury": SourceHealth(NOW, "unreachable", START, "2026-11-12")}

    assert told("daily-figures", macro=MacroHealth(works | fails)) == (
        "degraded",
        f"Treasury yields: unreachable since {BEGAN}",
    )
    assert condition("daily-figures", macro=MacroHealth(works)) == "ok"
    assert condition("daily-figures", macro=MacroHealth({})) == "not_configured"


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
@pytest.mark.parametrize(
    ("stances", "detail"),
    [
        (Stances(NOW, (), {"rates-desk": "no yields"}), "rates-desk: no yields"),
        (Stances(NOW, (LOST,), {}), "not recorded: rates-desk"),
        (
            Stances(NOW, (replace(LOST, expires_at=NOW, history_durable=True),), {}),
            "expired: rates-desk",
        ),
    ],
)
def test_a_stance_not_issued_or_recorded_is_named(stances: Stances, detail: str) -> None:
    assert told("stances", started_at=START - HOUR, stances=stances) == ("degraded", detail)


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
def test_a_waiting_stance_is_no_failure(waiting: NotIssuedYet, etf: tuple[str, str]) -> None:
    stances = Stances(NOW, (), {}, waiting={"btc-etf-stance": waiting})
    issued = f"issued and recorded; btc-etf-stance: {waiting.why}"

    assert told("etf-flows", stances=stances) == etf
    assert told("stances", stances=stances) == ("ok", issued)
    assert assess(WELL._replace(stances=stances)).status == "ok"


def test_etf_flows_that_are_too_old_are_a_failure() -> None:
    why = "the newest holdings are from 2026-10-30"
    stances = Stances(NOW, (), {"btc-etf-stance": why})

    assert told("etf-flows", stances=stances) == ("degraded", why)
    assert condition("stances", stances=stances) == "ok"  # one cause, one incident


def test_etf_days_are_waited_for_while_their_source_works_and_its_terms_are_confirmed() -> None:
    waiting = {"btc-etf-stance": NotIssuedYet("0 of 20 days are known", NOW + HOUR)}
    seen = WELL._replace(stances=Stances(NOW, (), {}, waiting=waiting))
    failing = MacroHealth({"etf-ibit": SourceHealth(NOW, "unreachable", NOW)})
    assert condition("etf-flows", seen) == "warming_up"
    assert condition("etf-flows", seen, macro=failing) == "degraded"

    unsourced = Stances(NOW, (), {}, waiting={"btc-etf-stance": NO_SOURCE})
    terms = Unconfirmed(("ishares",))
    verdict, detail = told("etf-flows", stances=unsourced, unconfirmed=terms)
    assert verdict == "not_configured"
    assert "terms are not confirmed" in detail


OLD_SHARES = LongAccountShares(
    {share.contract: share for share in shares(START)}
    | {"BTCUSDT": LongAccounts("BTCUSDT", 61.5, NOW - LIMITS.long_accounts)}
)
LATER = START + 30_000
REFUSED = {"lastPrice": ["BTCUSDT", "ETHUSDT"], "openInterestUsd": ["SOLUSDT"]}
WITH_REFUSED = replace(reading(START), refused=REFUSED)
COUNTED = "values out of range are not shown: 2 of lastPrice, 1 of openInterestUsd"
IN_USE = f"Hyperliquid has been in use since {TRIED}"
BACK = f"{IN_USE}; Gate answers again and takes over at about {TRIED} if it stays healthy"


@pytest.mark.parametrize(
    ("name", "changes", "detail"),
    [
        ("history", {"unsigned": "why"}, "why"),
        ("database", {"wrong_clock": "why"}, "why"),
        ("collector", {"now": LATER, "polled_at": LATER}, "has not reported for 30 s"),
        ("long-accounts", {"shares": OLD_SHARES}, "no fresh share for BTC"),
        ("venue", {"in_use": VenueInUse("hyperliquid", NOW)}, IN_USE),
        ("venue", {"in_use": VenueInUse("hyperliquid", NOW, None, "", NOW, "gate")}, BACK),
        ("exchange", {"perpetuals": WITH_REFUSED}, COUNTED),
    ],
)
def test_failures_say_why(name: str, changes: dict[str, Any], detail: str) -> None:
    assert told(name, **changes) == ("degraded", detail)
    assert condition(name) == "ok"


def test_a_collector_may_be_silent_for_half_a_minute_and_other_contracts_need_no_share() -> None:
    assert condition("collector", now=LATER - 1) == "ok"
    majors = reading(START, (BTC, ETH, SOL))
    assert condition("long-accounts", perpetuals=majors) == condition("long-accounts") == "ok"


@pytest.mark.parametrize(
    ("fields", "expected"),
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
def test_liquidations_need_fresh_coverage(fields: dict[str, Any], expected: str) -> None:
    assert WELL.liquidations is not None
    totals = replace(WELL.liquidations, **fields)

    assert condition("liquidations", liquidations=totals) == expected


def test_too_little_coverage_is_said_with_what_is_needed() -> None:
    totals = LiquidationTotals(START, 12.5, 0.0, None, None, START)
    detail = "12.5 % of the last 24 hours covered, 95 % needed"

    assert told("liquidations", liquidations=totals) == ("degraded", detail)
    status = assess(WELL._replace(liquidations=totals))
    assert (status.status, status.feed.status) == ("degraded", "ok")


def test_contracts_of_other_classes_or_without_a_topic_are_counted_and_no_failure() -> None:
    seen = replace(
        reading(START),
        left_out={"commodity": 20, "stock": 180, "weather": 2},
        unknown_classes=["weather"],
        unwatched=["PEPEUSDT", "SOLUSDT"],
    )

    counted = (
        "the last reading succeeded; left out 202 contracts that are not crypto: 180 stock, "
        "20 commodity, 2 weather; this version does not know the class weather"
    )
    assert told("exchange", perpetuals=seen) == ("ok", counted)
    verdict, detail = told("liquidations", perpetuals=seen)
    assert verdict == "ok"
    assert detail.endswith("covered; contracts without a liquidation topic: 2")


@pytest.mark.outcome(
    "An instance has tracked liquidations for less than a day",
    "`/api/status` shows `warming_up` and until when, the home page a countdown. That is no "
    "failure.",
)
@pytest.mark.parametrize(
    ("hours", "missed", "expected", "ready_at"),
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
    hours: int, missed: int, expected: str, ready_at: str | None
) -> None:
    middle = START - hours * HOUR // 2
    spans = [(START - hours * HOUR, middle), (middle + missed * HOUR, START)]
    totals = LiquidationTracker(95.0, spans=spans).totals(START, {})
    status = assess(WELL._replace(liquidations=totals))
    verdict, detail = told("liquidations", liquidations=totals)

    assert (verdict, status.status) == (expected, "ok" if ready_at else expected)
    assert detail.startswith("" if ready_at is None else f"warming up until {ready_at}: ")


@pytest.mark.parametrize(("passed", "expected"), [(0, "warming_up"), (1, "degraded")])
def test_a_connection_that_stays_silent_is_a_failure(passed: int, expected: str) -> None:
    began = NOW - LIMITS.liquidations + 1 - passed
    totals = LiquidationTracker(95.0, since=began).totals(NOW, {})

    assert condition("liquidations", liquidations=totals) == expected


def test_unconfirmed_source_is_not_configured_and_no_failure() -> None:
    unconfirmed = Unconfirmed(("hyperliquid", "treasury", "selling"))
    others = {"hyperliquid": StandbyVenue(None, None, None)}
    seen = WELL._replace(unconfirmed=unconfirmed, payments=None, others=others)

    assert assess(seen).status == "ok"
    sources = {"hyperliquid": "hyperliquid", "treasury": "treasury", "payments": "selling"}
    for name, source in sources.items():
        verdict, detail = told(name, seen)
        assert verdict == "not_configured"
        assert f"add {source} to BAROGRAPH_ACCEPT_TERMS" in detail


def test_each_dispute_between_venues_is_named_and_degrades_the_service() -> None:
    several = WELL._replace(venues=2)
    young = Disputes(NOW, ready_at=NOW + 1)
    dispute = Disputes(NOW, (Dispute("binance", "open-interest", START, "it doubled"),))

    assert condition("cross-venue") == "not_configured"
    assert condition("cross-venue", several) == "warming_up"
    assert condition("cross-venue", several, disputes=young) == "warming_up"
    assert condition("cross-venue", several, disputes=Disputes(NOW)) == "ok"
    assert told("cross-venue", several, disputes=dispute) == (
        "degraded",
        f"Binance: open-interest disputed since {BEGAN}: it doubled",
    )
    assert assess(several._replace(disputes=dispute)).status == "degraded"


def test_a_backfill_warms_up_until_it_is_ready_and_degrades_only_when_it_keeps_failing() -> None:
    def seen(progress: BackfillProgress | None, passed: int = 0) -> tuple[str, str]:
        return told("backfill", now=NOW + passed, backfill=progress)

    begun = BackfillProgress(NOW, total=467, done=120)
    paced = replace(begun, ready_at=NOW + MINUTE)
    failing = replace(paced, failure="throttled", failing_since=NOW)
    nothing = replace(failing, done=0, failure="invalid reply")
    done = "120 of 467 contracts are back-filled"
    why = f"0 of 467 contracts are back-filled; invalid reply since {TRIED}"
    assert seen(None) == ("warming_up", "it starts after the first reading")
    assert seen(begun) == ("warming_up", done)
    assert seen(paced) == ("warming_up", f"warming up until 2026-11-06T21:22:00.000Z: {done}")
    assert seen(paced, MINUTE + 1) == ("warming_up", done)
    assert seen(failing, BACKFILL_FAILING_MS - 1)[0] == "warming_up"
    assert seen(failing, BACKFILL_FAILING_MS) == ("degraded", f"{done}; throttled since {TRIED}")
    assert seen(nothing, MINUTE - 1)[0] == "warming_up"
    assert seen(nothing, MINUTE) == ("degraded", why)
    whole = BackfillProgress(NOW, total=467, done=467)
    assert seen(whole) == ("ok", "467 of 467 contracts are back-filled")
    venue = StandbyVenue(ExchangeHealth(NOW + MINUTE), None, nothing)
    verdict, detail = told("hyperliquid", now=NOW + MINUTE, others={"hyperliquid": venue})
    assert (verdict, detail.split("; ", 1)[1]) == ("degraded", why)


@pytest.mark.parametrize("others", [0, 1], ids=["first start", "a source was added"])
def test_a_start_has_two_minutes_to_read_what_first_stances_need(others: int) -> None:
    issued = (replace(LOST, kind="funding-regime-stance", history_durable=True),) * others
    new = WELL._replace(
        started_at=NOW - 119_999, stances=Stances(NOW, issued, {"rates-desk": "no yields"})
    )

    detail = "warming up until 2026-11-06T21:21:00.000Z: rates-desk: no yields"
    assert told("stances", new) == ("warming_up", detail)
    assert condition("stances", new, started_at=NOW - 120_000) == "degraded"


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
def test_witnesses_say_what_they_do(states: list[WitnessState], status: str, says: str) -> None:
    verdict, detail = told("witness-first", witnesses={"first": states})
    assert verdict == status
    assert says in detail
    overall = "ok" if status in ("ok", "warming_up") else "degraded"
    assert assess(WELL._replace(witnesses={"first": states})).status == overall
    assert "witness" not in str(assess(WELL))
