"""A cluster under traffic whose parts are killed, frozen and cut off one after the other.

Recovery times are printed and never asserted: they say as much about the machine as about the code.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from barograph.kit.clock import system_clock
from barograph.kit.timestamps import DAY
from barograph_demo.servers.chain import FILE_NAME, Transfer
from support.cluster import WEB, WORKERS, AtCommit, Cluster, Host, frozen, running_cluster
from support.cluster_traffic import (
    FEED_NOW,
    FEED_PATH,
    KIND,
    MARKET,
    Traffic,
    running_traffic,
)
from support.processes import eventually, get

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

ANONYMOUS = 120
EVENT_SECONDS = 240
"""How long a test waits for what must happen at some time."""

SETTLEMENTS = 3
"""How many payments to wait for before a host is killed; four buyers pay at once."""

LOST_COMMITS = 2

DEPOSED = ("collector lost the lease", "collector cannot use the database")
FELL_BACK, SHARED = "rate limits are counted per worker", "rate limits are shared between workers"


class Drill:
    """Breaks one part after the other while the traffic goes on."""

    def __init__(self, cluster: Cluster, traffic: Traffic) -> None:
        self.cluster = cluster
        self.traffic = traffic
        self.webs = [cluster.hosts[each] for each in WEB]
        self.first, self.second = self.webs
        self.parts = (
            *(self.break_web, self.break_postgresql),
            *(self.break_leader, self.break_standby, self.break_valkey),
        )

    def wait(self, look: Callable[[], bool], what: str) -> None:
        eventually(lambda: look() or self.traffic.wrong or None, what, EVENT_SECONDS)
        assert self.traffic.wrong == []

    def until_works(self, *hosts: Host) -> None:
        """Wait until every kind of request, sent from now on, is answered in full."""
        moment = system_clock()
        names = [each.name for each in hosts] or WEB
        self.wait(lambda: self.traffic.works_since(moment, names), f"all answers of {names}")

    def until_status(self, who: str, status: int, *hosts: Host) -> None:
        """Wait until each of the hosts answers a kind of request with a status once more."""
        before = {each.name: self.traffic.count(who, each.name, status) for each in hosts}
        self.wait(
            lambda: all(self.traffic.count(who, name, status) > n for name, n in before.items()),
            f"{status} for {who}",
        )

    @contextmanager
    def fault(
        self, name: str, *impaired: str, recover: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """Break a part and bring it back inside; afterwards everything works again everywhere."""
        with self.traffic.impaired(impaired):
            yield
            started = time.monotonic()
            (recover or self.until_works)()
        print(f"{name:<56} {time.monotonic() - started:5.1f} s")  # noqa: T201 - for people

    def break_web(self) -> None:
        host, other = self.first, self.second
        with self.fault("a web worker is killed", host.name):
            before = {each.pid for each in host.workers()}
            host.workers()[0].kill()
            self.wait(lambda: bool({each.pid for each in host.workers()} - before), "a new worker")
        with self.fault("a web worker is frozen", host.name), frozen(host.workers()[:1]):
            self.until_works(other)
        with self.fault("a web host is killed while it settles payments", host.name):
            self.cluster.break_facilitator("settle-timeout", on=True)
            self.wait(lambda: self.cluster.query(_SETTLING)[0][0] >= SETTLEMENTS, "payments")
            host.kill()
            self.cluster.break_facilitator("settle-timeout", on=False)
            self.until_works(other)
            host.start()
        with self.fault("a web host is frozen", host.name), frozen(host.family()):
            self.until_works(other)

    def break_postgresql(self) -> None:
        host, other = self.first, self.second
        with self.fault("PostgreSQL is killed"):
            self.cluster.kill_postgresql()
            self.until_status(FEED_NOW, 503, host, other)
            self.cluster.postgresql.start()
        with self.fault("PostgreSQL is frozen"), frozen(self.cluster.postgresql_family()):
            self.until_status(FEED_NOW, 503, host, other)
        with self.fault("a web host can't reach PostgreSQL"):
            self.stall_at_commit(host)
            self.until_status(FEED_NOW, 503, host)
            self.until_status(MARKET, 502, host)
            self.wait(lambda: _status(host).get("database") == "down", "a database that is down")
            self.until_works(other)
            host.postgresql.heal()
        with self.fault("a web host's connections to PostgreSQL are reset"):
            host.postgresql.reset()
            self.until_status(FEED_NOW, 503, host)
            self.until_works(other)
            host.postgresql.heal()
        with self.fault("connections break during COMMIT"):
            links = [self.traffic.link, *(each.postgresql for each in self.cluster.hosts.values())]
            for each in links:
                each.at_commit = [AtCommit.LOSE, AtCommit.LOSE_REPLY] * LOST_COMMITS
            self.wait(lambda: not any(each.at_commit for each in links), "broken connections")

    def break_leader(self) -> None:
        leader, standby, token = self.election()
        with self.fault("the leading collector is killed"):
            leader.kill()
        self.require_leader(standby, token)
        self.restart(leader)
        leader, standby, token = self.election()
        with self.notices(leader):
            with frozen(leader.family()), self.fault("the leading collector is frozen"):
                pass
            self.require_leader(standby, token)
        leader, standby, token = self.election()
        with self.notices(leader):
            with self.fault("the leading collector can't reach PostgreSQL"):
                self.stall_at_commit(leader)
            self.require_leader(standby, token)
            leader.postgresql.heal()

    def break_standby(self) -> None:
        _, standby, token = self.election()
        with self.fault("the standby collector is killed"):
            standby.kill()
        self.restart(standby)
        with self.fault("the standby collector is frozen"), frozen(standby.family()):
            self.until_works()
        with self.fault("the standby collector's connections are reset"):
            standby.postgresql.reset()
            self.until_works()
            standby.postgresql.heal()
        leader, standby, token = self.election()
        with self.fault("the other collector leads after all of this"):
            leader.kill()
        self.require_leader(standby, token)

    def break_valkey(self) -> None:
        valkey, exact = self.cluster.valkey, self.require_exact_limit
        with self.fault("Valkey is killed", recover=exact):
            valkey.kill()
            self.require_fallback(*self.webs)
            valkey.restart()
        with (
            self.fault("Valkey is frozen", recover=exact),
            frozen([psutil.Process(valkey.process.pid)]),
        ):
            self.require_fallback(*self.webs)
        with self.fault("a web host can't reach Valkey", recover=exact):
            self.first.valkey.stall()
            self.require_fallback(self.first)
            self.first.valkey.heal()
        with self.fault("a web host's connections to Valkey are reset", recover=exact):
            self.first.valkey.reset()
            self.require_fallback(self.first)
            self.first.valkey.heal()

    def stall_at_commit(self, host: Host) -> None:
        """Cut a host off from PostgreSQL while it holds the write lock."""
        host.postgresql.at_commit = [AtCommit.STALL]
        self.wait(lambda: host.postgresql.is_stalled, f"a write of {host.name}")

    def election(self) -> tuple[Host, Host, int]:
        """The leader, the standby and the leader's token."""
        leader = self.cluster.leader()
        return leader, self.cluster.standby(), self.cluster.leader_token()

    def require_leader(self, host: Host, token: int) -> None:
        """Check that this host took over from the leader with that token."""
        assert self.cluster.leader_token() > token
        assert self.cluster.leader() is host

    def restart(self, host: Host) -> None:
        """Start a collector again. On a slow machine it may lead at once."""

        def starts() -> int:
            return host.logged("collector leads") + host.logged("collector waits for the lease")

        before = starts()
        host.start()
        self.wait(lambda: starts() > before, f"{host.name} back")

    @contextmanager
    def notices(self, leader: Host) -> Iterator[None]:
        """Wait at the end until a leader has noticed that it was replaced."""

        def noticed() -> int:
            return sum(leader.logged(each) for each in DEPOSED)

        before = noticed()
        yield
        self.wait(lambda: noticed() > before, f"{leader.name} deposed")

    def require_fallback(self, *hosts: Host) -> None:
        """Each worker of these hosts counts for itself, and says so."""
        self.wait(
            lambda: all(_status(each).get("limits") == "degraded" for each in hosts), "a fallback"
        )
        counts = self.burst(ANONYMOUS * (2 * WORKERS + 1))
        assert ANONYMOUS <= counts[200] <= ANONYMOUS * 2 * WORKERS

    def require_exact_limit(self) -> None:
        """Only the documented fallback, which is logged, lets more requests through."""

        def is_exact() -> bool:
            fallbacks, without = self.logged(FELL_BACK), self.logged(FELL_BACK, SHARED)
            counts = self.burst(ANONYMOUS + 30)
            is_exact = counts == {200: ANONYMOUS, 429: 30}
            assert is_exact or without or self.logged(FELL_BACK) > fallbacks, counts
            return is_exact

        self.wait(is_exact, "a limit that all workers share")

    def logged(self, event: str, end: str | None = None) -> int:
        """How often the web hosts logged an event, less what ended it."""
        ended = 0 if end is None else sum(each.logged(end) for each in self.webs)
        return sum(each.logged(event) for each in self.webs) - ended

    def settle_all(self) -> bool:
        """Send open proofs again, and have the operator resolve what requests left behind."""
        is_settled = self.cluster.background.run(self.traffic.settle_all())
        if not is_settled:
            self.first.run("payments", "reconcile")
        return is_settled

    def burst(self, requests: int) -> Counter[int]:
        return self.cluster.background.run(self.traffic.burst(requests))


def _status(host: Host) -> dict[str, Any]:
    """The status by one of the host's workers: the whole service's, and each check's."""
    answer = get(f"{host.base_url}/api/status")
    if answer is None:
        return {}
    body = answer.json()
    return {"": body["status"], **{each["name"]: each["status"] for each in body["checks"]}}


@pytest.mark.outcome(
    "A web host or worker can't reach the database",
    "It serves from memory until the freshness limit, then returns 502; subscribers and "
    "payers get 503. `/api/status` shows the database as `down`.",
)
@pytest.mark.outcome(
    "PostgreSQL restarts, is killed or freezes",
    "Every process reconnects. Nothing that was acknowledged is lost, and no request fails "
    "afterwards.",
)
@pytest.mark.outcome(
    "The leading collector freezes, or can't reach PostgreSQL",
    "Another takes over when the lease expires. The old one writes nothing when it is back, "
    "and goes on standby.",
)
@pytest.mark.outcome(
    "The service dies while the facilitator settles a payment",
    "After two minutes, the collector asks the chain. Either nothing was charged, or the "
    "same proof gets what it paid for.",
)
def test_a_cluster_survives_its_parts(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        eventually(lambda: cluster.query(_FIRST, 1) or None, "the first stance", EVENT_SECONDS)
        with running_traffic(cluster) as traffic:
            drill = Drill(cluster, traffic)
            drill.until_works()
            for break_part in drill.parts:
                break_part()
                drill.require_exact_limit()
            traffic.finish()
            drill.wait(drill.settle_all, "the outcome of every purchase")
            drill.wait(
                lambda: all(_status(each).get("") == "ok" for each in drill.webs), "a good status"
            )
        print(traffic.summary())  # noqa: T201
        _require_one_leader_at_a_time(cluster)
        _require_whole_record(cluster, traffic)
        _require_exact_charges(cluster, traffic)


def _require_one_leader_at_a_time(cluster: Cluster) -> None:
    """Every write of a collector was made while it held the lease; each token has one holder."""
    writes = cluster.leader_writes()
    assert [each for each in writes if each.holder_pid not in cluster.hosts[each.host].pids] == []
    tokens = [each.token for each in writes]
    assert tokens == sorted(tokens)
    assert len({(each.token, each.holder) for each in writes}) == len(set(tokens))


def _require_whole_record(cluster: Cluster, traffic: Traffic) -> None:
    """What was acknowledged is recorded once, and no response fell behind it."""
    assert cluster.hosts[WEB[0]].run("stances", "verify").count("all as recorded") >= 1
    rows = cluster.query(_VERSIONS, 1)
    sequences = {digest: sequence for sequence, digest, _ in rows}
    for each in traffic.recorded:
        assert sequences[each.after.history_digest] == each.after.sequence
    reasons = Counter(
        each["decision"]["rationale"]
        for each in (msgspec.json.decode(document)["leg"] for _, _, document in rows)
        if each["decision"]["by"] == "operator"
    )
    assert set(reasons.values()) == {1}
    assert set(traffic.refused).isdisjoint(reasons)
    assert [each for each in traffic.seen if sequences[each.digest] < each.at_least] == []


def _require_exact_charges(cluster: Cluster, traffic: Traffic) -> None:
    """Who was charged got what they paid for, once, and nobody else got anything."""
    file = cluster.world / FILE_NAME
    moved = {
        (each.payer, each.nonce)
        for each in msgspec.json.decode(file.read_bytes(), type=list[Transfer])
    }
    served = [each for each in traffic.purchases if each.outcome == 200]
    assert moved == {each.transfer for each in served}
    assert cluster.query(_STATES) == [("settled", len(served))]
    periods = sum(each.path == FEED_PATH for each in served)
    ((granted,),) = cluster.query(_GRANTED)
    assert granted == periods * 30 * DAY


_SETTLING = "SELECT count(*) FROM payments WHERE state = 'settling'"
_FIRST = f"SELECT 1 FROM stance_versions WHERE kind = '{KIND}'"
_VERSIONS = f"""
SELECT sequence, history_digest, document FROM stance_versions WHERE kind = '{KIND}'
ORDER BY sequence
"""
_STATES = """
SELECT state, count(*) FROM payments WHERE state NOT IN ('released', 'failed') GROUP BY state
"""
_GRANTED = """
SELECT CAST(sum(ends_at - starts_at) AS BIGINT) FROM entitlements WHERE holder_kind = 'wallet'
"""
