"""The contracts that the simulated exchange lists."""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import cycle, islice
from typing import Final

from barograph.kit.timestamps import DAY, HOUR
from barograph_demo.world.randomness import MAJORS

PERPETUAL: Final = "LinearPerpetual"
FUTURE: Final = "LinearFutures"
TRADING: Final = "Trading"
PRE_LAUNCH: Final = "PreLaunch"

CRYPTO: Final = ("", "innovation")
"""The exchange's classes of crypto contracts. Others follow stocks, metals and more."""

_FIRST_LAUNCH: Final = 1_585_526_400_000
_CYCLE: Final = 90 * DAY
_ABSENCE: Final = 31 * DAY
"""How long a contract that comes and goes is not listed, once per cycle. The odd number of days
keeps the listing of one apart from the delisting of another."""

_FRIDAY: Final = 4
_DELIVERY_HOUR: Final = 8
_QUARTER_MONTHS: Final = (3, 6, 9, 12)


@dataclass(frozen=True, slots=True, eq=False)
class Contract:
    """One listed contract, which follows the market of its `coin`.

    Compared by identity, which makes it a cheap dictionary key.
    """

    symbol: str
    coin: str
    quote: str
    price: float
    price_decimals: int
    size_decimals: int
    daily_volatility: float
    open_interest_usd: float
    funding_hours: int
    funding_cap: float
    kind: str = PERPETUAL
    status: str = TRADING
    delivery: int = 0
    launch: int = _FIRST_LAUNCH
    symbol_type: str = ""
    returns_at: int | None = None
    """When in each cycle it is listed again, if it comes and goes."""

    def is_listed(self, now: int) -> bool:
        """Whether it has not been delisted, whatever its status."""
        return self.returns_at is None or (now - self.returns_at) % _CYCLE < _CYCLE - _ABSENCE

    def launched(self, now: int) -> int:
        """When it was listed for the last time."""
        return self.launch if self.returns_at is None else now - (now - self.returns_at) % _CYCLE

    @property
    def tick_size(self) -> str:
        """The smallest price step, as on the wire."""
        return f"{10.0**-self.price_decimals:.{self.price_decimals}f}"

    @property
    def size_step(self) -> str:
        """The smallest size step, as on the wire."""
        return f"{10.0**-self.size_decimals:.{self.size_decimals}f}"


# coin: price, price decimals, size decimals, daily volatility in percent, single-sided open
# interest in millions of USD, funding interval in hours, funding cap in percent
_TABLE: Final = """
BTC 92400 1 3 2.1 4200 8 0.5
ETH 3150 2 2 3.0 2300 8 0.5
SOL 142 3 1 3.8 1150 8 0.5
XRP 2.21 4 0 3.6 620 8 1
DOGE 0.1522 5 0 4.2 390 8 1
BNB 905 1 2 2.6 310 8 1
ADA 0.462 4 0 4.0 150 8 1
TRX 0.281 5 0 2.0 95 8 1
LINK 14.1 3 1 4.1 140 8 1
AVAX 14.9 3 1 4.4 105 8 1
SUI 1.62 4 0 5.0 160 8 1
TON 1.58 4 1 4.0 62 4 1
DOT 2.35 4 1 4.1 54 8 1
LTC 84.2 2 1 3.3 98 8 1
BCH 545 1 2 3.4 74 8 1
NEAR 1.85 4 1 4.8 51 8 1
APT 2.31 4 2 4.9 38 8 1
UNI 6.12 4 1 4.7 61 8 1
ICP 4.21 4 1 5.0 27 4 1
ETC 14.2 3 1 3.8 44 8 1
XLM 0.251 5 0 4.0 41 8 1
ATOM 2.52 4 1 4.3 29 4 1
FIL 1.61 4 1 4.9 33 4 1
HBAR 0.1451 5 0 4.6 47 8 1
ARB 0.212 5 1 5.0 42 8 1
OP 0.312 5 1 5.2 31 8 1
INJ 5.62 4 1 5.3 24 4 1
AAVE 178 2 2 4.6 58 8 1
TAO 291 2 3 5.4 49 4 1
RENDER 1.75 4 1 5.4 22 4 1
FET 0.262 5 0 5.7 26 4 1
SEI 0.1352 5 0 5.4 21 4 1
TIA 0.601 4 1 5.8 28 4 2
WLD 0.622 4 1 5.9 39 4 1
ENA 0.271 5 0 5.9 57 4 1
ONDO 0.492 5 0 5.0 30 4 1
JUP 0.242 5 0 5.3 20 4 2
PYTH 0.0752 5 0 5.4 13 4 2
LDO 0.682 4 1 5.2 23 4 1
CRV 0.391 4 1 5.3 33 4 1
DYDX 0.231 4 1 5.3 12 4 1
ALGO 0.141 5 1 4.4 18 4 1
VET 0.01451 6 0 4.4 12 4 1
EGLD 8.52 3 1 4.7 7 4 2
ZEC 421 2 2 6.4 190 4 2
XMR 391 2 2 3.6 52 8 1
DASH 62.4 2 2 6.1 34 4 2
HYPE 33.1 3 2 5.6 410 8 1
PENDLE 2.31 4 0 5.5 16 4 2
STX 0.342 4 1 5.1 11 4 1
GRT 0.0451 5 1 4.9 8 4 2
KAS 0.0501 5 0 4.8 17 4 1
WIF 0.371 4 0 6.3 48 4 2
TRUMP 6.21 3 1 5.8 63 4 2
POPCAT 0.1121 4 0 6.9 14 1 2
PENGU 0.01152 6 0 6.8 44 1 2
1000PEPE 0.00462 7 0 5.9 135 4 2
SHIB1000 0.00852 6 0 4.6 38 4 2
1000BONK 0.00981 6 0 6.1 41 4 2
1000FLOKI 0.0461 5 0 5.8 19 1 2
1000000BABYDOGE 0.000721 7 0 6.2 4 1 2
"""

# The same columns, for contracts that are listed and delisted again and again.
_COMING_AND_GOING: Final = """
GALA 0.00781 6 0 5.2 15 4 1
SAND 0.161 5 0 4.8 14 4 1
MANA 0.182 5 0 4.7 12 4 1
AXS 1.12 4 1 5.0 11 4 1
THETA 0.382 4 1 4.8 9 4 1
IMX 0.331 4 1 5.2 9 4 2
"""

# The same columns, with a status in front.
_NOT_TRADING: Final = """
PreLaunch MEGA 0.231 4 1 7.5 6 4 2
PreLaunch ZAMA 0.0451 5 0 7.9 3 4 2
Delivering KLAY 0.112 4 1 5.0 0.4 4 2
Closed MATIC 0.381 4 0 4.8 0.1 8 1
"""

# The same columns after the exchange's class.
_NOT_CRYPTO: Final = """
stock ZS 197.1 2 1 2.6 0.4 8 2
stock TSLA 412 2 2 3.4 21 8 2
stock NVDA 188 2 2 2.9 34 8 2
stock COIN 301 2 2 4.1 9 8 2
stock MSTR 214 2 2 4.6 12 8 2
stock ON 52.4 2 1 3.1 0.3 8 2
ETF SPY 671 2 2 1.0 6 8 2
ETF QQQ 607 2 2 1.3 5 8 2
commodity XAU 4080 2 3 1.2 88 4 1
commodity XAG 50.7 3 2 2.1 31 4 1
forex EURUSD 1.1591 5 0 0.5 2 8 1
"""

_INNOVATION: Final = frozenset({"POPCAT", "PENGU", "1000000BABYDOGE"})


def perpetual(row: str, status: str = TRADING, symbol_type: str = "") -> Contract:
    """The USDT perpetual of a row with the columns of the table above."""
    coin, price, decimals, size, volatility, interest, hours, cap = row.split()
    return Contract(
        symbol=coin + "USDT",
        coin=coin,
        quote="USDT",
        price=float(price),
        price_decimals=int(decimals),
        size_decimals=int(size),
        daily_volatility=float(volatility) / 100,
        open_interest_usd=float(interest) * 1e6,
        funding_hours=int(hours),
        funding_cap=float(cap) / 100,
        status=status,
        # Any day in the past would do.
        launch=_FIRST_LAUNCH + (len(coin) * 37 + int(decimals) * 101) * DAY,
        symbol_type="innovation" if coin in _INNOVATION else symbol_type,
    )


def _based_on(base: Contract, symbol: str, quote: str, share: float) -> Contract:
    """Another contract on a coin, with a share of its perpetual's open interest."""
    interest = base.open_interest_usd * share
    return replace(
        base, symbol=symbol, quote=quote, open_interest_usd=interest, launch=_FIRST_LAUNCH
    )


_ALWAYS_LIVE: Final = tuple(perpetual(row) for row in _TABLE.strip().splitlines())
_ROTATING: Final = _COMING_AND_GOING.strip().splitlines()
_LIVE: Final = (
    *_ALWAYS_LIVE,
    *(
        replace(perpetual(row), returns_at=number * _CYCLE // len(_ROTATING))
        for number, row in enumerate(_ROTATING)
    ),
)
_BY_COIN: Final = {contract.coin: contract for contract in _LIVE}

LIVE_SYMBOLS: Final = frozenset(contract.symbol for contract in _LIVE)
"""The crypto perpetuals against USDT that are live at some time."""


def live_symbols(now: int) -> frozenset[str]:
    """Those that are live at a time, which are the ones the service reads."""
    return frozenset(contract.symbol for contract in _LIVE if contract.is_listed(now))


PERPETUALS: Final = (
    *_LIVE,
    *(_based_on(_BY_COIN[coin], coin + "PERP", "USDC", 0.03) for coin in ("BTC", "ETH", "SOL")),
    *(
        perpetual(row.partition(" ")[2], row.partition(" ")[0])
        for row in _NOT_TRADING.strip().splitlines()
    ),
    *(
        perpetual(row.partition(" ")[2], symbol_type=row.partition(" ")[0])
        for row in _NOT_CRYPTO.strip().splitlines()
    ),
)
"""Every contract without a delivery date, trading or not."""

STRESSED_COINS: Final = tuple(each.coin for each in _LIVE if each.coin not in MAJORS)
"""The coins that can come under stress; the majors never do."""


def copies(count: int) -> list[tuple[Contract, str]]:
    """Further USDT perpetuals with new coins, each with the coin whose market it copies."""
    found = []
    for number, model in enumerate(islice(cycle(_ALWAYS_LIVE), count)):
        coin = f"{model.coin[:11]}{number:03d}"
        found.append((replace(model, symbol=f"{coin}USDT", coin=coin), model.coin))
    return found


def listed_futures(now: int) -> tuple[Contract, ...]:
    """The futures listed at a time: the next two quarters, margined in USDC and USDT."""
    return _listed_on((now - _DELIVERY_HOUR * HOUR) // DAY)


@lru_cache(maxsize=64)
def _listed_on(day: int) -> tuple[Contract, ...]:
    deliveries = _next_quarters(date(1970, 1, 1) + timedelta(days=day), 2)
    return tuple(future for delivery in deliveries for future in _delivered_on(delivery))


@lru_cache(maxsize=64)
def _delivered_on(delivery: date) -> tuple[Contract, ...]:
    stamp = f"{delivery.day}{delivery:%b%y}".upper()
    midnight = datetime(delivery.year, delivery.month, delivery.day, tzinfo=UTC)
    when = int(midnight.timestamp()) * 1000 + _DELIVERY_HOUR * HOUR
    return tuple(
        replace(
            _based_on(_BY_COIN[coin], f"{coin}{margin}-{stamp}", quote, 0.004),
            kind=FUTURE,
            delivery=when,
            launch=when - 190 * DAY,
        )
        for coin in ("BTC", "ETH")
        for quote, margin in (("USDC", ""), ("USDT", "USDT"))
    )


def _next_quarters(after: date, count: int) -> list[date]:
    """The next `count` last Fridays of a quarter after a day."""
    found: list[date] = []
    year = after.year
    while len(found) < count:
        fridays = (_last_friday(year, month) for month in _QUARTER_MONTHS)
        found += [friday for friday in fridays if friday > after]
        year += 1
    return found[:count]


def _last_friday(year: int, month: int) -> date:
    following = date(year + month // 12, month % 12 + 1, 1)
    last = following - timedelta(days=1)
    return last - timedelta(days=(last.weekday() - _FRIDAY) % 7)
