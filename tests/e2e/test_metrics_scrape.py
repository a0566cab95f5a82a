"""Metrics of running processes, and the page and alerts about them."""

import json
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import yaml

from barograph.kit.metrics import FAMILIES
from support.metrics import Samples, parse
from support.processes import HOST, answer_200, eventually, running, unused_port
from support.published_server import published_server

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "prometheus-alerts.yml"
PROMTOOL = ROOT / ".venv" / "bin" / "promtool"
STATE = "/api/agent/market-state"
READS = f"barograph_request_seconds_count {STATE} 200"
HALF = b"GET /readyz HTTP/1.1\r\nHost: barograph\r\n"


class Scraped(NamedTuple):
    """A server of two workers with metrics."""

    base_url: str
    port: int

    def until(self, is_true: Callable[[Samples], bool]) -> Samples:
        def look() -> Samples | None:
            answer = answer_200(f"http://{HOST}:{self.port}/metrics")
            found = parse("" if answer is None else answer.text)
            return found if is_true(found) else None

        return eventually(look, "a value")

    def serving(self) -> int | None:
        """The process that serves the metrics."""
        listening = [each for each in psutil.net_connections() if each.status == "LISTEN"]
        return next((each.pid for each in listening if (self.port in each.laddr)), None)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    port = unused_port()
    folder = tmp_path_factory.mktemp("scraped")
    with published_server(folder, BAROGRAPH_METRICS_PORT=str(port)) as base_url:
        yield Scraped(base_url, port)


@pytest.mark.outcome(
    "The process that serves metrics is killed",
    "Another takes over within seconds. No counter goes backwards.",
)
def test_another_process_serves_the_metrics_after_a_kill(scraped: Scraped) -> None:
    scraped.until(lambda found: found.get("barograph_processes web") == 2)
    assert all(answer_200(f"{scraped.base_url}{STATE}") for _ in range(10))
    before = scraped.until(lambda found: found.get(READS, 0) >= 11)
    first = eventually(scraped.serving, "the serving process")
    psutil.Process(first).kill()
    eventually(lambda: (scraped.serving() or first) != first or None, "another one")
    assert answer_200(f"{scraped.base_url}{STATE}")
    scraped.until(lambda found: found.get(READS, 0) > before[READS])


def test_a_client_that_sends_nothing_is_disconnected(scraped: Scraped) -> None:
    with socket.create_connection((HOST, scraped.port), 30) as silent:
        assert silent.recv(1) == b""


def test_the_page_and_the_alerts_name_the_metrics() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    rows = re.findall(r"^\| `(barograph_\w+)` \| (\w+) \| (.*) \| (.*) \|$", page, re.MULTILINE)
    for row, each in zip(rows, FAMILIES, strict=True):
        labels = ", ".join(f"`{label}`" for label in each.labels.split())
        assert row == (each.name, each.kind.replace("age", "gauge"), labels, each.help)
    used = re.findall(r"barograph_\w+", " ".join(rule["expr"] for rule in rules()))
    assert {name.removesuffix("_count") for name in used} <= {each.name for each in FAMILIES}
    alerts = re.findall(r"^\| `(Barograph\w+)`", page, re.MULTILINE)
    assert [rule["alert"] for rule in rules()] == alerts


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"][0]["rules"]
    return found


CASES = {
    "DataStale": ('barograph_feed_age_seconds{feed="perpetuals"}', "61+0x30", "59+0x30"),
    "NoLeader": ("barograph_leader", "0+0x30", "1+0x30"),
    "DatabaseDown": ('barograph_database_up{database="history"}', "0+0x30", "1+0x30"),
    "ServerErrors": ('barograph_request_seconds_count{status="502"}', "0+20x30", "0+5x30"),
    "PaymentUnresolved": (
        'barograph_payments_oldest_open_age_seconds{state="unknown"}', "901+0x30", "899+0x30"
    ),
}  # fmt: skip
"""By alert: a metric, values that must fire the alert, and values that must not."""

LABELS = {"DatabaseDown": {"database": "history"}, "PaymentUnresolved": {"state": "unknown"}}
OTHERS = {
    "barograph_leader": "1+0x30",
    'barograph_request_seconds_count{route="/readyz",status="503"}': "0+1000x30",
    'barograph_request_seconds_count{status="200"}': "0+1000x30",
}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_fires_when_it_should_and_stays_quiet_otherwise(
    tmp_path: Path, rule: dict[str, Any]
) -> None:
    name = rule["alert"].removeprefix("Barograph")
    series, bad, good = CASES[name]
    labels = {**rule["labels"], **LABELS.get(name, {})}
    summary = rule["annotations"]["summary"].replace("{{ $labels.state }}", "unknown")
    fired = {"exp_labels": labels, "exp_annotations": {"summary": summary}}
    tests = [
        {
            "interval": "1m",
            "input_series": [
                {"series": one, "values": text} for one, text in {**OTHERS, series: values}.items()
            ],
            "alert_rule_test": [
                {"eval_time": at, "alertname": rule["alert"], "exp_alerts": alerts}
                for at, alerts in (("0m", []), ("20m", later))
            ],
        }
        for values, later in ((bad, [fired]), (good, []))
    ]
    file = tmp_path / "test.yml"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "tests": tests}))
    promtool("check", "rules", str(ALERTS))
    promtool("test", "rules", str(file))


def promtool(*arguments: str) -> None:
    assert PROMTOOL.exists(), "promtool is missing: run `make load-tools`"
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.outcome(
    "The web server is told to stop",
    "`/readyz` returns 503 on connections that are still open; requests in progress finish.",
)
def test_a_host_is_not_ready_from_the_moment_it_is_told_to_stop(tmp_path: Path) -> None:
    port = unused_port()
    arguments = ("serve", "--port", str(port), "--workers", "2", "--data", str(tmp_path))
    with running(*arguments, log=tmp_path / "log") as process, ExitStack() as stack:
        eventually(lambda: answer_200(f"http://{HOST}:{port}/healthz"), "the first answer")
        opened = [
            stack.enter_context(socket.create_connection((HOST, port), 30)) for _ in range(20)
        ]
        for each in opened:
            each.sendall(HALF)
        assert all(answer_200(f"http://{HOST}:{port}/healthz") for _ in range(20))
        process.popen.terminate()
        answers = [_finish(each) for each in opened]
        assert any(b'{"status":"stopping"}' in answer for answer in answers)
        assert not any(b" 200 " in answer for answer in answers)


def _finish(connection: socket.socket) -> bytes:
    try:
        connection.sendall(b"\r\n")
        return connection.recv(4_096)
    except ConnectionError:
        return b""
