"""The log of all events as a list of digests, each the SHA-256 of the event's text."""

from barograph.history.reader import RecordDamaged
from barograph.history.records import DigestRow
from barograph.kit.database import Queryable
from barograph.kit.json import digest


async def event_digests(queryable: Queryable, after: int, limit: int) -> list[DigestRow]:
    """The digests of events after an id, in order."""
    return [DigestRow(*row) for row in await queryable.fetch(_DIGESTS, after, limit)]


async def verified_digests(queryable: Queryable, after: int, limit: int) -> list[str]:
    """The same digests, each verified against its text unless the text was removed.

    Raises:
        RecordDamaged: a text does not match, or an event is missing.
    """
    rows = await queryable.fetch(_TEXTS, after, limit)
    for expected, (number, recorded, body) in enumerate(rows, after + 1):
        if number != expected or (body and digest(body) != recorded):
            raise RecordDamaged(f"event {expected} was changed, or is missing")
    return [recorded for _, recorded, _ in rows]


_DIGESTS = "SELECT id, digest, at FROM events WHERE id > $1 ORDER BY id LIMIT $2"
_TEXTS = "SELECT id, digest, body FROM events WHERE id > $1 ORDER BY id LIMIT $2"
