"""Reads the current stance of a kind: the newest recorded one, or one that was not recorded."""

import logging

from msgspec.structs import replace

from barograph.board.board import Board
from barograph.board.feeds import Feed
from barograph.history.digest import leg_document, read_version
from barograph.history.guards import Continuity, RecordReplaced
from barograph.history.reader import HistoryReader, NewestDocuments
from barograph.history.records import NOT_RECORDED, CurrentStance, Stances, Version, VersionEvent
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.json import canonical

log = logging.getLogger(__name__)

STANCES = Feed("stances", Stances)


def recorded_stance(
    version: Version, withdrawal: VersionEvent | None, before: CurrentStance | None = None
) -> CurrentStance:
    """A recorded version, with the event that withdrew it.

    If it is the one `before`, its leg is not written again, which is slow.
    """
    if before is not None and before.history_digest == version.history_digest:
        leg = before.leg
    else:
        leg = canonical(leg_document(version.leg))
    return CurrentStance(
        kind=version.kind,
        leg_id=version.leg_id,
        revision=version.revision,
        issued_at=version.issued_at,
        expires_at=version.expires_at,
        leg=leg,
        history_durable=True,
        history_digest=version.history_digest,
        sequence=version.sequence,
        previous_digest=version.previous_digest,
        salt=version.salt,
        withdrawn_at=None if withdrawal is None else withdrawal.at,
        withdrawal_digest=None if withdrawal is None else withdrawal.evidence_digest,
    )


class StanceReader:
    """Reads the record on every call, so that an operator's decision counts at once.

    Methods raise `DatabaseUnavailable` if the record cannot be read or lacks the stance.
    """

    def __init__(self, board: Board, history: HistoryReader, continuity: Continuity) -> None:
        self._board = board
        self._history = history
        self._continuity = continuity
        self._last_recorded: dict[str, CurrentStance] = {}

    async def current(self, kind: str) -> CurrentStance | None:
        """The newest stance of a kind; None if none was ever issued.

        While the record cannot be read, this is what was published last, as not durable.
        """
        snapshot = self._board.latest(STANCES)
        published = None if snapshot is None else snapshot.of(kind)
        try:
            await self._continuity.require(kind)
            newest = await self._history.newest_documents(kind, 1)
        except DatabaseUnavailable as error:
            log.warning("the record cannot be read", extra={"kind": kind, "reason": str(error)})
            if snapshot is None:
                raise
            return self._without_record(kind, published)
        if not newest.versions:
            return published
        recorded = self._last_recorded[kind] = _stance(newest)
        return published if _is_later(published, recorded) else recorded

    async def recorded_at(self, kind: str, sequence: int) -> CurrentStance:
        """The recorded stance with this sequence."""
        await self._continuity.require(kind)
        newest = await self._history.newest_documents(kind, 1, up_to=sequence)
        if not newest.versions or newest.versions[0].sequence != sequence:
            raise RecordReplaced(f"{kind} number {sequence} is not in this record")
        return _stance(newest)

    async def issued_by(self, kind: str, moment: int) -> CurrentStance:
        """The newest recorded stance that was issued by a moment, or else the first one."""
        return await self.recorded_at(kind, await self._history.sequence_issued_by(kind, moment))

    def _without_record(self, kind: str, published: CurrentStance | None) -> CurrentStance | None:
        """The newest stance this worker knows: a recorded one may not be published yet."""
        recorded = self._last_recorded.get(kind)
        if published is None or (recorded is not None and not _is_after(published, recorded)):
            return None if recorded is None else replace(recorded, **NOT_RECORDED)
        return replace(published, **NOT_RECORDED)


def _stance(newest: NewestDocuments) -> CurrentStance:
    stored = newest.versions[0]
    version = read_version(stored.document, stored.history_digest)
    return recorded_stance(version, newest.withdrawal)


def _is_after(published: CurrentStance, recorded: CurrentStance) -> bool:
    """Whether the published stance is another one, issued since."""
    issue = published.leg_id, published.revision
    return issue != (recorded.leg_id, recorded.revision) and (
        published.issued_at >= recorded.issued_at
    )


def _is_later(published: CurrentStance | None, recorded: CurrentStance) -> bool:
    """Whether a later stance was published that could not be recorded."""
    return (
        published is not None
        and not published.history_durable
        and published.issued_at > recorded.issued_at
    )
