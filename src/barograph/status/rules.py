"""How health is judged (pure)."""

from typing import NamedTuple

from barograph import NOTICE
from barograph.history.records import Stances
from barograph.kit.timestamps import DAY, MINUTE, SECOND, iso_timestamp
from barograph.macro.records import MacroHealth
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.records import MAJORS, ExchangeHealth, LongAccountShares, Perpetuals
from barograph.markets.view import FreshnessLimits, is_fresh
from barograph.stances.etf import KIND as ETF_STANCE
from barograph.status.wire import (
    ApiStatus,
    Check,
    CheckStatus,
    Condition,
    FeedStatus,
    ServiceStatus,
)

DATABASE_SILENT_MS = 5 * SECOND


class Reach(NamedTuple):
    """Whether somebody outside can be asked, as far as a worker knows by its own questions."""

    answered_at: int | None = None
    failing_since: int | None = None
    failed_at: int | None = None
    """The last time that it did not answer."""


class Observation(NamedTuple):
    """What a worker knows about everybody's health at `now`."""

    now: int
    started_at: int
    version: str
    bounds: FreshnessLimits
    polled_at: int | None
    perpetuals: Perpetuals | None
    shares: LongAccountShares | None
    liquidations: LiquidationTotals | None
    health: ExchangeHealth | None
    limits_failing_since: int | None = None
    macro: MacroHealth | None = None
    stances: Stances | None = None
    identity: Reach | None = None
    """Of the identity provider; None where none is configured."""

    payments: Reach | None = None
    """Of the facilitator; None where none is configured."""

    unsigned: str | None = None
    """Why checkpoints of the history cannot be signed, and since when; None while they can."""


def assess(seen: Observation) -> ServiceStatus:
    """Judge everything that was observed."""
    checks = [
        _market_feed(seen),
        _exchange(seen),
        _collector(seen),
        _long_accounts(seen),
        _liquidations(seen),
        _database(seen),
        _limits(seen),
        _macro(seen),
        _etf_flows(seen),
        _stances(seen),
        _history(seen),
        _outside("identity", seen.identity, "not configured"),
        _outside("payments", seen.payments, "Feed x402 is disabled"),
    ]
    by_name = {check.name: check.status for check in checks}
    api: Condition = "ok" if by_name["database"] == "ok" else "degraded"
    feed = _feed_condition(by_name)
    return ServiceStatus(
        status=_overall(by_name),
        as_of=iso_timestamp(seen.now),
        feed=_feed(seen, feed),
        api=ApiStatus(
            status=api,
            version=seen.version,
            started_at=iso_timestamp(seen.started_at),
            uptime_seconds=_seconds(seen.now - seen.started_at),
        ),
        checks=checks,
        notice=NOTICE,
    )


def _feed_condition(by_name: dict[str, CheckStatus]) -> Condition:
    if by_name["market-feed"] == "down":
        return "down"
    parts = ("market-feed", "exchange", "collector")
    return "ok" if all(by_name[name] == "ok" for name in parts) else "degraded"


def _overall(by_name: dict[str, CheckStatus]) -> Condition:
    if "down" in (by_name["market-feed"], by_name["database"]):
        return "down"
    return "degraded" if {"degraded", "down"} & set(by_name.values()) else "ok"


def _feed(seen: Observation, condition: Condition) -> FeedStatus:
    newest = seen.perpetuals
    totals = seen.liquidations
    return FeedStatus(
        status=condition,
        source=None if newest is None else newest.source,
        last_update=None if newest is None else iso_timestamp(newest.as_of),
        age_seconds=None if newest is None else _seconds(seen.now - newest.as_of),
        max_age_seconds=_seconds(seen.bounds.perpetuals),
        liquidation_coverage_pct=None if totals is None else totals.watched_pct,
    )


def _market_feed(seen: Observation) -> Check:
    if seen.perpetuals is None:
        return Check(name="market-feed", status="down", detail="nothing has been published yet")
    age = f"{_seconds(seen.now - seen.perpetuals.as_of):g} s old"
    if seen.perpetuals.as_of > seen.now + seen.bounds.perpetuals:
        return Check(name="market-feed", status="down", detail="from the future: check the clocks")
    bound = f"{_seconds(seen.bounds.perpetuals):g} s"
    if not is_fresh(seen.perpetuals.as_of, seen.bounds.perpetuals, seen.now):
        return Check(name="market-feed", status="down", detail=f"{age}, past its bound of {bound}")
    missing = _unlisted_majors(seen.perpetuals)
    if missing:
        status: Condition = "down" if len(missing) == len(MAJORS) else "degraded"
        detail = f"the last reading has no {', '.join(missing)}"
        return Check(name="market-feed", status=status, detail=detail)
    return Check(name="market-feed", status="ok", detail=f"{age}, bound {bound}")


def _unlisted_majors(perpetuals: Perpetuals) -> list[str]:
    listed = {each.base for each in perpetuals.contracts}
    return [asset for asset in MAJORS if asset not in listed]


def _exchange(seen: Observation) -> Check:
    health = seen.health
    if health is None:
        return Check(name="exchange", status="degraded", detail="not asked yet")
    if health.failure is None or health.failing_since is None:
        if not is_fresh(health.as_of, seen.bounds.perpetuals, seen.now):
            silent = _seconds(seen.now - health.as_of)
            return Check(name="exchange", status="degraded", detail=f"not asked for {silent:g} s")
        return _refused_values(seen.perpetuals)
    since = iso_timestamp(health.failing_since)
    return Check(name="exchange", status="degraded", detail=f"{health.failure} since {since}")


def _refused_values(perpetuals: Perpetuals | None) -> Check:
    """The values that the last reading leaves out because they are out of range."""
    refused = {} if perpetuals is None else perpetuals.refused
    if not refused:
        return Check(name="exchange", status="ok", detail="the last reading succeeded")
    counts = ", ".join(f"{len(names)} of {field}" for field, names in sorted(refused.items()))
    detail = f"values out of range are not shown: {counts}"
    return Check(name="exchange", status="degraded", detail=detail)


def _collector(seen: Observation) -> Check:
    if seen.health is None:
        return Check(name="collector", status="degraded", detail="no sign of life yet")
    silent = seen.now - seen.health.as_of
    if silent < seen.bounds.perpetuals:
        return Check(name="collector", status="ok", detail="collecting")
    return Check(
        name="collector", status="degraded", detail=f"no sign of life for {_seconds(silent):g} s"
    )


def _long_accounts(seen: Observation) -> Check:
    """The majors are what is promised; other contracts come and go with the rotation."""
    contracts = () if seen.perpetuals is None else seen.perpetuals.contracts
    shares = {} if seen.shares is None else seen.shares.shares
    fresh = [
        each.base
        for each in contracts
        if each.base in MAJORS
        and each.contract in shares
        and is_fresh(shares[each.contract].sampled_at, seen.bounds.long_accounts, seen.now)
    ]
    listed = [each.base for each in contracts if each.base in MAJORS]
    missing = [asset for asset in listed if asset not in fresh]
    if missing or not listed:
        missing = missing or list(MAJORS)
        detail = f"no fresh share for {', '.join(missing)}"
        return Check(name="long-accounts", status="degraded", detail=detail)
    return Check(name="long-accounts", status="ok", detail="sampled")


def _liquidations(seen: Observation) -> Check:
    totals = seen.liquidations
    if totals is None or not is_fresh(totals.as_of, seen.bounds.liquidations, seen.now):
        return Check(name="liquidations", status="degraded", detail="not counted recently")
    watched = f"{totals.watched_pct:g} % of the last 24 hours watched"
    # The first connection gets as much time as any other.
    heard_at = totals.watching_since if totals.watched_until is None else totals.watched_until
    if heard_at is None or not is_fresh(heard_at, seen.bounds.liquidations, seen.now):
        detail = f"{watched}, but nobody is listening now"
        return Check(name="liquidations", status="degraded", detail=detail)
    if totals.watched_pct >= seen.bounds.min_coverage_pct:
        return Check(name="liquidations", status="ok", detail=watched)
    detail = f"{watched}, {seen.bounds.min_coverage_pct:g} % needed"
    ready_at = _covered_at(totals, seen.bounds)
    if ready_at is None:
        return Check(name="liquidations", status="degraded", detail=detail)
    return _warming_up("liquidations", ready_at, detail)


def _covered_at(totals: LiquidationTotals, bounds: FreshnessLimits) -> int | None:
    """The earliest time at which the first day reaches its coverage; None if it is not warming up.

    During the first day no watched time leaves the window, so watching the rest takes exactly as
    long as the rest is. An instance that would need more than the day has missed more than it may.
    """
    ready_at = totals.as_of + round((bounds.min_coverage_pct - totals.watched_pct) / 100 * DAY)
    since = totals.watching_since
    if since is None or ready_at > since + DAY + bounds.liquidations:
        return None
    return ready_at


def _warming_up(name: str, ready_at: int, why: str) -> Check:
    whole_minute = -(-ready_at // MINUTE) * MINUTE
    detail = f"warming up until {iso_timestamp(whole_minute)}: {why}"
    return Check(name=name, status="warming_up", detail=detail)


def _database(seen: Observation) -> Check:
    if seen.polled_at is not None and seen.now - seen.polled_at < DATABASE_SILENT_MS:
        return Check(name="database", status="ok", detail="readable")
    return Check(name="database", status="down", detail="cannot be read")


def _limits(seen: Observation) -> Check:
    if seen.limits_failing_since is None:
        return Check(name="limits", status="ok", detail="request allowances are counted")
    since = iso_timestamp(seen.limits_failing_since)
    detail = f"the shared count fails since {since}; each worker counts for itself"
    return Check(name="limits", status="degraded", detail=detail)


def _macro(seen: Observation) -> Check:
    """The sources of daily figures."""
    if seen.macro is None:
        return Check(name="daily-figures", status="ok", detail="not read yet")
    sources = seen.macro.sources
    if not sources:
        return Check(
            name="daily-figures", status="not_configured", detail="no source is configured"
        )
    failing = [
        f"{name} {health.failure} since {iso_timestamp(health.failing_since)}"
        for name, health in sorted(sources.items())
        if health.failure is not None and health.failing_since is not None
    ]
    if failing:
        return Check(name="daily-figures", status="degraded", detail="; ".join(failing))
    read = ", ".join(f"{name} to {each.newest_day}" for name, each in sorted(sources.items()))
    return Check(name="daily-figures", status="ok", detail=read)


def _etf_flows(seen: Observation) -> Check:
    """The flows of BTC ETFs, which have no source unless the operator names one."""
    check = "etf-flows"
    if seen.stances is None:
        return Check(name=check, status="ok", detail="not read yet")
    waiting = seen.stances.waiting.get(ETF_STANCE)
    if waiting is None:
        why = seen.stances.silent.get(ETF_STANCE)
        status: Condition = "ok" if why is None else "degraded"
        return Check(name=check, status=status, detail=why or "up to date")
    if waiting.until is None:
        return Check(name=check, status="not_configured", detail=waiting.why)
    sources = {} if seen.macro is None else seen.macro.sources
    if any(each.failure and name.startswith("etf-") for name, each in sources.items()):
        return Check(name=check, status="degraded", detail=f"{waiting.why}; the source fails")
    return _warming_up(check, waiting.until, waiting.why)


def _stances(seen: Observation) -> Check:
    """Why a stance is not issued, and whether all could be recorded."""
    if seen.stances is None:
        return Check(name="stances", status="ok", detail="none was issued yet")
    lost = [each.kind for each in seen.stances.stances if not each.history_durable]
    # `etf-flows` says why the ETF stance is silent.
    others = {kind: why for kind, why in seen.stances.silent.items() if kind != ETF_STANCE}
    silent = [f"{kind}: {why}" for kind, why in sorted(others.items())]
    waiting = [f"{kind}: {each.why}" for kind, each in sorted(seen.stances.waiting.items())]
    expired = [each.kind for each in seen.stances.stances if each.expires_at <= seen.now]
    if expired:
        silent = [f"expired: {', '.join(expired)}", *silent]
    if lost:
        silent = [f"not recorded: {', '.join(lost)}", *silent]
    status: Condition = "degraded" if silent else "ok"
    detail = "; ".join([*(silent or ["issued and recorded"]), *waiting])
    return Check(name="stances", status=status, detail=detail)


def _history(seen: Observation) -> Check:
    """Whether checkpoints of the record of stances are signed."""
    if seen.unsigned is None:
        return Check(name="history", status="ok", detail="checkpoints are signed")
    return Check(name="history", status="degraded", detail=seen.unsigned)


def _outside(name: str, reach: Reach | None, absent: str) -> Check:
    """An outside service that only some requests need."""
    if reach is None:
        return Check(name=name, status="not_configured", detail=absent)
    if reach.failing_since is not None:
        detail = f"unreachable since {iso_timestamp(reach.failing_since)}"
        if reach.failed_at is not None:
            detail += f", last asked at {iso_timestamp(reach.failed_at)}"
        return Check(name=name, status="degraded", detail=detail)
    if reach.answered_at is None:
        return Check(name=name, status="ok", detail="not asked yet")
    return Check(name=name, status="ok", detail=f"answered at {iso_timestamp(reach.answered_at)}")


def _seconds(milliseconds: int) -> float:
    return round(max(0, milliseconds) / SECOND, 1)
