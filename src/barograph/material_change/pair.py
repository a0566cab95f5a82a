"""The latest pair: the one thing of the history that this endpoint looks at."""

from barograph.kit.database import Database
from barograph.material_change.query import Pair, Reference
from barograph.material_change.refusals import ComparisonReferenceUnavailable
from barograph.stances.continuity import Continuity
from barograph.stances.latest import Recorded, latest_versions


class LatestPair:
    """The newest recorded version of a kind and the one immediately before it."""

    def __init__(self, history: Database, continuity: Continuity) -> None:
        self._history = history
        self._continuity = continuity

    async def require(self, pair: Pair, now: int) -> tuple[Recorded, Recorded]:
        """The two versions that are referred to, the earlier first.

        Raises:
            ComparisonReferenceUnavailable: they are not the newest recorded version and the one
                immediately before it, or the newest has expired or was withdrawn.
            DatabaseUnavailable: the history cannot be read, or is not the one that was led.
        """
        await self._continuity.require(pair.kind)
        latest = await latest_versions(self._history, pair.kind)
        match latest.versions:
            case (after, before) if _is(pair.after, after) and _is(pair.before, before):
                if latest.withdrawal is None and not after.is_expired(now):
                    return before, after
        raise ComparisonReferenceUnavailable


def _is(reference: Reference, recorded: Recorded) -> bool:
    return reference == (recorded.leg_id, recorded.revision, recorded.history_digest)
