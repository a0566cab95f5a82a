"""Cosignatures: which checkpoint is published, and what no failure of a witness can change."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.board.board import latest_snapshot
from barograph.collector.jobs.stances import WitnessJob
from barograph.errors import LeaseLost, Throttled, Unreachable, UpstreamError
from barograph.history.checkpoint import Checkpoint, log_origin, open_checkpoint, verifier_of
from barograph.history.cosigning import (
    ROUND_MS,
    CosignedCheckpoints,
    Cosigner,
    NotCosigned,
    Rounds,
)
from barograph.history.guards import Continuity, SignedHeads
from barograph.history.ledger import Ledger
from barograph.history.merkle import tree_root
from barograph.history.public_log import PublicLog, event_digests
from barograph.history.reader import HistoryRewritten
from barograph.history.witnesses import (
    WITNESSES,
    OtherSize,
    TreeRefused,
    WitnessState,
    cosigners,
)
from barograph.kit.database import Database, Transaction, Work
from barograph.kit.lease import Lease
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.timestamps import MINUTE, SECOND
from barograph_client.audit.notes import NO_QUORUM, Policy
from support.backends import Backend
from support.clock import START, HandClock
from support.databases import DatabaseDouble
from support.events import add_events, change
from support.history import salts
from support.service import BASE_URL
from support.stances import make_history
from support.steps import Steps
from support.witnesses import SimulatedWitness, Witnesses, cosign

T = TypeVar("T")

NAME = log_origin(BASE_URL)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
AWAY = Unreachable("it can't be reached")


class Instance(Steps):
    """A record, the collector's side of its witnesses, and the web side."""

    def __init__(
        self,
        runner: asyncio.Runner,
        databases: tuple[Database, Database],
        witnesses: Witnesses,
        clock: HandClock,
    ) -> None:
        super().__init__(databases[0], runner)
        self.history, self.witnesses, self.clock = databases[1], witnesses, clock
        self.ledger = Ledger(self.history, clock, salt=salts())
        self.policy = witnesses.policy(2)
        self._web = self.log(self.database)
        self.restart_collector()

    def log(self, database: Database) -> PublicLog:
        signed = SignedHeads(database, self.history, self.clock)
        checks = Continuity(self.ledger, lambda: None)
        return PublicLog(KEY, BASE_URL, signed, checks, reload_key=lambda: KEY)

    def restart_collector(
        self, database: Database | None = None, policy: Policy | None = None
    ) -> None:
        self.policy = policy or self.policy
        self._collectors = database or self.database
        rounds = Rounds(self.log(self._collectors), self.clock)
        self.cosigners = [
            Cosigner(each, self.policy, rounds, self.witnesses.add_checkpoint, self.clock)
            for each in self.policy.witnesses
        ]

    def grow(self, later: int = 0) -> None:
        ((number,),) = self.fetch("SELECT count(*) FROM events")
        self.run(add_events(self.database, [change(number + later)]))

    def ask(self, *names: str) -> None:
        for cosigner in self.cosigners:
            if not names or cosigner.name in names:
                self.run(cosigner.ask(self._collectors))

    def published(self, policy: Policy | None = None) -> Checkpoint:
        """What a reader verifies with our key and the keys of the witnesses."""
        policy = policy or self.policy
        checkpoint, names = self.cosigned(policy)
        assert policy.is_met(names)
        return checkpoint

    def cosigned(self, policy: Policy) -> tuple[Checkpoint, set[str]]:
        """What is published, and who cosigned it."""
        note = self.run(CosignedCheckpoints(self._web, self.database, policy).published_note())
        checkpoint = open_checkpoint(note, verifier_of(KEY, NAME))
        return checkpoint, set(cosigners(policy, checkpoint, note.rpartition("\n\n")[2]))

    def states(self) -> dict[str, WitnessState]:
        snapshot = self.run(latest_snapshot(self.database, WITNESSES))
        assert snapshot is not None
        return {state.witness: state for state in snapshot.states}

    def __getitem__(self, name: str) -> SimulatedWitness:
        return self.witnesses.all[name]


Make = Callable[[], Instance]


@pytest.fixture
def make(new_store: Callable[[], Backend], runner: asyncio.Runner) -> Iterator[Make]:
    """Makes instances with one entry and the same witnesses, key and name."""
    clock = HandClock()
    witnesses, opened = Witnesses(clock, "a", "b", "c"), list[Database]()

    def instance() -> Instance:
        service, history = (new_store().open() for _ in range(2))
        opened.extend((service, history))
        runner.run(upgrade(service, packaged_migrations(SERVICE, service.engine), clock))
        runner.run(make_history(history))
        made = Instance(runner, (service, history), witnesses, clock)
        made.grow()
        return made

    yield instance
    for database in opened:
        runner.run(database.close())


@pytest.fixture
def instance(make: Make) -> Instance:
    return make()


@pytest.mark.both_engines
def test_checkpoint_is_published_with_its_quorum_and_later_cosigners(instance: Instance) -> None:
    instance.ask("a")
    with pytest.raises(NotCosigned):
        instance.published()
    instance.ask("b")
    checkpoint = instance.published()
    digests = instance.run(event_digests(instance.database, 0, 9))
    assert checkpoint == (NAME, 1, tree_root([each.digest for each in digests]))
    with pytest.raises(NotCosigned):
        instance.published(instance.witnesses.policy(3))
    instance.ask("c")
    assert instance.published(instance.witnesses.policy(3)) == checkpoint
    assert {each.cosigned_at for each in instance.states().values()} == {START}
    instance.ask()
    assert [each.asked for each in instance.witnesses.all.values()] == [1, 1, 1]


@pytest.mark.both_engines
def test_without_a_quorum_the_newest_checkpoint_is_published(instance: Instance) -> None:
    policy = instance.policy._replace(quorum=NO_QUORUM)
    instance.restart_collector(policy=policy)

    def published() -> tuple[int, set[str]]:
        checkpoint, names = instance.cosigned(policy)
        return checkpoint.size, names

    assert published() == (1, set())
    instance.ask("a")
    assert published() == (1, {"a"})
    instance.ask("b")
    assert published() == (1, {"a", "b"})
    instance.grow()
    assert published() == (2, set())


@pytest.mark.outcome(
    "A witness does not answer while the log grows every second",
    "The others cosign the same checkpoint, at most a minute or so old.",
)
def test_quorum_is_reached_though_a_witness_is_dead(instance: Instance) -> None:
    instance["c"].failure = AWAY
    sizes = []

    for second in range(90):
        instance.grow()
        instance.clock.pass_seconds(1)
        # One is asked every three seconds, the other every seven: never at the same size.
        if second % 3 == 0:
            instance.ask("a", "c")
        if second % 7 == 0:
            instance.ask("b")
        if second > 10:
            sizes.append(instance.published().size)
    assert sizes == sorted(sizes)
    assert all(second - size < 15 for second, size in enumerate(sizes, 12))
    state = instance.states()["c"]
    assert (state.failure, state.is_fork) == ("it can't be reached", False)
    assert state.failing_since == START + SECOND
    assert instance["c"].asked < 9


def test_round_ends_without_a_quorum_for_a_working_witness(instance: Instance) -> None:
    instance.ask("a")
    instance.grow()
    instance.ask("a")
    assert instance["a"].seen[NAME].size == 1
    instance.clock.now += ROUND_MS
    instance.ask("a")
    assert instance["a"].seen[NAME].size == 2
    instance.ask("b")
    assert instance.published().size == 2


@pytest.mark.outcome(
    "Too few witnesses answer",
    "The last checkpoint with a quorum stays published; before the first one, 503. New tiles "
    "and stances still appear.",
)
def test_old_checkpoint_stays_while_too_few_witnesses_answer(instance: Instance) -> None:
    instance.ask()
    for name in "bc":
        instance[name].failure = AWAY
    instance.grow()
    instance.ask()
    assert instance.published().size == 1
    instance["b"].failure = None
    instance.clock.pass_seconds(2)
    instance.ask()
    assert instance.published().size == 2
    assert instance.states()["b"].failing_since is None


def test_witness_that_is_throttling_is_left_alone_as_long_as_it_says(instance: Instance) -> None:
    instance["a"].failure = Throttled("it asked us to slow down", 60)
    instance.ask("a")
    instance["a"].failure = None
    for seconds, cosigned in ((59, 0), (1, 1)):
        instance.clock.pass_seconds(seconds)
        instance.ask("a")
        assert len(instance["a"].seen) == cosigned


def lies(instance: Instance) -> list[Callable[[str], str]]:
    """Replies without a cosignature of witness b on our checkpoint, or with one from the future."""
    b, now = instance["b"], instance.clock.now
    ours = b.seen[NAME]
    return [
        lambda _: "",
        lambda _: "<html>\n",
        lambda line: line.replace("b.example", "c.example"),
        lambda _: cosign(ours._replace(root=bytes(32)), b.key, b.verifier.name, now),
        lambda _: cosign(ours, instance["a"].key, b.verifier.name, now),
        lambda _: cosign(ours, b.key, b.verifier.name, now + 20 * MINUTE),
    ]


def test_lying_witness_counts_for_nothing_and_its_failure_shows(instance: Instance) -> None:
    instance.ask()
    for size, lie in enumerate(lies(instance), 2):
        instance["b"].reply = lie
        instance.grow()
        instance.ask("a", "b")
        assert instance.states()["b"].failure
        assert instance.published().size == size - 1
        instance.ask("c")
        assert instance.published().size == size
        instance.clock.pass_seconds(60)


@pytest.mark.both_engines
@pytest.mark.outcome(
    "A witness has cosigned another tree of the log",
    "It refuses. Its check in `/api/status` is `down` until it cosigns again. A quorum of "
    "the others still publishes checkpoints.",
)
@pytest.mark.parametrize(
    ("longer", "refusal"),
    [(0, TreeRefused("another tree")), (1, TreeRefused("another tree")), (0, OtherSize(3))],
)
def test_rewritten_record_is_refused_by_the_witnesses_and_never_published(
    make: Make, longer: int, refusal: UpstreamError, caplog: pytest.LogCaptureFixture
) -> None:
    honest, rewritten = make(), make()
    for witness in honest.witnesses.all.values():
        witness.refusal = refusal

    for number in range(2):
        honest.grow()
        honest.ask()
        rewritten.grow(later=7 + number)
    for _ in range(longer):
        rewritten.grow(later=7)
    for _ in range(3):
        rewritten.ask()
        rewritten.clock.pass_seconds(60)
    assert [state.is_fork for state in rewritten.states().values()] == [True, True, True]
    with pytest.raises(NotCosigned):
        rewritten.published()
    assert honest.published().size == 3
    rewritten["a"].failure = AWAY
    rewritten.ask()
    assert rewritten.states()["a"].is_fork

    critical = [line for line in caplog.records if line.levelno == logging.CRITICAL]
    assert len(critical) == 3


def test_refusal_counts_from_its_own_start_not_from_an_earlier_outage(instance: Instance) -> None:
    since = []
    for failure in (AWAY, TreeRefused("another tree")):
        instance["a"].failure = failure
        instance.ask("a")
        since.append(instance.states()["a"].failing_since)
        instance.clock.pass_seconds(60)
    assert since == [START, START + MINUTE]


def test_witness_that_is_ahead_of_an_older_copy_refuses_it(make: Make) -> None:
    lost, copy = make(), make()
    lost.grow()
    lost.ask("a")
    copy.ask("a")
    state = copy.states()["a"]
    assert state.is_fork
    assert state.failure == "it last cosigned this log at size 2, and we have 1"


def test_collector_that_lost_an_answer_learns_the_size_again(instance: Instance) -> None:
    instance.ask("a")
    instance.grow()
    instance.execute("DELETE FROM cosignatures")
    instance.restart_collector()
    instance.ask("a", "b")
    assert instance.published().size == 2
    assert instance["a"].asked == 3


def test_changed_policy_publishes_what_was_cosigned_before(instance: Instance) -> None:
    instance["c"].failure = AWAY
    instance.restart_collector(policy=instance.witnesses.policy(3))
    instance.ask()
    with pytest.raises(NotCosigned):
        instance.published()
    instance.restart_collector(policy=instance.witnesses.policy(2))
    instance.ask("a")
    assert instance.published().size == 1
    assert (instance.states()["a"].size, instance["a"].asked) == (1, 1)


def test_collector_that_lost_its_lease_stores_no_cosignature(instance: Instance) -> None:
    lease, other = (
        Lease(instance.database, "collector", name, clock=instance.clock, milliseconds=SECOND)
        for name in ("first", "other")
    )
    job = WitnessJob(instance.database, instance.cosigners[0])
    count = "SELECT count(*) FROM cosignatures"
    assert instance.run(lease.acquire())
    instance.clock.pass_seconds(2)
    assert instance.run(other.acquire())
    with pytest.raises(LeaseLost):
        instance.run(job.run_once(lease))
    assert instance.fetch(count) == [(0,)]
    instance.clock.pass_seconds(2)
    assert instance.run(other.acquire())
    instance.run(job.run_once(other))
    assert instance.fetch(count) == [(1,)]


class Killed(Exception):
    """The process ended here."""


class MortalDatabase(DatabaseDouble):
    """Ends the process before or after the commit of a write."""

    def __init__(self, database: Database, lives: int) -> None:
        super().__init__(database)
        self._lives = lives

    async def write(self, work: Work[T]) -> T:
        async def mortal(tx: Transaction) -> T:
            done = await work(tx)
            self._step()
            return done

        done = await super().write(mortal)
        self._step()
        return done

    def _step(self) -> None:
        self._lives -= 1
        if self._lives == 0:
            raise Killed


@pytest.mark.both_engines
@pytest.mark.outcome(
    "The collector is killed while it stores a cosignature",
    "The next one asks again. No two roots of one size are ever published.",
)
def test_death_at_any_step_never_publishes_two_roots_of_one_size(instance: Instance) -> None:
    published: dict[int, bytes] = {}
    deaths = 0

    instance.ask()
    for lives in range(1, 9):
        instance.grow()
        instance.restart_collector(MortalDatabase(instance.database, lives))
        try:
            instance.ask("a", "b")
        except Killed:
            deaths += 1
        for _ in range(2):
            size, root = instance.published()[1:]
            assert size in (lives, lives + 1)
            assert published.setdefault(size, root) == root
            instance.restart_collector()
            instance.ask()
        assert size == lives + 1

    assert deaths == 4  # two cosignatures, each before and after the commit


def test_published_checkpoint_stays_though_witnesses_and_our_own_memory_failed(make: Make) -> None:
    instance, other = make(), make()
    published = "SELECT * FROM cosigned_checkpoints"
    instance.grow()
    instance.ask()
    kept = instance.fetch(published)
    insert = "INSERT INTO cosigned_checkpoints VALUES ($1, $2, $3, $4)"
    other.execute("DELETE FROM cosigned_checkpoints")
    other.write(lambda tx: tx.execute_many(insert, kept))

    for later in (7, 0):  # a shorter tree, and another of the same size
        for witness in instance.witnesses.all.values():
            witness.seen.clear()
        other.restart_collector()
        other.ask()
        assert other.fetch(published) == kept
        with pytest.raises(HistoryRewritten):
            other.published()
        other.grow(later=later)
