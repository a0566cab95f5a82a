"""Finds a contract by what people call it: its symbol, its coin without the multiplier, or a name.

Pure. `/api/agent/derivatives` doesn't use it: there an alias stays unavailable.
"""

import re
from collections import defaultdict

from barograph.errors import InvalidRequest, NotFound
from barograph.markets.records import Perpetual
from barograph.markets.symbols import ContractIndex

MAX_NAME = 30
NAME_PATTERN = rf"^[\w-]{{1,{MAX_NAME}}}$"
UNKNOWN_SYMBOL = "unknown symbol; /api/v1/perpetuals lists every symbol"

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


def find_contract(index: ContractIndex, text: str) -> Perpetual | None:
    """The contract that a text names, in any case; None if it names none.

    An exact asset or full name wins, then a multiplier contract, then a coin's name.
    """
    name = text.upper() if text.isascii() else text  # upper() makes ASCII of some others
    found = _by_symbol(index, name)
    if found is None and name[:4] == "1000" and _is_thousand(index, name[4:]):
        found = index[f"K{name[4:]}"]
    if found is None:
        letters = "".join(each for each in name if each.isalnum())
        found = _by_symbol(index, NAMES.get(letters, ""))
    return found


def require_name(text: str, parameter: str = "symbol") -> str:
    """The text, if it can name a contract; raises InvalidRequest otherwise."""
    if not re.fullmatch(NAME_PATTERN, text):
        raise InvalidRequest(f"{parameter} must be 1 to {MAX_NAME} letters, digits, hyphens or _")
    return text


def require_contract(index: ContractIndex, text: str) -> Perpetual:
    """The contract that a request names.

    Raises:
        InvalidRequest: the text can't name any.
        NotFound: it names none of these.
    """
    found = find_contract(index, require_name(text))
    if found is None:
        raise NotFound(UNKNOWN_SYMBOL)
    return found


def names_of(perpetual: Perpetual) -> list[str]:
    """The names of a contract's coin, in upper case without spaces and hyphens."""
    return [name.upper().replace(" ", "") for name in spelled_names(perpetual)]


def spelled_names(perpetual: Perpetual) -> list[str]:
    """The names of a contract's coin as people write them, the usual one first."""
    coin = _WITHOUT_MULTIPLIER.fullmatch(perpetual.asset.upper())
    return [] if coin is None else _NAMES_BY_SYMBOL.get(coin[1], [])


def _by_symbol(index: ContractIndex, name: str) -> Perpetual | None:
    if name in index:
        return index[name]
    if not name or name.startswith("0"):  # `0PEPE` is not 1000PEPE
        return None
    texts = [*(each + name for each in _MULTIPLIERS), f"{name}1000"]
    found = [index[text] for text in texts if text in index]
    if _is_thousand(index, name):
        found.append(index[f"K{name}"])
    return max(found, key=lambda each: each.open_interest_usd or 0.0, default=None)


def _is_thousand(index: ContractIndex, coin: str) -> bool:
    """Whether there is a contract such as `kPEPE` at Hyperliquid, but not KAVA for AVA."""
    found = index.get(f"K{coin}")
    return found is not None and found.coin == coin


_NAMES_BY_SYMBOL: dict[str, list[str]] = defaultdict(list)
for _name, _symbol in _SPELLED:
    _NAMES_BY_SYMBOL[_symbol].append(_name)
