"""The demo's past stances: a settlement that the exchange corrects is unknown for two hours."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.collector.leader import collector_lease
from barograph.history.ledger import HISTORY, Ledger
from barograph.history.records import Version
from barograph.history.verify import IntactRecord, verify
from barograph.kit.database import Transaction
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.markets.store import newest_settlement_reports
from barograph.markets.view import PERPETUALS
from barograph.settings import Settings
from barograph_demo.replay.replay import StanceReplay, moments
from barograph_demo.world.world import CORRECTED_AFTER, World, corrections
from support.clock import START, HandClock
from support.markets import reading

SEED = 5
EPOCH = START // HOUR * HOUR - 60 * DAY
CORRECTED = corrections(SEED, START - 25 * DAY, START)[0]
"""When the exchange begins to report another rate, in the hourly part of the past."""

KIND = "funding-regime-stance"
LEG = f"{KIND}:{iso_timestamp(CORRECTED - HOUR)}"
SCORES = ("score", "score24hAgo", "delta24h")


class Carried:
    """The stances of the two days around a correction, carried by the demo's own record."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        without_figures = {"data": folder, "rates_url": ""}
        self.settings = Settings.model_validate(without_figures)
        self.clock = HandClock()
        self.database = SQLiteDatabase(self.settings.database_path)
        self.history = SQLiteDatabase(self.settings.history_path)

    async def carry(self) -> None:
        await upgrade(self.database, packaged_migrations(), self.clock)
        await upgrade(self.history, packaged_migrations(HISTORY), self.clock)
        lease = collector_lease(self.database, self.clock)
        assert await lease.acquire()

        await self.database.write(
            lambda tx: publish(tx, [Publication.of(PERPETUALS, reading(CORRECTED - DAY))])
        )
        world = World(SEED, EPOCH)
        record = StanceReplay(self.settings, world, self.database, self.history, lease)
        since = CORRECTED - DAY
        for at in moments(since, START):
            if at > CORRECTED + DAY:
                break
            if record.is_due(since, at, START):
                await record.issue(since, at)
            since = at
        await record.close()

    async def versions(self) -> list[Version]:
        ledger = Ledger(self.history, self.clock)
        return (await ledger.newest_versions(KIND, 100))[::-1]

    async def close(self) -> None:
        await self.database.close()
        await self.history.close()


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Carried]:
    with asyncio.Runner() as runner:
        carried = Carried(tmp_path_factory.mktemp("settlements") / "past")
        runner.run(carried.carry())
        yield carried
        runner.run(carried.close())


def by_rule(carried: Carried) -> list[Version]:
    return [each for each in asyncio.run(carried.versions()) if each.leg.decision.by == "rule"]


@pytest.mark.contract("stance.revision-keeps-leg")
def test_day_old_scores_disappear_in_one_revision_and_return_in_the_next(
    carried: Carried,
) -> None:
    revisions = [each for each in by_rule(carried) if each.leg_id == LEG]

    assert [each.issued_at for each in revisions] == [
        CORRECTED - HOUR,
        CORRECTED,
        CORRECTED + 2 * HOUR,
    ]
    shown = [{name for name in SCORES if name in each.leg.levels} for each in revisions]
    assert shown == [set(SCORES), {"score"}, set(SCORES)]
    assert all(
        {name for name in SCORES if name in each.leg.evidence.inputs["levels"]} == names  # type: ignore[operator]
        for each, names in zip(revisions, shown, strict=True)
    )
    assert isinstance(asyncio.run(verify(carried.history)), IntactRecord)


def test_every_other_leg_is_judged_once(carried: Carried) -> None:
    others = [each.leg_id for each in by_rule(carried) if each.leg_id != LEG]

    assert len(others) == len(set(others)) == 6


def test_settlement_reports_are_read_as_of_that_time(carried: Carried) -> None:
    async def work(tx: Transaction) -> list[tuple[int, int, int]]:
        found = await newest_settlement_reports(tx, "bybit", "BTCUSDT", 200)
        return [(each.at, each.revision, each.read_at) for each in found]

    found = asyncio.run(carried.database.read(work))

    assert [each for each in found if each[1] > 1] == [(CORRECTED - CORRECTED_AFTER, 2, CORRECTED)]
    assert all(at <= read_at for at, _, read_at in found)
    assert len(found) > 93
