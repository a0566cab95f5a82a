"""Records the definition, and calculates the track record from what this service publishes."""

import asyncio
import json
from collections.abc import Mapping, Sequence

from barograph.accuracy.cases import Case, kind_accuracy
from barograph.accuracy.definition import (
    BTC_RETURN,
    DEFINITION,
    DEFINITION_DIGEST,
    FUNDING,
    HOLDINGS,
    HORIZONS,
    MAX_GAP,
    US10Y_CHANGE,
)
from barograph.accuracy.records import ACCURACY, Accuracy
from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Publication
from barograph.errors import NotFound
from barograph.events.records import Event, NewEvent
from barograph.events.store import append_events, events_of_type
from barograph.history.reader import HistoryReader
from barograph.history.records import KINDS, Version
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.documents import FOREVER
from barograph.kit.json import digest
from barograph.kit.lists import address, instant
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.macro.records import US10Y
from barograph.macro.store import etf_names
from barograph.markets.outcomes import Points, SeriesPoint
from barograph.markets.samples import SERIES_FOLDER
from barograph.markets.store import HOUR_DAYS
from barograph.series.query import SeriesQuery, series_query
from barograph.series.reader import SeriesPage, read_page
from barograph.settings import Settings
from barograph.stances.reveals import Announcement, announcements, revealed_at
from barograph.venues.registry import source_of

PAGE = 1_000
VERSIONS = 200
"""Points and versions per read, so that no read delays the collector's other work for long."""

BACK = HORIZONS["7d"] + 3 * MAX_GAP
"""How much of a series before the first version the baselines need."""

VALUE = {"settled-funding": "rate_8h"}
"""The member that is used, if it is not `value`."""

Known = tuple[Points, set[str]]
"""A series and its sources."""


async def record_definition(tx: Transaction, clock: Clock) -> Event | None:
    """Record the definition unless the newest recorded one is the same; return its event.

    Nothing is recorded before the first announcement that stances become public. No other write
    runs meanwhile, so a version that is issued later is also later in the log of events.
    """
    if not await events_of_type(tx, "reveal.announced"):
        return None
    recorded = await events_of_type(tx, "accuracy.defined")
    if not recorded or json.loads(recorded[-1].body).get("definition") != DEFINITION:
        now = clock()
        # With the time, so that a return to an older definition is recorded too.
        cause = f"{DEFINITION_DIGEST}/{now}"
        event = NewEvent("accuracy.defined", now, cause, {"definition": DEFINITION})
        await append_events(tx, [event])
        recorded = await events_of_type(tx, "accuracy.defined")
    return recorded[-1]


async def publish_accuracy(
    settings: Settings, database: Database, history: HistoryReader, clock: Clock
) -> None:
    """Record the definition if it is new, and publish the track record.

    Once per hour, and when the terms or the definition have changed.

    Raises:
        DatabaseUnavailable: a database cannot be read or written.
    """
    defined = await database.write(lambda tx: record_definition(tx, clock))
    if defined is None:
        return
    announced = announcements(await events_of_type(database, "reveal.announced"))
    now, newest = clock(), await latest_snapshot(database, ACCURACY)
    wanted = now // HOUR * HOUR, announced[-1].at, digest(defined.body)
    if newest and (newest.as_of, newest.announced_at, newest.definition_digest) == wanted:
        return
    accuracy = await assess(settings, database, history, announced, defined, now=now)
    await database.write(lambda tx: publish(tx, [Publication.of(ACCURACY, accuracy)]))


async def assess(
    settings: Settings,
    database: Database,
    history: HistoryReader,
    announced: Sequence[Announcement],
    defined: Event,
    *,
    now: int,
) -> Accuracy:
    """Calculate the track record of every kind as of the last full hour."""
    as_of = now // HOUR * HOUR
    cases = {kind: await _cases(history, kind, announced, defined.at, as_of) for kind in KINDS}
    starts = [each[0].version.issued_at for each, _ in cases.values() if each]
    addresses = _addresses(settings, min(starts, default=as_of) - BACK, as_of)
    known = {
        metric: await _read(settings, database, *where, now) for metric, where in addresses.items()
    }
    points = {metric: series for metric, (series, _) in known.items()}
    venue = settings.venue_names[0]
    sources = {source_of(venue, settings.exchange_source)}
    sources = sources.union(*(of_series for _, of_series in known.values()))
    return Accuracy(
        as_of=as_of,
        source="; ".join(sorted(sources)),
        after_days=announced[-1].after_days,
        announced_at=announced[-1].at,
        defined_at=defined.at,
        definition_digest=digest(defined.body),
        # In a thread, because years of versions take a while.
        kinds=tuple(
            [
                await asyncio.to_thread(kind_accuracy, kind, of_kind, points, as_of, private)
                for kind, (of_kind, private) in cases.items()
            ]
        ),
        venue=venue,
        series={
            metric: address("", f"{SERIES_FOLDER}{measure}", given)
            for metric, (measure, given) in addresses.items()
        },
        definitions=len(await events_of_type(database, "accuracy.defined")),
    )


async def _cases(
    history: HistoryReader,
    kind: str,
    announced: Sequence[Announcement],
    defined_at: int,
    as_of: int,
) -> tuple[list[Case], int]:
    """The measured versions of a kind in the order of recording, and how many stay private."""
    versions: list[Version] = []
    after = 0
    while page := await history.versions_issued(kind, [(defined_at, FOREVER)], after, VERSIONS):
        versions, after = versions + page, page[-1].sequence
    withdrawn = {event.version_sequence: event.at for event in await history.events(kind)}
    following = {version.sequence - 1: version.issued_at for version in versions}
    public = {version.sequence: revealed_at(version.issued_at, announced) for version in versions}
    cases = [
        Case(
            version=version,
            until=min(as_of, following.get(version.sequence, as_of)),
            is_withdrawn=withdrawn.get(version.sequence, as_of + 1) <= as_of,
        )
        for version in versions
        if (at := public.get(version.sequence)) is not None and at <= as_of
    ]
    return cases, sum(at is None for at in public.values())


def _addresses(settings: Settings, start: int, as_of: int) -> dict[str, tuple[str, dict[str, str]]]:
    """By metric, the measure and the parameters of the series that it is calculated from."""
    # A day after the retention begins, so that the address works for a day.
    kept = max(start, as_of - (HOUR_DAYS - 2) * DAY)
    market = {"symbol": "BTC", "venue": settings.venue_names[0]}
    first, last = iso_timestamp(start), iso_timestamp(as_of)
    days = {"from": first, "to": last, "as_of": last}
    holdings = next(name for name in etf_names(settings) if name.endswith("-btc"))
    hourly = {"interval": "hour", "from": iso_timestamp(kept), "to": last}
    return {
        BTC_RETURN: ("price", {**market, **hourly}),
        FUNDING: ("settled-funding", {**market, "from": first, "to": last}),
        US10Y_CHANGE: (US10Y, days),
        HOLDINGS: (holdings, days),
    }


async def _read(
    settings: Settings, database: Database, measure: str, given: Mapping[str, str], now: int
) -> Known:
    """The points of a series and its source, as `/api/v1/series` publishes them."""
    query = series_query(measure, given, settings=settings, now=now)._replace(limit=PAGE)
    value = query.rules.members.index(VALUE.get(measure, "value"))
    points: list[SeriesPoint] = []
    sources: set[str] = set()
    start: int | None = query.start
    while start is not None:
        page = await _page(database, query._replace(start=start), now)
        points += [
            SeriesPoint(instant("at", str(row[0])), float(row[value] or 0))
            for row in page.rows
            if row[value] is not None and row[-1] is not True  # disputed
        ]
        sources |= {page.source} if page.source else set()
        start = page.following
    return points, sources


async def _page(database: Database, query: SeriesQuery, now: int) -> SeriesPage:
    try:
        return await database.read(lambda tx: read_page(tx, query, {}, now))
    except NotFound:  # nothing of bitcoin is recorded yet
        return SeriesPage()
