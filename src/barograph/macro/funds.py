"""Which figures of bitcoin funds count: chosen here, for signals, briefs and stances alike."""

from collections.abc import Awaitable, Callable, Sequence

from barograph.macro.records import (
    OPERATOR_AUM,
    OPERATOR_BTC,
    OPERATOR_FLOW,
    FundFigure,
    Observation,
    fund_series,
)
from barograph.macro.series import EtfSeries, issuers_series, operator_series
from barograph.settings import Settings

Look = Callable[[str], Awaitable[Sequence[Observation]]]
"""Gives what is known of a series by its name."""

_OPERATORS = (OPERATOR_FLOW, OPERATOR_AUM, OPERATOR_BTC)
_ISSUERS: tuple[FundFigure, ...] = ("shares", "nav", "btc", "aum")


async def etf_series(settings: Settings, look: Look) -> EtfSeries:
    """The operator's own figures while they keep a file, otherwise the issuer's.

    What was stored says nothing about that: rows of a file that is no longer kept stay for ever.
    """
    if settings.etf_file is not None:
        return operator_series({name: await look(name) for name in _OPERATORS})
    fund = settings.etf_fund
    names = [fund_series(fund, figure) for figure in _ISSUERS]
    return issuers_series({name: await look(name) for name in names}, [fund])
