"""How much is measured."""

from typing import NamedTuple

from barograph.markets.documents import DERIVATIVES_PATH, MARKET_PATH, MARKET_STATE_PATH

ROUNDS = 15
HOT_READS = (MARKET_STATE_PATH, MARKET_PATH, f"{DERIVATIVES_PATH}?symbol=ETH")


class Plan(NamedTuple):
    """The length of each measurement."""

    rounds: int
    """How often each server of a comparison is measured, one second each."""

    targets: tuple[str, ...] = HOT_READS
    """Which hot reads are compared."""

    window_seconds: int = 15
    """How long upstream calls are counted, without readers and again with them."""

    snapshots: int = 120
    """How many readings are decoded, published and rendered."""

    starts: int = 5
    """How often the service is started."""

    demo: bool = True
    """Whether the whole demo is started, too."""

    fill: bool = True
    """Whether a first start is measured until the past of every contract is filled."""


def quick(rounds: int | None) -> Plan:
    """A coarse run of about 3 minutes."""
    return Plan(3 if rounds is None else rounds, HOT_READS[:1], 5, 20, 1, demo=False, fill=False)


def full(rounds: int | None) -> Plan:
    """The plan of the README's table."""
    return Plan(ROUNDS if rounds is None else rounds)
