"""The tables of briefs and of their earlier texts, and the snapshot of the newest briefs."""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import cast

from msgspec.structs import replace

from barograph.board.board import publish
from barograph.board.feeds import Feed, Publication
from barograph.briefs.records import (
    Brief,
    Briefs,
    BriefsPage,
    BriefText,
    ListedBrief,
    Neighbours,
    Written,
    published_text,
)
from barograph.events.records import NewEvent
from barograph.kit.database import Queryable, Statement, Transaction, Value
from barograph.kit.json import Json, canonical, digest

BRIEFS = Feed("briefs", Briefs)


NEWEST = 50
"""The longest list."""


async def record_briefs(tx: Transaction, briefs: Sequence[Brief]) -> None:
    """Store briefs and publish the newest.

    An update keeps the text before it. Otherwise an existing slug keeps its brief.
    """
    if not briefs:
        return
    await tx.execute_many(_INSERT, [_row(brief) for brief in briefs if brief.version == 1])
    for brief in briefs:
        if brief.version > 1:
            await tx.execute(_KEEP, brief.slug, brief.version)
            await tx.execute(_UPDATE, *_row(brief))
    newest = Briefs(tuple(await newest_listed(tx, NEWEST)))
    await publish(tx, [Publication.of(BRIEFS, newest)])


def brief_event(brief: Brief) -> NewEvent:
    """A published or updated brief."""
    members: dict[str, Json] = {
        "slug": brief.slug,
        "headline": brief.headline,
        "category": brief.category,
        "symbols": list(brief.coins),
        "text_sha256": digest(canonical(published_text(brief))),
    }
    if brief.version == 1:
        return NewEvent("brief.published", brief.published_at, brief.slug, members)
    cause = f"{brief.slug}/{brief.version}"
    members["version"] = brief.version
    return NewEvent("brief.updated", brief.published_at, cause, members)


async def briefs_page(
    tx: Transaction, category: str | None, coin: str | None, offset: int, count: int
) -> BriefsPage:
    """A page of all briefs, newest first; optionally of one category or about one coin.

    A coin is upper-case letters and digits.
    """
    like = "%" if coin is None else f'%"{coin}"%'
    totals: dict[str, int] = dict(await tx.fetch(_TOTALS, like))
    if category is None:
        rows, total = await _PAGE.fetch(tx, like, count, offset), sum(totals.values())
    else:
        rows = await _PAGE_OF_CATEGORY.fetch(tx, like, count, offset, category)
        total = totals.get(category, 0)
    return BriefsPage([_listed(row) for row in rows], total, totals.keys())


async def brief_neighbours(tx: Transaction, brief: Brief) -> Neighbours:
    """The briefs right before and after one in the list."""
    older = await _OLDER.first(tx, brief.published_at, brief.slug)
    newer = await _NEWER.first(tx, brief.published_at, brief.slug)
    return Neighbours(older and _listed(older), newer and _listed(newer))


async def newest_briefs(queryable: Queryable, count: int) -> list[Brief]:
    """The newest briefs, newest first; those of one instant by slug."""
    return [_brief(row) for row in await _NEWEST.fetch(queryable, count)]


async def newest_listed(queryable: Queryable, count: int) -> list[ListedBrief]:
    """The newest briefs as lists show them."""
    return [_listed(row) for row in await _NEWEST_LISTED.fetch(queryable, count)]


async def brief_by_slug(queryable: Queryable, slug: str) -> Brief | None:
    """One brief."""
    row = await _BY_SLUG.first(queryable, slug)
    return row and _brief(row)


async def brief_version(queryable: Queryable, slug: str, version: int | None) -> Brief | None:
    """One of the texts of a brief; None stands for the newest."""
    newest = await brief_by_slug(queryable, slug)
    if newest is None or version in {None, newest.version}:
        return newest
    row = await _VERSION.first(queryable, slug, version)
    return row and _brief(row)


async def earlier_texts(queryable: Queryable, slug: str) -> list[BriefText]:
    """The earlier texts of a brief, newest first."""
    return await _EARLIER.fetch(queryable, slug)


async def texts_between(queryable: Queryable, start: int, end: int) -> list[BriefText]:
    """The last text that each brief got from `start` until before `end`, oldest first."""
    texts = await _BETWEEN.fetch(queryable, start, end)
    return list({text.slug: text for text in texts}.values())


async def written_by_key(queryable: Queryable) -> dict[str, list[Written]]:
    """What each rule wrote about each of its subjects, oldest first."""
    written: dict[str, list[Written]] = defaultdict(list)
    for key, *members in await queryable.fetch(_WRITTEN):
        written[key].append(Written(*members))
    return dict(written)


def _row(brief: Brief) -> list[Value]:
    return [json.dumps(value) if isinstance(value, tuple) else value for value in brief]


def _brief(row: Brief) -> Brief:
    """The brief of a row, whose coins are JSON."""
    return row._replace(coins=tuple(json.loads(cast("str", row.coins))))


def _listed(row: ListedBrief) -> ListedBrief:
    return replace(row, coins=tuple(json.loads(cast("str", row.coins))))


_COLUMNS = ", ".join(Brief._fields)
_NEWEST_FIRST = "ORDER BY published_at DESC, slug"
_INSERT = f"""
INSERT INTO briefs ({_COLUMNS})
VALUES ({", ".join(f"${number}" for number in range(1, len(Brief._fields) + 1))})
ON CONFLICT DO NOTHING
"""  # noqa: S608 - the names of our own columns
# Both do nothing if this update is stored already: a write may be repeated.
_KEEP = f"""
INSERT INTO brief_versions ({_COLUMNS})
SELECT {_COLUMNS} FROM briefs WHERE slug = $1 AND version < $2
"""  # noqa: S608
_UPDATE = f"""
UPDATE briefs SET {", ".join(f"{name} = ${n}" for n, name in enumerate(Brief._fields, 1))}
WHERE slug = $1 AND version < ${Brief._fields.index("version") + 1}
"""  # noqa: S608
_NEWEST_ROWS = "SELECT {columns} FROM briefs ORDER BY published_at DESC, slug LIMIT $1"
_NEWEST, _NEWEST_LISTED = Statement(Brief, _NEWEST_ROWS), Statement(ListedBrief, _NEWEST_ROWS)
_TOTALS = "SELECT category, count(*) FROM briefs WHERE coins LIKE $1 GROUP BY category"
_LIST = "SELECT {columns} FROM briefs WHERE coins LIKE $1"
_PAGE = Statement(ListedBrief, f"{_LIST} {_NEWEST_FIRST} LIMIT $2 OFFSET $3")
_PAGE_OF_CATEGORY = Statement(
    ListedBrief, f"{_LIST} AND category = $4 {_NEWEST_FIRST} LIMIT $2 OFFSET $3"
)
_BY_SLUG = Statement(Brief, "SELECT {columns} FROM briefs WHERE slug = $1")
_VERSION = Statement(Brief, "SELECT {columns} FROM brief_versions WHERE slug = $1 AND version = $2")
_EARLIER = Statement(
    BriefText, "SELECT {columns} FROM brief_versions WHERE slug = $1 ORDER BY version DESC"
)
_BETWEEN = Statement(
    BriefText,
    """
SELECT {columns} FROM briefs WHERE published_at >= $1 AND published_at < $2
UNION ALL SELECT {columns} FROM brief_versions WHERE published_at >= $1 AND published_at < $2
ORDER BY published_at, version
""",
)
_ORIGIN = "cooldown_key, slug, version, coalesce(first_published_at, published_at), published_at"
_WRITTEN = f"""
SELECT {_ORIGIN} FROM briefs UNION ALL SELECT {_ORIGIN} FROM brief_versions
ORDER BY published_at, version
"""  # noqa: S608
_OLDER = Statement(
    ListedBrief,
    """
SELECT {columns} FROM briefs WHERE published_at <= $1 AND (published_at < $1 OR slug > $2)
ORDER BY published_at DESC, slug LIMIT 1
""",
)
_NEWER = Statement(
    ListedBrief,
    """
SELECT {columns} FROM briefs WHERE published_at >= $1 AND (published_at > $1 OR slug < $2)
ORDER BY published_at, slug DESC LIMIT 1
""",
)
