"""The table of briefs, and the snapshot of the newest ones."""

import json
from collections.abc import Sequence
from typing import Any

from barograph.board.snapshots import Publication, publish
from barograph.briefs.feeds import BRIEFS
from barograph.briefs.records import Brief, Briefs, ListedBrief
from barograph.kit.database import Transaction, Value

NEWEST = 50
"""As many as a list may hold."""


async def record_briefs(tx: Transaction, briefs: Sequence[Brief]) -> None:
    """Keep briefs and publish the newest; one whose address is taken stays as it was."""
    if not briefs:
        return
    await tx.execute_many(_INSERT, [_row(brief) for brief in briefs])
    newest = await newest_briefs(tx, NEWEST)
    listed = tuple(
        ListedBrief(
            each.slug,
            each.published_at,
            each.category,
            each.headline,
            each.coins,
            each.summary,
            each.source,
        )
        for each in newest
    )
    await publish(tx, [Publication.of(BRIEFS, Briefs(listed))])


async def newest_briefs(tx: Transaction, count: int) -> list[Brief]:
    """The newest briefs, newest first; those of one instant by their address."""
    return [_brief(row) for row in await tx.fetch(_NEWEST, count)]


async def brief_by_slug(tx: Transaction, slug: str) -> Brief | None:
    """One brief."""
    rows = await tx.fetch(_BY_SLUG, slug)
    return _brief(rows[0]) if rows else None


async def last_by_cooldown(tx: Transaction) -> dict[str, int]:
    """When each rule last spoke about each of its subjects."""
    return {row[0]: row[1] for row in await tx.fetch(_LAST_BY_COOLDOWN)}


def _row(brief: Brief) -> list[Value]:
    return [json.dumps(value) if isinstance(value, tuple) else value for value in brief]


def _brief(row: tuple[Any, ...]) -> Brief:
    brief = Brief(*row)
    return brief._replace(coins=tuple(json.loads(row[4])))


_COLUMNS = ", ".join(Brief._fields)
_INSERT = f"""
INSERT INTO briefs ({_COLUMNS})
VALUES ({", ".join(f"${number}" for number in range(1, len(Brief._fields) + 1))})
ON CONFLICT DO NOTHING
"""  # noqa: S608 - the names of our own columns
_NEWEST = f"SELECT {_COLUMNS} FROM briefs ORDER BY published_at DESC, slug LIMIT $1"  # noqa: S608
_BY_SLUG = f"SELECT {_COLUMNS} FROM briefs WHERE slug = $1"  # noqa: S608
_LAST_BY_COOLDOWN = "SELECT cooldown_key, max(published_at) FROM briefs GROUP BY cooldown_key"
