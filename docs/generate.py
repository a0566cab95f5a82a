"""Write the pages that come from the code and its tests: `make docs`."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from barograph.markets.carry import CarryCoin, CarryVenue
from barograph.markets.cross_bodies import (
    CrossEntry,
    CrossVenueEntry,
    FundingSpread,
    MissingVenue,
    OpenInterestChange,
)
from barograph.markets.documents import Liq24h
from barograph.markets.liquidation_files import LiquidationRecord
from barograph.markets.perpetuals import Liquidations24h, PerpetualEntry
from barograph.series.endpoints import ListingEntry, MeasurePoint, MissingPoint
from barograph.settings import GROUPS, PREFIX
from barograph.stances.documents import StanceDecision, StanceLeg

DOCS = Path(__file__).parent
ROOT = DOCS.parent

READING_NUMBERS = (
    "The unit, sign and interval of each number, by the documents of the API. Null means unknown; "
    "zero is a number. Times in text are UTC. A funding rate is in percent of the position's "
    "value. Open interest is single-sided: a long and its short count "
    "once. `longAccountPct` counts accounts, not money. [Venues](venues.md#one-unit) says how we "
    "convert what an exchange sends."
)
NUMBERS: Mapping[str, tuple[Any, ...]] = {
    "Perpetual": (
        (
            "`/api/v1/perpetuals`. `…_as_of` is the time of the numbers before it. The members "
            "after `changes_from` are in `liquidations24h`, null if coverage is too low or the "
            "venue doesn't publish every liquidation."
        ),
        PerpetualEntry,
        Liquidations24h,
    ),
    "Market state": (
        (
            "`/api/agent/market-state`, `/api/agent/market` and `/api/agent/derivatives` have "
            "numbers of a perpetual. Here `fundingRatePct` is in percent per 8 hours, for every "
            "contract and venue. `lastPrice` is in USDT; at Hyperliquid, as `source` says, it "
            "is the mark price in USD. `liq24h` has:"
        ),
        Liq24h,
    ),
    "Liquidation": (
        (
            "`/api/v1/liquidations` and the daily files. The files have no `disputed`; their "
            "manifest names the spans (`disputed_sides`)."
        ),
        LiquidationRecord,
    ),
    "Recorded series": (
        (
            "`/api/v1/series/{measure}`: `points`. The measures of a reading are `price`, "
            "`funding`, `open-interest` (USD), `open-interest-coins`, `volume` and `volume-coins` "
            "(24-hour turnover as reported; `volume` in the quote currency), "
            "`index-price` (index or oracle price), `basis` (mark minus index price, in percent of "
            "the index) and `long-accounts`. Coins are in units of "
            "1,000 for 1000PEPE, and single coins with `venue=all`. Readings from before the "
            "upgrade have no volume, index price or basis."
        ),
        MeasurePoint,
        MissingPoint,
    ),
    "Listing": ("`/api/v1/listings`.", ListingEntry),
    "Cross-venue": (
        (
            "`/api/v1/cross`: a coin, then `venues`, `fundingSpread`, a missing venue and "
            "`openInterestChange24h`."
        ),
        CrossEntry,
        CrossVenueEntry,
        FundingSpread,
        MissingVenue,
        OpenInterestChange,
    ),
    "Carry": (
        (
            "`/api/v1/carry`: a coin, then `venues`. Fees and prices are not included. In its "
            "first month, a new installation has the change over 30 days for BTC, ETH and SOL only."
        ),
        CarryCoin,
        CarryVenue,
    ),
    "Levels": (
        (
            "`leg` of a stance. Yields, rates, slopes and their changes are in percent, "
            "`flow5dPctAum` in percent of the fund's assets. `score` is the percentile of the "
            "settled rate among those that the primary venue settled in the 30 days up to it, "
            "`delta24h` its change in 24 hours. `us10yMoves20d` and `slopeMoves20d` are changes "
            "divided by the usual move over 20 days, which is 5.6 times the mean size of the last "
            "60 daily changes. `streakDays` is negative for outflows. `effrPlaceInRange` is 0 at "
            "the lower and 1 at the upper end of the target range."
        ),
        StanceLeg,
    ),
    "Decision": ("`leg.decision` of a stance.", StanceDecision),
}
"""Where the numbers are and whose descriptions say what they mean, by heading."""

NOT_NUMBERS = re.compile(
    "venue|shortVenue|longVenue|symbol|coin|contract|source|text|method|reason|state|by|topAsset|highest|.*_as_of"
)

TOPICS = {
    "Payments": "payment|paid|payer|wallet|facilitator|buyer|feed (period|entitlement)|of feed",
    "Identity": "identity provider|token|openid",
    "MCP": "mcp",
    "Alerts": r"\balerts?\b",
    "Stances and their history": r"\bstance|histor|checkpoint|witness|restore|logging|\blogs\b",
    "Daily figures": "daily figure|fund flows|etf issuer|publisher",
    "Signals, briefs, badges and guides": "signal|brief|badge|guide",
    "Exchange and collector": "exchange|collector|contract|liquidation|reading|feed|venue",
    "API keys and mail": r"\bkey\b|pepper|mail",
    "Requests and limits": "request|client|quer|connection|rate-limit|renders|web page",
    "Processes and files": "",
}
"""The topics of `what-happens-when.md`, with the words that select its rows; first match wins."""


def settings_page() -> str:
    """Every setting by group, with its default and its meaning."""
    lines = [
        "# Settings",
        "",
        (
            "Set these as environment variables. The service refuses to start with a "
            "`BAROGRAPH_` variable that is not on this page, so a typo can't go unnoticed. "
            "`barograph settings` prints every setting with its current value and where that "
            "comes from. `barograph doctor` checks the result."
        ),
    ]
    for title, group in GROUPS.items():
        lines += ["", f"## {title.capitalize()}", "", f"{group.__doc__}", ""]
        lines += ["| variable | default | meaning |", "|---|---|---|"]
        for name, field in group.model_fields.items():
            default = "" if field.default is None else str(field.default)
            shown = default and f"`{default}`"
            lines.append(f"| `{PREFIX}{name.upper()}` | {shown} | {field.description} |")
    return "\n".join([*lines, ""])


def fields_page() -> str:
    """The unit, sign and interval of each number, by the API's documents and names."""
    lines = ["# What each number means", "", READING_NUMBERS]
    for title, (where, *models) in NUMBERS.items():
        lines += ["", f"## {title}", "", where, "", "| name | meaning |", "|---|---|"]
        lines += _meanings(*models)
    return "\n".join([*lines, ""])


def outcomes_page() -> str:
    """What happens when something goes wrong, by topic, as the tests show it."""
    rows: dict[tuple[str, str], list[str]] = {}
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        for when, then in _outcomes(path):
            rows.setdefault((_topic(when), then), []).append(when)
    lines = [
        "# What happens when",
        "",
        (
            "What the service does when something fails. A test proves each row: search `tests/` "
            "for its first words. [Security](security.md) has the rows about attacks."
        ),
    ]
    for topic in TOPICS:
        lines += ["", f"## {topic}", "", "| When | Then |", "|---|---|"]
        lines += sorted(
            f"| {'<br>'.join(dict.fromkeys(whens))} | {then} |"
            for (of, then), whens in rows.items()
            if of == topic
        )
    return "\n".join([*lines, ""])


PAGES = {
    "settings.md": settings_page,
    "fields.md": fields_page,
    "what-happens-when.md": outcomes_page,
}


def _meanings(*models: type[BaseModel]) -> Iterator[str]:
    for model in models:
        for name, field in model.model_fields.items():
            if field.description and not NOT_NUMBERS.fullmatch(name):
                yield f"| `{name}` | {field.description} |"


def _topic(when: str) -> str:
    return next(topic for topic, words in TOPICS.items() if re.search(words, when, re.IGNORECASE))


def _outcomes(path: Path) -> Iterator[tuple[str, str]]:
    """The `outcome(when, then)` marks of a test file, on functions and parameters."""
    function = ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, function) and node.name.startswith("test_"):
            for decorator in node.decorator_list:
                for call in ast.walk(decorator):
                    if _is_outcome(call):
                        when, then = (ast.literal_eval(each) for each in call.args)  # type: ignore[attr-defined]
                        yield when, then


def _is_outcome(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "outcome"
    )


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), "utf-8")
