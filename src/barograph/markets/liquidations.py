"""The last 24 hours of liquidations, and how much of that time we watched (pure, in memory)."""

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from barograph.errors import InvalidReply
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.venues.records import Liquidation, Side
from barograph.venues.spans import Span, WatchedSpans

MAX_PER_DAY = 1_000_000
"""The most liquidations of one venue in 24 hours. On the worst day so far, 2025-10-10, about 1.6
million traders were liquidated at all exchanges together."""

_CENTS = 100

_Cents = dict[tuple[str, Side], int]
"""Whole cents by contract and side."""

_NOTHING: _Cents = {}
SIDES: Final[tuple[Side, Side]] = ("long", "short")


class LiquidationTotals(Struct, frozen=True):
    """What one venue liquidated in the 24 hours before `as_of`."""

    as_of: int
    watched_pct: float
    """Share of the 24 hours in which we can't have missed anything, in percent."""

    total_usd: float
    long_pct: float | None
    """Liquidated longs in percent of the total; None when nothing was liquidated, or the sides were
    disputed."""

    top_asset: str | None
    """The base asset with the largest total; None when nothing was liquidated."""

    watched_until: int | None = None
    """The end of the newest watched span; if far behind `as_of`, no stream is connected."""

    watching_since: int | None = None
    """When this instance first began to watch."""

    covered_at: int | None = None
    """When enough of 24 hours will be covered, if we miss nothing from `as_of` on; None if it is
    already."""

    by_contract: dict[str, tuple[float, float]] | None = None
    """Liquidated longs and shorts in USD, by contract; a contract without any is left out. None if
    the sides were disputed."""

    @property
    def heard_at(self) -> int | None:
        """When a stream was last connected; a first one counts as connected at the start."""
        return self.watching_since if self.watched_until is None else self.watched_until


class LiquidationHour(NamedTuple):
    """What one venue liquidated in the hour from `at`."""

    at: int
    long_usd: float
    short_usd: float
    watched_pct: float
    """Share of the hour in which we can't have missed anything, in percent; not rounded, so that
    the hours of a day add up to the day."""

    @property
    def total_usd(self) -> float:
        """Both sides together."""
        return self.long_usd + self.short_usd


class LiquidationWindow:
    """Counts each liquidation once, for 24 hours.

    Sums are whole cents, because floats would drift over a day of adding and subtracting.
    """

    def __init__(self) -> None:
        self._seen: set[Liquidation] = set()
        self._by_age: list[tuple[int, int, int, Liquidation]] = []
        self._cents: _Cents = defaultdict(int)
        self._by_minute: dict[int, _Cents] = defaultdict(lambda: defaultdict(int))
        self._sides: dict[int, dict[Side, int]] = defaultdict(lambda: {"long": 0, "short": 0})
        self._order = 0
        self._tidied = 0
        self._summed: tuple[int, int, int] | None = None
        self._sums: dict[tuple[str, Side], float] = {}

    def add(self, liquidations: Iterable[Liquidation]) -> list[Liquidation]:
        """Add a batch and return the new ones."""
        fresh = []
        for event in liquidations:
            if event not in self._seen:
                self._seen.add(event)
                self._order += 1
                key, cents = (event.contract, event.side), _cents(event)
                heapq.heappush(self._by_age, (event.at, self._order, cents, event))
                self._cents[key] += cents
                minute = event.at // MINUTE * MINUTE
                self._by_minute[minute][key] += cents
                self._sides[minute][event.side] += cents
                fresh.append(event)
        return fresh

    def __len__(self) -> int:
        return len(self._by_age)

    def without(self, contracts: Collection[str]) -> "LiquidationWindow":
        """This window, or another one if it has liquidations of some of the contracts."""
        if not any(contract in contracts for contract, _ in self._cents):
            return self
        others = LiquidationWindow()
        others.add(event for *_, event in self._by_age if event.contract not in contracts)
        return others

    def totals(
        self, as_of: int, watched: "WatchedSpans", bases: Mapping[str, str]
    ) -> LiquidationTotals:
        """Sum up the 24 hours before `as_of`; `bases` names the asset of each contract."""
        watched.begun_by(as_of)
        self._forget_before(as_of - DAY)
        assets: dict[str, int] = defaultdict(int)
        for (contract, _), cents in self._cents.items():
            assets[bases.get(contract, contract)] += cents
        total = sum(self._cents.values())
        longs = sum(cents for (_, side), cents in self._cents.items() if side == "long")
        return LiquidationTotals(
            as_of=as_of,
            watched_pct=watched.watched_pct(as_of),
            watched_until=watched.until,
            watching_since=watched.since,
            total_usd=total / _CENTS,
            long_pct=round(100 * longs / total, 2) if total else None,
            top_asset=max(assets, key=lambda asset: (assets[asset], asset)) if total else None,
            by_contract=self._by_contract(),
        )

    def _by_contract(self) -> dict[str, tuple[float, float]]:
        cents = self._cents
        contracts = dict.fromkeys(name for (name, _), value in cents.items() if value)
        return {
            name: (cents.get((name, "long"), 0) / _CENTS, cents.get((name, "short"), 0) / _CENTS)
            for name in contracts
        }

    def between(self, start: int, end: int) -> dict[tuple[str, Side], float]:
        """What was liquidated between two whole minutes, in USD by contract and side."""
        asked = (start, end, self._order)
        if asked != self._summed:
            cents: _Cents = {}
            for minute in range(start, end, MINUTE):
                for key, value in self._by_minute.get(minute, _NOTHING).items():
                    cents[key] = cents.get(key, 0) + value
            self._sums = {key: value / _CENTS for key, value in cents.items()}
            self._summed = asked
        return self._sums

    def sides(self, start: int, end: int) -> tuple[float, float]:
        """Longs and shorts that were liquidated between two whole minutes, in USD."""
        minutes = [self._sides[at] for at in range(start, end, MINUTE) if at in self._sides]
        longs, shorts = (sum(cents[side] for cents in minutes) for side in SIDES)
        return longs / _CENTS, shorts / _CENTS

    def _forget_before(self, oldest: int) -> None:
        while self._by_age and self._by_age[0][0] < oldest:
            _, _, cents, event = heapq.heappop(self._by_age)
            self._seen.discard(event)
            self._cents[event.contract, event.side] -= cents
        if oldest // MINUTE != self._tidied:
            self._tidied = oldest // MINUTE
            for minute in [each for each in self._by_minute if each + MINUTE <= oldest]:
                del self._by_minute[minute], self._sides[minute]


def watched_time(hours_pct: float) -> int:
    """The watched time of some hours, in milliseconds, from the sum of their shares in percent."""
    return round(hours_pct * HOUR / 100)


class LiquidationTracker:
    """Counts liquidations and watched time, and keeps both until they are stored."""

    def __init__(
        self,
        min_watched_pct: float,
        liquidations: Iterable[Liquidation] = (),
        spans: Iterable[Span] = (),
        since: int | None = None,
    ) -> None:
        self._min_watched_pct = min_watched_pct
        self._window = LiquidationWindow()
        self._window.add(liquidations)
        self._watched = WatchedSpans(spans, since)
        self._unsaved: list[Liquidation] = []
        self._unsaved_spans: dict[int, int] = {}

    @property
    def unsaved(self) -> list[Liquidation]:
        """The liquidations that are not stored yet."""
        return list(self._unsaved)

    @property
    def unsaved_spans(self) -> list[Span]:
        """The watched spans that are new or longer since they were stored."""
        return list(self._unsaved_spans.items())

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        """Take a batch; a liquidation that comes twice counts once.

        Raises:
            InvalidReply: there were more in 24 hours than can be right.
        """
        if len(self._window) + len(liquidations) > MAX_PER_DAY:
            raise InvalidReply(f"more than {MAX_PER_DAY:,} liquidations in 24 hours")
        self._unsaved += self._window.add(liquidations)

    def watched(self, start: int, end: int) -> None:
        """Record that the stream missed nothing from `start` to `end`."""
        first, last = self._watched.add(start, end)
        self._unsaved_spans[first] = last

    def written(self, liquidations: Sequence[Liquidation], spans: Iterable[Span]) -> None:
        """Forget what is stored."""
        del self._unsaved[: len(liquidations)]
        for start, end in spans:
            if self._unsaved_spans.get(start) == end:
                del self._unsaved_spans[start]

    def totals(self, as_of: int, bases: Mapping[str, str]) -> LiquidationTotals:
        """Sum up the 24 hours before `as_of`; `bases` names the asset of each contract."""
        totals = self._window.totals(as_of, self._watched, bases)
        covered_at = self._watched.covered_at(as_of, self._min_watched_pct)
        return replace(totals, covered_at=covered_at)

    def leave_out(self, contracts: Collection[str]) -> None:
        """Stop counting contracts that an earlier version still watched."""
        self._window = self._window.without(contracts)

    def last_hour(self, at: int) -> LiquidationHour:
        """Sum up the newest sixty whole minutes that are watched to their end."""
        return self._hour(self._watched_until(at) // MINUTE * MINUTE - HOUR)

    def closed_hours(self, at: int, newest: int | None) -> list[LiquidationHour]:
        """The hours that have ended after `newest`, as far back as liquidations are known.

        The proof that nothing was missed comes a little later, so an hour waits for it for up to a
        minute.
        """
        end = at // HOUR * HOUR
        if self._watched_until(at) < end:
            end -= HOUR
        known_since = (at - DAY + HOUR - 1) // HOUR * HOUR
        start = end - HOUR if newest is None else max(newest + HOUR, known_since)
        return [self._hour(each) for each in range(start, end, HOUR)]

    def between(self, start: int, end: int) -> Mapping[tuple[str, Side], float]:
        """What was liquidated between two whole minutes, in USD by contract and side."""
        return self._window.between(start, end)

    def assets(self, start: int, bases: Mapping[str, str]) -> list[tuple[str, float]]:
        """What was liquidated of each asset in the hour from `start`, the largest first."""
        assets: dict[str, float] = defaultdict(float)
        for (contract, _), usd in self._window.between(start, start + HOUR).items():
            assets[bases.get(contract, contract)] += usd
        return sorted(assets.items(), key=lambda each: (-each[1], each[0]))

    def _hour(self, start: int) -> LiquidationHour:
        watched = 100 * self._watched.time_within(start, start + HOUR) / HOUR
        return LiquidationHour(start, *self._window.sides(start, start + HOUR), watched)

    def _watched_until(self, at: int) -> int:
        """Up to when nothing was missed, or a minute before `at` if that is later."""
        until = self._watched.until
        return at - MINUTE if until is None else max(at - MINUTE, min(at, until))


def _cents(event: Liquidation) -> int:
    return round(event.notional_usd * _CENTS)
