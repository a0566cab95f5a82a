"""What Aster publishes."""

from typing import Final

from barograph.venues.facts import Terms, Venue

VENUE: Final = Venue(
    "aster",
    "Aster",
    "Aster public market data (USDT perpetuals)",
    "Aster public market data",
    Terms(
        "https://docs.asterdex.com/",
        "",
        "We have not read the terms, so we treat them as asking for written consent.",
        "consent",
    ),
    "https://fapi.asterdex.com",
    ("#1d4ed8", "#7cb0ff"),
    liquidations="largest per second",
    liquidation_price="average fill",
    stream="/stream",
    stream_hosts={"fapi.asterdex.com": "fstream.asterdex.com"},
    has_long_accounts=False,
    open_interest="one side, we assume: it uses the format of Binance and does not document this",
)

_COINS = """
BTC ETH SOL XRP BNB DOGE ADA TRX AVAX LINK DOT LTC BCH XLM SUI HBAR TON UNI APT NEAR ICP ETC AAVE
FIL ATOM ARB OP INJ IMX TIA SEI LDO CRV MKR COMP DYDX PENDLE ENA ONDO JUP PYTH RENDER FET TAO WLD
GRT THETA VET ALGO EGLD XMR ZEC KAS XTZ EOS IOTA QTUM KAVA FLOW GALA SAND MANA AXS APE CHZ GMT
BLUR MASK GMX SUSHI 1INCH ZRX BAT YFI CAKE RUNE KSM MINA ROSE CFX ORDI SATS RATS BONK PEPE SHIB
FLOKI WIF POPCAT BRETT MEW NEIRO TURBO PNUT MOODENG DOGS NOT HMSTR CATI BOME PEOPLE TRUMP MELANIA
PENGU FARTCOIN HYPE ASTER PUMP XPL WLFI ETHFI EIGEN ZRO ZK STRK MANTA DYM ALT JTO TNSR IO ZETA AXL
ARKM AEVO BERA MOVE KAITO VIRTUAL LAYER INIT SOPH LPT GTC STORJ ANKR CELO RVN ZIL ONE ICX SKL BAL
FXS TRB SSV METIS BABYDOGE ZAMA
"""
COINS: Final = frozenset(_COINS.split())
"""What counts as crypto where a contract has no class: coins whose names are no known stocks."""
