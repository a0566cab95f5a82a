"""The web server as a process: each of its defaults that would hurt is held here."""

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from barograph import __version__
from support.payments import PAYMENTS
from support.processes import (
    HOST,
    PYTHON,
    Process,
    answer_200,
    eventually,
    get,
    none_left,
    running,
    unused_port,
)

pytestmark = pytest.mark.e2e

STALLED = (
    b"POST /api/mcp HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n"
    b"Content-Length: 9000\r\n\r\n{"
)
"""The beginning of a request whose body never arrives."""

SERVE_WITH_LITTLE_MEMORY = """
from barograph.cli.common import prepare_databases, read_settings
from barograph.web.server import run_server

settings = read_settings()
prepare_databases(settings)
run_server(settings, worker_memory_mb=16)
"""


class Web(NamedTuple):
    """`barograph serve` on a port of its own."""

    process: Process
    port: int

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/api/agent"

    def workers(self) -> list[psutil.Process]:
        return self.process.family()[1:]

    def wait(self) -> None:
        eventually(lambda: answer_200(self.address), "an answer")


@contextmanager
def serving(folder: Path, *arguments: str, **environment: str) -> Iterator[Web]:
    port = unused_port()
    command = ("serve", "--port", str(port), "--data", str(folder), *arguments)
    with running(*command, log=folder / "log", **environment) as process:
        yield Web(process, port)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    with serving(tmp_path, "--workers", "2") as found:
        found.wait()
        yield found


@pytest.mark.outcome(
    "A process of the service dies",
    "It is started again. The others keep answering.",
)
def test_killed_worker_is_replaced_and_the_service_goes_on(web: Web) -> None:
    before = {each.pid for each in web.workers()}
    assert len(before) == 2
    psutil.Process(min(before)).kill()
    web.wait()
    eventually(lambda: _two_others(web, before), "a new worker")
    assert all(answer_200(web.address) for _ in range(20))


@pytest.mark.outcome(
    "You send SIGTERM or press Ctrl-C",
    "All processes stop within seconds and leave nothing behind.",
)
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)]
)
def test_signal_stops_the_server_with_open_connections(web: Web, number: int) -> None:
    family = web.process.family()
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(socket.create_connection((HOST, web.port))).send(b"GET / HT")
        assert web.process.stop(number) < 30
    assert none_left(family)


@pytest.mark.thorough
def test_server_stops_even_when_it_just_started(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as web:
        eventually(lambda: web.workers() or None, "the first worker")
        family = web.process.family()
        assert web.process.stop() < 30
        assert none_left(family)


@pytest.mark.thorough
def test_idle_connections_do_not_keep_others_out(web: Web) -> None:
    with ExitStack() as stack:
        for _ in range(1_100):
            stack.enter_context(socket.create_connection((HOST, web.port)))
        assert answer_200(web.address) is not None


@pytest.mark.thorough
@pytest.mark.parametrize("before", ["ulimit -Sn 100", "ulimit -n 100"])
def test_stalled_bodies_end_and_the_file_limit_is_never_reached(
    tmp_path: Path, before: str
) -> None:
    with serving(tmp_path, before=before) as web:
        web.wait()
        for worker in web.workers():
            soft, hard = worker.rlimit(psutil.RLIMIT_NOFILE)
            assert soft == hard
        with ExitStack() as stack:
            stalled = [socket.create_connection((HOST, web.port), 60) for _ in range(150)]
            for each in stalled:
                stack.enter_context(each).sendall(STALLED % f"{HOST}:{web.port}".encode())
            web.wait()
            for each in stalled:
                answer = each.makefile("rb").read()  # until the server closes
                assert answer.startswith(b"HTTP/1.1 408 ")
                assert answer.endswith(b'{"error":"the request body did not arrive in time"}')
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.thorough
def test_a_body_that_nobody_waits_for_does_not_hold_its_connection(web: Web) -> None:
    with socket.create_connection((HOST, web.port), 60) as one:
        one.sendall(b"GET /api/agent HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        assert one.makefile("rb").read().startswith(b"HTTP/1.1 200 ")


@pytest.mark.thorough
def test_a_worker_over_its_memory_is_replaced(tmp_path: Path) -> None:
    port, log = unused_port(), tmp_path / "log"
    settings = {"BAROGRAPH_PORT": str(port), "BAROGRAPH_DATA": str(tmp_path)}
    with ExitStack() as stack:
        process = Process("-c", SERVE_WITH_LITTLE_MEMORY, log=log, command=PYTHON, **settings)
        stack.callback(process.end)
        eventually(lambda: "RSS over threshold" in log.read_text(), "the reason")
        eventually(lambda: answer_200(Web(process, port).address), "an answer")


@pytest.mark.thorough
@pytest.mark.outcome(
    "The port is in use",
    "The service refuses to start and says what to do.",
)
def test_second_server_on_the_same_port_is_refused(web: Web, tmp_path: Path) -> None:
    log = tmp_path / "second"
    with running("serve", "--port", str(web.port), "--data", str(tmp_path), log=log) as second:
        assert second.popen.wait(20) == 3
    assert f"{HOST}:{web.port} cannot be used" in log.read_text()
    assert answer_200(web.address) is not None


@pytest.mark.thorough
def test_doctor_recognises_the_running_service(web: Web, tmp_path: Path) -> None:
    nowhere = f"http://{HOST}:{unused_port()}"
    environment = {
        "BAROGRAPH_HOST": "0.0.0.0",
        "BAROGRAPH_PORT": str(web.port),
        "BAROGRAPH_EXCHANGE_REST_URL": nowhere,
        **{f"BAROGRAPH_{name}_URL": nowhere for name in ("RATES", "ETF")},
        **{f"BAROGRAPH_{name}_URL": nowhere for name in ("HYPERLIQUID", "BINANCE_REST")},
    }
    told = f"port: Barograph {__version__} is running on 0.0.0.0:{web.port}"
    elsewhere = tmp_path / "elsewhere"
    for data, said in (
        (tmp_path, f"ok   {told}\n"),
        (elsewhere, f"FAIL {told} with another data folder"),
    ):
        log = tmp_path / "doctor"
        with running("doctor", "--data", str(data), log=log, **environment) as doctor:
            doctor.popen.wait(60)
        assert said in log.read_text()


@pytest.mark.outcome(
    "The server's parent process is killed",
    "Its workers stop too.",
)
def test_workers_end_when_their_parent_is_killed(web: Web) -> None:
    family = web.process.family()
    web.process.popen.kill()
    web.process.popen.wait()
    eventually(lambda: none_left(family) or None, "the end of all workers")


def _two_others(web: Web, before: set[int]) -> bool | None:
    now = {each.pid for each in web.workers()}
    return (len(now) == 2 and now != before) or None


@pytest.mark.thorough
@pytest.mark.outcome(
    "Payments are configured, but `selling` is not confirmed",
    "Nothing is for sale: paid endpoints return `not_found`. `/api/status` and the log say why.",
)
def test_nothing_is_sold_before_selling_is_confirmed(tmp_path: Path) -> None:
    payments = {f"BAROGRAPH_{name.upper()}": value for name, value in PAYMENTS.items()}
    for terms, status in (("", 404), ("selling", 402)):
        with serving(tmp_path, BAROGRAPH_ACCEPT_TERMS=terms, **payments) as web:
            web.wait()
            root = f"http://{HOST}:{web.port}"
            answer, checks = get(f"{root}/api/x402/feed"), get(f"{root}/api/status")
        assert answer is not None
        assert checks is not None
        assert answer.status_code == status
        assert ("add selling to BAROGRAPH_ACCEPT_TERMS" in checks.text) is (status == 404)
    assert (tmp_path / "log").read_text().count("selling is not confirmed") == 1
