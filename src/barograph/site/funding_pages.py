"""The content of `/funding` (pure): the funding of every coin, with one column per venue."""

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from barograph.markets.cross import FUNDING, CrossCoin, CrossVenue
from barograph.markets.venues import VENUES
from barograph.site.cross_pages import (
    COMPARABLE,
    CrossRow,
    entries_at,
    line_start,
    spread_venues,
)
from barograph.site.paths import CROSS_FOLDER
from barograph.site.tints import funding_tint

WEIGHTED, SPREAD = "Weighted", "Widest spread"
_NOT_LISTED = '<span class="quiet" title="not listed">—</span>'


def funding_columns(venues: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The headings, each with the name to sort by."""
    return (
        ("symbol", "Coin"),
        *((each, VENUES[each].title) for each in venues),
        ("funding", WEIGHTED),
        ("spread", SPREAD),
    )


def funding_rows(rows: Iterable[CrossRow], venues: Sequence[str], root: str) -> Markup:
    """The body of the table, without a template, which would be too slow for so many rows."""
    folder = str(escape(f"{root}{CROSS_FOLDER}"))
    # Safe: names and reasons are escaped, and everything else is numbers.
    return Markup("\n".join(_line(row, venues, folder) for row in rows))  # noqa: S704


def _line(row: CrossRow, venues: Sequence[str], folder: str) -> str:
    cells = "".join(_cell(VENUES[each].title, entries_at(row.coin, each)) for each in venues)
    return f"{line_start(row, folder)}{cells}{_weighted(row.coin)}{_spread(row.coin)}</tr>"


def _weighted(coin: CrossCoin) -> str:
    """The weighted rate, or the venues that are missing for one."""
    if coin.funding_missing or coin.funding_8h_pct is None:
        names = ", ".join(dict.fromkeys(each.venue for each in coin.funding_missing))
        why = f"{names} missing" if names else "—"
        return f'<td data-head="{WEIGHTED}"><span class="quiet">{escape(why)}</span></td>'
    tint, shown = funding_tint(coin.funding_8h_pct), _signed(coin.funding_8h_pct)
    return f'<td data-head="{WEIGHTED}" class="{tint}">{shown}</td>'


def _spread(coin: CrossCoin) -> str:
    if coin.spread is None:
        return f'<td data-head="{SPREAD}">—</td>'
    venues = f'<span class="quiet">{escape(spread_venues(coin))}</span>'
    return f'<td data-head="{SPREAD}">{coin.spread.pct_8h:.4f} {venues}</td>'


def _signed(percent: float) -> str:
    """A rate without its unit, which all cells share."""
    return f"{percent:+.4f}"


def _cell(title: str, entries: Sequence[CrossVenue]) -> str:
    """The rates of a coin at one venue; the tint is that of its largest contract."""
    rates = [_rate(each) for each in entries] or [("", _NOT_LISTED)]
    tint = f' class="{rates[0][0]}"' if rates[0][0] else ""
    return f'<td data-head="{title}"{tint}>{"<br>".join(shown for _, shown in rates)}</td>'


def _rate(entry: CrossVenue) -> tuple[str, str]:
    """The tint and the text of one contract; without a tint, the rate doesn't count."""
    state, reason = entry.state, escape(entry.reason or "")
    if entry.contract is None or entry.funding_8h_pct is None:
        return "", f'<span class="quiet" title="{reason}">{state}</span>'
    hours = entry.contract.funding_interval_hours
    shown = f"{_signed(entry.funding_8h_pct)} <small>{hours:g}h</small>"
    if state in COMPARABLE and FUNDING not in entry.disputed:
        return funding_tint(entry.funding_8h_pct), shown
    return "", f'{shown} <br><span class="quiet" title="{reason}">{state}</span>'
