"""Daily figures of bitcoin funds and US interest rates, as frozen records.

A day is an ISO date: the day that a figure is about. Figures are published later and may be
revised. A day without a figure is absent.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from barograph.board.feeds import Feed

US3M = "us3m"
"""Par yield of US Treasury bills of three months, in percent per year."""

US2Y = "us2y"
"""Par yield of US Treasury notes of two years, in percent per year."""

US10Y = "us10y"
"""Par yield of US Treasury notes of ten years, in percent per year."""

SOFR = "sofr"
"""Secured Overnight Financing Rate, in percent per year."""

EFFR = "effr"
"""Effective Federal Funds Rate, in percent per year."""

EFFR_LOW = "effr-low"
"""Lower end of the target range of the federal funds rate, in percent per year."""

EFFR_HIGH = "effr-high"
"""Upper end of the target range of the federal funds rate, in percent per year."""

OPERATOR_FLOW = "etf-operator-flow"
"""Net flow into all funds that the operator counts, in USD; negative for outflows."""

OPERATOR_AUM = "etf-operator-aum"
"""Assets under management of those funds, in USD."""

OPERATOR_BTC = "etf-operator-btc"
"""Bitcoin held by those funds."""

FundFigure = Literal["shares", "nav", "btc", "aum", "flow"]
"""Shares outstanding, net asset value per share in USD, bitcoin held, net assets in USD, and the
net flow in USD, which only an operator's file states."""

NYFED = "Federal Reserve Bank of New York"
NYFED_TERMS = "https://www.newyorkfed.org/privacy/termsofuse"
NYFED_NOTICE = (
    "The SOFR and EFFR data is subject to the Terms of Use posted at newyorkfed.org. The New York "
    "Fed is not responsible for publication of the SOFR and EFFR data by Barograph, does not "
    "sanction or endorse any particular republication, and has no liability for your use."
)
"""The notice that those terms require wherever the rates are shown, in their words."""

_IMPORTED = "imported by the operator"


def fund_series(fund: str, figure: FundFigure) -> str:
    """The name of a fund's series, such as `etf-ibit-shares`."""
    return f"etf-{fund.lower()}-{figure}"


def source_with_notice(source: str) -> str:
    """The source as we publish it: the New York Fed's comes with its notice."""
    return f"{NYFED} ({NYFED_NOTICE})" if source == NYFED else source


def imported_source(text: str) -> str:
    """The source of figures that come from a file of the operator."""
    return f"{text}, {_IMPORTED}"


def is_imported(source: str) -> bool:
    """Whether one of the sources in this text is a file of the operator."""
    return _IMPORTED in source


class Figure(Struct, frozen=True):
    """One figure as its publisher gave it."""

    series: str
    day: str
    value: float
    source: str
    """The publisher, in the words of every published `source`."""


class RecordedFigure(Struct, frozen=True):
    """One figure as stored: the value, and when we read it."""

    series: str
    day: str
    revision: int
    """1 for the first value; one more for each different value or import that came later."""
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
    """The newest day that it ever published."""


class MacroHealth(Struct, frozen=True):
    """The health of every configured source, by its name."""

    sources: dict[str, SourceHealth]


MACRO_HEALTH = Feed("macro-health", MacroHealth)


class MacroSource(Protocol):
    """A publisher of daily figures.

    `read` raises only kinds of `barograph.errors.UpstreamError`.
    """

    @property
    def name(self) -> str:
        """Its short name in logs and in `/api/status`."""

    async def read(self) -> list[Figure]:
        """Read what it publishes now, each series and day once, in the order of days."""


@runtime_checkable
class RemembersDays(Protocol):
    """A source that asks for a figure until it is stored."""

    def kept(self, figures: Sequence[Figure]) -> None:
        """Record that these figures are stored."""
