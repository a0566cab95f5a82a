"""Issuing: from the newest evidence to a recorded stance, on each kind's own schedule.

The schedule is the evidence's own: a stance is proposed whenever this is asked, and recorded when
its leg is new or its evidence changed. A record that cannot be reached does not silence a stance:
it is delivered as not durable, and recorded later only as what it is then.
"""

import logging
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from barograph.board.snapshots import Publication, publish
from barograph.kit.canonical import Json, canonical
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import HOUR, SECOND
from barograph.settings import Settings
from barograph.stances import etf, funding, rates
from barograph.stances.digest import leg_document
from barograph.stances.evidence import Gathered, gather
from barograph.stances.feeds import STANCES
from barograph.stances.ledger import Ledger, StaleLeg
from barograph.stances.records import KINDS, Event, Proposal, Version
from barograph.stances.standing import StanceNow, Stances

log = logging.getLogger(__name__)

Known = dict[str, Version]
"""The newest recorded version of each kind that has one."""


class StanceDesk:
    """Issues the three kinds."""

    def __init__(
        self, settings: Settings, database: Database, ledger: Ledger, clock: Clock
    ) -> None:
        self._grace = int(settings.stance_grace_hours * HOUR)
        self._fund = settings.etf_fund
        self._database = database
        self._ledger = ledger
        self._clock = clock
        self._known: Known = {}
        self._events: dict[str, list[Event]] = {}

    async def issue(self, lease: Lease) -> Stances:
        """Propose, record and publish every kind once.

        Raises:
            LeaseLost: another collector leads; nothing was recorded or published.
            DatabaseUnavailable: the evidence cannot be read, or the stances not be published.
        """
        now = self._clock()

        async def evidence(tx: Transaction) -> Gathered:
            return await gather(tx, self._fund)

        gathered = await self._database.read(evidence)
        found: list[StanceNow] = []
        silent: dict[str, str] = {}
        for kind in KINDS:
            is_reachable = await self._look_up(kind)
            proposed = self._propose(kind, gathered, now)
            if isinstance(proposed, str):
                silent[kind] = proposed
                stance = self._standing(kind)
            elif is_reachable:
                stance = await self._record(proposed, lease)
            else:
                # Without the leg before it a judgement is not fit to be recorded.
                stance = self._not_durable(proposed)
            if stance is not None:
                found.append(stance)
        stances = Stances(now, tuple(found), silent)
        await self._publish(stances, lease)
        return stances

    def _propose(self, kind: str, gathered: Gathered, now: int) -> Proposal | str:
        """Judge a kind, going on from the regime that the leg before it ended with."""
        last = self._known.get(kind)
        proposed = self._judge(kind, gathered, now, None if last is None else _regime(last))
        if last is not None and isinstance(proposed, Proposal) and proposed.leg_id == last.leg_id:
            # The same leg again: it must not go on from itself.
            proposed = self._judge(kind, gathered, now, _regime_before(last))
        if last is not None and isinstance(proposed, Proposal) and _start(proposed) < _start(last):
            return f"a later period than that from {_start(proposed)} is recorded already"
        return proposed

    def _judge(self, kind: str, gathered: Gathered, now: int, regime: Json) -> Proposal | str:
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
            return self._standing(kind)
        except DatabaseUnavailable as error:
            log.warning("stance not recorded", extra={"kind": kind, "reason": str(error)})
            return self._not_durable(proposed)
        if appended.is_new:
            log.info("stance recorded", extra={"kind": kind, "revision": appended.version.revision})
        self._known[kind] = appended.version
        return self._standing(kind)

    def _standing(self, kind: str) -> StanceNow | None:
        """The newest recorded version, if any is known."""
        last = self._known.get(kind)
        if last is None:
            return None
        events = self._events.get(kind, [])
        of_it = (each for each in events if each.version_sequence == last.sequence)
        return durable(last, next(of_it, None))

    def _not_durable(self, proposed: Proposal) -> StanceNow:
        """A stance that could not be recorded, with the revision it would have by what is known."""
        last, standing = self._known.get(proposed.kind), self._standing(proposed.kind)
        revision = 1
        if last is not None and standing is not None and last.leg_id == proposed.leg_id:
            if last.leg.evidence.digest == proposed.leg.evidence.digest:
                # Nothing is new, and what a person decided or withdrew stays so.
                return replace(standing, **_NOT_RECORDED)
            revision = last.revision + 1
        return StanceNow(
            kind=proposed.kind,
            leg_id=proposed.leg_id,
            revision=revision,
            issued_at=proposed.issued_at,
            expires_at=proposed.expires_at,
            leg=canonical(leg_document(proposed.leg)),
            **_NOT_RECORDED,
        )

    async def _look_up(self, kind: str) -> bool:
        """Know the newest recorded version, also an operator's; tell whether it could be read."""
        try:
            newest = await self._ledger.newest(kind, 1)
            events = await self._ledger.events(kind)
        except DatabaseUnavailable as error:
            log.warning("the record cannot be read", extra={"kind": kind, "reason": str(error)})
            return False  # what was known before still is
        self._known.pop(kind, None)
        if newest:
            self._known[kind] = newest[0]
        self._events[kind] = events
        return True

    async def _publish(self, stances: Stances, lease: Lease) -> None:
        async def work(tx: Transaction) -> None:
            await lease.fence(tx)
            await publish(tx, [Publication.of(STANCES, stances)])

        await self._database.write(work)


def durable(version: Version, withdrawal: Event | None) -> StanceNow:
    """A recorded version as it stands now."""
    return StanceNow(
        kind=version.kind,
        leg_id=version.leg_id,
        revision=version.revision,
        issued_at=version.issued_at,
        expires_at=version.expires_at,
        leg=canonical(leg_document(version.leg)),
        history_durable=True,
        history_digest=version.history_digest,
        sequence=version.sequence,
        previous_digest=version.previous_digest,
        salt=version.salt,
        withdrawn_at=None if withdrawal is None else withdrawal.at,
        withdrawal_digest=None if withdrawal is None else withdrawal.evidence_digest,
    )


_NOT_RECORDED: dict[str, Any] = {
    "history_durable": False,
    "history_digest": None,
    "sequence": None,
    "previous_digest": None,
    "salt": None,
}


def _start(of: Proposal | Version) -> str:
    return of.leg.period["start"]


def _regime(version: Version) -> Json:
    """What the next leg goes on from: inversion, or the regime of flows."""
    levels = version.leg.levels
    return levels.get("inverted") if version.kind == rates.KIND else levels.get("regime")


def _regime_before(version: Version) -> Json:
    """What this leg itself went on from."""
    inputs = version.leg.evidence.inputs
    name = "was_inverted" if version.kind == rates.KIND else "previous_regime"
    return inputs.get(name)
