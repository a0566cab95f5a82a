"""The data sources whose terms the operator confirms, one by one (pure)."""

from collections.abc import Container, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from barograph.board.feeds import Feed
from barograph.errors import ConfigurationError
from barograph.venues.facts import Statement
from barograph.venues.registry import VENUES

Kind = Literal["demo", "live"]
"""What a database holds: simulated data, or data of real sources."""

SELLING: Final = "selling"

SETTING: Final = "BAROGRAPH_ACCEPT_TERMS"
PAGE = "docs/live.md"


class Source(NamedTuple):
    """A source, or a use of the data, with terms of its own."""

    title: str
    url: str
    terms_date: str
    """The date of the terms; empty if we don't know it."""

    says: str
    """What the terms say, as we know it from public summaries."""

    check: str
    """The check of `/api/status` that covers it."""

    statement: Statement = "terms"


SOURCES: Final[Mapping[str, Source]] = {
    **{
        venue.name: Source(
            venue.data,
            venue.terms.url,
            venue.terms.date,
            venue.terms.says,
            "exchange",
            venue.terms.statement,
        )
        for venue in VENUES.values()
    },
    "treasury": Source(
        "US Treasury par yields",
        "https://home.treasury.gov/subfooter/site-policies-and-notices",
        "",
        "Works of the US government have no copyright in the United States. The site has no "
        "separate license for the yields.",
        "daily-figures",
    ),
    "nyfed": Source(
        "New York Fed reference rates (SOFR, EFFR)",
        "https://www.newyorkfed.org/privacy/termsofuse",
        "",
        "You may publish the rates with the New York Fed's notice. The terms include an "
        "indemnification.",
        "daily-figures",
    ),
    "ishares": Source(
        "The ETF issuer's holdings file (iShares)",
        "https://www.blackrock.com/corporate/compliance/terms-and-conditions",
        "",
        "The website terms forbid programs from copying data without BlackRock's permission.",
        "etf-flows",
        "consent",
    ),
    SELLING: Source(
        "Selling access by x402",
        "https://www.bybit.com/en/help-center/article/API-Terms",
        "2026-03-18",
        "Stances and Feed are derived from the sources above, so the terms of every venue that "
        "you read apply. Bybit's restrict reselling and commercial use. Binance's ask for its "
        "consent.",
        "payments",
    ),
}


class Unconfirmed(Struct, frozen=True):
    """The configured sources whose terms the operator hasn't confirmed; they are not used."""

    names: tuple[str, ...] = ()

    def explain(self, name: str) -> str:
        """Why a source is not used."""
        return f"not used, because its terms are not confirmed (add {name} to {SETTING})"


TERMS = Feed("terms", Unconfirmed)


def parse_names(text: str) -> list[str]:
    """The sources in a list separated by commas.

    Raises:
        ConfigurationError: one is unknown.
    """
    names = [part.strip() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in SOURCES:
            raise ConfigurationError(
                f"{name!r} is not a data source: in {SETTING}, name each source that you confirm "
                f"({', '.join(SOURCES)}); {PAGE} describes their terms"
            )
    return names


def setting_line(names: Container[str]) -> str:
    """The line that confirms these sources."""
    return f"{SETTING}={','.join(name for name in SOURCES if name in names)}"


def usable_venues(configured: Sequence[str], unconfirmed: Unconfirmed) -> list[str]:
    """The venues that may be read, in the configured order: the first one is the primary."""
    return [name for name in configured if name not in unconfirmed.names]


def require_venue(configured: Sequence[str], unconfirmed: Unconfirmed) -> None:
    """Refuse to collect without a venue.

    Raises:
        ConfigurationError: no configured venue may be read.
    """
    if usable_venues(configured, unconfirmed):
        return
    first = configured[0]
    raise ConfigurationError(
        "there is nothing to collect, because you have not confirmed the terms of any configured "
        f"venue ({', '.join(configured)}): read {SOURCES[first].url} and {PAGE}, then set "
        f"{setting_line([first])}; BAROGRAPH_VENUES chooses other venues"
    )
