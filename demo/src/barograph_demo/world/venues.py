"""The simulated market as other venues see it.

Every venue follows the same coins, with small differences of its own in price, funding, open
interest and liquidations. A pure function of seed, epoch and time, as the world is.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph_demo.world.candles import Candle, candles
from barograph_demo.world.contracts import CRYPTO, PERPETUALS, Contract, perpetual
from barograph_demo.world.contracts import TRADING as TRADING_AT_BYBIT
from barograph_demo.world.liquidations import SimulatedLiquidation
from barograph_demo.world.randomness import MAJORS, NORMAL, QUANTILE_MASK, key, mix, unit
from barograph_demo.world.world import SimulatedSettlement, World, funding_rate

HYPERLIQUID: Final = "hyperliquid"
BINANCE: Final = "binance"
ASTER: Final = "aster"
GATE: Final = "gate"
VENUES: Final = (HYPERLIQUID, BINANCE, GATE, ASTER)
"""The venues that the demo reads beside Bybit."""

TRADING: Final = "TRADING"
DELISTED: Final = "DELISTED"

COIN: Final = "COIN"
"""The class of crypto contracts. The others are EQUITY, COMMODITY, INDEX and PREMARKET."""

_COINS: Final = {
    "1000PEPE": ("PEPE", 1000),
    "SHIB1000": ("SHIB", 1000),
    "1000BONK": ("BONK", 1000),
    "1000FLOKI": ("FLOKI", 1000),
    "1000CAT": ("CAT", 1000),
    "1000000BABYDOGE": ("BABYDOGE", 1_000_000),
}
"""The coin of each base asset whose price is for many coins, and how many."""

_AT_HYPERLIQUID: Final = """
BTC ETH SOL XRP DOGE BNB ADA TRX LINK AVAX SUI TON DOT LTC BCH NEAR APT UNI ATOM HBAR ARB OP INJ
AAVE TAO RENDER FET SEI TIA WLD ENA ONDO JUP LDO CRV ZEC HYPE PENDLE STX WIF TRUMP POPCAT PENGU
1000PEPE SHIB1000 1000BONK 1000FLOKI
"""

_NOT_AT_BINANCE: Final = frozenset({"EGLD", "GRT"})
_BINANCE_HOURS: Final = {"TON": 8, "ATOM": 8, "ONDO": 8, "LINK": 4, "AAVE": 4, "HYPE": 4}
"""The funding intervals that differ from Bybit's."""

_NOT_AT_ASTER: Final = frozenset({"EGLD", "GRT", "KAS", "DASH", "STX", "1000000BABYDOGE"})
_ASTER_HOURS: Final = {"TON": 2, "HYPE": 1, "PENGU": 2, "WLD": 2}
_NOT_AT_GATE: Final = frozenset({"GALA", "PENDLE"})
_GATE_HOURS: Final = {"TON": 8, "ATOM": 8, "HYPE": 4, "LINK": 4}

_CLASSES: Final = {"stock": "EQUITY", "commodity": "COMMODITY"}

# The markets that Bybit doesn't list, with the columns of its table. AI is another asset at each of
# two venues, and CAT is a stock beside the coin 1000CAT.
_DOGS: Final = perpetual("DOGS 0.0000412 7 0 6.5 6 4 2")
_AI_AT_HYPERLIQUID: Final = perpetual("AI@hyperliquid 0.1184 5 0 6.6 6 4 2")
_AI_AT_BINANCE: Final = perpetual("AI@binance 0.0412 5 0 5.6 5 4 2")
_CAT: Final = perpetual("1000CAT 0.00312 6 0 6.6 3 4 2")
_CATERPILLAR: Final = perpetual("CAT@stock 571 2 2 1.8 2 8 2", symbol_type="stock")
_BTCDOM: Final = perpetual("BTCDOM 5021 1 3 1.2 9 4 1", symbol_type="index")
_NON_ASCII: Final = perpetual("牛来 0.0187 5 0 7.4 2 4 2")

_SHARES: Final = {
    HYPERLIQUID: (0.5, 0.22),
    BINANCE: (2.4, 2.0),
    ASTER: (0.35, 0.15),
    GATE: (0.7, 0.6),
}
"""Open interest relative to Bybit's, for the majors and for the others."""
_DEEPEST_AT_HOME: Final = 2.6
"""Hyperliquid holds most of the open interest in its own coin."""

_NOISE: Final = 0.00008
_OFFSET: Final = 0.0001


@dataclass(frozen=True, slots=True)
class VenueContract:
    """One contract at a venue. It follows the market of `model`, a contract of the world.

    Prices and sizes are for `multiplier` coins each; `model` may count another number of coins.
    """

    name: str
    base: str
    coin: str
    multiplier: int
    quote: str
    funding_hours: int
    funding_cap: float
    price_decimals: int
    size_decimals: int
    launch: int
    asset_class: str
    status: str
    model: Contract
    scale: float = 1.0
    """Coins of this contract per coin of the model."""

    lot: float = 1.0
    """How many units the venue counts as one contract, where it counts contracts."""


class Quote(NamedTuple):
    """A contract at one instant."""

    price: float
    """The last traded price."""
    index_price: float
    """The index price, or oracle price: the spot markets agree on it."""
    mark_price: float
    premium: float
    """The premium of the contract's price over its index."""
    open_interest: float
    """Open positions in units of the contract, counting one side."""
    turnover: float
    """Turnover of the last 24 hours, in the quote coin."""


class VenueMarket:
    """Prices, funding, positions and liquidations of every contract at one venue."""

    def __init__(self, world: World, venue: str) -> None:
        self.world = world
        self.venue = venue
        listed = _LISTED[venue](world.perpetuals)
        self._contracts = {contract.name: contract for contract in listed}
        for contract in self._contracts.values():
            world.add_market(contract.model)
        self._by_symbol = {each.model.symbol: each for each in self._contracts.values()}
        self._keys = {name: key(world.seed, venue, name) for name in self._contracts}
        self._shares = {name: self._share(each) for name, each in self._contracts.items()}
        self._constants = {
            name: NORMAL[mix(own ^ 1) & QUANTILE_MASK] for name, own in self._keys.items()
        }
        self._days: dict[str, tuple[int, float, float]] = {}
        self._quotes: dict[str, tuple[int, Quote]] = {}

    def contracts(self, _now: int) -> tuple[VenueContract, ...]:
        """Every contract that the venue shows at a time, in the venue's order."""
        return tuple(self._contracts.values())

    def contract(self, name: str, _now: int) -> VenueContract | None:
        """The contract with this name, if the venue shows it at this time."""
        return self._contracts.get(name)

    def quote(self, contract: VenueContract, now: int) -> Quote:
        """A contract now, cached because a ticker shows several of its values."""
        known = self._quotes.get(contract.name)
        if known is None or known[0] != now:
            known = self._quotes[contract.name] = now, self._quote(contract, now)
        return known[1]

    def _quote(self, contract: VenueContract, now: int) -> Quote:
        state, of_day = self.world.market(contract.model).state(now), self._of_day(contract, now)
        offset, share = self._offset(contract, now), self._shares[contract.name]
        own = (1.0 + _NOISE * self._of_minute(contract, now)) * (1.0 + offset)
        index = state.last * contract.scale / (1.0 + state.premium)
        premium = state.premium + offset
        model = contract.model
        coins = model.open_interest_usd / model.price * state.interest
        return Quote(
            state.last * contract.scale * own,
            index,
            index * (1.0 + 0.9 * premium),
            premium,
            coins * (share * (1.0 + 0.02 * of_day)) / contract.scale,
            model.open_interest_usd * state.turnover * share,
        )

    def funding_rate(self, contract: VenueContract, now: int) -> float:
        """The rate at which the current interval would settle now, per interval."""
        interval = contract.funding_hours * HOUR
        return self._rate(contract, now - now % interval, now)

    def next_funding(self, contract: VenueContract, now: int) -> int:
        """When the current interval ends."""
        interval = contract.funding_hours * HOUR
        return now - now % interval + interval

    def settlements(
        self, contract: VenueContract, start: int, end: int
    ) -> list[SimulatedSettlement]:
        """The settled rates between two times, both included, oldest first."""
        interval = contract.funding_hours * HOUR
        first = -(-max(start, self.world.birth + interval) // interval) * interval
        return [
            SimulatedSettlement(time, self._rate(contract, time - interval, time))
            for time in range(first, end + 1, interval)
        ]

    def _rate(self, contract: VenueContract, start: int, end: int) -> float:
        """Bybit's rate for this premium, converted to the interval of the contract.

        The venues' formulas would differ by more than their markets do.
        """
        model = contract.model
        premium = self.world.market(model).mean_premium(start, end) + self._offset(contract, end)
        rate = funding_rate(premium, model.funding_hours, model.funding_cap)
        return rate * contract.funding_hours / model.funding_hours

    def long_share(self, contract: VenueContract, now: int) -> float:
        """The share of long accounts at the last count; each venue counts its own customers."""
        own = 0.05 * (unit(mix(self._keys[contract.name])) - 0.5)
        return min(0.97, max(0.03, self.world.long_share(contract.model, now) + own))

    def candles(self, contract: VenueContract, starts: Iterable[int], now: int) -> list[Candle]:
        """Hourly candles of the last traded price; the current one ends now."""
        found = candles(self.world, contract.model, starts, now)
        return [self._candle(contract, each, now) for each in found]

    def _candle(self, contract: VenueContract, candle: Candle, now: int) -> Candle:
        end = min(now, candle.start + HOUR)
        first, last = (self.quote(contract, each).price for each in (candle.start, end))
        turnover = candle.turnover * self._shares[contract.name]
        high = max(candle.high * contract.scale, first, last)
        low = min(candle.low * contract.scale, first, last)
        return Candle(candle.start, first, high, low, last, turnover / last, turnover)

    def liquidations(self, start: int, end: int) -> list[SimulatedLiquidation]:
        """The liquidations from `start` up to but not including `end`, in order.

        The same moves liquidate positions of the same side in the same minutes at every venue; how
        many and how large differs. `side` is the side of the position, as in the world.
        """
        # A liquidation may fall on another second than Bybit's, never on another minute.
        first, last = start - start % MINUTE, -(-end // MINUTE) * MINUTE
        found = [
            own
            for liquidation in self.world.liquidations(first, last)
            for own in self._own(liquidation)
        ]
        return sorted(each for each in found if start <= each.time < end)

    def _own(self, theirs: SimulatedLiquidation) -> Iterator[SimulatedLiquidation]:
        contract = self._by_symbol.get(theirs.symbol)
        if contract is None:
            return
        state = mix(self._keys[contract.name] ^ key(*theirs))
        for _ in range((0, 1, 1, 1, 2)[state % 5]):
            state = mix(state)
            minute, second = divmod(theirs.time, MINUTE)
            time = minute * MINUTE + (second + state % 9000) % MINUTE
            size = math.exp(0.7 * NORMAL[mix(state) & QUANTILE_MASK]) / contract.scale
            size = max(float(theirs.size) * size, 10.0**-contract.size_decimals)
            price = float(theirs.price) * contract.scale * (1.0 + 0.0004 * (unit(state) - 0.5))
            yield SimulatedLiquidation(
                time,
                contract.name,
                theirs.side,
                f"{size:.{contract.size_decimals}f}",
                f"{price:.{contract.price_decimals}f}",
            )

    def _share(self, contract: VenueContract) -> float:
        if (self.venue, contract.coin) == (HYPERLIQUID, "HYPE"):
            return _DEEPEST_AT_HOME
        major, other = _SHARES[self.venue]
        usual = major if contract.coin in MAJORS else other
        spread = 0.05 if contract.coin in MAJORS else 0.2
        return usual * math.exp(spread * NORMAL[self._keys[contract.name] & QUANTILE_MASK])

    def _offset(self, contract: VenueContract, now: int) -> float:
        """How much the premium differs from Bybit's: a constant and a part that changes by day."""
        constant = self._constants[contract.name]
        return _OFFSET * (0.6 * constant + 0.6 * self._of_day(contract, now))

    def _of_day(self, contract: VenueContract, now: int) -> float:
        """The noise with a period of a day, with straight lines between its values."""
        number, rest = divmod(now, DAY)
        known = self._days.get(contract.name)
        if known is None or known[0] != number:
            left, right = (self._noise(contract, each, DAY) for each in (number, number + 1))
            known = self._days[contract.name] = number, left, right - left
        return known[1] + known[2] * rest / DAY

    def _of_minute(self, contract: VenueContract, now: int) -> float:
        number, rest = divmod(now, MINUTE)
        left = self._noise(contract, number, MINUTE)
        if not rest:
            return left
        return left + (self._noise(contract, number + 1, MINUTE) - left) * rest / MINUTE

    def _noise(self, contract: VenueContract, number: int, period: int) -> float:
        """The standard normal value of a period."""
        return NORMAL[mix(self._keys[contract.name] ^ period ^ number) & QUANTILE_MASK]


def _hyperliquid(perpetuals: Sequence[Contract]) -> Iterator[VenueContract]:
    """Hourly funding, names such as `kPEPE`, and a delisted contract that stays in the list."""
    models = {model.coin: model for model in perpetuals if model.quote == "USDT"}
    for base in _AT_HYPERLIQUID.split():
        yield _at_hyperliquid(models[base])
    yield _at_hyperliquid(models["MATIC"], status=DELISTED)
    yield replace(_at_hyperliquid(_DOGS), name="kDOGS", base="kDOGS", multiplier=1000, scale=1000.0)
    yield _at_hyperliquid(_AI_AT_HYPERLIQUID)


def _at_hyperliquid(model: Contract, status: str = TRADING) -> VenueContract:
    coin, multiplier = _coin(model)
    name = coin if multiplier == 1 else f"k{coin}"
    return _contract(model, name, name, 1, quote="USD", status=status)


def _binance(perpetuals: Sequence[Contract]) -> Iterator[VenueContract]:
    """Nearly every coin, at 4 or 8 hours, beside stocks, commodities and an index."""
    for model in perpetuals:
        is_wanted = model.symbol_type in (*CRYPTO, *_CLASSES) and model.coin not in _NOT_AT_BINANCE
        if is_wanted and (model.status == TRADING_AT_BYBIT or model.coin in {"MEGA", "MATIC"}):
            yield _at_binance(model)
    for model in (_DOGS, _AI_AT_BINANCE, _CAT, _CATERPILLAR, _BTCDOM, _NON_ASCII):
        yield _at_binance(model)


def _at_binance(model: Contract) -> VenueContract:
    coin, multiplier = _coin(model)
    base = {1: coin, 1000: f"1000{coin}", 1_000_000: f"1M{coin}"}[multiplier]
    hours = _BINANCE_HOURS.get(coin, max(4, model.funding_hours))
    status = "SETTLING" if coin == "MATIC" else TRADING
    found = _contract(model, base + model.quote, base, hours, quote=model.quote, status=status)
    asset_class = {"MEGA": "PREMARKET", "BTCDOM": "INDEX"}.get(coin)
    return replace(found, asset_class=asset_class or _CLASSES.get(model.symbol_type, COIN))


def _aster(perpetuals: Sequence[Contract]) -> Iterator[VenueContract]:
    """Names as at Binance, hourly funding for some, and contracts in USD beside those in USDT."""
    for model in perpetuals:
        is_wanted = model.symbol_type in (*CRYPTO, *_CLASSES) and model.coin not in _NOT_AT_ASTER
        if is_wanted and model.quote == "USDT" and model.status == TRADING_AT_BYBIT:
            found = _at_binance(model)
            hours = _ASTER_HOURS.get(found.coin, model.funding_hours)
            yield _with_hours(found, hours)
            if found.coin in MAJORS:
                interest = 0.02 * model.open_interest_usd
                symbol = found.coin + "USD"
                own = replace(model, symbol=symbol, quote="USD", open_interest_usd=interest)
                yield _with_hours(_at_binance(own), 2)


def _gate(perpetuals: Sequence[Contract]) -> Iterator[VenueContract]:
    """Prices for one coin, whatever others multiply; sizes in contracts of about five dollars."""
    for model in perpetuals:
        is_wanted = model.symbol_type in (*CRYPTO, *_CLASSES) and model.coin not in _NOT_AT_GATE
        if is_wanted and model.quote == "USDT" and model.status == TRADING_AT_BYBIT:
            yield _at_gate(model)
    yield _at_gate(_CATERPILLAR)
    yield _at_gate(_DOGS)


def _at_gate(model: Contract) -> VenueContract:
    coin, multiplier = _coin(model)
    hours = _GATE_HOURS.get(coin, model.funding_hours)
    found = _contract(model, f"{coin}_USDT", coin, hours, quote="USDT", status=TRADING)
    return replace(
        found,
        multiplier=1,
        price_decimals=model.price_decimals + round(math.log10(multiplier)),
        asset_class=_CLASSES.get(model.symbol_type, COIN),
        scale=1.0 / multiplier,
        lot=10.0 ** round(math.log10(5 * multiplier / model.price)),
    )


def _with_hours(contract: VenueContract, hours: int) -> VenueContract:
    cap = contract.funding_cap * hours / contract.funding_hours
    return replace(contract, funding_hours=hours, funding_cap=cap)


def _contract(
    model: Contract, name: str, base: str, hours: int, *, quote: str, status: str
) -> VenueContract:
    coin, multiplier = _coin(model)
    return VenueContract(
        name=name,
        base=base,
        coin=coin,
        multiplier=multiplier,
        quote=quote,
        funding_hours=hours,
        funding_cap=model.funding_cap * hours / model.funding_hours,
        price_decimals=model.price_decimals,
        size_decimals=model.size_decimals,
        launch=model.launch,
        asset_class=COIN,
        status=status,
        model=model,
    )


def _coin(model: Contract) -> tuple[str, int]:
    """The coin that a model prices, and how many of them."""
    return _COINS.get(model.coin, (model.coin.partition("@")[0], 1))


_LISTED: Final = {HYPERLIQUID: _hyperliquid, BINANCE: _binance, ASTER: _aster, GATE: _gate}


def contract_names(venue: str) -> list[str]:
    """The names of the contracts that trade at a venue."""
    return [each.name for each in _LISTED[venue](PERPETUALS) if each.status == TRADING]
