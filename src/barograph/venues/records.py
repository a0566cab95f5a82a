"""Perpetual contracts and liquidations as frozen records.

The docstrings of the fields define their unit, sign and interval.
"""

from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from barograph.venues.facts import PriceKind
from barograph.venues.registry import BYBIT, VENUES

MAJORS = ("BTC", "ETH", "SOL")
"""The assets of `/api/agent/market`, sampled first and recorded every minute."""

MAX_CLASSES = 8
"""At most this many words of the exchange go into one text."""

Side = Literal["long", "short"]
Origin = Literal["measured", "backfilled"]
"""Whether we measured a row ourselves or back-filled it from the exchange's own history."""


class ContractName(NamedTuple):
    """A contract of a venue, which keys its record."""

    venue: str
    contract: str


def eight_hour_rate(funding_rate_pct: float, interval_hours: float) -> float:
    """Convert a rate to eight hours, so that contracts with different intervals compare."""
    return funding_rate_pct * 8 / interval_hours


class Perpetual(Struct, frozen=True, omit_defaults=True, gc=False):
    """One live crypto perpetual contract at one point in time."""

    contract: str
    """The contract's full name at the exchange, such as `BTCUSDT`, or `BTC` at Hyperliquid."""

    base: str
    """The base asset in the exchange's words, such as `BTC`, `1000PEPE` or `kPEPE`; the API calls
    it `symbol`."""

    last_price: float
    """Price of the last trade, in the quote currency; the mark price where `price_kind` says so.
    For a multiplier contract such as `1000PEPE`, the price of 1000 coins."""

    funding_rate_pct: float
    """The rate of the *current* funding interval, in percent of the position's value. If it is
    positive, longs pay shorts. It is per `funding_interval_hours`, not per day or 8 hours."""

    funding_interval_hours: float
    """Hours between two settlements of this contract; exchanges use 1, 2, 4 and 8."""

    next_funding_time: int
    """When the current rate is settled, in milliseconds since the Unix epoch."""

    open_interest_usd: float | None
    """Value of all open positions in USD, single-sided: a long and its short count once. None if
    the exchange sent no value that we can use."""

    open_interest_coins: float | None = None
    """Size of all open positions in coins of the base asset, single-sided; for a multiplier
    contract such as `1000PEPE`, in units of 1000 coins. None if the exchange sent none."""

    coin: str = ""
    """The coin without a multiplier, such as `PEPE`; empty if `base` is the coin."""

    multiplier: int = 1
    """How many coins the price and the sizes are for: 1000 for `1000PEPE`."""

    quote: str = "USDT"
    """The currency of the price: `USDT`, or `USD` at Hyperliquid."""

    price_kind: PriceKind = "last"
    """Whether the price is that of the last trade or the mark price."""

    mark_price: float | None = None
    """The mark price, if the exchange sends it beside the price of the last trade."""

    open_interest_at: int | None = None
    """The time of the open interest, if it is not that of the reading, in milliseconds since the
    Unix epoch."""

    index_price: float | None = None
    """The index that the mark follows, or the oracle's price, in the quote currency."""

    volume_24h_usd: float | None = None
    """Turnover of the last 24 hours in the quote currency, as the exchange counts it."""

    volume_24h_coins: float | None = None
    """The same in units of `open_interest_coins`."""

    @property
    def asset(self) -> str:
        """The coin, which is the same at every venue."""
        return self.coin or self.base

    @property
    def mark(self) -> float:
        """The mark price, or else the last price."""
        return self.last_price if self.mark_price is None else self.mark_price

    @property
    def stated_mark(self) -> float | None:
        """The mark price; None if the exchange sends only the last price."""
        return self.last_price if self.price_kind == "mark" else self.mark_price

    @property
    def basis_pct(self) -> float | None:
        """How far the mark price is above the index, in percent of the index."""
        if self.index_price is None or self.stated_mark is None:
            return None
        return 100 * (self.stated_mark - self.index_price) / self.index_price

    @property
    def funding_8h_pct(self) -> float:
        """The funding rate in percent per eight hours."""
        return eight_hour_rate(self.funding_rate_pct, self.funding_interval_hours)


class Perpetuals(Struct, frozen=True):
    """All live perpetuals of one exchange in one reading."""

    as_of: int
    """When the exchange took the reading, in milliseconds since the Unix epoch."""

    source: str
    """The venue's name, exactly as published in `source`."""

    contracts: tuple[Perpetual, ...]

    refused: dict[str, list[str]] = {}
    """For each field, the contracts whose value was out of range, listed once per bad value. Such
    values are not published. If price or funding is out of range, `contracts` omits the contract.
    If open interest is out of range, the contract has none."""

    left_out: dict[str, int] = {}
    """How many contracts `contracts` omits because they are not crypto, by the exchange's own word
    for their class, such as `stock`."""

    unknown_classes: list[str] = []
    """The words in `left_out` that this version doesn't know."""

    not_crypto: list[str] = []
    """The contracts that `left_out` counts."""

    unwatched: list[str] = []
    """Contracts whose liquidations the exchange doesn't publish."""

    venue: str = BYBIT
    """The venue's name, such as `bybit`."""

    unusable: list[str] = []
    """The coins of crypto contracts that `contracts` omits because a value can't be used."""

    doubted: dict[str, str] = {}
    """Why values are held back, by contract: they jumped."""

    doubted_rates: str = ""
    """Why no total has its funding rates: most of them jumped. Empty if they didn't."""

    announcement: str = ""
    """What the exchange announces, such as maintenance; empty if nothing."""


def classes_left_out(reading: Perpetuals) -> str:
    """The classes in `left_out` with their counts, largest first, such as `180 stock, 12 ETF`."""
    largest = sorted(reading.left_out.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{count:,} {word or 'unnamed'}" for word, count in largest[:MAX_CLASSES])


NO_OPEN_INTEREST = dict.fromkeys(("open_interest_usd", "open_interest_coins", "open_interest_at"))


def without_open_interest(reading: Perpetuals) -> Perpetuals:
    """A reading whose open interest is unknown."""
    return replace(
        reading, contracts=tuple(replace(each, **NO_OPEN_INTEREST) for each in reading.contracts)
    )


def majors_of(reading: Perpetuals) -> dict[str, Perpetual]:
    """BTC, ETH and SOL, if listed, by base asset.

    If contracts share one, that with the venue's usual name counts, or else the first by name: an
    exchange that lists them in another order must not change what stances are about.
    """
    usual = VENUES[reading.venue].contract
    majors: dict[str, Perpetual] = {}
    for major in (perpetual for perpetual in reading.contracts if perpetual.base in MAJORS):
        both = major, majors.get(major.base, major)
        majors[major.base] = min(
            both, key=lambda each: (each.contract != usual(each.base), each.contract)
        )
    return majors


def majors_first(reading: Perpetuals) -> list[Perpetual]:
    """All contracts: BTC, ETH and SOL, then the others, the largest open interest first."""
    return sorted(
        reading.contracts,
        key=lambda perpetual: (perpetual.base not in MAJORS, -(perpetual.open_interest_usd or 0.0)),
    )


class LongAccounts(Struct, frozen=True):
    """The share of accounts that are net long in one contract."""

    contract: str

    long_account_pct: float
    """Accounts with a net long position, in percent of all accounts with a position. It counts
    accounts, not money, so 60 does not mean that longs are larger than shorts."""

    sampled_at: int
    """End of the exchange's own sampling period, in milliseconds since the Unix epoch."""


class LongAccountShares(Struct, frozen=True):
    """The newest long-account share of every contract that was sampled."""

    shares: dict[str, LongAccounts]
    """By the contract's full name, such as `BTCUSDT`."""


class Liquidation(Struct, frozen=True):
    """One position that the exchange liquidated."""

    at: int
    """When it happened, in milliseconds since the Unix epoch."""

    contract: str

    side: Side
    """The side of the position that was liquidated, not of the order that closed it."""

    size: float
    """Size in coins of the base asset."""

    price: float
    """In the quote currency: the bankruptcy price at Bybit, the average fill price at Binance."""

    @property
    def notional_usd(self) -> float:
        """Value of the position at that price, in USD."""
        return self.size * self.price


class SettledRate(NamedTuple):
    """A settled funding rate as the exchange reports it."""

    contract: str
    at: int
    funding_rate_pct: float


class PastValues(Struct, frozen=True, array_like=True, gc=False):
    """One contract at a past time, in the units of `Perpetual`."""

    last_price: float
    open_interest_usd: float | None = None
    open_interest_coins: float | None = None
    funding_8h_pct: float | None = None


class Frame(Struct, frozen=True):
    """All contracts of a venue in one past reading, which changes compare with."""

    at: int = 0
    """The time of the reading; 0 if none is near enough to compare with."""

    contracts: dict[str, PastValues] = {}
    """By the contract's full name."""


class ExchangeHealth(Struct, frozen=True):
    """How the last attempt to read the exchange went; also the collector's heartbeat."""

    as_of: int
    """When the attempt was made, in milliseconds since the Unix epoch."""

    failure: str | None = None
    """The kind of failure, as in `barograph.errors`; None after a success."""

    failing_since: int | None = None
    """When the current run of failures began."""


class BackfillProgress(Struct, frozen=True):
    """How far the collector has filled the record from the exchange's own history."""

    as_of: int
    """The time of this state, in milliseconds since the Unix epoch."""

    total: int
    """How many contracts the newest reading had."""

    done: int
    """How many of them have every hour that the exchange's history can fill."""

    ready_at: int | None = None
    """When the rest will be filled, at the pace so far; None if nothing is left or the pace is
    unknown."""

    failure: str | None = None
    """The kind of the last failure, as in `barograph.errors`; None after a success."""

    failing_since: int | None = None
    """When the current run of failures began."""

    majors_filled_at: int | None = None
    """When hours of BTC, ETH or SOL were last back-filled."""

    def expected_at(self, now: int) -> int | None:
        """When the rest will be filled; None if that is unknown or was wrong."""
        return None if self.ready_at is None or self.ready_at < now else self.ready_at
