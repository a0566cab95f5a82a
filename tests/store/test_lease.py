"""One leader among many, and a frozen one that wakes up cannot write."""

import asyncio
from collections.abc import Callable

import pytest

from barograph.board.board import publish, read_versions
from barograph.board.feeds import Publication
from barograph.collector.leader import Collector, collector_lease
from barograph.errors import LeaseLost
from barograph.kit.clock import system_clock
from barograph.kit.database import POSTGRESQL, Database, Queryable, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import SECOND
from barograph.settings import Settings
from support.clock import HandClock

MILLISECONDS = 15_000
Claim = Callable[[str], Lease]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def claim(database: Database, clock: HandClock) -> Claim:
    """Makes a claimant of one and the same lease."""
    return lambda holder: Lease(
        database, "collector", holder, clock=clock, milliseconds=MILLISECONDS
    )


async def publish_as(lease: Lease, database: Database) -> None:
    """Write, then check the lease: what is written before the check must vanish too."""

    async def work(tx: Transaction) -> None:
        await publish(tx, [Publication("feed", "{}")])
        await lease.fence(tx)

    await database.write(work)


@pytest.mark.both_engines
async def test_of_many_that_ask_at_once_exactly_one_gets_it(claim: Claim) -> None:
    asked = await asyncio.gather(*(claim(str(number)).acquire() for number in range(20)))
    assert asked.count(True) == 1


async def test_leases_with_other_names_do_not_meet(database: Database, clock: HandClock) -> None:
    for name in ("collector", "mailer"):
        lease = Lease(database, name, "a", clock=clock, milliseconds=MILLISECONDS)
        assert await lease.acquire()


async def test_renewal_keeps_the_token(claim: Claim, database: Database, clock: HandClock) -> None:
    lease, rival = claim("a"), claim("b")
    await lease.acquire()
    for _ in range(5):
        await lease.renew()
        assert not await rival.acquire()
        (row,) = await database.fetch("SELECT holder, token, expires_at FROM leases")
        assert row == ("a", lease.token, clock() + MILLISECONDS)
        clock.pass_seconds(10)


async def test_a_lease_that_ran_out_is_renewed_by_its_holder_when_nobody_took_it(
    claim: Claim, database: Database, clock: HandClock
) -> None:
    lease = claim("a")
    await lease.acquire()
    first = lease.token
    assert lease.is_held
    clock.pass_seconds(100)
    assert not lease.is_held

    await publish_as(lease, database)
    await lease.renew()
    assert (lease.is_held, lease.token) == (True, first)


async def test_a_holder_that_slept_through_another_one_cannot_renew_even_when_it_is_free_again(
    claim: Claim, clock: HandClock
) -> None:
    sleeper, other = claim("a"), claim("b")
    await sleeper.acquire()
    clock.pass_seconds(100)
    assert await other.acquire()
    await other.release()

    with pytest.raises(LeaseLost):
        await sleeper.renew()
    assert await sleeper.acquire()


async def test_lease_from_the_future_keeps_nobody_out(claim: Claim, clock: HandClock) -> None:
    await claim("a").acquire()
    clock.pass_seconds(-3600)

    assert await claim("b").acquire()


async def test_hosts_agree_by_the_clock_of_the_server(database: Database, clock: HandClock) -> None:
    async def server(_: Queryable) -> int:
        return clock()

    def claim(holder: str, ahead: float) -> Lease:
        own = HandClock(int(clock() + ahead * SECOND))
        return Lease(
            database, "collector", holder, clock=own, milliseconds=MILLISECONDS, server=server
        )

    leader, ahead, behind = claim("a", 3600), claim("b", 300), claim("c", -300)
    assert await leader.acquire()
    assert leader.is_held
    assert leader.token == clock() // SECOND  # the history would refuse every leader for an hour
    clock.pass_seconds(14)
    assert not await ahead.acquire()
    assert not await behind.is_free()
    await leader.renew()
    clock.pass_seconds(14.999)
    assert not await ahead.acquire()
    clock.pass_seconds(0.001)
    assert await behind.acquire()


@pytest.mark.both_engines
def test_collector_whose_clock_differs_from_the_servers_does_not_lead(
    database: Database, runner: asyncio.Runner, caplog: pytest.LogCaptureFixture
) -> None:
    is_on_server, ahead = database.engine == POSTGRESQL, 0
    held: list[bool] = []

    async def pause(_: float) -> None:
        nonlocal ahead
        held.append(await rival.is_free())
        ahead = 3_600_000
        if len(held) == 4:
            running.cancel()
        await asyncio.sleep(0)

    def clock() -> int:
        return system_clock() + ahead

    rival = collector_lease(database, system_clock)
    collector = Collector(Settings(), [], database, clock=clock, sleep=pause)
    running = runner.get_loop().create_task(collector.run())
    runner.run(asyncio.wait([running]))
    assert not held[0]
    assert held[-1]
    said = [vars(each)["reason"] for each in caplog.records if each.msg == "collector doesn't lead"]
    assert bool(said) == is_on_server
    assert all(each.startswith("this host's clock is 3") for each in said)


async def test_next_takes_over_when_the_lease_ends(claim: Claim, clock: HandClock) -> None:
    first, second = claim("a"), claim("b")
    await first.acquire()
    clock.pass_seconds(14.999)
    assert not await second.acquire()
    clock.pass_seconds(0.001)
    assert await second.acquire()
    assert not await first.acquire()
    await second.release()
    assert await first.acquire()


@pytest.mark.both_engines
async def test_a_frozen_holder_that_wakes_up_cannot_write_even_after_its_successor_left(
    claim: Claim, database: Database, clock: HandClock
) -> None:
    frozen, successor = claim("a"), claim("b")
    await frozen.acquire()
    await publish_as(frozen, database)
    clock.pass_seconds(15)
    await successor.acquire()
    await publish_as(successor, database)

    with pytest.raises(LeaseLost, match="collector"):
        await publish_as(frozen, database)
    await publish_as(successor, database)
    await successor.release()
    for holder in (frozen, successor):
        with pytest.raises(LeaseLost):
            await publish_as(holder, database)
    assert await database.read(read_versions) == {"feed": 3}


async def test_who_never_held_the_lease_cannot_write(claim: Claim, database: Database) -> None:
    with pytest.raises(LeaseLost):
        await publish_as(claim("a"), database)
    await claim("a").acquire()
    impostor = claim("a")  # the same name is not the same holder
    assert not await impostor.acquire()
    for stranger in (impostor, claim("b")):
        with pytest.raises(LeaseLost):
            await publish_as(stranger, database)

    assert await database.read(read_versions) == {}


async def test_a_release_by_who_lost_the_lease_does_not_disturb_its_holder(
    claim: Claim, database: Database, clock: HandClock
) -> None:
    old, new = claim("a"), claim("b")
    await old.acquire()
    clock.pass_seconds(15)
    await new.acquire()

    await old.release()
    await claim("c").release()

    await publish_as(new, database)
    assert not await claim("c").acquire()


async def test_cancelled_acquisition_can_be_released(claim: Claim) -> None:
    lease, following = claim("a"), claim("b")

    acquiring = asyncio.create_task(lease.acquire())
    await asyncio.sleep(0)
    acquiring.cancel()
    await asyncio.gather(acquiring, return_exceptions=True)
    await lease.release()
    assert await following.acquire()


async def test_tokens_only_grow_even_if_the_database_was_made_anew(
    claim: Claim, database: Database, clock: HandClock
) -> None:
    seen = []
    for number in range(6):
        lease = claim(str(number))
        assert await lease.acquire()
        seen.append(lease.token)
        if number % 3 == 0:
            await lease.release()
        elif number % 3 == 1:
            clock.pass_seconds(15)
        else:
            await database.write(lambda tx: tx.execute("DELETE FROM leases"))
            clock.pass_seconds(60)

    assert seen == sorted(set(seen))
