"""The web server as a process: each of its defaults that would hurt is held here."""

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from barograph import __version__
from support.processes import (
    HOST,
    Process,
    answer_200,
    eventually,
    none_left,
    running,
    unused_port,
)

pytestmark = pytest.mark.e2e


class Web:
    """`barograph serve` on a port of its own."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.port = port
        self.address = f"http://{HOST}:{port}/api/agent"

    def workers(self) -> list[psutil.Process]:
        return self.process.family()[1:]


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    port = unused_port()
    arguments = ("serve", "--port", str(port), "--workers", "2", "--data", str(tmp_path))
    with running(*arguments, log=tmp_path / "log") as process:
        found = Web(process, port)
        eventually(lambda: answer_200(found.address), "the first answer")
        yield found


@pytest.mark.outcome("a web worker is killed", "it is replaced; the others go on answering")
def test_killed_worker_is_replaced_and_the_service_goes_on(web: Web) -> None:
    before = {each.pid for each in web.workers()}
    assert len(before) == 2
    psutil.Process(min(before)).kill()
    eventually(lambda: answer_200(web.address), "an answer of the other worker")
    eventually(lambda: _two_others(web, before), "a new worker")
    assert all(answer_200(web.address) for _ in range(20))


@pytest.mark.outcome("SIGTERM or Ctrl-C", "everything stops within seconds and leaves nothing")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_server_with_open_connections(web: Web, number: int) -> None:
    family = web.process.family()
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(socket.create_connection((HOST, web.port))).send(b"GET / HT")
        assert web.process.stop(number) < 8
    assert none_left(family)


def test_server_stops_even_when_it_just_started(tmp_path: Path) -> None:
    port = unused_port()
    arguments = ("serve", "--port", str(port), "--workers", "2", "--data", str(tmp_path))
    with running(*arguments, log=tmp_path / "log") as process:
        eventually(lambda: len(process.family()) > 1 or None, "the first worker")
        family = process.family()
        assert process.stop() < 8
        assert none_left(family)


@pytest.mark.outcome("1,100 idle connections are open", "others are answered as always")
def test_idle_connections_do_not_keep_others_out(web: Web) -> None:
    with ExitStack() as stack:
        for _ in range(1_100):
            stack.enter_context(socket.create_connection((HOST, web.port)))
        assert answer_200(web.address) is not None


@pytest.mark.outcome("the port is taken", "the second service refuses to start and says so")
def test_second_server_on_the_same_port_is_refused(web: Web, tmp_path: Path) -> None:
    log = tmp_path / "second"
    with running("serve", "--port", str(web.port), "--data", str(tmp_path), log=log) as second:
        assert second.popen.wait(20) == 3
    assert f"{HOST}:{web.port} cannot be used" in log.read_text()
    assert answer_200(web.address) is not None


def test_doctor_recognises_the_running_service(web: Web, tmp_path: Path) -> None:
    nowhere = f"http://{HOST}:{unused_port()}"
    environment = {
        "BAROGRAPH_HOST": "0.0.0.0",
        "BAROGRAPH_PORT": str(web.port),
        "BAROGRAPH_EXCHANGE_REST_URL": nowhere,
        "BAROGRAPH_EXCHANGE_STREAM_URL": nowhere.replace("http", "ws"),
        "BAROGRAPH_REQUEST_SECONDS": "1",
    }
    log = tmp_path / "doctor"
    with running("doctor", "--data", str(tmp_path), log=log, **environment) as doctor:
        doctor.popen.wait(60)
    said = f"ok   port: Barograph {__version__} is running on 0.0.0.0:{web.port}\n"
    assert said in log.read_text()


@pytest.mark.outcome("the server's parent is killed", "its workers end too")
def test_workers_end_when_their_parent_is_killed(web: Web) -> None:
    family = web.process.family()
    web.process.popen.kill()
    web.process.popen.wait()
    eventually(lambda: none_left(family) or None, "the end of all workers")


def _two_others(web: Web, before: set[int]) -> bool | None:
    now = {each.pid for each in web.workers()}
    return (len(now) == 2 and now != before) or None
