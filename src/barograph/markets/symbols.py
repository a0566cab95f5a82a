"""Finds contracts by their symbols, and by what else people call them (pure).

`/api/agent/derivatives` takes symbols only: an alias stays unavailable there.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from starlette.datastructures import QueryParams

from barograph.errors import InvalidRequest, NotFound
from barograph.venues.records import Perpetual, Perpetuals, majors_of
from barograph.venues.registry import VENUES

DEFAULT_SYMBOL = "BTC"
MAX_LENGTH = 15
PATTERN = f"^[A-Za-z0-9]{{1,{MAX_LENGTH}}}$"
RULE = f"symbol must be 1 to {MAX_LENGTH} letters or digits"

MAX_NAME = 30
NAME_PATTERN = rf"^[\w-]{{1,{MAX_NAME}}}$"
UNKNOWN_SYMBOL = "unknown symbol; /api/v1/perpetuals lists every symbol"
UNKNOWN_COIN = "unknown coin; /api/v1/cross lists every coin"

ContractIndex = Mapping[str, Perpetual]
"""The contracts of one reading by base asset and by full name, in upper case."""

_SYMBOL = re.compile(rf"[A-Za-z0-9]{{1,{MAX_LENGTH}}}", re.ASCII)
_MULTIPLIERS = (*(str(10**zeros) for zeros in range(1, 10)), "1M")
_WITHOUT_MULTIPLIER = re.compile(r"(?:10+|1M)?(.+?)(?:1000)?")

_PAIRS = (
    "Bitcoin=BTC,Ethereum=ETH,Ether=ETH,Solana=SOL,Ripple=XRP,Dogecoin=DOGE,Cardano=ADA,"
    "Binance Coin=BNB,Tron=TRX,Avalanche=AVAX,Chainlink=LINK,Polkadot=DOT,Polygon=POL,"
    "Litecoin=LTC,Bitcoin Cash=BCH,Bitcoin SV=BSV,Stellar=XLM,Cosmos=ATOM,Uniswap=UNI,Toncoin=TON,"
    "Shiba Inu=SHIB,Shiba=SHIB,Near Protocol=NEAR,Aptos=APT,Arbitrum=ARB,Optimism=OP,"
    "Hyperliquid=HYPE,Hedera=HBAR,Internet Computer=ICP,Filecoin=FIL,Monero=XMR,Zcash=ZEC,"
    "Ethereum Classic=ETC,Algorand=ALGO,Celestia=TIA,Injective=INJ,Maker=MKR,Dogwifhat=WIF,"
    "Worldcoin=WLD,Ethena=ENA,Jupiter=JUP,Lido=LDO,Pudgy Penguins=PENGU"
)
_SPELLED = [pair.split("=") for pair in _PAIRS.split(",")]
NAMES = {name.upper().replace(" ", ""): symbol for name, symbol in _SPELLED}
"""Names of well-known coins, in upper case without spaces and hyphens."""

_NAMES_BY_SYMBOL: dict[str, list[str]] = defaultdict(list)
for _name, _symbol in _SPELLED:
    _NAMES_BY_SYMBOL[_symbol].append(_name)


def normalized(text: str) -> str | None:
    """A symbol in upper case; None if it is not a symbol."""
    # Checked before upper(), which turns some non-ASCII letters into A to Z.
    return text.upper() if _SYMBOL.fullmatch(text) is not None else None


def is_normalized(name: str) -> bool:
    """Whether a name is a symbol in upper case."""
    return normalized(name) == name


def symbol_from_query(query: QueryParams) -> str:
    """Read the symbol of a query, in upper case; BTC when it is absent.

    Raises:
        InvalidRequest: it is empty, malformed or repeated.
    """
    given = query.getlist("symbol") or [DEFAULT_SYMBOL]
    symbol = normalized(given[0]) if len(given) == 1 else None
    if symbol is None:
        raise InvalidRequest(f"{RULE}, given once")
    return symbol


def symbol_from(venue: str, contract: str) -> str:
    """The base asset in upper case, by the contract's name, which outlives the listing."""
    return (contract.removesuffix(VENUES[venue].suffix) or contract).upper()


def index_of(reading: Perpetuals) -> ContractIndex:
    """Index a reading by asset and by full name.

    An asset wins over a full name. If two contracts share an asset, the first wins, but BTC is the
    contract behind the regime.
    """
    later_first = reading.contracts[::-1]
    by_contract = {listed.contract.upper(): listed for listed in later_first}
    by_asset = {listed.base.upper(): listed for listed in later_first}
    return by_contract | by_asset | majors_of(reading)


def symbol_of(index: ContractIndex, perpetual: Perpetual) -> str | None:
    """The symbol of a contract's page; None if no symbol can name it.

    If two contracts share an asset, the second is named by its full name.
    """
    for name in (perpetual.base.upper(), perpetual.contract.upper()):
        if is_normalized(name) and index.get(name) is perpetual:
            return name
    return None


def upper(text: str) -> str:
    """A name in upper case, unless that would make ASCII of other letters."""
    return text.upper() if text.isascii() else text


def find_contract(index: ContractIndex, text: str) -> Perpetual | None:
    """The contract that a text names, in any case; None if it names none.

    An exact asset or full name wins, then a multiplier contract, then a coin's name.
    """
    name = upper(text)
    contract = _by_symbol(index, name)
    if contract is None and name[:4] == "1000" and _is_thousand(index, name[4:]):
        contract = index[f"K{name[4:]}"]
    if contract is None:
        letters = "".join(character for character in name if character.isalnum())
        contract = _by_symbol(index, NAMES.get(letters, ""))
    return contract


def has_page(name: str) -> bool:
    """Whether a coin's name can be part of an address."""
    return re.fullmatch(NAME_PATTERN, name) is not None


def require_name(text: str, parameter: str = "symbol") -> str:
    """The text, if it can name a contract; raises InvalidRequest otherwise."""
    if not has_page(text):
        raise InvalidRequest(f"{parameter} must be 1 to {MAX_NAME} letters, digits, hyphens or _")
    return text


def require_contract(index: ContractIndex, text: str) -> Perpetual:
    """The contract that a request names.

    Raises:
        InvalidRequest: the text can't name any.
        NotFound: it names none of these.
    """
    contract = find_contract(index, require_name(text))
    if contract is None:
        raise NotFound(UNKNOWN_SYMBOL)
    return contract


def names_of(perpetual: Perpetual) -> list[str]:
    """The names of a contract's coin, in upper case without spaces and hyphens."""
    return joined_names(spelled_names(perpetual))


def joined_names(spelled: Iterable[str]) -> list[str]:
    """Names as they are searched: in upper case without spaces."""
    return [name.upper().replace(" ", "") for name in spelled]


def spelled_names(perpetual: Perpetual) -> list[str]:
    """The names of a contract's coin as people write them, the usual one first."""
    coin = _WITHOUT_MULTIPLIER.fullmatch(perpetual.asset.upper())
    return [] if coin is None else _NAMES_BY_SYMBOL.get(coin[1], [])


def _by_symbol(index: ContractIndex, name: str) -> Perpetual | None:
    if name in index:
        return index[name]
    if not name or name.startswith("0"):  # `0PEPE` is not 1000PEPE
        return None
    texts = [*(multiplier + name for multiplier in _MULTIPLIERS), f"{name}1000"]
    matches = [index[text] for text in texts if text in index]
    if _is_thousand(index, name):
        matches.append(index[f"K{name}"])
    return max(matches, key=lambda match: match.open_interest_usd or 0.0, default=None)


def _is_thousand(index: ContractIndex, coin: str) -> bool:
    """Whether there is a contract such as `kPEPE` at Hyperliquid, but not KAVA for AVA."""
    contract = index.get(f"K{coin}")
    return contract is not None and contract.coin == coin
