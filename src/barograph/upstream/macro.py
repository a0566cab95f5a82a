"""The sources of daily figures that are configured."""

from barograph.kit.clock import Clock
from barograph.macro.records import MacroSource
from barograph.settings import Settings
from barograph.upstream.etf import IssuerHoldings, OperatorFlows
from barograph.upstream.files import FileClient
from barograph.upstream.nyfed import Rate, ReferenceRate
from barograph.upstream.treasury import TreasuryYields

TREASURY = "US Treasury daily par yield curve"
NYFED = "Federal Reserve Bank of New York"
RATES: tuple[Rate, ...] = ("sofr", "effr")


def macro_sources(settings: Settings, files: FileClient, *, clock: Clock) -> list[MacroSource]:
    """Every source that the settings name; what is not named is not read."""
    sources: list[MacroSource] = []
    if settings.treasury_url:
        said = settings.macro_source or TREASURY
        address = settings.treasury_url
        sources.append(TreasuryYields(files, base_url=address, source=said, clock=clock))
    if settings.nyfed_url:
        said = settings.macro_source or NYFED
        sources += [
            ReferenceRate(rate, files, base_url=settings.nyfed_url, source=said, clock=clock)
            for rate in RATES
        ]
    fund = settings.etf_fund
    if settings.etf_url:
        said = settings.macro_source or f"{fund} issuer's holdings file"
        sources.append(
            IssuerHoldings(files, fund=fund, address=settings.etf_url, source=said, clock=clock)
        )
    if settings.etf_file is not None:
        sources.append(OperatorFlows(settings.etf_file, source="operator's file", clock=clock))
    return sources
