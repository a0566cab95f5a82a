"""The spread of funding rates between venues, now and in the recorded hours (pure)."""

from collections.abc import Iterable, Mapping

from barograph.markets.evidence import FundingSpread, SpreadHour
from barograph.markets.records import MAJORS, Perpetuals, majors_of

MIN_VENUES = 2


class SpreadRecord:
    """The funding rates of the majors at every venue, by hour."""

    def __init__(self) -> None:
        self._rates: dict[str, dict[int, dict[str, tuple[float, bool]]]] = {}
        self._hours: dict[tuple[str, frozenset[str]], list[SpreadHour]] = {}

    def add(
        self, venue: str, asset: str, at: int, funding_8h_pct: float, *, is_backfilled: bool = False
    ) -> None:
        """Add the rate of an hour, in percent per eight hours."""
        rates = self._rates.setdefault(asset, {})
        rates.setdefault(at, {})[venue] = funding_8h_pct, is_backfilled
        self._hours.clear()

    def hours(self, asset: str, venues: Iterable[str]) -> list[SpreadHour]:
        """The hours in which all these venues have a rate, narrowest spread first."""
        wanted = frozenset(venues)
        if (asset, wanted) not in self._hours:
            known = self._rates.get(asset, {}).values()
            self._hours[asset, wanted] = sorted(
                _spread([rates[venue] for venue in wanted])
                for rates in known
                if wanted <= rates.keys()
            )
        return self._hours[asset, wanted]


def funding_spreads(
    readings: Mapping[str, Perpetuals], record: SpreadRecord
) -> dict[str, FundingSpread]:
    """The spreads of BTC, ETH and SOL, by asset.

    `readings` are the newest of the venues, by venue: only fresh ones with undisputed funding.
    """
    majors = {venue: majors_of(reading) for venue, reading in readings.items()}
    spreads = {}
    for asset in MAJORS:
        listed = {venue: each[asset] for venue, each in majors.items() if asset in each}
        if len(listed) >= MIN_VENUES:
            rates = {venue: each.funding_8h_pct for venue, each in listed.items()}
            sources = [readings[venue].source for venue in rates]
            spreads[asset] = FundingSpread(rates, sources, record.hours(asset, rates))
    return spreads


def _spread(rates: list[tuple[float, bool]]) -> SpreadHour:
    values = [rate for rate, _ in rates]
    return SpreadHour(max(values) - min(values), any(filled for _, filled in rates))
