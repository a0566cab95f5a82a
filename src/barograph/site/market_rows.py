"""The rows of `/markets` as HTML and as CSV (pure)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from markupsafe import Markup, escape

from barograph.kit.csv_table import cells
from barograph.kit.text import HUNDRED, price, usd
from barograph.kit.timestamps import iso_timestamp
from barograph.markets.symbols import names_of, spelled_names
from barograph.site.charts.sparkline import sparkline
from barograph.site.market_table import MarketRow, Week
from barograph.site.paths import MARKETS_FOLDER
from barograph.site.tints import funding_tint

_KEPT = 4_096
"""Enough for every contract of three venues."""

_DASH = '<td class="unknown">—</td>'
_MULTIPLIER = re.compile(r"(?<=000)(?=[A-Z])|(?<=[A-Z])(?=1000)")


def ranks_of(rows: Sequence[MarketRow]) -> dict[str, str]:
    """For each contract its rank in every number of `NUMBERS`, empty for what is unknown.

    A script sorts by them. They are exact, and much shorter than the numbers.
    """
    columns = [_ranks(numbers) for numbers in zip(*(row.numbers for row in rows), strict=True)]
    names = (row.perpetual.contract for row in rows)
    return dict(zip(names, map(" ".join, zip(*columns, strict=True)), strict=True))


def _ranks(numbers: Sequence[float | None]) -> list[str]:
    distinct = sorted({each for each in numbers if each is not None})
    rank: dict[float | None, str] = {each: str(at) for at, each in enumerate(distinct)}
    return [rank.get(each, "") for each in numbers]


def table_rows(
    rows: Iterable[MarketRow], root: str, suffix: str, ranks: Mapping[str, str]
) -> Markup:
    """Rows of the table, without a template, which would be too slow for so many.

    Cells have no attributes that CSS can do without: there are thousands of them. A full name is
    left out if it is the symbol with `suffix`, as usual at the venue.
    """
    folder = str(escape(f"{root}{MARKETS_FOLDER}"))
    lines = (_line(row, folder, suffix, ranks[row.perpetual.contract]) for row in rows)
    # Safe: names are escaped, and everything else is numbers.
    return Markup("\n".join(lines))  # noqa: S704


def _line(row: MarketRow, folder: str, suffix: str, ranks: str) -> str:
    each, names = row.perpetual, spelled_names(row.perpetual)
    _, change, _, interest, interest_change, week, _, share = row.numbers
    funding = each.funding_8h_pct
    known = f' data-names="{" ".join(names_of(each))}"' if names else ""
    if each.contract != each.base + suffix:
        known += f' data-contract="{escape(each.contract)}"'
    title = f' title="{names[0]}"' if names else ""
    # A name breaks only between its multiplier and the coin.
    name = _MULTIPLIER.sub("<wbr>", str(escape(each.base)))
    if row.symbol is not None:
        name = f'<a href="{folder}{row.symbol}"{title}>{name}</a>'
    held = _DASH if interest is None else f"<td>{usd(interest)}</td>"
    long = _DASH if share is None else f"<td>{share:.1f}</td>"
    return (
        f'<tr data-values="{ranks}"{known}><th scope="row">{name}</th>'
        f"<td>{price(each.last_price)}</td>{_change(change, 2)}"
        f'<td class="{funding_tint(funding)}">{funding:+z.4f}'
        f"<i>{each.funding_interval_hours:g}h</i></td>"
        f"{held}{_change(interest_change, 1)}"
        f"<td>{'—' if week is None else f'{week:+z.1f}'}{_spark(row.week)}</td>"
        f"{_sides(row.liquidated)}{long}</tr>"
    )


def _change(percent: float | None, decimals: int) -> str:
    if percent is None:
        return _DASH
    text = f"{percent:+z.{decimals}f}"  # coloured as it is rounded
    return f'<td class="down">{text}</td>' if text[0] == "-" else f"<td>{text}</td>"


def _sides(liquidated: tuple[float, float] | None) -> str:
    if liquidated is None:
        return _DASH
    longs, shorts = map(short_usd, liquidated)
    return f"<td>{longs}<i>{shorts}</i></td>"


@lru_cache(maxsize=_KEPT)
def short_usd(amount: float) -> str:
    """An amount with three digits, such as `$950`, `$1.23M` or `$45.6k`."""
    text = usd(amount)
    if text[-1].isdigit():
        return text
    number = float(text[1:-1])
    decimals = 2 - (number >= 10) - (number >= HUNDRED)  # noqa: PLR2004
    return f"${number:.{decimals}f}{text[-1]}"


@lru_cache(maxsize=_KEPT)
def _spark(week: Week) -> str:
    return sparkline(week, (50, 16), every=4)


CSV_COLUMNS = (
    "symbol,contract,lastPrice,quote,priceChange24hPct,priceChange7dPct,fundingRatePct8h,"
    "fundingRatePct,fundingIntervalHours,nextFundingTime,openInterestUsd,openInterestCoinsChange24hPct,"
    "liquidations24h_longUsd,liquidations24h_shortUsd,longAccountPct,as_of"
)


def csv_rows(rows: Iterable[MarketRow], as_of: int) -> list[str]:
    """Rows as CSV; columns are named as in `/api/v1/perpetuals.csv`."""
    read_at = iso_timestamp(as_of)
    return [_csv_row(row, read_at) for row in rows]


def _csv_row(row: MarketRow, as_of: str) -> str:
    each = row.perpetual
    last_price, change, funding, interest, interest_change, week, _, share = row.numbers
    return cells(
        (
            *(row.symbol or each.base, each.contract, last_price, each.quote, change, week),
            *(funding, each.funding_rate_pct, each.funding_interval_hours),
            *(each.next_funding_time, interest, interest_change),
            *(row.liquidated or (None, None)),
            *(share, as_of),
        )
    )
