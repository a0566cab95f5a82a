"""Hot reads from the cache of nginx, beside a file that nginx serves with the same headers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate, parsedate_to_datetime
from functools import partial
from pathlib import Path

import httpx2

from barograph.markets.documents import MARKET_STATE_PATH
from benchmarks import bench, load
from benchmarks.hot_reads import ROUND_SECONDS, Contender
from benchmarks.market import benchmark_settings, publish_market
from support.nginx import Nginx, Upstream, http_reply, running_nginx

TITLE = "nginx with deploy/nginx.conf, over TLS: hot reads from its cache"
FILE_SHARE = 0.9
TARGETS = {"file": "/file/one", "cache": MARKET_STATE_PATH, "twin": "/file/two"}
READERS = (10, 200)
COUNT_SECONDS, QUICK_SECONDS = 15, 1
OF_THE_SERVER = ("server", "date", "content-length")
FROM_NGINX = ("content-type", "last-modified")
"""Header fields that nginx itself adds to a file."""

FREE_READS = "    location / {\n        proxy_pass"
_FILES = """
    location /file/ {{
        root {pages};
        default_type application/json;
        etag off;
        max_ranges 0;
        add_header Strict-Transport-Security "max-age=31536000" always;
        {fields}
    }}
"""


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """CPU time of nginx, then requests to the service with few and with many readers."""
    settings = benchmark_settings(folder)
    publish_market(settings)
    with bench.web_service(settings) as child:
        answer = Contender(child, settings.port).answer(MARKET_STATE_PATH)
    seconds = plan.size(COUNT_SECONDS, QUICK_SECONDS)
    with _nginx(folder, answer) as (nginx, service):
        _check_same(nginx)
        # The cache is measured between the two files.
        cases = {name: partial(_rate, nginx, target) for name, target in TARGETS.items()}
        rates = bench.alternate(cases, plan.rounds)
        name = f"cache / file, {len(answer.body):,} bytes"
        figures = bench.between(rates, name, "file", FILE_SHARE)
        figures += [_origin_requests(nginx, service, readers, seconds) for readers in READERS]
    return bench.Section(TITLE, figures)


@contextmanager
def _nginx(folder: Path, answer: bench.Answer) -> Iterator[tuple[Nginx, Upstream]]:
    """Run nginx in front of a host that sends this answer and counts its requests."""
    headers = [each for each in answer.headers if each[0] not in OF_THE_SERVER]
    sent = [(name.encode(), value.encode()) for name, value in headers]

    def reply(_: bytes) -> bytes:
        return http_reply(answer.body, *sent, (b"Date", formatdate(usegmt=True).encode()))

    pages = folder / "nginx/pages"
    ours = (f"add_header {each[0]} '{each[1]}';" for each in headers if each[0] not in FROM_NGINX)
    changes = {
        "worker_processes 2": "worker_processes 1",
        "limit_conn barograph_address 100": "limit_conn barograph_address 1000",
        FREE_READS: _FILES.format(pages=pages, fields="".join(ours)) + FREE_READS,
    }
    with (
        Upstream(reply).running() as service,
        running_nginx(folder / "nginx", service.address, changes=changes) as nginx,
    ):
        (pages / "file").mkdir(parents=True)
        modified = parsedate_to_datetime(dict(answer.headers)["last-modified"]).timestamp()
        for name in ("one", "two"):
            (pages / "file" / name).write_bytes(answer.body)
            os.utime(pages / "file" / name, (modified, modified))
        yield nginx, service


def _check_same(nginx: Nginx) -> None:
    """Compare only responses with the same headers and bytes."""
    found = [nginx.get(target) for target in TARGETS.values()]
    if len({_undated(each) for each in found}) != 1:
        raise bench.BenchmarkFailed(
            f"the file and the cache differ: {[each.headers for each in found]}"
        )


def _undated(answer: httpx2.Response) -> tuple[object, ...]:
    fields = (each for each in answer.headers.multi_items() if each[0] != "date")
    return (*sorted(fields), answer.content)


def _rate(nginx: Nginx, target: str) -> float:
    """Requests per CPU-second of nginx."""
    before = bench.cpu_seconds(nginx.workers())
    answered = load.requests_in(nginx.port, target, ROUND_SECONDS, scheme="https")
    return answered / (bench.cpu_seconds(nginx.workers()) - before)


def _origin_requests(nginx: Nginx, service: Upstream, readers: int, seconds: int) -> bench.Figure:
    before = len(service.heads)
    answered = load.requests_in(
        nginx.port, MARKET_STATE_PATH, seconds, connections=readers, scheme="https"
    )
    asked = len(service.heads) - before
    measured = f"{answered / seconds:,.0f}, to the service {asked / seconds:.2f}"
    return bench.Figure(f"{readers:,} readers, requests per second to nginx", measured)
