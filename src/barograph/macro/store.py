"""The table of daily figures: every value we ever read, each revision once."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from itertools import groupby

from msgspec.structs import astuple

from barograph.kit.database import Statement, Transaction
from barograph.macro.records import (
    OPERATOR_AUM,
    OPERATOR_BTC,
    OPERATOR_FLOW,
    Figure,
    FundFigure,
    RecordedFigure,
    fund_series,
    is_imported,
)
from barograph.macro.series import EtfSeries, issuer_series, operator_series
from barograph.settings import Settings

SeriesLookup = Callable[[str], Awaitable[Sequence[RecordedFigure]]]
"""Returns what is known of a series by its name."""

_OPERATORS = (OPERATOR_FLOW, OPERATOR_AUM, OPERATOR_BTC)
_ISSUERS: tuple[FundFigure, ...] = ("shares", "nav", "btc", "aum", "flow")


async def record_figures(
    tx: Transaction, figures: Sequence[Figure], observed_at: int
) -> list[RecordedFigure]:
    """Store figures that are new and return them.

    A value that equals the newest revision is known, unless that was imported; another one is the
    next revision.
    """
    days = {figure.day for figure in figures}
    newest = await _newest_revisions(tx, {figure.series for figure in figures}, days)
    added = []
    for figure in figures:
        known = newest.get((figure.series, figure.day))
        if known and known.value == figure.value and not is_imported(known.source):
            continue
        observation = _following(figure, known, observed_at)
        newest[figure.series, figure.day] = observation
        added.append(observation)
    await tx.execute_many(_INSERT, [astuple(each) for each in added])
    return added


async def import_figures(
    tx: Transaction, fund: str, figures: Sequence[Figure], now: int, *, dry_run: bool = False
) -> list[str]:
    """Store the days of an operator's file, in the order of days; return those that are new.

    The newest import of a day replaces the day as a whole. A day from the issuer stays as it is.
    """
    days = {day: list(group) for day, group in groupby(figures, lambda figure: figure.day)}
    names = [fund_series(fund, figure) for figure in _ISSUERS]
    known = await _newest_revisions(tx, names, days)
    stored = {day: [known[key] for name in names if (key := (name, day)) in known] for day in days}
    new = [day for day, given in days.items() if _replaces(given, stored[day])]
    # Newer than what it replaces, even if the clock was set back.
    at = max([now, *(each.observed_at + 1 for day in new for each in stored[day])])
    rows = [
        _following(each, known.get((each.series, day)), at) for day in new for each in days[day]
    ]
    if not dry_run:
        await tx.execute_many(_INSERT, [astuple(row) for row in rows])
    return new


def _replaces(given: Sequence[Figure], known: Sequence[RecordedFigure]) -> bool:
    if not all(is_imported(each.source) for each in known):
        return False
    newest = max((each.observed_at for each in known), default=0)
    stored = {
        (each.series, each.value, each.source) for each in known if each.observed_at == newest
    }
    return stored != {(each.series, each.value, each.source) for each in given}


async def latest_figures(tx: Transaction, series: str, days: int) -> list[RecordedFigure]:
    """The newest `days` days of a series as known now, oldest day first."""
    return (await _LATEST.fetch(tx, series, days))[::-1]


async def as_known_at(tx: Transaction, series: str, at: int, days: int) -> list[RecordedFigure]:
    """The newest `days` days of a series as known at an instant, oldest day first."""
    return (await _AS_KNOWN_AT.fetch(tx, series, at, days))[::-1]


async def figures_between(
    tx: Transaction, series: str, days: tuple[str, str], at: int, count: int
) -> list[RecordedFigure]:
    """The first `count` days of a series as known at an instant, up to, not including, a day."""
    return await _KNOWN_BETWEEN.fetch(tx, series, at, *days, count)


def etf_names(settings: Settings) -> list[str]:
    """The series of the operator's file if there is one, otherwise those of the issuer.

    The setting decides, not the stored rows: rows of a file that is no longer used stay for ever.
    """
    if settings.etf_file is not None:
        return list(_OPERATORS)
    return [fund_series(settings.etf_fund, figure) for figure in _ISSUERS]


async def etf_series(settings: Settings, look: SeriesLookup) -> EtfSeries:
    """The figures of the series in `etf_names`."""
    known = {name: await look(name) for name in etf_names(settings)}
    if settings.etf_file is not None:
        return operator_series(known)
    return issuer_series(known, settings.etf_fund)


async def _newest_revisions(
    tx: Transaction, series: Iterable[str], days: Collection[str]
) -> dict[tuple[str, str], RecordedFigure]:
    """By series and day. Only between these days, so that a small update stays cheap."""
    if not days:
        return {}
    return {
        (name, figure.day): figure
        for name in series
        for figure in await _BETWEEN.fetch(tx, name, min(days), max(days))
    }


def _following(figure: Figure, known: RecordedFigure | None, observed_at: int) -> RecordedFigure:
    return RecordedFigure(
        series=figure.series,
        day=figure.day,
        revision=1 if known is None else known.revision + 1,
        value=figure.value,
        source=figure.source,
        # A clock that was set back must not make a revision older than what it revises.
        observed_at=observed_at if known is None else max(observed_at, known.observed_at),
    )


_INSERT = """
INSERT INTO observations (series, day, revision, value, source, observed_at)
VALUES ($1, $2, $3, $4, $5, $6)
"""
_NEWEST = """
SELECT {columns} FROM observations WHERE series = $1 AND revision = (
    SELECT max(revision) FROM observations AS other
    WHERE other.series = observations.series AND other.day = observations.day"""
_BETWEEN = Statement(RecordedFigure, f"{_NEWEST}) AND day BETWEEN $2 AND $3")
_LATEST = Statement(RecordedFigure, f"{_NEWEST}) ORDER BY day DESC LIMIT $2")
_KNOWN_AT = f"{_NEWEST} AND other.observed_at <= $2)"
_AS_KNOWN_AT = Statement(RecordedFigure, f"{_KNOWN_AT} ORDER BY day DESC LIMIT $3")
_KNOWN_BETWEEN = Statement(
    RecordedFigure, f"{_KNOWN_AT} AND day >= $3 AND day < $4 ORDER BY day LIMIT $5"
)
