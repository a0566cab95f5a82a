"""The table of briefs, and the snapshot of the newest ones."""

import json
from collections.abc import Sequence
from typing import Any

from barograph.board.board import publish
from barograph.board.feeds import Feed, Publication
from barograph.briefs.records import Brief, Briefs, BriefsPage, ListedBrief, Neighbours
from barograph.events.records import NewEvent
from barograph.kit.database import Queryable, Transaction, Value

BRIEFS = Feed("briefs", Briefs)


NEWEST = 50
"""The longest list."""


async def record_briefs(tx: Transaction, briefs: Sequence[Brief]) -> None:
    """Store briefs and publish the newest; an existing slug keeps its brief."""
    if not briefs:
        return
    await tx.execute_many(_INSERT, [_row(brief) for brief in briefs])
    newest = await tx.fetch(_NEWEST_LISTED, NEWEST)
    await publish(tx, [Publication.of(BRIEFS, Briefs(tuple(_listed(row) for row in newest)))])


def brief_event(brief: Brief) -> NewEvent:
    """A published brief."""
    return NewEvent(
        "brief.published",
        brief.published_at,
        brief.slug,
        {
            "slug": brief.slug,
            "headline": brief.headline,
            "category": brief.category,
            "symbols": list(brief.coins),
        },
    )


async def briefs_page(
    tx: Transaction, *, category: str | None, coin: str | None, offset: int, count: int
) -> BriefsPage:
    """A page of all briefs, newest first; optionally of one category or about one coin.

    A coin is upper-case letters and digits.
    """
    values = ["%" if coin is None else f'%"{coin}"%']
    where = "coins LIKE $1"
    if category is not None:
        values.append(category)
        where += " AND category = $2"
    part = f"LIMIT ${len(values) + 1} OFFSET ${len(values) + 2}"
    # The statements contain only the words above, never a caller's text.
    ((total,),) = await tx.fetch(f"SELECT count(*) FROM briefs WHERE {where}", *values)  # noqa: S608
    sql = f"SELECT {_LISTED} FROM briefs WHERE {where} {_NEWEST_FIRST} {part}"  # noqa: S608
    rows = await tx.fetch(sql, *values, count, offset)
    return BriefsPage([_listed(row) for row in rows], total)


async def brief_neighbours(tx: Transaction, brief: Brief) -> Neighbours:
    """The briefs right before and after one in the list."""
    older = await tx.fetch(_OLDER, brief.published_at, brief.slug)
    newer = await tx.fetch(_NEWER, brief.published_at, brief.slug)
    return Neighbours(*(_listed(rows[0]) if rows else None for rows in (older, newer)))


async def newest_briefs(queryable: Queryable, count: int) -> list[Brief]:
    """The newest briefs, newest first; those of one instant by slug."""
    return [_brief(row) for row in await queryable.fetch(_NEWEST, count)]


async def newest_slugs(queryable: Queryable, count: int) -> list[tuple[str, int]]:
    """The slugs of the newest briefs, and when each was published."""
    return [(row[0], row[1]) for row in await queryable.fetch(_SLUGS, count)]


async def brief_by_slug(queryable: Queryable, slug: str) -> Brief | None:
    """One brief."""
    rows = await queryable.fetch(_BY_SLUG, slug)
    return _brief(rows[0]) if rows else None


async def last_by_cooldown(queryable: Queryable) -> dict[str, int]:
    """When each rule last wrote about each of its subjects."""
    return {row[0]: row[1] for row in await queryable.fetch(_LAST_BY_COOLDOWN)}


def _row(brief: Brief) -> list[Value]:
    return [json.dumps(value) if isinstance(value, tuple) else value for value in brief]


def _brief(row: tuple[Any, ...]) -> Brief:
    brief = Brief(*row)
    return brief._replace(coins=tuple(json.loads(row[4])))


def _listed(row: tuple[Any, ...]) -> ListedBrief:
    slug, published_at, category, headline, coins, summary, source = row
    return ListedBrief(
        slug, published_at, category, headline, tuple(json.loads(coins)), summary, source
    )


_COLUMNS = ", ".join(Brief._fields)
_LISTED = ", ".join(ListedBrief.__struct_fields__)
_NEWEST_FIRST = "ORDER BY published_at DESC, slug"
_INSERT = f"""
INSERT INTO briefs ({_COLUMNS})
VALUES ({", ".join(f"${number}" for number in range(1, len(Brief._fields) + 1))})
ON CONFLICT DO NOTHING
"""  # noqa: S608 - the names of our own columns
_SLUGS = f"SELECT slug, published_at FROM briefs {_NEWEST_FIRST} LIMIT $1"  # noqa: S608
_NEWEST = f"SELECT {_COLUMNS} FROM briefs {_NEWEST_FIRST} LIMIT $1"  # noqa: S608
_NEWEST_LISTED = f"SELECT {_LISTED} FROM briefs {_NEWEST_FIRST} LIMIT $1"  # noqa: S608
_BY_SLUG = f"SELECT {_COLUMNS} FROM briefs WHERE slug = $1"  # noqa: S608
_LAST_BY_COOLDOWN = "SELECT cooldown_key, max(published_at) FROM briefs GROUP BY cooldown_key"
_OLDER = f"""
SELECT {_LISTED} FROM briefs
WHERE published_at <= $1 AND (published_at < $1 OR slug > $2)
{_NEWEST_FIRST} LIMIT 1
"""  # noqa: S608
_NEWER = f"""
SELECT {_LISTED} FROM briefs
WHERE published_at >= $1 AND (published_at > $1 OR slug < $2)
ORDER BY published_at, slug DESC LIMIT 1
"""  # noqa: S608
