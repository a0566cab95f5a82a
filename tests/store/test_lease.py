"""One leader among many, and a frozen one that wakes up cannot write."""

import asyncio
from collections.abc import Callable

import pytest

from barograph.board.board import publish, read_versions
from barograph.board.feeds import Publication
from barograph.collector.leader import Collector, collector_lease
from barograph.errors import LeaseLost
from barograph.kit.clock import system_clock
from barograph.kit.database import POSTGRESQL, Database, Queryable, Row, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import SECOND
from barograph.settings import Settings
from support.clock import HandClock

MILLISECONDS = 15_000


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def claim(database: Database, clock: HandClock) -> Callable[[str], Lease]:
    """Makes a claimant of one and the same lease."""
    return lambda holder: Lease(
        database, "collector", holder, clock=clock, milliseconds=MILLISECONDS
    )


async def row(tx: Transaction) -> Row:
    (found,) = await tx.fetch("SELECT holder, token, expires_at FROM leases")
    return found


def token(database: Database, runner: asyncio.Runner) -> int:
    return int(runner.run(database.read(row))[1])


def publish_as(lease: Lease, database: Database, runner: asyncio.Runner) -> None:
    """Write, then check the lease: what is written before the check must vanish too."""

    async def work(tx: Transaction) -> None:
        await publish(tx, [Publication("feed", "{}")])
        await lease.fence(tx)

    runner.run(database.write(work))


def test_the_first_to_ask_gets_the_lease_and_the_second_does_not(
    claim: Callable[[str], Lease], runner: asyncio.Runner
) -> None:
    assert runner.run(claim("a").acquire())
    assert not runner.run(claim("b").acquire())


@pytest.mark.both_engines
def test_of_many_that_ask_at_once_exactly_one_gets_it(
    claim: Callable[[str], Lease], runner: asyncio.Runner
) -> None:
    async def scenario() -> list[bool]:
        return await asyncio.gather(*(claim(str(number)).acquire() for number in range(20)))

    assert sum(runner.run(scenario())) == 1


def test_two_leases_with_other_names_do_not_meet(
    database: Database, clock: HandClock, runner: asyncio.Runner
) -> None:
    for name in ("collector", "mailer"):
        lease = Lease(database, name, "a", clock=clock, milliseconds=MILLISECONDS)
        assert runner.run(lease.acquire())


def test_the_holder_renews_with_the_same_token(
    claim: Callable[[str], Lease], database: Database, clock: HandClock, runner: asyncio.Runner
) -> None:
    lease, rival = claim("a"), claim("b")
    runner.run(lease.acquire())
    for _ in range(5):
        runner.run(lease.renew())
        assert not runner.run(rival.acquire())
        assert runner.run(database.read(row)) == ("a", lease.token, clock() + MILLISECONDS)
        clock.pass_seconds(10)


def test_a_lease_that_ran_out_is_renewed_by_its_holder_when_nobody_took_it(
    claim: Callable[[str], Lease], database: Database, clock: HandClock, runner: asyncio.Runner
) -> None:
    lease = claim("a")
    runner.run(lease.acquire())
    assert lease.is_held
    first = token(database, runner)
    clock.pass_seconds(100)
    assert not lease.is_held

    publish_as(lease, database, runner)
    runner.run(lease.renew())
    assert lease.is_held
    assert token(database, runner) == first


def test_a_holder_that_slept_through_another_one_cannot_renew_even_when_it_is_free_again(
    claim: Callable[[str], Lease], clock: HandClock, runner: asyncio.Runner
) -> None:
    sleeper, other = claim("a"), claim("b")
    runner.run(sleeper.acquire())
    clock.pass_seconds(100)
    assert runner.run(other.acquire())
    runner.run(other.release())

    with pytest.raises(LeaseLost):
        runner.run(sleeper.renew())
    assert runner.run(sleeper.acquire())


def test_a_lease_written_by_a_clock_that_ran_ahead_keeps_nobody_out(
    claim: Callable[[str], Lease], clock: HandClock, runner: asyncio.Runner
) -> None:
    runner.run(claim("a").acquire())
    clock.pass_seconds(-3600)

    assert runner.run(claim("b").acquire())


def test_hosts_whose_clocks_differ_agree_by_the_servers_clock(
    database: Database, clock: HandClock, runner: asyncio.Runner
) -> None:
    async def server(_: Queryable) -> int:
        return clock()

    def claim(holder: str, ahead: float) -> Lease:
        own = HandClock(int(clock() + ahead * SECOND))
        return Lease(
            database, "collector", holder, clock=own, milliseconds=MILLISECONDS, server=server
        )

    leader, ahead, behind = claim("a", 3600), claim("b", 300), claim("c", -300)
    assert runner.run(leader.acquire())
    assert leader.is_held
    assert leader.token == clock() // SECOND  # the history would refuse every leader for an hour
    clock.pass_seconds(14)
    assert not runner.run(ahead.acquire())
    assert not runner.run(behind.is_free())
    runner.run(leader.renew())
    clock.pass_seconds(14.999)
    assert not runner.run(ahead.acquire())
    clock.pass_seconds(0.001)
    assert runner.run(behind.acquire())


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


def test_the_next_takes_over_the_moment_the_lease_runs_out(
    claim: Callable[[str], Lease], clock: HandClock, runner: asyncio.Runner
) -> None:
    first, second = claim("a"), claim("b")
    runner.run(first.acquire())

    clock.pass_seconds(14.999)
    assert not runner.run(second.acquire())
    clock.pass_seconds(0.001)
    assert runner.run(second.acquire())
    assert not runner.run(first.acquire())


@pytest.mark.both_engines
def test_a_frozen_holder_that_wakes_up_cannot_write(
    claim: Callable[[str], Lease], database: Database, clock: HandClock, runner: asyncio.Runner
) -> None:
    frozen, successor = claim("a"), claim("b")
    runner.run(frozen.acquire())
    publish_as(frozen, database, runner)
    clock.pass_seconds(15)
    runner.run(successor.acquire())
    publish_as(successor, database, runner)

    with pytest.raises(LeaseLost, match="collector"):
        publish_as(frozen, database, runner)

    assert runner.run(database.read(read_versions)) == {"feed": 2}
    publish_as(successor, database, runner)


def test_a_frozen_holder_cannot_write_after_its_successor_left_either(
    claim: Callable[[str], Lease], database: Database, clock: HandClock, runner: asyncio.Runner
) -> None:
    frozen, successor = claim("a"), claim("b")
    runner.run(frozen.acquire())
    clock.pass_seconds(15)
    runner.run(successor.acquire())
    runner.run(successor.release())

    with pytest.raises(LeaseLost):
        publish_as(frozen, database, runner)

    assert runner.run(database.read(read_versions)) == {}


def test_who_never_held_the_lease_cannot_write(
    claim: Callable[[str], Lease], database: Database, runner: asyncio.Runner
) -> None:
    with pytest.raises(LeaseLost):
        publish_as(claim("a"), database, runner)
    runner.run(claim("b").acquire())
    with pytest.raises(LeaseLost):
        publish_as(claim("a"), database, runner)

    assert runner.run(database.read(read_versions)) == {}


def test_the_same_holder_name_is_not_the_same_holder(
    claim: Callable[[str], Lease], database: Database, runner: asyncio.Runner
) -> None:
    runner.run(claim("host:1").acquire())
    impostor = claim("host:1")

    assert not runner.run(impostor.acquire())
    with pytest.raises(LeaseLost):
        publish_as(impostor, database, runner)


def test_a_release_lets_the_next_in_at_once(
    claim: Callable[[str], Lease], database: Database, runner: asyncio.Runner
) -> None:
    first, second = claim("a"), claim("b")
    runner.run(first.acquire())
    runner.run(first.release())

    with pytest.raises(LeaseLost):
        publish_as(first, database, runner)
    assert runner.run(second.acquire())
    assert not runner.run(first.acquire())


def test_a_release_by_who_lost_the_lease_does_not_disturb_its_holder(
    claim: Callable[[str], Lease], database: Database, clock: HandClock, runner: asyncio.Runner
) -> None:
    old, new = claim("a"), claim("b")
    runner.run(old.acquire())
    clock.pass_seconds(15)
    runner.run(new.acquire())

    runner.run(old.release())
    runner.run(claim("c").release())

    publish_as(new, database, runner)
    assert not runner.run(claim("c").acquire())


def test_tokens_only_grow(
    claim: Callable[[str], Lease], database: Database, clock: HandClock, runner: asyncio.Runner
) -> None:
    seen = []
    for number in range(6):
        lease = claim(str(number))
        assert runner.run(lease.acquire())
        seen.append(token(database, runner))
        if number % 2:
            runner.run(lease.release())
        else:
            clock.pass_seconds(15)

    assert seen == sorted(set(seen))


def test_an_acquisition_whose_caller_is_cancelled_can_still_be_released(
    claim: Callable[[str], Lease], runner: asyncio.Runner
) -> None:
    lease, following = claim("a"), claim("b")

    async def scenario() -> bool:
        acquiring = asyncio.create_task(lease.acquire())
        await asyncio.sleep(0)
        acquiring.cancel()
        await asyncio.gather(acquiring, return_exceptions=True)
        await lease.release()
        return await following.acquire()

    assert runner.run(scenario())


def test_recreated_database_continues_with_higher_lease_tokens(
    claim: Callable[[str], Lease], database: Database, clock: HandClock, runner: asyncio.Runner
) -> None:
    first = claim("a")
    runner.run(first.acquire())
    before = first.token

    runner.run(database.write(lambda tx: tx.execute("DELETE FROM leases")))
    clock.pass_seconds(60)
    second = claim("b")
    runner.run(second.acquire())
    assert second.token > before
