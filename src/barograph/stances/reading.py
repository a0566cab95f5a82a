"""Reads the stance that stands now: the newest recorded one, or what could not be recorded."""

from msgspec.structs import replace

from barograph.board.board import Board
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.stances.digest import read_version
from barograph.stances.feeds import STANCES
from barograph.stances.latest import latest_versions
from barograph.stances.standing import NOT_RECORDED, StanceNow, durable


class StanceReader:
    """Looks at the record itself, so that an operator's word counts at once.

    While the record cannot be read, what was published last stands, but nobody can say that it
    is on record: it is not durable then.
    """

    def __init__(self, board: Board, history: Database) -> None:
        self._board = board
        self._history = history

    async def now(self, kind: str) -> StanceNow | None:
        """The newest stance of a kind; None when none was ever issued.

        Raises:
            DatabaseUnavailable: the record cannot be read, and nothing was published.
        """
        snapshot = self._board.latest(STANCES)
        published = None if snapshot is None else snapshot.of(kind)
        try:
            latest = await latest_versions(self._history, kind, 1)
        except DatabaseUnavailable:
            if snapshot is None:
                raise
            return None if published is None else replace(published, **NOT_RECORDED)
        if not latest.versions:
            return published
        newest = latest.versions[0]
        version = read_version(newest.document, newest.history_digest)
        recorded = durable(version, latest.withdrawal)
        return published if _is_later(published, recorded) else recorded


def _is_later(published: StanceNow | None, recorded: StanceNow) -> bool:
    """Whether something was issued after that and could not be recorded."""
    return (
        published is not None
        and not published.history_durable
        and published.issued_at > recorded.issued_at
    )
