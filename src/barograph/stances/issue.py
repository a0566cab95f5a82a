"""Issuing: from the newest evidence to a recorded stance, on each kind's own schedule.

The schedule is the evidence's own: a stance is proposed whenever this is asked, and recorded when
its leg is new or its evidence changed. A record that cannot be reached does not silence a stance:
what was published last still stands, and so does what follows from new evidence, but as not
durable, and recorded later only as what it is then.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from barograph.board.feeds import Publication
from barograph.board.snapshots import latest as latest_snapshot
from barograph.board.snapshots import publish
from barograph.history.digest import leg_document
from barograph.history.guards import RecordReplaced, require_mark
from barograph.history.ledger import Ledger, StaleLeg
from barograph.history.records import (
    KINDS,
    NOT_RECORDED,
    Event,
    Mark,
    Proposal,
    StanceNow,
    Stances,
    Version,
    Waiting,
)
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.json import Json, canonical
from barograph.kit.lease import Lease
from barograph.kit.timestamps import HOUR, SECOND
from barograph.macro.records import RecordedFigure
from barograph.macro.series import EtfSeries
from barograph.macro.store import etf_series, latest_figures
from barograph.markets.settlements import SettledFunding, bitcoin_contract, known_settlements
from barograph.markets.store import newest_settlement_reports, newest_settlements
from barograph.markets.view import PERPETUALS
from barograph.settings import Settings
from barograph.stances import etf, funding, rates
from barograph.stances.reader import STANCES, durable

SETTLEMENTS = funding.WINDOW + 24
"""Enough to look back a day from a contract that settles every hour."""

DAYS = 60


class Gathered(NamedTuple):
    """Everything that the rules of the three kinds look at."""

    settlements: list[SettledFunding]
    """Those of the BTC perpetual whose rates are known, oldest first."""

    venue: str
    rates: dict[str, list[RecordedFigure]]
    etf: EtfSeries


async def gather(tx: Transaction, settings: Settings, now: int) -> Gathered:
    """Read the newest evidence."""
    reading = await latest_snapshot(tx, PERPETUALS)
    contract = bitcoin_contract(reading)
    read = await newest_settlements(tx, contract, SETTLEMENTS)
    reported = await newest_settlement_reports(tx, contract, SETTLEMENTS)
    return Gathered(
        settlements=known_settlements(read, reported, now),
        venue="" if reading is None else reading.source,
        rates={name: await latest_figures(tx, name, DAYS) for name in rates.USED},
        etf=await etf_series(settings, lambda name: latest_figures(tx, name, DAYS)),
    )


log = logging.getLogger(__name__)

ByKind = dict[str, StanceNow]


class StanceDesk:
    """Issues the three kinds."""

    def __init__(
        self, settings: Settings, database: Database, ledger: Ledger, clock: Clock
    ) -> None:
        self._grace = int(settings.stance_grace_hours * HOUR)
        self._settings = settings
        sources = {rates.KIND: settings.treasury_url, etf.KIND: settings.etf_url}
        self._without_source = {kind for kind, address in sources.items() if not address}
        if settings.etf_file is not None:
            self._without_source.discard(etf.KIND)
        self._database = database
        self._ledger = ledger
        self._clock = clock
        self._token: int | None = None
        self._published: ByKind = {}
        # The newest recorded versions; until the record was read, what was published last.
        self._known: ByKind = {}
        self._events: dict[str, list[Event]] = {}
        self._marks: dict[str, Mark] = {}

    async def issue(self, lease: Lease) -> Stances:
        """Propose, record and publish every kind once.

        Raises:
            LeaseLost: another collector leads; nothing was recorded or published.
            DatabaseUnavailable: the evidence cannot be read, or the stances not be published.
        """
        now = self._clock()

        async def evidence(tx: Transaction) -> Gathered:
            return await gather(tx, self._settings, now)

        await self._take_up(lease)
        gathered = await self._database.read(evidence)
        found: list[StanceNow] = []
        silent: dict[str, str] = {}
        waiting: dict[str, Waiting] = {}
        for kind in KINDS:
            is_readable = await self._look_up(kind)
            proposed = self._propose(kind, gathered, now)
            if not isinstance(proposed, Proposal):
                if kind in self._without_source:
                    waiting[kind] = Waiting("no source is configured")
                elif isinstance(proposed, Waiting):
                    waiting[kind] = proposed
                else:
                    silent[kind] = proposed
                stance = self._known.get(kind) if is_readable else self._published_last(kind)
            elif is_readable:
                stance = await self._record(proposed, lease)
            else:
                # Without the leg before it a judgement is not fit to be recorded.
                stance = self._not_durable(proposed)
            if stance is not None:
                found.append(stance)
        stances = Stances(now, tuple(found), silent, dict(self._marks), waiting)
        await self._publish(stances, lease)
        self._published = {each.kind: each for each in found}
        return stances

    async def _take_up(self, lease: Lease) -> None:
        """Begin to lead with what was published last: the record may be out of reach."""
        if lease.token == self._token:
            return
        published = await self._database.read(lambda tx: latest_snapshot(tx, STANCES))
        if published is None:
            published = Stances(0, (), {})
        self._published = {each.kind: each for each in published.stances}
        self._known = dict(self._published)
        self._marks = dict(published.recorded)
        self._token = lease.token

    def _propose(self, kind: str, gathered: Gathered, now: int) -> Proposal | Waiting | str:
        """Judge a kind, going on from the regime that the leg before it ended with."""
        last = self._known.get(kind)
        if last is None:
            return self._judge(kind, gathered, now, None)
        leg = json.loads(last.leg)
        proposed = self._judge(kind, gathered, now, _regime(kind, leg))
        if isinstance(proposed, Proposal) and proposed.leg_id == last.leg_id:
            # The same leg again: it must not go on from itself.
            proposed = self._judge(kind, gathered, now, _regime_before(kind, leg))
        if not isinstance(proposed, Proposal):
            return proposed
        start = proposed.leg.period["start"]
        if start < leg["period"]["start"]:
            return f"a later period than that from {start} was issued already"
        return proposed

    def _judge(
        self, kind: str, gathered: Gathered, now: int, regime: Json
    ) -> Proposal | Waiting | str:
        today = datetime.fromtimestamp(now // SECOND, UTC).date()
        grace = self._grace
        if kind == funding.KIND:
            proposed = funding.propose(gathered.settlements, gathered.venue, now, grace)
            return proposed or "no settlement of the running interval is known"
        if kind == rates.KIND:
            return rates.propose(gathered.rates, now, today, grace, was_inverted=regime is True)
        previous = regime if isinstance(regime, str) else None
        return etf.propose(gathered.etf, now=now, today=today, grace=grace, previous=previous)

    async def _record(self, proposed: Proposal, lease: Lease) -> StanceNow | None:
        """What stands after this proposal."""
        kind = proposed.kind
        await self._database.read(lease.fence)
        try:
            appended = await self._ledger.append(
                proposed, token=lease.token, only_new_evidence=True
            )
        except StaleLeg:
            return self._known.get(kind)
        except DatabaseUnavailable as error:
            log.warning("stance not recorded", extra={"kind": kind, "reason": str(error)})
            return self._not_durable(proposed)
        if appended.is_new:
            log.info("stance recorded", extra={"kind": kind, "revision": appended.version.revision})
        self._known[kind] = self._standing(appended.version)
        self._marks[kind] = _mark(appended.version, self._events.get(kind, []))
        return self._known[kind]

    def _standing(self, version: Version) -> StanceNow:
        """A recorded version, with what is known to have happened to it."""
        events = self._events.get(version.kind, [])
        of_it = (each for each in events if each.version_sequence == version.sequence)
        return durable(version, next(of_it, None))

    def _published_last(self, kind: str) -> StanceNow | None:
        """What stands while the record cannot be read: nobody can say that it is in there."""
        last = self._published.get(kind)
        return None if last is None else replace(last, **NOT_RECORDED)

    def _not_durable(self, proposed: Proposal) -> StanceNow:
        """A stance that could not be recorded, with the revision it would have by what is known."""
        recorded = self._known.get(proposed.kind)
        for last in (recorded, self._published.get(proposed.kind)):
            if last is not None and _has_evidence_of(last, proposed):
                # Nothing is new: it was issued then, and what a person decided or withdrew stays.
                return replace(last, **NOT_RECORDED)
        if recorded is not None and recorded.withdrawn_at is not None:
            # Only a version that is recorded opens a kind again.
            return replace(recorded, **NOT_RECORDED)
        revision = 1
        if recorded is not None and recorded.leg_id == proposed.leg_id:
            revision = recorded.revision + 1
        return StanceNow(
            kind=proposed.kind,
            leg_id=proposed.leg_id,
            revision=revision,
            issued_at=proposed.issued_at,
            expires_at=proposed.expires_at,
            leg=canonical(leg_document(proposed.leg)),
            **NOT_RECORDED,
        )

    async def _look_up(self, kind: str) -> bool:
        """Know the newest recorded version, also an operator's; tell whether it could be read."""
        mark = self._marks.get(kind)
        try:
            if mark is not None:
                await require_mark(self._ledger, kind, mark)
            newest = await self._ledger.newest(kind, 1)
            events = await self._ledger.events(kind)
        except RecordReplaced as error:
            log.critical("this is not the record that was led", extra={"reason": str(error)})
            return False
        except DatabaseUnavailable as error:
            log.warning("the record cannot be read", extra={"kind": kind, "reason": str(error)})
            return False  # what was known before still is
        self._known.pop(kind, None)
        self._events[kind] = events
        if newest:
            self._known[kind] = self._standing(newest[0])
            self._marks[kind] = _mark(newest[0], events)
        return True

    async def _publish(self, stances: Stances, lease: Lease) -> None:
        async def work(tx: Transaction) -> None:
            await lease.fence(tx)
            await publish(tx, [Publication.of(STANCES, stances)])

        await self._database.write(work)


def _mark(newest: Version, events: list[Event]) -> Mark:
    mark = Mark(newest.sequence, newest.history_digest)
    return (
        replace(mark, events=len(events), event_digest=events[-1].event_digest) if events else mark
    )


def _has_evidence_of(stance: StanceNow, proposed: Proposal) -> bool:
    evidence: str = json.loads(stance.leg)["evidence"]["digest"]
    return stance.leg_id == proposed.leg_id and evidence == proposed.leg.evidence.digest


def _regime(kind: str, leg: dict[str, Any]) -> Json:
    """What the leg after this one goes on from: inversion, or the regime of flows."""
    levels: dict[str, Json] = leg["levels"]
    return levels.get("inverted") if kind == rates.KIND else levels.get("regime")


def _regime_before(kind: str, leg: dict[str, Any]) -> Json:
    """What this leg itself went on from."""
    inputs: dict[str, Json] = leg["evidence"]["inputs"]
    return inputs.get("was_inverted" if kind == rates.KIND else "previous_regime")
