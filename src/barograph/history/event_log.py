"""The log of all events as a list of digests, each the SHA-256 of the event's text."""

import msgspec

from barograph.events.store import NEVER_REMOVED
from barograph.history.reader import RecordDamaged
from barograph.history.records import DigestRow
from barograph.kit.database import Queryable
from barograph.kit.json import digest
from barograph.kit.timestamps import iso_timestamp


class _Text(msgspec.Struct):
    type: str
    at: str


async def event_digests(queryable: Queryable, after: int, limit: int) -> list[DigestRow]:
    """The digests of events after an id, in order."""
    return [DigestRow(*row) for row in await queryable.fetch(_DIGESTS, after, limit)]


async def verified_digests(queryable: Queryable, after: int, limit: int) -> list[str]:
    """The same digests, each verified against its text unless the text was removed.

    Raises:
        RecordDamaged: a text or its columns do not match, or an event or its text is missing.
    """
    rows = await queryable.fetch(_TEXTS, after, limit)
    for expected, (number, recorded, *texts) in enumerate(rows, after + 1):
        if number != expected or not _is_recorded(recorded, *texts):
            raise RecordDamaged(f"event {expected} was changed, or is missing")
    return [recorded for _, recorded, *_ in rows]


def _is_recorded(recorded: str, body: str, removed: str, kind: str, at: int) -> bool:
    if not body:
        return bool(removed) and kind not in NEVER_REMOVED
    try:
        # Readers use the columns, too, and see only them if the text is removed later.
        text = _TEXT.decode(body)
        return (digest(body), text.type, text.at) == (recorded, kind, iso_timestamp(at))
    except (msgspec.MsgspecError, ValueError, OverflowError):
        return False


_TEXT = msgspec.json.Decoder(_Text)
_DIGESTS = "SELECT id, digest, at FROM events WHERE id > $1 ORDER BY id LIMIT $2"
_TEXTS = """
SELECT id, digest, body, removed, type, at FROM events WHERE id > $1 ORDER BY id LIMIT $2
"""
