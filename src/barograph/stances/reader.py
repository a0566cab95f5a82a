"""Reads the stance that stands now: the newest recorded one, or what could not be recorded."""

import logging

from msgspec.structs import replace

from barograph.board.board import Board
from barograph.board.feeds import Feed
from barograph.history.digest import leg_document, read_version
from barograph.history.guards import Continuity, RecordReplaced
from barograph.history.latest_versions import Latest, latest_versions
from barograph.history.records import NOT_RECORDED, Event, StanceNow, Stances, Version
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.json import canonical


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


STANCES = Feed("stances", Stances)


log = logging.getLogger(__name__)


class StanceReader:
    """Looks at the record itself, so that an operator's word counts at once.

    While the record cannot be read, what was published last stands, but nobody can say that it
    is on record: it is not durable then.
    """

    def __init__(self, board: Board, history: Database, continuity: Continuity) -> None:
        self._board = board
        self._continuity = continuity
        self._history = history
        self._seen: dict[str, StanceNow] = {}

    async def now(self, kind: str) -> StanceNow | None:
        """The newest stance of a kind; None when none was ever issued.

        Raises:
            DatabaseUnavailable: the record cannot be read, and nothing was published.
        """
        snapshot = self._board.latest(STANCES)
        published = None if snapshot is None else snapshot.of(kind)
        try:
            await self._continuity.require(kind)
            latest = await latest_versions(self._history, kind, 1)
        except DatabaseUnavailable as error:
            log.warning("the record cannot be read", extra={"kind": kind, "reason": str(error)})
            if snapshot is None:
                raise
            return self._without_record(kind, published)
        if not latest.versions:
            return published
        recorded = self._seen[kind] = _stance(latest)
        return published if _is_later(published, recorded) else recorded

    async def recorded(self, kind: str, sequence: int) -> StanceNow:
        """The stance with this sequence in the record of its kind.

        Raises:
            DatabaseUnavailable: the record cannot be read, or lacks it.
        """
        await self._continuity.require(kind)
        latest = await latest_versions(self._history, kind, 1, up_to=sequence)
        if not latest.versions or latest.versions[0].sequence != sequence:
            raise RecordReplaced(f"{kind} number {sequence} is not in this record")
        return _stance(latest)

    async def standing_at(self, kind: str, moment: int) -> StanceNow:
        """The newest stance on record by then, or else the first one after it.

        Raises:
            DatabaseUnavailable: the record cannot be read, or holds none of that kind.
        """

        async def work(tx: Transaction) -> int:
            return int((await tx.fetch(_STANDING_AT, kind, moment))[0][0])

        return await self.recorded(kind, await self._history.read(work))

    def _without_record(self, kind: str, published: StanceNow | None) -> StanceNow | None:
        """What stands by all that is known: what was seen on record may not be published yet."""
        seen = self._seen.get(kind)
        if published is None or (seen is not None and not _is_after(published, seen)):
            return None if seen is None else replace(seen, **NOT_RECORDED)
        return replace(published, **NOT_RECORDED)


_STANDING_AT = """
SELECT coalesce(max(sequence), 1) FROM stance_versions WHERE kind = $1 AND issued_at <= $2
"""


def _stance(latest: Latest) -> StanceNow:
    newest = latest.versions[0]
    return durable(read_version(newest.document, newest.history_digest), latest.withdrawal)


def _is_after(published: StanceNow, seen: StanceNow) -> bool:
    """Whether something else was issued since."""
    issue = published.leg_id, published.revision
    return issue != (seen.leg_id, seen.revision) and published.issued_at >= seen.issued_at


def _is_later(published: StanceNow | None, recorded: StanceNow) -> bool:
    """Whether something was issued after that and could not be recorded."""
    return (
        published is not None
        and not published.history_durable
        and published.issued_at > recorded.issued_at
    )
