"""The bodies of the cross-venue view (pure)."""

from typing import Annotated, Any

from pydantic import Field

from barograph.kit.lists import ListBody
from barograph.kit.wire import Notice, WireModel
from barograph.markets.cross_changes import Direction
from barograph.markets.cross_entries import State
from barograph.markets.documents import FundingRatePct, NextFundingTime
from barograph.markets.perpetuals import AsOf
from barograph.venues.facts import Completeness

Number = float | None
Text = str | None


def doc(description: str) -> Any:  # noqa: ANN401 - as pydantic's own
    """What a member is."""
    return Field(description=description)


VenueName = Annotated[str, doc("The exchange, such as `bybit`.")]
Reason = Annotated[Text, doc("Why the state is not `ok`.")]
Counting = Annotated[str, doc("Sides that its own figure counts.")]
Complete = Annotated[Completeness, doc("How much the venue publishes; only `all` adds up.")]
WatchedPct = Annotated[Number, doc("Share of the 24 hours that we watched, in percent.")]
NoNext = Annotated[str | None, doc("Always null: there is only one page.")]


class MissingVenue(WireModel):
    """A missing venue, with its last known values of at most 7 days ago."""

    venue: str
    reason: str
    lastUsd: Annotated[Number, doc("Open interest; in `volumeMissing` the volume. Never disputed.")]
    lastCoins: Annotated[Number, doc("The same in single coins.")]
    last_as_of: Annotated[Text, doc("Time of that value.")]


class OpenInterestChange(WireModel):
    """How the open interest changed in 24 hours, at the same venues then and now."""

    changes_from: Annotated[str, doc("Time of the earlier readings, 24 h ± 5 min ago.")]
    venues: Annotated[
        list[str], doc("The venues compared, missing ones with their last known values.")
    ]
    beforeUsd: Annotated[float, doc("At these venues 24 hours ago.")]
    changeUsd: Annotated[float, doc("Effect of the price plus effect of positions.")]
    changePct: Number
    priceEffectUsd: Annotated[
        Number,
        doc("Effect of the price: mean coins times price change. Null if a venue sends only USD."),
    ]
    positionsEffectUsd: Annotated[
        Number, doc("Effect of positions: mean price times the change in coins.")
    ]
    priceChangePct: Annotated[
        Number, doc("Mean of `venues`, weighted by open interest 24 hours ago.")
    ]
    coinsChangePct: Annotated[Number, doc("Change in the number of coins.")]
    price: Annotated[Direction | None, doc("Direction of the price; `flat` below 1 %.")]
    positions: Annotated[Direction | None, doc("Direction of the coins; `flat` below 5 %.")]


class PricesOfVenues(WireModel):
    """The lowest and the highest mark price of one coin among the venues."""

    lowest: float
    lowestVenue: str
    highest: float
    highestVenue: str
    missing: Annotated[list[str], doc("Not compared: unknown or disputed.")]


class FundingSpread(WireModel):
    """The widest difference of settled funding between two venues, over the same 8 hours."""

    highest: Annotated[Text, doc("Of those compared; null if all settled the same.")]
    lowest: Text
    pct8h: Annotated[float, doc("The higher `settledPct8h` less the lower.")]
    missing: Annotated[list[str], doc("Not compared: unknown or disputed.")]


class CrossVenueEntry(WireModel):
    """A coin at one venue. The numbers are null without fresh data.

    A disputed measure is shown, but left out of totals, weights and spreads. Another asset of the
    same name is left out of all of them.
    """

    venue: VenueName
    state: State
    reason: Reason
    contract: Annotated[Text, doc("Full name at the venue.")]
    pricePerCoin: Annotated[Number, doc("Mark price of one coin.")]
    fundingRatePct8h: Annotated[Number, doc("The live rate per 8 hours, in percent: an estimate.")]
    settledPct8h: Annotated[
        Number, doc("What longs paid to shorts in the 8 hours to `settledTo`, in percent.")
    ]
    settledPct24h: Number
    settledPct7d: Number
    settledPct30d: Number
    settledYearlyPct8h: Annotated[
        Number, doc("The same per year: times 365, divided by the days, not compounded.")
    ]
    settledYearlyPct24h: Number
    settledYearlyPct7d: Number
    settledYearlyPct30d: Number
    openInterestUsd: Annotated[Number, doc("One-sided.")]
    openInterestCoins: Annotated[Number, doc("One-sided, in single coins, also for 1000PEPE.")]
    sharePct: Annotated[Number, doc("Of `openInterestWithMissingUsd`, in percent.")]
    volume24hUsd: Annotated[Number, doc("24-hour turnover as reported.")]
    volume24hCoins: Annotated[Number, doc("In single coins.")]
    weightPct: Annotated[Number, doc("Weight in `weightedFundingRatePct8h`, in percent.")]


class CrossLiquidations(WireModel):
    """Liquidations of a coin at one venue in 24 hours; null if coverage is too low."""

    completeness: Complete
    longUsd: Number
    shortUsd: Number
    watchedPct: WatchedPct
    as_of: Annotated[Text, doc("End of the 24 hours.")]


class CrossVenueBody(CrossVenueEntry):
    """A coin at one venue, with the venue's own numbers and times."""

    multiplier: Annotated[int | None, doc("Coins that the price is for: 1000 for 1000PEPE.")]
    price: Annotated[Number, doc("Price of `priceKind`, in `quote`.")]
    priceKind: Annotated[Text, doc("`last` or `mark`.")]
    quote: Annotated[Text, doc("Such as `USDT`.")]
    indexPrice: Annotated[Number, doc("The index or oracle price that the mark follows.")]
    basisPct: Annotated[Number, doc("Mark minus index price, in percent of the index.")]
    fundingRatePct: FundingRatePct
    fundingIntervalHours: Annotated[Number, doc("Hours between two settlements.")]
    nextFundingTime: NextFundingTime
    as_of: Annotated[Text, doc("Time of price and funding.")]
    open_interest_as_of: Annotated[Text, doc("Time of the open interest.")]
    openInterestCounting: Counting
    disputed: Annotated[list[str], doc("Measures that contradict the other venues.")]
    liquidations24h: CrossLiquidations


class CrossTotals(WireModel):
    """What all venues of a coin have together."""

    coin: Annotated[str, doc("The coin without multiplier, such as `PEPE`.")]
    deepestVenue: Annotated[
        Text, doc("Largest by open interest; other marks are compared with its mark.")
    ]
    totalOpenInterestUsd: Annotated[
        Number, doc("Known values only: partial if `openInterestMissing` names a venue.")
    ]
    totalOpenInterestCoins: Annotated[Number, doc("Null if a venue sends only USD.")]
    openInterestComplete: Annotated[bool, doc("False if a venue is missing.")]
    openInterestMissing: list[MissingVenue]
    openInterestWithMissingUsd: Annotated[
        Number, doc("The total with missing venues' last values; null if one is unknown.")
    ]
    openInterestChange24h: Annotated[
        OpenInterestChange | None, doc("Null if no venue has a value at both times.")
    ]
    totalVolume24hUsd: Annotated[
        Number, doc("24-hour turnover; partial if `volumeMissing` names a venue.")
    ]
    totalVolume24hCoins: Number
    volumeMissing: list[MissingVenue]
    weightedFundingRatePct8h: Annotated[
        Number, doc("Live rates weighted by open interest: an estimate, without `fundingMissing`.")
    ]
    weightedFundingWithMissingPct8h: Annotated[
        Number, doc("The same with the last known values of what is missing, or null.")
    ]
    fundingMissing: list[MissingVenue]
    settledTo: Annotated[Text, doc("End of the settled windows: 00:00, 08:00 or 16:00 UTC.")]
    fundingSpread: Annotated[
        FundingSpread | None, doc("Null unless two venues have `settledPct8h`.")
    ]
    priceRange: Annotated[PricesOfVenues | None, doc("Mark prices of one coin.")]
    liquidations24hAtLeastUsd: Annotated[Number, doc("What we saw: a lower bound.")]
    liquidations24hLongUsd: Annotated[Number, doc("The long positions among these.")]
    liquidations24hShortUsd: Number
    liquidationsIncomplete: Annotated[
        list[str], doc("Venues where they are unknown or not all published.")
    ]


class CrossEntry(CrossTotals):
    """A coin at every venue that lists it."""

    venues: list[CrossVenueEntry]


class CrossList(ListBody):
    """Every coin: BTC, ETH and SOL, then the others, the largest open interest first."""

    cross: list[CrossEntry]
    next: NoNext


class _Head(WireModel):
    as_of: AsOf
    venue: Annotated[str, doc("The venues with fresh data, separated by commas.")]
    source: Annotated[str, doc("Their sources, separated by semicolons.")]
    notice: Notice


class CrossBody(CrossTotals, _Head):
    """One coin at every configured venue."""

    venues: list[CrossVenueBody]


CHANGE_COLUMNS = [*OpenInterestChange.model_fields][5:]
CROSS_COLUMNS = (
    *(*CrossTotals.model_fields, *CrossVenueEntry.model_fields),
    *(f"openInterestChange24h.{name}" for name in CHANGE_COLUMNS),
)
