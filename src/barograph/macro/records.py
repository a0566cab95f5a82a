"""Daily figures of bitcoin funds and US interest rates, as frozen records.

A day is the one that a figure is about, as an ISO date; it is published later, and may be revised
after that. Nothing stands for a day without a figure: it is absent.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from barograph.board.feeds import Feed

US3M = "us3m"
"""Par yield of US Treasury bills of three months, in percent a year."""

US2Y = "us2y"
"""Par yield of US Treasury notes of two years, in percent a year."""

US10Y = "us10y"
"""Par yield of US Treasury notes of ten years, in percent a year."""

SOFR = "sofr"
"""Secured Overnight Financing Rate, in percent a year."""

EFFR = "effr"
"""Effective Federal Funds Rate, in percent a year."""

EFFR_LOW = "effr-low"
"""Lower end of the target range of the federal funds rate, in percent a year."""

EFFR_HIGH = "effr-high"
"""Upper end of the target range of the federal funds rate, in percent a year."""

OPERATOR_FLOW = "etf-operator-flow"
"""Net flow into all funds that the operator counts, in USD; negative when money left."""

OPERATOR_AUM = "etf-operator-aum"
"""Assets under management of those funds, in USD."""

OPERATOR_BTC = "etf-operator-btc"
"""Bitcoin that those funds hold."""

FundFigure = Literal["shares", "nav", "btc", "aum"]
"""Shares outstanding, net asset value of a share in USD, bitcoin held, net assets in USD."""


def fund_series(fund: str, figure: FundFigure) -> str:
    """The name of a fund's series, such as `etf-ibit-shares`."""
    return f"etf-{fund.lower()}-{figure}"


class Figure(Struct, frozen=True):
    """One figure, as its publisher gave it."""

    series: str
    day: str
    value: float
    source: str
    """The publisher, in the words that every published `source` uses."""


class RecordedFigure(Struct, frozen=True):
    """One figure, as it is kept: what was read, and when."""

    series: str
    day: str
    revision: int
    """1 for what was read first; one more for each other value that came later."""
    value: float
    source: str
    observed_at: int
    """When this value was first read, in milliseconds since the Unix epoch."""


class SourceHealth(Struct, frozen=True):
    """How the last attempt to read a source went."""

    as_of: int
    failure: str | None = None
    """The kind of failure, as in `barograph.errors`; None after a success."""

    failing_since: int | None = None
    newest_day: str | None = None
    """The newest day that it ever gave."""


class MacroHealth(Struct, frozen=True):
    """Every source that is configured, by its name."""

    sources: dict[str, SourceHealth]


MACRO_HEALTH = Feed("macro-health", MacroHealth)


class MacroSource(Protocol):
    """A publisher of daily figures.

    It raises a kind of `barograph.errors.UpstreamError` and nothing else: what a file or a wire
    protocol can do wrong is translated in the adapter.
    """

    @property
    def name(self) -> str:
        """A short word for it in logs and in `/api/status`."""

    async def read(self) -> list[Figure]:
        """Read what it publishes now, each series and day once, in the order of days."""


@runtime_checkable
class RemembersDays(Protocol):
    """A source that asks for each day until its figures are kept, and not again after that."""

    def kept(self, readings: Sequence[Figure]) -> None:
        """Take note that these readings are safely stored."""
