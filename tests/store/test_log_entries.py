"""Every recorded version and withdrawal gets one entry in the public log, whatever is killed."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import pytest

from barograph.history.checkpoint import Checkpoint
from barograph.history.ledger import Ledger
from barograph.history.merkle import tree_root
from barograph.history.records import Version
from barograph.kit.database import Database, Transaction, Work
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.stances.log_entries import LogEntries, count_logged
from support.backends import Backend
from support.clock import HandClock
from support.databases import DatabaseDouble
from support.history import RATES, proposal, salts
from support.service import BASE_URL
from support.stances import make_history

pytestmark = pytest.mark.both_engines

ETF = "btc-etf-stance"
T = TypeVar("T")


class Killed(BaseException):
    """The process ends here."""


class KilledAt(DatabaseDouble):
    """A database that ends its process at a write: before it, or right after its commit."""

    def __init__(self, database: Database, *, is_committed: bool) -> None:
        super().__init__(database)
        self._is_committed = is_committed

    async def write(self, work: Work[T]) -> T:
        if self._is_committed:
            await super().write(work)
        raise Killed


class NoLease:
    """A lease that nobody takes away."""

    async def fence(self, _: Transaction) -> None:
        return


class Stores(NamedTuple):
    """Both databases of an instance."""

    service: Database
    ledger: Ledger

    async def upgrade(self) -> None:
        service = self.service
        await upgrade(service, packaged_migrations(SERVICE, service.engine), HandClock())

    async def record(self, *numbers: int, kind: str = RATES) -> list[Version]:
        return [(await self.ledger.append(proposal(each, kind))).version for each in numbers]

    async def withdraw(self, version: Version) -> None:
        head = version.history_digest
        await self.ledger.withdraw(version.kind, why="why", by="ann", expected_head=head)

    async def append(self, service: Database | None = None) -> None:
        """What a new leader does."""
        entries = LogEntries(service or self.service, self.ledger, BASE_URL, HandClock())
        lease: Any = NoLease()
        await entries.append(lease)

    async def events(self) -> list[dict[str, Any]]:
        rows = await self.service.fetch("SELECT body FROM events ORDER BY id")
        return [json.loads(body) for (body,) in rows]

    async def logged(self) -> list[tuple[str, str, int]]:
        events = await self.events()
        return [(event["type"], event["kind"], event["sequence"]) for event in events]


@pytest.fixture
def stores(new_store: Callable[[], Backend], runner: asyncio.Runner) -> Iterator[Stores]:
    service, history = (new_store().open() for _ in range(2))
    # As the previous version left it.
    steps = packaged_migrations(SERVICE, service.engine)
    runner.run(upgrade(service, [step for step in steps if step.number < 24], HandClock()))
    runner.run(make_history(history))
    yield Stores(service, Ledger(history, HandClock(), salt=salts()))
    runner.run(service.close())
    runner.run(history.close())


@pytest.mark.outcome(
    "The collector is killed between recording a version and logging it",
    "The version's proof says `pending`. The next leader appends its entry once.",
)
@pytest.mark.parametrize("is_committed", [False, True])
async def test_entry_is_appended_once_after_a_crash(stores: Stores, is_committed: bool) -> None:
    await stores.upgrade()
    first, second = await stores.record(0, 1)
    await stores.withdraw(second)
    killed = KilledAt(stores.service, is_committed=is_committed)
    with pytest.raises(Killed):
        await stores.append(killed)
    assert await count_logged(stores.service, RATES) == 2 * is_committed
    for _ in range(2):
        await stores.append()
    await stores.record(2)
    await stores.append()

    assert sorted(await stores.logged()) == [
        ("stance.recorded", RATES, 1),
        ("stance.recorded", RATES, 2),
        ("stance.recorded", RATES, 3),
        ("stance.withdrawn", RATES, 1),
    ]
    events = await stores.events()
    assert events[0]["history_digest"] == first.history_digest
    assert [each["id"] for each in events] == [1, 2, 3, 4]


async def test_versions_stay_in_their_order_even_if_the_clock_was_set_back(stores: Stores) -> None:
    await stores.upgrade()
    await stores.record(5, 1, 2)
    await stores.record(3, kind=ETF)
    await stores.append()
    rates = [sequence for _, kind, sequence in await stores.logged() if kind == RATES]
    assert rates == [1, 2, 3]


@pytest.mark.outcome(
    "A service with seven logs is upgraded",
    "The log of events gets every version and withdrawal that has no entry, then the last "
    "signed heads of the six other logs.",
)
async def test_upgrade_appends_what_has_no_entry_and_the_old_heads(stores: Stores) -> None:
    versions = await stores.record(0, 1, 2)
    await stores.withdraw(versions[-1])
    digests = [each.history_digest for each in versions]
    root = tree_root(digests[:2]).hex()
    keys = '{"name":"ab12","events":"cd34"}'
    heads = [(RATES, "versions", 2, root), ("events", "events", 1, "0" * 64)]
    cosigned = [f"barograph.example/history-{each}" for each in ("ab12/rates-desk", "cd34/events")]

    async def leave(tx: Transaction) -> None:
        insert = "INSERT INTO signed_heads (kind, log, size, root) VALUES ($1, $2, $3, $4)"
        await tx.execute_many(insert, heads)
        await tx.execute("INSERT INTO history_origin (id, keys) VALUES (1, $1)", keys)
        publish = "INSERT INTO cosigned_checkpoints VALUES ($1, 1, '', '')"
        await tx.execute_many(publish, [(origin,) for origin in cosigned])

    await stores.service.write(leave)
    await stores.upgrade()
    for _ in range(2):
        await stores.append()

    *entries, merged = await stores.events()
    assert [each["type"] for each in entries].count("stance.recorded") == 3
    assert [each["type"] for each in entries].count("stance.withdrawn") == 1
    old = Checkpoint("barograph.example/history-ab12/rates-desk", 2, bytes.fromhex(root))
    assert merged["type"] == "history.merged"
    assert merged["logs"] == [{"kind": RATES, "origin": old.origin, "size": 2, "root": root}]
    ((stored,),) = await stores.service.fetch("SELECT keys FROM history_origin")
    assert json.loads(stored)["name"] == "cd34"
    rows = await stores.service.fetch("SELECT origin FROM cosigned_checkpoints")
    assert rows == [(cosigned[1],)]
    # Anyone can recompute the old root from the list of the kind, which stays.
    listed = await stores.ledger.digests(RATES, "versions", 0, old.size)
    assert tree_root([row.digest for row in listed]) == old.root
