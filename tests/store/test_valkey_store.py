"""Hosts that share one Valkey server: exact counts, and what happens when the server fails."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing

import pytest
import uvloop

from barograph.kit.timestamps import SECOND
from barograph.limits.rate_limits import ANONYMOUS, PERSONAL, LimitsUnavailable, RateLimit, Usage
from barograph.limits.stores import RETRY, FallbackStore, MemoryStore
from barograph.limits.valkey_store import CLOCK_KEY, ValkeyStore
from support.backends import run_together, start_python
from support.clock import HandClock
from support.valkey import Valkey, running_valkey

HOSTS = 4
PATIENT = "?socket_timeout=30"
"""For a server that works: the machine may be busy."""

IMPATIENT = "?socket_timeout=1"

HOST = """
import asyncio, sys
from barograph.kit.clock import system_clock
from barograph.limits.rate_limits import RateLimit
from barograph.limits.valkey_store import ValkeyStore

url, requests, window, attempts, until_accepted = sys.argv[1], *map(int, sys.argv[2:])

async def work():
    store, asked, spans = ValkeyStore(url, b"secret"), 0, []

    async def ask():
        began = system_clock()
        usage = await store.count(RateLimit("small", requests, window), "203.0.113.7")
        if usage.accepted:
            spans.append(f"{began},{system_clock()}")

    while asked < attempts or len(spans) < until_accepted:
        await asyncio.gather(*(ask() for _ in range(10)))
        asked += 10
    await store.close()
    print(*spans)

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(work())
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    with running_valkey() as server:
        yield server


@pytest.fixture
def valkey(server: Valkey) -> Iterator[Valkey]:
    with closing(server.connect()) as client:
        client.flushall()
        yield server
        server.thaw()
        client.config_set("maxmemory", 0)


class Host:
    """One worker's stores."""

    def __init__(self, valkey: Valkey, options: str = PATIENT) -> None:
        self.clock = HandClock()
        self.shared = ValkeyStore(valkey.url + options, b"secret")
        self.store = FallbackStore(self.shared, MemoryStore(self.clock), self.clock)

    async def count(self, caller: str = "a", *, times: int = 1) -> list[Usage]:
        """Count requests that arrive at once."""
        return await asyncio.gather(*(self.store.count(ANONYMOUS, caller) for _ in range(times)))

    async def accepted_of(self, attempts: int) -> int:
        return sum(usage.accepted for usage in await self.count(times=attempts))

    async def left(self, *, times: int = 1) -> list[int]:
        return [usage.remaining for usage in await self.count(times=times)]


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """An event loop like a worker's; the connections of a host belong to it."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner


@pytest.fixture
def host(valkey: Valkey, runner: asyncio.Runner) -> Iterator[Host]:
    host = Host(valkey)
    yield host
    runner.run(host.store.close())


@pytest.fixture
def impatient(valkey: Valkey, runner: asyncio.Runner) -> Iterator[Host]:
    host = Host(valkey, IMPATIENT)
    yield host
    runner.run(host.store.close())


def spans_of_hosts(*arguments: object) -> list[tuple[int, int]]:
    """Let hosts loose at the same moment; when each accepted request began and ended."""
    printed = run_together(start_python(HOST, *arguments) for _ in range(HOSTS))
    pairs = (span.split(",") for text in printed for span in text.split())
    return [(int(began), int(ended)) for began, ended in pairs]


@pytest.mark.thorough
@pytest.mark.contract("limits.signals.anonymous", "limits.signals.personal-key")
@pytest.mark.parametrize(
    "limit", [ANONYMOUS, pytest.param(PERSONAL, marks=pytest.mark.thorough)], ids=lambda it: it.name
)
def test_four_hosts_accept_exactly_as_many_as_the_limit(valkey: Valkey, limit: RateLimit) -> None:
    _, requests, window = limit
    granted = spans_of_hosts(valkey.url + PATIENT, requests, window, requests // 2, 0)
    assert len(granted) == requests


@pytest.mark.thorough
def test_four_hosts_keep_every_short_window_exact_as_it_moves(valkey: Valkey) -> None:
    requests, window = 20, 200
    granted = spans_of_hosts(valkey.url + PATIENT, requests, window, 0, 20)
    assert len(granted) >= HOSTS * 20
    for start, _ in granted:
        inside = [1 for began, ended in granted if start <= began and ended < start + window]
        assert len(inside) <= requests


@pytest.mark.outcome(
    "The rate-limit server (Valkey) restarts without its data",
    "Counts are lost. No request fails.",
)
async def test_restarted_server_begins_new_windows(valkey: Valkey, host: Host) -> None:
    assert await host.accepted_of(200) == 120
    valkey.restart()
    await host.count("b")  # may find the connection closed
    host.clock.now += RETRY
    assert await host.left() == [119]
    assert host.store.failing_since is None


async def test_server_that_forgot_the_script_gets_it_again(valkey: Valkey, host: Host) -> None:
    await host.count()
    with closing(valkey.connect()) as client:
        client.script_flush()
    assert await host.left(times=3) == [118, 117, 116]
    assert host.store.failing_since is None


async def test_worker_limits_by_itself_while_frozen(
    valkey: Valkey, host: Host, impatient: Host
) -> None:
    assert await host.accepted_of(50) == 50
    assert await impatient.accepted_of(20) == 20
    valkey.freeze()
    assert await impatient.accepted_of(200) == 50
    assert impatient.store.failing_since == impatient.clock.now
    valkey.thaw()
    impatient.clock.now += RETRY
    await impatient.store.probe()
    assert impatient.store.failing_since is None


@pytest.mark.outcome(
    "The rate-limit server (Valkey) is full, or refuses our user",
    "Each worker counts for itself and retries every second; `/api/status` reports it.",
)
async def test_worker_limits_by_itself_if_writes_are_refused(valkey: Valkey, host: Host) -> None:
    with closing(valkey.connect()) as client:
        client.config_set("maxmemory", 1)
    assert await host.accepted_of(200) == 120
    assert host.store.failing_since == host.clock.now


async def test_failure_names_neither_the_server_nor_its_password(valkey: Valkey) -> None:
    store = ValkeyStore(valkey.url.replace("//", "//user:hunter2@"), b"secret")
    with pytest.raises(LimitsUnavailable) as failure:
        await store.count(ANONYMOUS, "a")
    assert re.fullmatch(r"Valkey fails \(\w+\)", str(failure.value))
    await store.close()


@pytest.mark.thorough
async def test_busy_event_loop_does_not_use_up_the_timeout(valkey: Valkey, impatient: Host) -> None:
    await impatient.count()
    valkey.freeze()
    asked = asyncio.create_task(impatient.left())
    for _ in range(20):  # until the request is sent
        await asyncio.sleep(0)
    valkey.thaw()
    with closing(valkey.connect()) as client:
        client.blpop("nothing", timeout=1.5)  # longer than the timeout, and nothing else runs
    assert await asked == [118]
    assert impatient.store.failing_since is None


async def test_client_that_disconnects_costs_the_others_nothing(host: Host) -> None:
    asked = [asyncio.create_task(host.shared.count(ANONYMOUS, "a")) for _ in range(3)]
    await asyncio.sleep(0)
    asked[1].cancel()
    assert [(await each).remaining for each in (asked[0], asked[2])] == [119, 117]


async def test_server_holds_hashes_of_callers_and_forgets_them(valkey: Valkey, host: Host) -> None:
    await host.count("203.0.113.7")
    other = ValkeyStore(valkey.url + PATIENT, b"other")
    await other.count(ANONYMOUS, "203.0.113.7")
    await other.close()
    with closing(valkey.connect()) as client:
        callers = {str(each) for each in client.scan_iter()} - {CLOCK_KEY}
        lives = [client.pttl(each) for each in callers]
    assert len(callers) == 2
    assert all(re.fullmatch("barograph:limits:[0-9a-f]{16}", each) for each in callers)
    assert all(0 < each <= ANONYMOUS.window + SECOND for each in lives)
