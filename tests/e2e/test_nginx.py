"""Debian's nginx with deploy/nginx.conf: what it caches, repeats, refuses and logs."""

import json
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

import httpx2
import pytest

from barograph.badges.contents import record_not_started
from barograph.badges.documents import KEEP_SECONDS, badge_document
from barograph.badges.endpoints import refused_badge
from barograph.kit.clock import system_clock
from barograph.kit.documents import Document
from barograph.kit.timestamps import SECOND, http_date
from support.nginx import Nginx, Reply, Upstream, http_reply, running_nginx
from support.processes import HOST, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

FREE = "/api/agent/market-state"
PAID = "/api/x402/rates-desk"
PRIVATE = (PAID, "/api/x402/feed", "/api/feed/now", "/api/agents/material-change")
CACHED = (b"Cache-Control", b"public, max-age=60")
SECRET = "secret-of-the-caller"


def plain(head: bytes) -> bytes:
    """What any host answers: the request, and that it may be cached."""
    return http_reply(head, CACHED)


@pytest.fixture
def hosts() -> Iterator[tuple[Upstream, Upstream]]:
    with Upstream(plain).running() as one, Upstream(plain).running() as other:
        yield one, other


@pytest.fixture
def nginx(tmp_path: Path, hosts: tuple[Upstream, Upstream]) -> Iterator[Nginx]:
    with running_nginx(tmp_path / "nginx", *(each.address for each in hosts)) as found:
        yield found


def sent_ago(document: Document, age: int) -> Reply:
    """A host that sends a document, and whose clock is slow by `age` whole seconds."""

    def reply(_: bytes) -> bytes:
        now = (system_clock() // SECOND - age) * SECOND
        fields = [each for each in document.begin(now)["headers"] if each[0] != b"content-length"]
        return http_reply(document.body, *fields, (b"Date", http_date(now).encode()))

    return reply


def aged(nginx: Nginx, hosts: tuple[Upstream, ...], document: Document, age: int) -> httpx2.Response:
    """Read a document that nginx stored some seconds ago, while the hosts have nothing newer."""
    path = f"{FREE}?age={age}"
    for host in hosts:
        host.reply = sent_ago(document, age)
    assert nginx.get(path).content == document.body
    for host in hosts:
        host.reply = lambda _: http_reply(b"gone", status=502)
    nginx.age_cache(age)
    return nginx.get(path)


@pytest.mark.parametrize("seconds_left", [2, 6, 7, 15, 16, 30])
def test_nginx_shows_data_with_its_date_and_never_past_its_limit(
    nginx: Nginx, hosts: tuple[Upstream, Upstream], seconds_left: int
) -> None:
    for age in (0, min(seconds_left - 2, 14), seconds_left):
        until = (system_clock() // SECOND - age + seconds_left) * SECOND
        shown = aged(nginx, hosts, Document(b"data", until=until), age)
        if age < seconds_left:
            assert shown.content == b"data"
            assert [http_date((system_clock() // SECOND - age - late) * SECOND) for late in (0, 1)]
        else:
            assert shown.content == b"gone"


def test_nginx_never_shows_a_badge_that_is_older_than_ten_minutes(
    nginx: Nginx, hosts: tuple[Upstream, Upstream]
) -> None:
    badge = badge_document(record_not_started().content, "flat", "svg")
    assert aged(nginx, hosts, badge, KEEP_SECONDS - 2).content == badge.body
    assert aged(nginx, hosts, badge, KEEP_SECONDS + 1).content == b"gone"
