"""Issues stances: reads the newest evidence, proposes, records and publishes.

A stance is recorded when its leg is new or its evidence changed. While the record is unavailable,
stances are still published, but as not durable.
"""

import json
import logging
from collections.abc import Collection
from typing import Any, NamedTuple

from msgspec.structs import replace

from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Publication
from barograph.history.digest import leg_document
from barograph.history.guards import RecordReplaced, require_chain_end
from barograph.history.ledger import Ledger, StaleLeg
from barograph.history.records import (
    KINDS,
    NOT_RECORDED,
    ChainEnd,
    CurrentStance,
    NotIssuedYet,
    Proposal,
    Stances,
    Version,
    VersionEvent,
)
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.json import Json, canonical
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR, SECOND
from barograph.macro.evidence import YIELD_DAYS, day_of
from barograph.macro.records import RecordedFigure
from barograph.macro.series import EtfSeries
from barograph.macro.store import etf_series, latest_figures
from barograph.markets.failover import VENUE_IN_USE
from barograph.markets.settlements import SettlementReport, bitcoin_contract
from barograph.markets.store import newest_reading, settlement_revisions
from barograph.markets.view import is_fresh
from barograph.settings import Settings
from barograph.stances import etf, funding, rates
from barograph.stances.announce import Define, announce_reveals
from barograph.stances.reader import STANCES, recorded_stance
from barograph.venues.records import ContractName, Perpetuals
from barograph.venues.registry import VENUES

log = logging.getLogger(__name__)

DAYS = 60
NO_SOURCE = NotIssuedYet("no source is configured")


class StanceInputs(NamedTuple):
    """The evidence of all three kinds."""

    bitcoin: ContractName
    """The BTC perpetual of the primary venue."""

    reading: Perpetuals | None
    """The primary venue's newest reading; None while another venue is in use."""

    settlements: list[SettlementReport]
    """Every revision of what the primary venue settled for `bitcoin`, oldest first."""

    rates: dict[str, list[RecordedFigure]]
    etf: EtfSeries


async def read_inputs(tx: Transaction, settings: Settings, now: int) -> StanceInputs:
    """Read the newest evidence."""
    venue = settings.venue_names[0]
    reading, in_use = await newest_reading(tx, venue), await latest_snapshot(tx, VENUE_IN_USE)
    name = ContractName(venue, bitcoin_contract(reading, venue))
    since = now - funding.EVIDENCE - DAY
    return StanceInputs(
        bitcoin=name,
        reading=reading if in_use is None or in_use.venue == venue else None,
        settlements=await settlement_revisions(tx, name, since, now + 1),
        rates={name: await latest_figures(tx, name, YIELD_DAYS) for name in rates.USED},
        etf=await etf_series(settings, lambda name: latest_figures(tx, name, DAYS)),
    )


class StanceIssuer:
    """Issues the three kinds."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        ledger: Ledger,
        clock: Clock,
        *,
        define: Define | None = None,
    ) -> None:
        self._define = define
        self._settings = settings
        sources = {rates.KIND: settings.treasury_url, etf.KIND: settings.etf_url}
        self._without_source = {kind for kind, address in sources.items() if not address}
        if settings.etf_file is not None:
            self._without_source.discard(etf.KIND)
        self._database = database
        self._ledger = ledger
        self._clock = clock
        self._token: int | None = None
        self._published: dict[str, CurrentStance] = {}
        # The newest recorded stances; before the first read of the record, the published ones.
        self._known: dict[str, CurrentStance] = {}
        self._events: dict[str, list[VersionEvent]] = {}
        self._ends: dict[str, ChainEnd] = {}

    async def issue(self, lease: Lease, kinds: Collection[str] = KINDS) -> Stances:
        """Propose, record and publish every kind once.

        `kinds` are those whose evidence may have changed; the others stay as they were published.

        Raises:
            LeaseLost: another collector leads; nothing was recorded or published.
            DatabaseUnavailable: the evidence cannot be read, or the stances cannot be published.
        """
        now = self._clock()
        await self._start_leading(lease, now)
        inputs = await self._database.read(lambda tx: read_inputs(tx, self._settings, now))
        found: list[CurrentStance] = []
        not_proposed: dict[str, NotIssuedYet | str] = {}
        for kind in KINDS:
            if kind not in kinds and kind in self._published:
                found.append(self._published[kind])
                continue
            is_readable = await self._read_newest(kind)
            proposed = self._propose(kind, inputs, now)
            if not isinstance(proposed, Proposal):
                has_source = kind not in self._without_source
                not_proposed[kind] = proposed if has_source else NO_SOURCE
                stance = self._known.get(kind) if is_readable else self._last_published(kind)
            elif is_readable:
                stance = await self._record(proposed, lease)
            else:
                # The rules need the leg before this one, which may be unknown: do not record.
                stance = self._not_durable(proposed)
            if stance is not None:
                found.append(stance)
        silent = {kind: why for kind, why in not_proposed.items() if isinstance(why, str)}
        waiting = {kind: why for kind, why in not_proposed.items() if not isinstance(why, str)}
        stances = Stances(now, tuple(found), silent, dict(self._ends), waiting)
        await self._publish(stances, lease)
        self._published = {each.kind: each for each in found}
        return stances

    async def _start_leading(self, lease: Lease, now: int) -> None:
        """Announce our terms, and load what was published last: the record may be unavailable."""
        if lease.token == self._token:
            return
        # First, because a version has the terms that were announced by its time of issue.
        days = self._settings.reveal_after_days
        await announce_reveals(self._database, lease, days, now, self._define)
        published = await latest_snapshot(self._database, STANCES)
        if published is None:
            published = Stances(0, (), {})
        self._published = {stance.kind: stance for stance in published.stances}
        self._known = dict(self._published)
        self._ends = dict(published.recorded)
        self._token = lease.token

    async def _read_newest(self, kind: str) -> bool:
        """Read the newest recorded version, also an operator's; return whether that worked."""
        end = self._ends.get(kind)
        try:
            if end is not None:
                await require_chain_end(self._ledger, kind, end)
            newest = await self._ledger.newest_versions(kind, 1)
            events = await self._ledger.events(kind)
        except RecordReplaced as error:
            log.critical("the record was replaced", extra={"reason": str(error)})
            return False
        except DatabaseUnavailable as error:
            log.warning("the record cannot be read", extra={"kind": kind, "reason": str(error)})
            return False
        before = self._known.pop(kind, None)
        self._events[kind] = events
        if newest:
            self._remember(newest[0], before)
        return True

    def _remember(self, version: Version, before: CurrentStance | None) -> CurrentStance:
        """Keep the newest recorded version, with its withdrawal, and the end of its chains."""
        events = self._events.get(version.kind, [])
        of_version = (event for event in events if event.version_sequence == version.sequence)
        stance = recorded_stance(version, next(of_version, None), before)
        last_event = events[-1].event_digest if events else ""
        self._ends[version.kind] = ChainEnd(
            version.sequence, version.history_digest, len(events), last_event
        )
        self._known[version.kind] = stance
        return stance

    def _propose(self, kind: str, inputs: StanceInputs, now: int) -> Proposal | NotIssuedYet | str:
        """Apply the rule of a kind, which continues from the regime of the leg before."""
        last = self._known.get(kind)
        if last is None:
            return self._apply_rule(kind, inputs, now, None)
        leg = json.loads(last.leg)
        proposed = self._apply_rule(kind, inputs, now, _regime(kind, leg))
        if isinstance(proposed, Proposal) and proposed.leg_id == last.leg_id:
            # The same leg again must continue from the leg before it, not from itself.
            proposed = self._apply_rule(kind, inputs, now, _regime_before(kind, leg))
        if not isinstance(proposed, Proposal):
            return proposed
        start = proposed.leg.period["start"]
        if start < leg["period"]["start"]:
            return f"a later period than the one from {start} has already been issued"
        return proposed

    def _apply_rule(
        self, kind: str, inputs: StanceInputs, now: int, regime: Json
    ) -> Proposal | NotIssuedYet | str:
        today, grace = day_of(now), int(self._settings.stance_grace_hours * HOUR)
        if kind == funding.KIND:
            return self._apply_funding_rule(inputs, now, grace)
        if kind == rates.KIND:
            return rates.propose(inputs.rates, now, today, grace, was_inverted=regime is True)
        previous = regime if isinstance(regime, str) else None
        return etf.propose(inputs.etf, now=now, today=today, grace=grace, previous=previous)

    def _apply_funding_rule(self, inputs: StanceInputs, now: int, grace: int) -> Proposal | str:
        reading, limit = inputs.reading, int(self._settings.feed_max_age_seconds * SECOND)
        if reading is None or not is_fresh(reading.as_of, limit, now):
            primary = VENUES[inputs.bitcoin.venue].title
            return f"the primary venue, {primary}, is unavailable or not in use"
        settlements = funding.known_settlements(inputs.settlements, now)
        proposed = funding.propose(settlements, inputs.bitcoin, reading.source, now, grace)
        return proposed or "no settlement of the current interval is known"

    async def _record(self, proposed: Proposal, lease: Lease) -> CurrentStance | None:
        """Record a proposal; return the newest stance after that."""
        kind = proposed.kind
        await lease.fence(self._database)
        try:
            version, is_new = await self._ledger.append(
                proposed, token=lease.token, only_new_evidence=True
            )
        except StaleLeg:
            return self._known.get(kind)
        except DatabaseUnavailable as error:
            log.warning("stance not recorded", extra={"kind": kind, "reason": str(error)})
            return self._not_durable(proposed)
        if is_new:
            log.info("stance recorded", extra={"kind": kind, "revision": version.revision})
        return self._remember(version, self._known.get(kind))

    def _last_published(self, kind: str) -> CurrentStance | None:
        """What was published last, as not durable: the record cannot be read."""
        last = self._published.get(kind)
        return None if last is None else replace(last, **NOT_RECORDED)

    def _not_durable(self, proposed: Proposal) -> CurrentStance:
        """A stance that was not recorded, with the revision that it would get."""
        recorded = self._known.get(proposed.kind)
        for last in (recorded, self._published.get(proposed.kind)):
            if last is not None and _has_evidence_of(last, proposed):
                # Nothing is new: keep its time of issue, and an operator's decision or withdrawal.
                return replace(last, **NOT_RECORDED)
        if recorded is not None and recorded.withdrawn_at is not None:
            # Only a recorded version ends a withdrawal.
            return replace(recorded, **NOT_RECORDED)
        revision = 1
        if recorded is not None and recorded.leg_id == proposed.leg_id:
            revision = recorded.revision + 1
        return CurrentStance(
            kind=proposed.kind,
            leg_id=proposed.leg_id,
            revision=revision,
            issued_at=proposed.issued_at,
            expires_at=proposed.expires_at,
            leg=canonical(leg_document(proposed.leg)),
            **NOT_RECORDED,
        )

    async def _publish(self, stances: Stances, lease: Lease) -> None:
        async def work(tx: Transaction) -> None:
            await lease.fence(tx)
            await publish(tx, [Publication.of(STANCES, stances)])

        await self._database.write(work)


def _has_evidence_of(stance: CurrentStance, proposed: Proposal) -> bool:
    evidence: str = json.loads(stance.leg)["evidence"]["digest"]
    return stance.leg_id == proposed.leg_id and evidence == proposed.leg.evidence.digest


def _regime(kind: str, leg: dict[str, Any]) -> Json:
    """The regime that this leg ended with: inversion of the curve, or the regime of flows."""
    levels: dict[str, Json] = leg["levels"]
    return levels.get("inverted") if kind == rates.KIND else levels.get("regime")


def _regime_before(kind: str, leg: dict[str, Any]) -> Json:
    """The regime that this leg continued from."""
    inputs: dict[str, Json] = leg["evidence"]["inputs"]
    return inputs.get("was_inverted" if kind == rates.KIND else "previous_regime")
