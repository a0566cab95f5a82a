"""The body of `/api/status`, and the rules that fill it (pure)."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

from msgspec.structs import astuple
from pydantic import Field

from barograph import NOTICE
from barograph.errors import Forbidden
from barograph.history.records import Stances
from barograph.history.witnesses import WitnessState
from barograph.kit.text import coverage
from barograph.kit.timestamps import DAY, MINUTE, SECOND, iso_timestamp
from barograph.kit.wire import WireModel
from barograph.macro.records import MacroHealth
from barograph.markets.disputes import Disputes
from barograph.markets.failover import VenueInUse
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.view import UNAVAILABLE, FreshnessLimits, is_fresh
from barograph.stances.etf import KIND as ETF_STANCE
from barograph.terms.sources import SELLING, SOURCES, Unconfirmed
from barograph.venues.records import (
    MAJORS,
    MAX_CLASSES,
    BackfillProgress,
    ExchangeHealth,
    LongAccountShares,
    Perpetuals,
    classes_left_out,
)
from barograph.venues.registry import VENUES, publishes_liquidations, publishes_long_accounts

DATABASE_SILENT_MS = 5 * SECOND
_IMPORT = "the operator can add earlier days: barograph macro import FILE"

_GEO_BLOCK = ": probably a geo-block; the operator can run `barograph doctor`"

BACKFILL_FAILING_MS = 15 * MINUTE
"""How long the back-fill may fail before its check is degraded; a minute if it filled nothing."""

FIRST_STANCES_MS = 2 * MINUTE
"""How long a start may take to read all sources and issue each first stance."""

WITNESS_FAILING_MS = 10 * MINUTE
"""How long a witness may fail before its check is degraded."""

_BACK = "; {} answers again and takes over at about {} if it stays healthy"
_FORK = (
    "it says that it has cosigned another tree; do not trust this log until the operator explains "
    "it"
)

Condition = Literal["ok", "degraded", "down"]
CheckStatus = Literal["ok", "degraded", "down", "not_configured", "warming_up"]
Verdict = tuple[CheckStatus, str]
"""The status of a check, and its detail."""


class FeedStatus(WireModel):
    """The market feed. It is `down` if its data is past the freshness limit; reads return 502."""

    status: Condition
    source: Annotated[
        str | None, Field(description="The venue in use; null before the first reading.")
    ]
    last_update: Annotated[str | None, Field(description="Time of the newest reading.")]
    age_seconds: Annotated[float | None, Field(description="Age of the newest reading.")]
    max_age_seconds: Annotated[float, Field(description="The freshness limit.")]
    liquidation_coverage_pct: Annotated[
        float | None, Field(description="Share of the last 24 hours that was covered, in percent.")
    ]


class ApiStatus(WireModel):
    """The API of this worker."""

    status: Condition
    version: str
    started_at: str
    uptime_seconds: float


class Check(WireModel):
    """One part. `not_configured` and `warming_up` (`detail` says until when) are not failures."""

    name: str
    status: CheckStatus
    detail: str


class ServiceStatus(WireModel):
    """`down` if the market feed or the database is down; `degraded` if another check fails."""

    status: Condition
    as_of: str
    feed: FeedStatus
    api: ApiStatus
    checks: list[Check]
    notice: str


class Reachability(NamedTuple):
    """When an outside service last answered or failed this worker."""

    answered_at: int | None = None
    failing_since: int | None = None
    failed_at: int | None = None
    reason: str | None = None
    """Why it fails, if that can be published."""


class StandbyVenue(NamedTuple):
    """What is known about a venue that is not in use."""

    health: ExchangeHealth | None
    perpetuals: Perpetuals | None
    backfill: BackfillProgress | None


class StatusInputs(NamedTuple):
    """Everything that a worker knows about the service's health at `now`."""

    now: int
    started_at: int
    version: str
    limits: FreshnessLimits
    polled_at: int | None
    perpetuals: Perpetuals | None
    shares: LongAccountShares | None
    liquidations: LiquidationTotals | None
    health: ExchangeHealth | None
    limits_failing_since: int | None = None
    macro: MacroHealth | None = None
    stances: Stances | None = None
    identity: Reachability | None = None
    """The identity provider; None if none is configured."""

    payments: Reachability | None = None
    """The facilitator; None if none is configured."""

    backfill: BackfillProgress | None = None
    wrong_clock: str | None = None
    """How far this host's clock is from the database's; None if they agree."""

    unsigned: str | None = None
    """Why checkpoints cannot be signed, and since when; None while they can."""

    unconfirmed: Unconfirmed | None = None
    """The sources whose terms are not confirmed; None before the service published them."""

    in_use: VenueInUse | None = None
    """The venue in use; None before the first reading."""

    others: Mapping[str, StandbyVenue] = MappingProxyType({})
    """The other configured venues."""

    venues: int = 1
    """How many venues are configured."""

    disputes: Disputes | None = None
    """None before the venues were first compared."""

    witnesses: Mapping[str, Sequence[WitnessState]] = MappingProxyType({})
    """What each witness of the policy did; empty if there is no policy."""


def assess(inputs: StatusInputs) -> ServiceStatus:
    """Judge every part, and the service as a whole."""
    unsigned, sold = inputs.unsigned, "this instance does not sell Feed by x402"
    verdicts: dict[str, Verdict] = {
        "market-feed": _market_feed(inputs),
        "exchange": _exchange(inputs),
        "venue": _venue(inputs),
        **{name: _standby(inputs, venue) for name, venue in inputs.others.items()},
        "collector": _collector(inputs),
        "long-accounts": _long_accounts(inputs),
        "liquidations": _liquidations(inputs),
        "backfill": _backfill(inputs),
        "cross-venue": _cross_venue(inputs),
        "database": _database(inputs),
        "limits": _limits(inputs),
        "daily-figures": _macro(inputs),
        "etf-flows": _etf_flows(inputs),
        "stances": _stances(inputs),
        "history": ("degraded", unsigned) if unsigned else ("ok", "checkpoints are signed"),
        **{f"witness-{name}": _witness(inputs.now, it) for name, it in inputs.witnesses.items()},
        "identity": _outside(inputs.identity, "not configured"),
        "payments": _outside(inputs.payments, sold),
    }
    verdicts = _with_terms(verdicts, inputs.unconfirmed)
    by_name = {name: status for name, (status, _) in verdicts.items()}
    return ServiceStatus(
        status=_overall(by_name),
        as_of=iso_timestamp(inputs.now),
        feed=_feed(inputs, _feed_condition(by_name)),
        api=ApiStatus(
            status="ok" if by_name["database"] == "ok" else "degraded",
            version=inputs.version,
            started_at=iso_timestamp(inputs.started_at),
            uptime_seconds=_seconds(inputs.now - inputs.started_at),
        ),
        checks=[
            Check(name=name, status=status, detail=detail)
            for name, (status, detail) in verdicts.items()
        ],
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


def _feed(inputs: StatusInputs, condition: Condition) -> FeedStatus:
    newest, totals = inputs.perpetuals, inputs.liquidations
    lacks = _lacking(inputs, publishes_liquidations) is not None
    return FeedStatus(
        status=condition,
        source=None if newest is None else newest.source,
        last_update=None if newest is None else iso_timestamp(newest.as_of),
        age_seconds=None if newest is None else _seconds(inputs.now - newest.as_of),
        max_age_seconds=_seconds(inputs.limits.perpetuals),
        liquidation_coverage_pct=None if totals is None or lacks else totals.watched_pct,
    )


def _market_feed(inputs: StatusInputs) -> Verdict:
    newest, limit = inputs.perpetuals, inputs.limits.perpetuals
    if newest is None:
        return "down", "nothing has been published yet"
    if newest.as_of > inputs.now + limit:
        return "down", "its time is in the future: check the clocks"
    age = f"{_seconds(inputs.now - newest.as_of):g} s old"
    shown_limit = f"{_seconds(limit):g} s"
    if not is_fresh(newest.as_of, limit, inputs.now):
        return "down", f"{age}, older than its limit of {shown_limit}"
    listed = {perpetual.base for perpetual in newest.contracts}
    missing = [asset for asset in MAJORS if asset not in listed]
    if missing:
        status: Condition = "down" if len(missing) == len(MAJORS) else "degraded"
        return (status, f"the last reading has no {', '.join(missing)}")
    return "ok", f"{age}, limit {shown_limit}"


def _venue(inputs: StatusInputs) -> Verdict:
    in_use, primary = inputs.in_use, inputs.limits.primary
    if in_use is None or in_use.venue == primary:
        return "ok", f"{VENUES[primary].title} is in use"
    used = f"{VENUES[in_use.venue].title} has been in use since {iso_timestamp(in_use.since)}"
    why = "" if in_use.before is None else f" ({VENUES[in_use.before].title}: {in_use.reason})"
    back = (
        ""
        if in_use.back_at is None
        else _BACK.format(VENUES[in_use.back or primary].title, iso_timestamp(in_use.back_at))
    )
    return "degraded", used + why + back


def _standby(inputs: StatusInputs, venue: StandbyVenue) -> Verdict:
    health, reading = venue.health, venue.perpetuals
    if health is None:
        return "warming_up", "not called yet"
    problem, announced = _problem(inputs, health), _announced(reading)
    if problem is not None:
        return "degraded", f"not in use; {problem}{announced}"
    listed = 0 if reading is None else len(reading.contracts)
    detail = f"recorded, not in use: {listed} contracts{announced}"
    if venue.backfill is None:
        return "ok", detail
    filled, is_failing = _filled(venue.backfill, inputs.now)
    return "degraded" if is_failing else "ok", f"{detail}; {filled}"


def _problem(inputs: StatusInputs, health: ExchangeHealth | None) -> str | None:
    """Why a venue can't be read; None if it can."""
    if health is None:
        return "not called yet"
    if health.failure is not None and health.failing_since is not None:
        why = _GEO_BLOCK if health.failure == Forbidden.kind else ""
        return f"{health.failure} since {iso_timestamp(health.failing_since)}{why}"
    if not is_fresh(health.as_of, inputs.limits.perpetuals, inputs.now):
        return f"not called for {_seconds(inputs.now - health.as_of):g} s"
    return None


def _exchange(inputs: StatusInputs) -> Verdict:
    reading = inputs.perpetuals
    problem, announced = _problem(inputs, inputs.health), _announced(reading)
    if problem is not None:
        return "degraded", problem + announced
    left_out = announced if reading is None else _left_out(reading) + announced
    if reading is not None and reading.refused:
        refused = sorted(reading.refused.items())
        counts = ", ".join(f"{len(names)} of {field}" for field, names in refused)
        detail = f"values out of range are not shown: {counts}{left_out}"
        return "degraded", detail
    return "ok", f"the last reading succeeded{left_out}"


def _announced(reading: Perpetuals | None) -> str:
    """What the venue announced when it was last read, which is no failure."""
    text = "" if reading is None else reading.announcement
    return f"; it announces: {text}" if text else ""


def _left_out(reading: Perpetuals) -> str:
    """The contracts that are not crypto, which is no failure."""
    if not reading.left_out:
        return ""
    total, counts = sum(reading.left_out.values()), classes_left_out(reading)
    text = f"; left out {total} contracts that are not crypto: {counts}"
    if reading.unknown_classes:
        words = ", ".join(reading.unknown_classes[:MAX_CLASSES])
        text += f"; this version does not know the class {words}"
    return text


def _collector(inputs: StatusInputs) -> Verdict:
    known = [inputs.health, *(other.health for other in inputs.others.values())]
    reported = [each.as_of for each in known if each is not None]
    if not reported:
        return "degraded", "has not reported yet"
    silent = inputs.now - max(reported)
    if silent < inputs.limits.perpetuals:
        return "ok", "collecting"
    return "degraded", f"has not reported for {_seconds(silent):g} s"


def _long_accounts(inputs: StatusInputs) -> Verdict:
    """Only the majors count; other contracts come and go with the rotation."""
    lacking = _lacking(inputs, publishes_long_accounts)
    if lacking is not None:
        return lacking
    contracts = () if inputs.perpetuals is None else inputs.perpetuals.contracts
    shares = {} if inputs.shares is None else inputs.shares.shares
    fresh = {
        perpetual.base
        for perpetual in contracts
        if perpetual.contract in shares
        and is_fresh(shares[perpetual.contract].sampled_at, inputs.limits.long_accounts, inputs.now)
    }
    listed = [perpetual.base for perpetual in contracts if perpetual.base in MAJORS]
    missing = [asset for asset in listed if asset not in fresh]
    if missing or not listed:
        detail = f"no fresh share for {', '.join(missing or MAJORS)}"
        return "degraded", detail
    return "ok", "sampled"


def _lacking(inputs: StatusInputs, publishes: Callable[[str, str], bool]) -> Verdict | None:
    """The check of something that the venue in use doesn't publish, which is no failure."""
    used = None if inputs.perpetuals is None else inputs.perpetuals.venue
    if used is None or publishes(used, inputs.limits.primary):
        return None
    return "not_configured", f"{UNAVAILABLE} ({VENUES[used].title})"


def _liquidations(inputs: StatusInputs) -> Verdict:
    lacking = _lacking(inputs, publishes_liquidations)
    if lacking is not None:
        return lacking
    status, detail = _coverage(inputs)
    count = 0 if inputs.perpetuals is None else len(inputs.perpetuals.unwatched)
    unwatched = f"; contracts without a liquidation topic: {count}" if count else ""
    return (status, detail + unwatched)


def _coverage(inputs: StatusInputs) -> Verdict:
    totals, limits = inputs.liquidations, inputs.limits
    if totals is None or not is_fresh(totals.as_of, limits.liquidations, inputs.now):
        return "degraded", "not counted recently"
    watched = f"{coverage(totals.watched_pct)} of the last 24 hours covered"
    if totals.heard_at is None or not is_fresh(totals.heard_at, limits.liquidations, inputs.now):
        return "degraded", f"{watched}, but the stream is not connected now"
    if totals.watched_pct >= limits.min_coverage_pct:
        return "ok", watched
    detail = f"{watched}, {limits.min_coverage_pct:g} % needed"
    # A total that comes after the first day was delayed by a failure.
    first_day_end = 0 if totals.watching_since is None else totals.watching_since + DAY
    if totals.covered_at is None or totals.covered_at > first_day_end + limits.liquidations:
        return "degraded", detail
    return _warming_up(totals.covered_at, detail)


def _warming_up(ready_at: int, why: str) -> Verdict:
    whole_minute = -(-ready_at // MINUTE) * MINUTE
    return "warming_up", f"warming up until {iso_timestamp(whole_minute)}: {why}"


def _backfill(inputs: StatusInputs) -> Verdict:
    progress = inputs.backfill
    if progress is None:
        return "warming_up", "it starts after the first reading"
    done, is_failing = _filled(progress, inputs.now)
    if is_failing:
        return "degraded", done
    expected_at = progress.expected_at(inputs.now)
    if progress.done < progress.total and expected_at is not None:
        return _warming_up(expected_at, done)
    return "warming_up" if progress.done < progress.total else "ok", done


def _filled(progress: BackfillProgress, now: int) -> tuple[str, bool]:
    """How many contracts are back-filled, and whether that fails for too long."""
    done = f"{progress.done} of {progress.total} contracts are back-filled"
    since = progress.failing_since
    limit = BACKFILL_FAILING_MS if progress.done else MINUTE
    if since is None or now - since < limit:
        return done, False
    return f"{done}; {progress.failure} since {iso_timestamp(since)}", True


def _cross_venue(inputs: StatusInputs) -> Verdict:
    compared = inputs.disputes
    if inputs.venues <= 1:
        return "not_configured", "only one venue is read"
    if compared is None:
        return "warming_up", "not compared yet"
    disputed = [
        f"{VENUES[venue].title}: {measure} disputed since {iso_timestamp(since)}: {why}"
        for venue, measure, since, why in map(astuple, compared.disputes)
    ]
    if disputed:
        return "degraded", "; ".join(disputed)
    if inputs.now < compared.ready_at:
        return _warming_up(compared.ready_at, "the venues' usual levels are not known yet")
    return "ok", f"{inputs.venues} venues compared; nothing is disputed"


def _database(inputs: StatusInputs) -> Verdict:
    if inputs.polled_at is None or inputs.now - inputs.polled_at >= DATABASE_SILENT_MS:
        return "down", "cannot be read"
    if inputs.wrong_clock is not None:
        return "degraded", inputs.wrong_clock
    return "ok", "readable"


def _limits(inputs: StatusInputs) -> Verdict:
    if inputs.limits_failing_since is None:
        return "ok", "requests are being counted"
    since = iso_timestamp(inputs.limits_failing_since)
    detail = f"the shared store has been failing since {since}; each worker counts for itself"
    return "degraded", detail


def _macro(inputs: StatusInputs) -> Verdict:
    if inputs.macro is None:
        return "ok", "not read yet"
    sources = sorted(inputs.macro.sources.items())
    if not sources:
        return "not_configured", "no source is configured"
    failing = [
        f"{_figures(source)}: {health.failure} since {iso_timestamp(health.failing_since)}"
        for source, health in sources
        if health.failure is not None and health.failing_since is not None
    ]
    if failing:
        return "degraded", "; ".join(failing)
    return "ok", ", ".join(
        f"{_figures(source)} {_reach(each.newest_day)}" for source, each in sources
    )


def _figures(source: str) -> str:
    """What a source publishes, such as `SOFR`, or `IBIT` for `etf-ibit`."""
    return "Treasury yields" if source == "treasury" else source.removeprefix("etf-").upper()


def _reach(newest_day: str | None) -> str:
    return "not read yet" if newest_day is None else f"through {newest_day}"


def _etf_flows(inputs: StatusInputs) -> Verdict:
    """The flows of BTC ETFs. The issuer publishes only the newest day."""
    stances = inputs.stances
    if stances is None:
        return "ok", "not read yet"
    waiting = stances.waiting.get(ETF_STANCE)
    if waiting is None:
        why = stances.silent.get(ETF_STANCE)
        return ("ok", "up to date") if why is None else ("degraded", why)
    if waiting.until is None:
        return "not_configured", waiting.why
    sources = {} if inputs.macro is None else inputs.macro.sources
    if any(each.failure and source.startswith("etf-") for source, each in sources.items()):
        return "degraded", f"{waiting.why}; the source fails"
    return _warming_up(waiting.until, f"{waiting.why}; {_IMPORT}")


def _stances(inputs: StatusInputs) -> Verdict:
    if inputs.stances is None:
        return "ok", "none has been issued yet"
    stances = inputs.stances.stances
    lost = [stance.kind for stance in stances if not stance.history_durable]
    expired = [stance.kind for stance in stances if stance.expires_at <= inputs.now]
    problems = [f"not recorded: {', '.join(lost)}"] if lost else []
    problems += [f"expired: {', '.join(expired)}"] if expired else []
    silent = [
        f"{kind}: {why}"
        for kind, why in sorted(inputs.stances.silent.items())
        if kind != ETF_STANCE  # `etf-flows` says why
    ]
    waiting = [f"{kind}: {each.why}" for kind, each in sorted(inputs.stances.waiting.items())]
    detail = "; ".join([*([*problems, *silent] or ["issued and recorded"]), *waiting])
    first_at = inputs.started_at + FIRST_STANCES_MS
    if silent and not problems and inputs.now < first_at:
        return _warming_up(first_at, detail)
    return "degraded" if problems or silent else "ok", detail


def _witness(now: int, states: Sequence[WitnessState]) -> Verdict:
    """Whether a witness cosigns every log."""
    forks = [state.origin for state in states if state.is_fork]
    if forks:
        return "down", f"refuses our log {', '.join(forks)}: {_FORK}"
    failing = [(state.failing_since, state) for state in states if state.failing_since is not None]
    problems = [f"{each.origin}: {each.failure} since {iso_timestamp(at)}" for at, each in failing]
    times = [state.cosigned_at for state in states if state.cosigned_at is not None]
    done = "has not cosigned yet"
    if times:
        age = f"{_seconds(now - max(times)):g} s ago"
        logs = "1 log" if len(times) == 1 else f"{len(times)} logs"
        done = f"has cosigned {logs}, the last one {age}"
    is_failing = any(now - since > WITNESS_FAILING_MS for since, _ in failing)
    status: CheckStatus = "degraded" if is_failing else "ok" if times else "warming_up"
    return (status, "; ".join([done, *problems]))


def _with_terms(
    verdicts: dict[str, Verdict], unconfirmed: Unconfirmed | None
) -> dict[str, Verdict]:
    """The checks with the sources that are not read, and why; none of them is a failure."""
    if unconfirmed is None:
        return verdicts
    reasons = {SOURCES[name].check: unconfirmed.explain(name) for name in unconfirmed.names}
    explained: dict[str, Verdict] = {
        name: (status, reasons.get(name, detail) if status == "not_configured" else detail)
        for name, (status, detail) in verdicts.items()
        if name not in unconfirmed.names  # a venue that this worker expects, but nobody reads
    }
    unread: dict[str, Verdict] = {
        name: ("not_configured", unconfirmed.explain(name))
        for name in unconfirmed.names
        if name != SELLING  # `payments` says why
    }
    return explained | unread


def _outside(reach: Reachability | None, absent: str) -> Verdict:
    """An outside service that only some requests need."""
    if reach is None:
        return "not_configured", absent
    if reach.failing_since is not None:
        what = "unreachable" if reach.reason is None else f"{reach.reason}; failing"
        detail = f"{what} since {iso_timestamp(reach.failing_since)}"
        if reach.failed_at is not None:
            detail += f", last tried at {iso_timestamp(reach.failed_at)}"
        return "degraded", detail
    if reach.answered_at is None:
        return "ok", "not called yet"
    return "ok", f"answered at {iso_timestamp(reach.answered_at)}"


def _seconds(milliseconds: int) -> float:
    return round(max(0, milliseconds) / SECOND, 1)
