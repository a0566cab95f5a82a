"""Two web processes behind nginx: one of them is restarted or killed while everybody reads."""

import asyncio
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event

import pytest

from barograph.kit.clock import system_clock
from barograph.settings import Settings
from barograph_demo.servers.identity import demo_token
from support.entitled_server import EntitledServer
from support.nginx import ROOT, Nginx, Upstream, http_reply, running_nginx
from support.payments import PAYMENTS
from support.processes import HOST, Process, answer_200, eventually, get, unused_port
from support.published_server import LASTING, publish
from support.subscribers import FEED_NOW, STANCE_READS

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

PERPETUAL = "/api/agent/derivatives?symbol=BTC&n={}"
"""Each number is another address, so that no answer comes from the cache of nginx."""

PAID = STANCE_READS["rates-desk"]


class Site:
    """Two web processes on one database, and nginx in front of them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._numbers = count()
        self._server = EntitledServer(folder)
        asyncio.run(publish(Settings(data=folder / "data", exchange_source="test venue")))
        stack.enter_context(self._server.provider())
        eventually(lambda: get(self._server.identity_url), "the provider")
        self.processes: dict[str, Process] = {}
        for address in (f"{HOST}:{unused_port()}", f"{HOST}:{unused_port()}"):
            self.start(address)
            stack.callback(self.end, address)
            eventually(partial(answer_200, f"http://{address}/readyz"), address)
        self.nginx: Nginx = stack.enter_context(running_nginx(folder / "nginx", *self.processes))
        now, url = system_clock(), self._server.identity_url
        self.token = demo_token(folder / "world", "feed", now, url)

    def start(self, address: str) -> None:
        port = address.rpartition(":")[2]
        payments = {f"BAROGRAPH_{name.upper()}": value for name, value in PAYMENTS.items()}
        payments["BAROGRAPH_ACCEPT_TERMS"] = "selling"
        settings = {**self._server.environment(), **LASTING, **payments, "BAROGRAPH_PORT": port}
        log = self.folder / f"web{port}.log"
        self.processes[address] = Process("serve", log=log, **settings)

    def end(self, address: str) -> None:
        self.processes[address].end()

    def read_free(self) -> int:
        return self.nginx.get(PERPETUAL.format(next(self._numbers))).status_code

    @contextmanager
    def traffic(self, *reads: Callable[[], int]) -> Iterator[Counter[int]]:
        """Everybody reads, again and again; the statuses are counted."""
        seen: Counter[int] = Counter()
        is_over = Event()

        def read_on(read: Callable[[], int]) -> None:
            while not is_over.is_set():
                seen[read()] += 1

        with ThreadPoolExecutor(len(reads)) as pool:
            reading = [pool.submit(read_on, read) for read in reads]
            try:
                eventually(lambda: sum(seen.values()) >= 20, "traffic")
                yield seen
                so_far = sum(seen.values())
                eventually(lambda: sum(seen.values()) >= so_far + 20, "traffic afterwards")
            finally:
                is_over.set()
        for each in reading:
            each.result()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path_factory.mktemp("site"), stack)


@pytest.mark.outcome(
    "You restart or upgrade every web process with `deploy/rolling-restart.sh`",
    "No request fails.",
)
def test_a_rolling_restart_fails_no_request(site: Site) -> None:
    wanted = site.folder / "wanted"
    wanted.mkdir()
    first = {each.pid for each in site.processes.values()}
    command = f'touch "{wanted}/$1"; while test -e "{wanted}/$1"; do sleep 0.1; done'
    script = (str(ROOT / "deploy/rolling-restart.sh"), str(site.nginx.hosts_file), command)
    settings = {
        "NGINX": " ".join(site.nginx.command),
        "NGINX_PID": str(site.nginx.folder / "pid"),
        "PATH": "/usr/sbin:/usr/bin:/bin",
    }
    reads = (
        site.read_free,
        site.read_free,
        lambda: site.nginx.get(FEED_NOW, authorization=f"Bearer {site.token}").status_code,
        lambda: site.nginx.get(PAID).status_code,
    )
    with site.traffic(*reads) as seen, (site.folder / "script.log").open("w") as log:
        running = subprocess.Popen(script, env=settings, stdout=log, stderr=log)
        for _ in site.processes:
            eventually(lambda: running.poll() is not None or any(wanted.iterdir()), "a restart")
            (request,) = wanted.iterdir()
            site.processes[request.name].stop()
            site.start(request.name)
            request.unlink()
        assert running.wait(120) == 0, (site.folder / "script.log").read_text()
    assert set(seen) == {200, 402}
    assert first.isdisjoint(each.pid for each in site.processes.values())
    assert "down" not in site.nginx.hosts_file.read_text()


@pytest.mark.outcome(
    "A web host behind nginx is lost",
    "Another host answers free reads. None fails.",
)
def test_a_killed_host_fails_no_free_read(site: Site) -> None:
    with site.traffic(*[site.read_free] * 3) as seen:
        site.end(min(site.processes))
    assert set(seen) == {200}


def test_a_second_rolling_restart_begins_with_the_process_that_failed(tmp_path: Path) -> None:
    hosts, log, pid = (tmp_path / each for each in ("hosts.conf", "restarted", "nginx.pid"))
    pid.write_text("none")
    command = f'echo "$1" >> {log}; test "$1" != "$(cat {tmp_path}/broken)"'
    with ExitStack() as stack:
        ready = [Upstream(lambda _: http_reply(b"")) for _ in range(2)]
        first, second = (stack.enter_context(each.running()).address for each in ready)
        before = f"server {first};\nserver {second} max_fails=3; # b\nserver {HOST}:9 down; # c\n"
        hosts.write_text(before)
        script = ROOT / "deploy/rolling-restart.sh"
        run = partial(
            subprocess.run,
            (script, hosts, command),
            env={"NGINX": "true", "NGINX_PID": str(pid), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        (tmp_path / "broken").write_text(second)
        failed = run()
        assert (failed.returncode, "run this again" in failed.stderr) == (1, True)
        assert f"server {second} max_fails=3 down; " in hosts.read_text()
        (tmp_path / "broken").write_text("none")
        assert run().returncode == 0
    assert log.read_text().split() == [first, second, second, first]
    assert hosts.read_text() == before
