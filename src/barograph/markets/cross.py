"""Every coin at all venues, side by side (pure).

Venues match by the coin that each of them declares, never by price.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from barograph.kit.timestamps import DAY, HOUR, MINUTE, iso_timestamp
from barograph.markets.cross_coins import CrossCoin, coin_of_venues
from barograph.markets.cross_entries import (
    FUNDING,
    OPEN_INTEREST,
    CrossVenue,
    Missing,
    State,
    Total,
)
from barograph.markets.cross_prices import compared_prices, depth, is_far, priced
from barograph.markets.disputes import Dispute, Measure
from barograph.markets.frames import is_near
from barograph.markets.last_known import KEPT_FOR, KnownValues, LastKnown
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.market_events import DELISTED_AFTER
from barograph.markets.settlements import SettledSums, SettledWindows
from barograph.markets.view import FreshnessLimits, is_fresh
from barograph.venues.facts import Venue
from barograph.venues.records import MAJORS, Frame, Perpetuals
from barograph.venues.registry import VENUES

MISSED_FOR = DELISTED_AFTER + 2 * MINUTE
"""How long a contract that accepted replies lack counts as missing. Its last known values are up to
a minute older than the first of these replies."""

MIN_COMMON = 8
"""If most of this many common coins differ, a venue's prices are wrong, not its assets."""


class VenueFacts(NamedTuple):
    """What is known about one configured venue."""

    venue: Venue
    reading: Perpetuals | None = None
    """The newest one, of any age."""

    totals: LiquidationTotals | None = None
    failure: str | None = None
    """The kind of the last failure, as in `barograph.errors`; None after a success."""

    failing_since: int | None = None
    disputed: Mapping[Measure, Dispute] = {}
    settled: SettledWindows | None = None
    day_ago: Frame | None = None
    """What 24-hour changes compare with."""

    known: LastKnown = LastKnown()

    def state(self, limits: FreshnessLimits, now: int) -> tuple[State, str | None]:
        """The state of its data, and the reason unless it is `ok`."""
        reading, failing = self.reading, self.failure
        if reading is not None and is_fresh(reading.as_of, limits.perpetuals, now):
            return "ok", None
        if failing is not None and self.failing_since is not None:
            failing = f"{failing} since {iso_timestamp(self.failing_since)}"
        if reading is None:
            return "unavailable", failing or "we have no reading of it yet"
        last = f"its last reading is from {iso_timestamp(reading.as_of)}"
        return ("stale", last) if failing is None else ("unavailable", f"{failing}; {last}")

    def fresh_totals(self, limits: FreshnessLimits, now: int) -> LiquidationTotals | None:
        """Its liquidations, if it publishes any and they are fresh."""
        totals = None if self.venue.liquidations == "none" else self.totals
        is_shown = totals is not None and is_fresh(totals.as_of, limits.liquidations, now)
        return totals if is_shown else None


class CrossMarket(NamedTuple):
    """Every coin, as known at `now`."""

    now: int
    limits: FreshnessLimits
    facts: Mapping[str, VenueFacts]
    """In the order of the configuration."""

    fresh: Sequence[Perpetuals]
    """The fresh readings."""

    coins: Mapping[str, CrossCoin]
    """BTC, ETH and SOL, then the others, the largest open interest first. A venue that is missing
    counts with its last known values, so no coin changes its place."""

    by_venue: Mapping[str, float]
    """The open interest that is in the totals of the coins, by venue."""

    open_interest: Total
    """Of all coins, in USD."""

    @property
    def is_partial(self) -> bool:
        """Whether a venue is missing from the totals as a whole."""
        return len(self.by_venue) < len(self.facts)

    @property
    def as_of(self) -> int:
        """The time of the oldest fresh reading."""
        return min(each.as_of for each in self.fresh)

    @property
    def source(self) -> str:
        """The sources of the fresh readings."""
        return "; ".join(each.source for each in self.fresh)

    def entries(self, coin: CrossCoin) -> list[CrossVenue]:
        """A coin at every configured venue."""
        listed, why = {each.venue for each in coin.venues}, "it does not list this coin"
        absent = (name for name in self.facts if name not in listed)
        return [*coin.venues, *(CrossVenue(name, "not listed", why) for name in absent)]

    @property
    def until(self) -> int:
        """When the first of these facts reaches its freshness limit."""
        totals = (fact.fresh_totals(self.limits, self.now) for fact in self.facts.values())
        limits = [total.as_of + self.limits.liquidations for total in totals if total is not None]
        return min([self.as_of + self.limits.perpetuals, *limits])


def cross_market(facts: Mapping[str, VenueFacts], limits: FreshnessLimits, now: int) -> CrossMarket:
    """Compare the configured venues."""
    listed = _listed(facts, limits, now)
    wrong = _wrong_prices(listed.values())
    compared = [coin_of_venues(asset, entries, wrong) for asset, entries in listed.items()]
    compared.sort(key=lambda each: (each.asset not in MAJORS, -_size(each), each.asset))
    by_asset = {coin.asset: coin for coin in compared}
    states = ((fact.reading, fact.state(limits, now)) for fact in facts.values())
    fresh = [each for each, (state, _) in states if each is not None and state == "ok"]
    known: dict[str, float] = defaultdict(float)
    for coin in compared:
        for entry in coin.counted:
            known[entry.venue] += entry.interest_usd or 0.0
    total = total_of(coin.open_interest for coin in compared)
    return CrossMarket(now, limits, facts, fresh, by_asset, known, total)


def _listed(
    facts: Mapping[str, VenueFacts], limits: FreshnessLimits, now: int
) -> dict[str, list[CrossVenue]]:
    """The venues that list each coin, or may list it."""
    listed: dict[str, list[CrossVenue]] = defaultdict(list)
    unread: list[CrossVenue] = []
    for fact in facts.values():
        absent = CrossVenue(fact.venue.name, *fact.state(limits, now), disputed=(*fact.disputed,))
        settled = {} if fact.settled is None else fact.settled.contracts
        last, choices = _last_values(fact, now), dict[str, Sequence[SettledSums]]()
        liquidated: dict[str, tuple[float, float]] = {}
        if absent.state == "ok" and fact.reading is not None:
            sums = _sums(fact, limits, now)
            for asset, entry in _entries(fact, fact.reading, last, sums):
                listed[asset].append(entry)
            absent = CrossVenue(fact.venue.name, "unavailable")
            last = _not_read(fact, last)
            choices = {each.asset: settled.get(name, ()) for name, each in last.items()}
            liquidated = {e.asset: sums[n] for n, e in last.items() if sums and n in sums}
            coins: Iterable[str] = {*fact.reading.unusable, *choices}
        elif fact.reading is not None:
            # What it settled stays true while it is down.
            contracts = fact.reading.contracts
            choices = {e.asset: settled.get(e.contract, ()) for e in contracts}
            listed_then = {e.contract for e in contracts} | _not_read(fact, last).keys()
            last = {name: each for name, each in last.items() if name in listed_then}
            coins = {*choices, *(each.asset for each in last.values())}
            # Liquidations that we saw stay a lower bound.
            sums = _sums(fact, limits._replace(liquidations=HOUR), now)
            if sums is not None:
                liquidated = {e.asset: sums.get(e.contract, _ZERO) for e in contracts}
        else:
            coins = {each.asset for each in last.values()}
            if not coins:
                unread.append(absent)  # it may list any coin
        day_ago = _day_ago(fact)
        for asset, names in _by_asset(coins, last).items():
            entry = absent._replace(
                reason=absent.reason or _reason(fact, asset, names),
                last=[last[name] for name in names],
                last_names=names,
                settled_choices=choices.get(asset, ()),
                liquidated_last=liquidated.get(asset),
            )
            listed[asset].append(entry.compared_with(day_ago, now - DAY))
    return {asset: [*entries, *unread] for asset, entries in listed.items()}


def other_assets(
    readings: Mapping[str, Perpetuals],
    known: Mapping[str, LastKnown],
    day_ago: Mapping[str, Frame],
    limits: FreshnessLimits,
    now: int,
) -> dict[str, set[str]]:
    """The contracts of each venue that are another asset of the same name, by their prices."""
    facts = {
        name: VenueFacts(VENUES[name], readings.get(name), known=each, day_ago=day_ago.get(name))
        for name, each in known.items()
    }
    found: dict[str, set[str]] = defaultdict(set)
    listed = _listed(facts, limits, now).values()
    wrong = _wrong_prices(listed)
    for entries in listed:
        for each in compared_prices(entries, wrong):
            if each.state == "different asset" and each.contract is not None:
                found[each.venue].add(each.contract.contract)
    return found


def total_of(coins: Iterable[Total]) -> Total:
    """The sum of several coins, in USD."""
    known: list[float] = []
    missing: dict[str, list[Missing]] = defaultdict(list)
    for coin in coins:
        known += [] if coin.usd is None else [coin.usd]
        for each in coin.missing:
            missing[each.venue].append(each)
    lacks = [_all_missing(venue, each) for venue, each in missing.items()]
    return Total(sum(known) if known else None, None, lacks)


def _all_missing(venue: str, coins: Sequence[Missing]) -> Missing:
    """What a venue lacks, for the most common reason."""
    reason, count = Counter(each.reason for each in coins).most_common(1)[0]
    last = [each.last_usd for each in coins if each.last_usd is not None]
    oldest = min((each.last_at for each in coins if each.last_at is not None), default=None)
    of = f"{count} coins: {reason}" if count > 1 else reason
    return Missing(venue, of, sum(last) if last else None, None, oldest)


def _last_values(facts: VenueFacts, now: int) -> dict[str, KnownValues]:
    known = facts.known.contracts.items()
    return {name: each for name, each in known if now - each.at < KEPT_FOR}


def _day_ago(facts: VenueFacts) -> Frame:
    """What the newest reading compares with; an empty frame if there is none."""
    reading, frame = facts.reading, facts.day_ago
    if frame is None or reading is None or not is_near(frame.at, reading.as_of - DAY):
        return Frame()
    return frame


def _by_asset(assets: Iterable[str], last: Mapping[str, KnownValues]) -> dict[str, list[str]]:
    """The last known contracts of some coins."""
    found: dict[str, list[str]] = {asset: [] for asset in assets}
    for name, each in last.items() if found else ():
        if each.asset in found:
            found[each.asset].append(name)
    return found


def _not_read(fact: VenueFacts, last: Mapping[str, KnownValues]) -> dict[str, KnownValues]:
    """The contracts that its reading lacks, until they are delisted or have a new name."""
    assert fact.reading is not None
    reading, old = fact.reading, _day_ago(fact).contracts or last
    read = {each.contract for each in reading.contracts}.union(reading.not_crypto)
    renamed = {each.asset for each in reading.contracts if each.contract not in old}
    return {
        name: each
        for name, each in last.items()
        if name not in read
        and (
            name in reading.doubted
            or each.asset in reading.unusable
            or (reading.as_of - each.at < MISSED_FOR and each.asset not in renamed)
        )
    }


def _reason(fact: VenueFacts, asset: str, names: Iterable[str]) -> str:
    assert fact.reading is not None
    doubts = (fact.reading.doubted.get(name) for name in names)
    usual = _UNUSABLE if asset in fact.reading.unusable else _ABSENT
    return next(filter(None, doubts), usual)


_Sums = Mapping[str, tuple[float, float]]
_ZERO = (0.0, 0.0)
_UNUSABLE = "a value of its contract can't be used"
_ABSENT = "its contract is not in the newest reply"


def _sums(facts: VenueFacts, limits: FreshnessLimits, now: int) -> _Sums | None:
    totals = facts.fresh_totals(limits, now)
    if totals is None or totals.watched_pct < limits.min_coverage_pct:
        return None
    return totals.by_contract


def _entries(
    facts: VenueFacts, reading: Perpetuals, last: Mapping[str, KnownValues], sums: _Sums | None
) -> Iterator[tuple[str, CrossVenue]]:
    """Each contract of a fresh reading, by its coin."""
    disputes: dict[str, str] = {name: each.why for name, each in facts.disputed.items()}
    if reading.doubted_rates:
        disputes = {FUNDING: reading.doubted_rates, **disputes}
    unwatched = frozenset(reading.unwatched)
    wrong_rates = facts.disputed.get("funding")
    # What it settled before is a fact.
    settled_until = reading.as_of if wrong_rates is None else wrong_rates.since
    settled = {} if facts.settled is None else facts.settled.contracts
    day_ago = _day_ago(facts)
    for perpetual in reading.contracts:
        name, multiplier = perpetual.contract, perpetual.multiplier
        known, why = last.get(name), disputes
        if name in reading.doubted:
            why = {OPEN_INTEREST: reading.doubted[name], **disputes}
        yield (
            perpetual.asset,
            CrossVenue(
                venue=facts.venue.name,
                state="disputed" if why else "ok",
                reason="; ".join(why.values()) or None,
                contract=perpetual,
                as_of=reading.as_of,
                price=perpetual.mark / multiplier,
                interest_usd=perpetual.open_interest_usd,
                interest_coins=_times(perpetual.open_interest_coins, multiplier),
                volume_usd=perpetual.volume_24h_usd,
                volume_coins=_times(perpetual.volume_24h_coins, multiplier),
                funding_8h_pct=perpetual.funding_8h_pct,
                settled_choices=[
                    each for each in settled.get(name, ()) if each.end <= settled_until
                ],
                settled_until=settled_until,
                liquidated_usd=None if sums is None or name in unwatched else sums.get(name, _ZERO),
                disputed=tuple(why),
                last=() if known is None else (known,),
                last_names=() if known is None else (name,),
            ).compared_with(day_ago, reading.as_of - DAY),
        )


def _times(size: float | None, multiplier: int) -> float | None:
    return None if size is None else size * multiplier


def _wrong_prices(coins: Iterable[Sequence[CrossVenue]]) -> set[str]:
    """The venues that differ from the majority in most coins; of two, the deepest is right."""
    compared: dict[str, list[bool]] = defaultdict(list)
    for entries in coins:
        known = priced(entries)
        if len(known) <= 1:
            continue
        is_majority = len(known) > 2  # noqa: PLR2004
        usual = median(e.price for e in known) if is_majority else max(known, key=depth).price
        for each in known:
            compared[each.entry.venue].append(is_far(each.price, usual))
    return {
        name
        for name, found in compared.items()
        if len(found) >= MIN_COMMON and sum(found) > len(found) / 2
    }


def _size(coin: CrossCoin) -> float:
    return coin.open_interest.at_least_usd or 0.0
