"""Briefs in the database and on the board: once, newest first, and never out of date unsaid."""

import asyncio
from hashlib import sha256
from typing import Any

import pytest

from barograph.board.board import latest_snapshot
from barograph.briefs.records import Brief, BriefText, Written
from barograph.briefs.store import (
    BRIEFS,
    NEWEST,
    brief_by_slug,
    earlier_texts,
    newest_briefs,
    record_briefs,
    written_by_key,
)
from barograph.kit.database import ConstraintViolated, Database
from support.clock import START
from support.evidence import Month
from support.steps import Steps


def brief(slug: str = "a", at: int = START, **fields: Any) -> Brief:
    usual = Brief(
        slug=slug,
        published_at=at,
        category="note",
        headline=f"headline of {slug}",
        coins=("BTC", "1000PEPE"),
        summary="Zwölf % “quoted” \N{SNOWMAN}",
        body="# Body\n\n'; DROP TABLE briefs; --",
        source="test venue",
        rule="outage",
        window_start=at - 1,
        window_end=at,
        inputs="{}",
        inputs_digest="x",
        cooldown_key="outage:market-data",
    )
    return usual._replace(**fields)


class Archive(Steps):
    """The verbs of the store, each in a transaction of its own."""

    def record(self, *briefs: Brief) -> None:
        self.write(lambda tx: record_briefs(tx, briefs))

    def newest(self, count: int = 50) -> list[Brief]:
        return self.read(lambda tx: newest_briefs(tx, count))

    def by_slug(self, slug: str) -> Brief | None:
        return self.read(lambda tx: brief_by_slug(tx, slug))

    def earlier(self) -> list[BriefText]:
        return self.read(lambda tx: earlier_texts(tx, "a"))


@pytest.fixture
def archive(database: Database, runner: asyncio.Runner) -> Archive:
    return Archive(database, runner)


def test_a_brief_comes_back_as_it_was_first_published(archive: Archive) -> None:
    plain = brief("b", coins=(), published_at=START - 1)
    archive.record(brief(), plain)
    archive.record(brief(headline="another", at=START + 5))

    assert archive.newest() == [brief(), plain]
    assert [archive.by_slug(slug) for slug in ("a", "A", "")] == [brief(), None, None]


def test_the_snapshot_holds_the_newest_50_whoever_wrote_them_and_when(archive: Archive) -> None:
    archive.record()
    assert archive.fetch("SELECT count(*) FROM snapshots") == [(0,)]
    archive.record(*(brief(f"{number:03d}", START + number) for number in range(NEWEST + 5)))
    archive.record(brief("late", START + 7, rule="operator"))

    listed = archive.run(latest_snapshot(archive.database, BRIEFS))
    assert listed is not None
    shown = [each.slug for each in listed.briefs]
    assert (len(shown), shown[-3:]) == (NEWEST, ["007", "late", "006"])
    assert shown == [each.slug for each in archive.newest(NEWEST)]


def update(version: int, **fields: Any) -> Brief:
    changes = {"version": version, "first_published_at": START, **fields}
    return brief(published_at=START + version, headline=f"text {version}")._replace(**changes)


def test_what_each_rule_wrote_about_a_subject_is_known_oldest_first(archive: Archive) -> None:
    archive.record(
        brief("b", START + 9),
        brief("a", START),
        update(2),
        brief("d", START - 1, cooldown_key="outage:other"),
    )

    assert archive.read(written_by_key) == {
        "outage:market-data": [
            Written("a", 1, START, START),
            Written("a", 2, START, START + 2),
            Written("b", 1, START + 9, START + 9),
        ],
        "outage:other": [Written("d", 1, START - 1, START - 1)],
    }


def test_update_keeps_every_earlier_text_once(archive: Archive) -> None:
    archive.record(brief())
    for _ in range(2):
        archive.record(update(2), update(3))

    assert archive.newest() == [update(3)]
    assert archive.earlier() == [
        BriefText("a", 2, START + 2, "text 2"),
        BriefText("a", 1, START, "headline of a"),
    ]


@pytest.mark.parametrize(
    "how", ["UPDATE brief_versions SET body = ''", "DELETE FROM brief_versions"]
)
def test_an_earlier_text_is_never_changed_or_deleted(archive: Archive, how: str) -> None:
    archive.record(brief(), update(2))

    with pytest.raises(ConstraintViolated):
        archive.execute(how)

    assert len(archive.earlier()) == 1


def test_the_digest_of_every_stored_brief_can_be_computed_anew(archive: Archive) -> None:
    written = [each for conclusion in Month().conclusions() for each in conclusion.briefs]
    archive.record(*written)

    stored = archive.fetch(
        "SELECT inputs, inputs_digest FROM briefs "
        "UNION ALL SELECT inputs, inputs_digest FROM brief_versions"
    )

    assert len(stored) == len(written) > 50
    assert all(sha256(inputs.encode()).hexdigest() == digest for inputs, digest in stored)
