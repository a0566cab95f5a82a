"""Lists of briefs out of the database: every one once, by index, whatever is asked for."""

import asyncio
from functools import partial

import pytest

from barograph.briefs.records import BriefsPage
from barograph.briefs.store import brief_neighbours, briefs_page, record_briefs
from barograph.kit.database import Database
from support.backends import on_sqlite
from support.clock import START
from support.pages import NOTE
from support.steps import Steps

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


class Lists(Steps):
    """The verbs of the store over one database."""

    def page(
        self,
        category: str | None = None,
        coin: str | None = None,
        offset: int = 0,
        count: int = 100,
    ) -> BriefsPage:
        return self.read(lambda tx: briefs_page(tx, category, coin, offset, count))


@pytest.fixture
def lists(database: Database, runner: asyncio.Runner) -> Lists:
    lists = Lists(database, runner)
    lists.write(lambda tx: record_briefs(tx, BRIEFS))
    return lists


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
def test_list_holds_what_fits(lists: Lists, category: str | None, coin: str | None) -> None:
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
        beside = lists.read(partial(brief_neighbours, brief=brief))
        assert (beside.newer and beside.newer.slug) == (newer and newer.slug)
        assert (beside.older and beside.older.slug) == (older and older.slug)


@on_sqlite
@pytest.mark.parametrize(
    ("where", "index"),
    [
        ("coins LIKE '%'", "briefs_listed"),
        ("coins LIKE '%\"BTC\"%' AND category = 'note'", "briefs_of_category"),
    ],
)
def test_lists_are_chosen_and_ordered_by_an_index(lists: Lists, where: str, index: str) -> None:
    ordered = f"SELECT slug FROM briefs WHERE {where} ORDER BY published_at DESC, slug LIMIT 20"
    counted = "SELECT category, count(*) FROM briefs WHERE coins LIKE '%' GROUP BY category"

    for sql, used in ((ordered, index), (counted, "briefs_of_category")):
        plan = str(lists.fetch(f"EXPLAIN QUERY PLAN {sql}"))
        assert f"USING COVERING INDEX {used}" in plan
        assert "TEMP B-TREE" not in plan
