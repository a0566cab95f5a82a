"""Lists of briefs out of the database: every one once, by index, whatever is asked for."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from barograph.briefs.records import Brief, BriefsPage, Neighbours
from barograph.briefs.store import brief_neighbours, briefs_page, record_briefs
from barograph.kit.database import Database, Transaction
from support.backends import on_sqlite
from support.clock import START
from support.pages import NOTE

T = TypeVar("T")

BRIEFS = [
    NOTE._replace(
        slug=f"{letter}-{number}",
        published_at=START - number // 2,
        category=("note", "rates", "funding")[number % 3],
        coins=(("BTC", "1000PEPE"), ("PEPE",), ())[number % 3],
    )
    for number, letter in enumerate("sampleoftwelve")
]
ORDERED = sorted(BRIEFS, key=lambda each: (-each.published_at, each.slug))


class Lists:
    """The verbs of the store over one database."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self._database = database
        self._runner = runner

    def read(self, work: Callable[[Transaction], Coroutine[Any, Any, T]]) -> T:
        return self._runner.run(self._database.read(work))

    def keep(self, *briefs: Brief) -> None:
        self._runner.run(self._database.write(lambda tx: record_briefs(tx, briefs)))

    def page(
        self,
        category: str | None = None,
        coin: str | None = None,
        offset: int = 0,
        count: int = 100,
    ) -> BriefsPage:
        return self.read(lambda tx: briefs_page(tx, category, coin, offset, count))

    def around(self, brief: Brief) -> Neighbours:
        return self.read(lambda tx: brief_neighbours(tx, brief))

    def plan(self, sql: str) -> str:
        rows = self.read(lambda tx: tx.fetch(f"EXPLAIN QUERY PLAN {sql}"))
        return "; ".join(str(row[-1]) for row in rows)


@pytest.fixture
def lists(database: Database, runner: asyncio.Runner) -> Lists:
    found = Lists(database, runner)
    found.keep(*BRIEFS)
    return found


def slugs(page: BriefsPage) -> list[str]:
    return [each.slug for each in page.briefs]


def test_pages_part_the_whole_list_newest_first_and_ties_by_address(lists: Lists) -> None:
    pages = [lists.page(offset=offset, count=4) for offset in range(0, 20, 4)]

    assert [each for page in pages for each in slugs(page)] == [each.slug for each in ORDERED]
    assert {page.total for page in pages} == {len(BRIEFS)}
    assert pages[0].briefs[0].coins == ORDERED[0].coins
    assert pages[0].briefs[0].source == "test venue"


@pytest.mark.parametrize("category", [None, "note", "rates", "funding", "market"])
@pytest.mark.parametrize("coin", [None, "BTC", "PEPE", "1000PEPE", "SOL"])
def test_a_list_holds_what_fits_and_its_total(
    lists: Lists, category: str | None, coin: str | None
) -> None:
    fitting = [
        each.slug
        for each in ORDERED
        if category in {None, each.category} and (coin is None or coin in each.coins)
    ]

    found = lists.page(category, coin)

    assert slugs(found) == fitting
    assert found.total == len(fitting)
    known = {each.category for each in ORDERED if coin is None or coin in each.coins}
    assert set(found.categories) == known
    assert slugs(lists.page(category, coin, offset=1, count=2)) == fitting[1:3]


def test_neighbours_are_those_beside_a_brief_in_the_list(lists: Lists) -> None:
    for newer, brief, older in zip([None, *ORDERED], ORDERED, [*ORDERED[1:], None], strict=False):
        found = lists.around(brief)
        assert (found.newer and found.newer.slug) == (newer and newer.slug)
        assert (found.older and found.older.slug) == (older and older.slug)


@on_sqlite
@pytest.mark.parametrize(
    ("where", "index"),
    [
        ("coins LIKE '%'", "briefs_listed"),
        ("coins LIKE '%\"BTC\"%' AND category = 'note'", "briefs_of_category"),
    ],
)
def test_lists_are_chosen_and_ordered_by_an_index_alone(
    lists: Lists, where: str, index: str
) -> None:
    ordered = f"SELECT slug FROM briefs WHERE {where} ORDER BY published_at DESC, slug LIMIT 20"
    counted = "SELECT category, count(*) FROM briefs WHERE coins LIKE '%' GROUP BY category"

    for sql, used in ((ordered, index), (counted, "briefs_of_category")):
        plan = lists.plan(sql)
        assert f"USING COVERING INDEX {used}" in plan
        assert "TEMP B-TREE" not in plan
