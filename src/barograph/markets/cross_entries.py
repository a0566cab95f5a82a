"""One coin at one venue, and sums that name what is missing from them (pure)."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from barograph.markets.last_known import KnownValues
from barograph.markets.settlements import SettledSums
from barograph.venues.records import Frame, PastValues, Perpetual

State = Literal["ok", "disputed", "different asset", "stale", "unavailable", "not listed"]

PRICE, FUNDING, OPEN_INTEREST = "price", "funding", "open-interest"
"""The measures whose dispute leaves a venue out of a result."""


class CrossVenue(NamedTuple):
    """One coin at one venue. A venue with two contracts of a coin has two of these."""

    venue: str
    state: State
    reason: str | None = None
    contract: Perpetual | None = None
    """None without a fresh reading."""

    as_of: int | None = None
    price: float | None = None
    """The mark price of one coin."""

    interest_usd: float | None = None
    """Open interest, one-sided."""

    interest_coins: float | None = None
    """In single coins, whatever the contract's multiplier."""

    volume_usd: float | None = None
    volume_coins: float | None = None
    """In single coins, too."""

    funding_8h_pct: float | None = None
    """The live rate: an estimate of the next settlement."""

    settled: SettledSums | None = None
    """What it settled in the windows of its coin; None if the shortest of them is unknown."""

    settled_choices: Sequence[SettledSums] = ()
    """The same, for the windows that ended last."""

    settled_until: int = 0
    """While its funding is disputed: when the dispute began. Later settlements don't count."""

    liquidated_last: tuple[float, float] | None = None
    """The last known liquidations of a venue that is missing."""

    liquidated_usd: tuple[float, float] | None = None
    """Longs and shorts of 24 hours; None if unknown, or if we covered too little."""

    disputed: tuple[str, ...] = ()
    last: Sequence[KnownValues] = ()
    """The last known values of its contracts, to say how large it was if it is missing."""

    last_names: Sequence[str] = ()
    """The full names of the contracts of `last`."""

    day_ago: int = 0
    before: PastValues | None = None
    """The values of its contract 24 hours ago, at `day_ago`."""

    last_before: Sequence[PastValues | None] = ()
    """The values of the contracts of `last` at `day_ago`."""

    def compared_with(self, then: Frame, after: int) -> "CrossVenue":
        """This entry with the values of `then`; last known values count if newer than `after`."""
        named = zip(self.last_names, self.last, strict=True)
        return self._replace(
            day_ago=then.at,
            before=None if self.contract is None else then.contracts.get(self.contract.contract),
            last_before=[then.contracts.get(n) if old.at > after else None for n, old in named],
        )

    def ends(self, *, is_missing: bool) -> "Ends":
        """Its contract now and then; while it is missing, its last known values and those then."""
        if is_missing or self.contract is None:
            return zip(self.last, self.last_before, strict=False)
        return [(self.contract, self.before)]

    @property
    def interest_at(self) -> int | None:
        """When the open interest was counted."""
        if self.contract is None or self.interest_usd is None:
            return None
        return self.contract.open_interest_at or self.as_of

    @property
    def held_usd(self) -> float | None:
        """The open interest, or the last known one while it doesn't count."""
        if self.missing() is None:
            return self.interest_usd
        return sum_known(old.open_interest_usd for old in self.last)

    def left_out(self, *measures: str) -> str | None:
        """Why it doesn't count if these measures have to be right; None if it does."""
        if self.contract is None:
            return self.reason
        found = [each for each in self.disputed if each in measures]
        return f"disputed: {', '.join(found)}" if found else None

    def missing(self, *also: str) -> str | None:
        """Why the open interest doesn't count, or `also` another measure; None if it does."""
        found = self.left_out(PRICE, OPEN_INTEREST, *also)
        if found is None and self.interest_usd is None:
            return "it has no current open interest"
        return found


Ends = Iterable[tuple[Perpetual | KnownValues, PastValues | None]]


class Missing(NamedTuple):
    """A venue without which a result is partial, and how large it last was."""

    venue: str
    reason: str
    last_usd: float | None = None
    last_coins: float | None = None
    last_at: int | None = None


class Total(NamedTuple):
    """A sum of what is known."""

    usd: float | None
    """None if it is known at no venue."""

    coins: float | None
    """None also if a venue sends only USD."""

    missing: Sequence[Missing]

    @property
    def at_least_usd(self) -> float | None:
        """The sum with the last values of missing venues, as far as these are known."""
        return sum_known([self.usd, *(each.last_usd for each in self.missing)])

    @property
    def with_missing_usd(self) -> float | None:
        """The same; None if the size of a missing venue is unknown."""
        is_known = all(each.last_usd is not None for each in self.missing)
        return self.at_least_usd if is_known else None


def sum_known(values: Iterable[float | None]) -> float | None:
    """The sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def weighted_mean(pairs: Iterable[tuple[float, float]]) -> float | None:
    """The mean of pairs of a weight and a value; None if the weights add up to zero."""
    known = [*pairs]
    total = sum(weight for weight, _ in known)
    return sum(weight * value for weight, value in known) / total if total else None


def others(entries: Iterable[CrossVenue], known: Iterable[str]) -> tuple[str, ...]:
    """The venues that list the coin, without those that are known."""
    names = {*known}
    return tuple(
        dict.fromkeys(
            each.venue
            for each in entries
            if each.venue not in names and each.state != "different asset"
        )
    )
