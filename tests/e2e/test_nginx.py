"""Debian's nginx with deploy/nginx.conf: what it caches, repeats, refuses and logs."""

import json
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from threading import Event
from time import time
from typing import NamedTuple

import httpx2
import pytest

from barograph.badges.documents import ERROR, KEEP_SECONDS, badge_document, record_not_started
from barograph.badges.endpoints import refused_badge
from barograph.kit.clock import system_clock
from barograph.kit.documents import Document
from barograph.kit.operating_system import raise_file_limit
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


class Hosts(NamedTuple):
    """Two hosts behind nginx."""

    one: Upstream
    other: Upstream

    @property
    def heads(self) -> list[bytes]:
        return self.one.heads + self.other.heads

    def reply_with(self, reply: Reply) -> None:
        for host in self:
            host.reply = reply


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with Upstream(plain).running() as one, Upstream(plain).running() as other:
        yield Hosts(one, other)


@pytest.fixture
def nginx(tmp_path: Path, hosts: Hosts) -> Iterator[Nginx]:
    with running_nginx(tmp_path / "nginx", *(each.address for each in hosts)) as found:
        yield found


def sent_ago(document: Document, age: int) -> Reply:
    """A host that sends a document, and whose clock is slow by `age` whole seconds."""

    def reply(_: bytes) -> bytes:
        now = (system_clock() // SECOND - age) * SECOND
        fields = [each for each in document.begin(now)["headers"] if each[0] != b"content-length"]
        return http_reply(document.body, *fields, (b"Date", http_date(now).encode()))

    return reply


def aged(nginx: Nginx, hosts: Hosts, document: Document, age: int, path: str = FREE) -> bytes:
    """Read a document that nginx stored some seconds ago, while the hosts have nothing newer."""
    path = f"{path}?age={age}"
    hosts.reply_with(sent_ago(document, age))
    first = nginx.get(path)
    dates = first.headers.get_list("date")
    assert first.content == document.body
    assert [parsedate_to_datetime(each).timestamp() <= time() - age for each in dates] == [True]
    hosts.reply_with(lambda _: http_reply(b"gone", status=502))
    nginx.age_cache(age)
    again = nginx.get(path)
    if again.content == document.body:
        assert again.headers.get_list("date") == dates
    return again.content


@pytest.mark.parametrize("seconds_left", [2, 6, 7, 15, 16, 30])
def test_nginx_never_shows_data_past_its_limit(
    nginx: Nginx, hosts: Hosts, seconds_left: int
) -> None:
    until = system_clock() // SECOND * SECOND
    assert aged(nginx, hosts, Document(b"data", until=until), seconds_left) == b"gone"


def test_nginx_shows_data_with_the_date_of_the_service(nginx: Nginx, hosts: Hosts) -> None:
    assert aged(nginx, hosts, Document(b"data"), 8) == b"data"
    assert aged(nginx, hosts, Document(b"data"), 16) == b"gone"


def test_nginx_never_shows_a_badge_older_than_ten_minutes(nginx: Nginx, hosts: Hosts) -> None:
    badge = badge_document(record_not_started().content, "flat", "svg")
    path = "/badge/record.svg"
    assert aged(nginx, hosts, badge, KEEP_SECONDS - 20, path) == badge.body
    # Whole seconds: one that was sent at the end of a second is almost a second older.
    assert aged(nginx, hosts, badge, KEEP_SECONDS, path) == b"gone"
    assert aged(nginx, hosts, badge_document(ERROR, "flat", "svg"), 61, path) == b"gone"


@pytest.mark.parametrize("name", ["if_match", "if_unmodified_since"])
def test_nginx_ignores_conditions_that_the_service_ignores(nginx: Nginx, name: str) -> None:
    value = "Mon, 01 Jan 2001 00:00:00 GMT" if name.endswith("since") else '"x"'
    assert nginx.get(FREE, **{name: value}).status_code == 200
    nginx.get(FREE)  # stored by now
    assert nginx.get(FREE, **{name: value}).status_code == 200


@pytest.mark.parametrize(
    "asked", [{"range": "bytes=0-3", "if_range": '"x"'}, {"if_modified_since": "yesterday"}]
)
def test_the_service_answers_ranges_and_dates_and_nginx_stores_no_part(
    nginx: Nginx, hosts: Hosts, asked: dict[str, str]
) -> None:
    whole = nginx.get(FREE).content  # stored by now
    hosts.reply_with(lambda _: http_reply(b"part", CACHED, status=206))
    for _ in range(2):
        part = nginx.get(FREE, **asked)
        assert (part.status_code, part.content) == (206, b"part")
        named = {name.replace("_", "-"): value for name, value in asked.items()}
        sent = b"".join(hosts.heads).lower()
        assert all(f"{name}: {value}".encode() in sent for name, value in named.items())
    assert nginx.knock(b"HEAD " + FREE.encode() + b" HTTP/1.1", b"Host: x").status == 206
    assert nginx.get(FREE).content == whole
    tagged = nginx.get(FREE, if_modified_since="yesterday", if_none_match='"x"')
    assert (tagged.content, len(hosts.heads)) == (whole, 4)
    assert any(head.startswith(b"HEAD ") for head in hosts.heads)


def test_a_document_is_refreshed_in_the_background_by_one_request(
    nginx: Nginx, hosts: Hosts
) -> None:
    hosts.reply_with(sent_ago(Document(b"first"), 0))
    nginx.get(FREE)
    nginx.age_cache(7)
    hosts.reply_with(sent_ago(Document(b"second"), 0))
    assert nginx.get(FREE).content == b"first"
    eventually(lambda: nginx.get(FREE).content == b"second" or None, "the refreshed document")
    assert len(hosts.heads) == 2


@pytest.mark.parametrize(
    "path",
    [
        *(*PRIVATE, "/api/v1/signals", "/keys/" + SECRET, "/api/mcp", FREE),
        *("/api/v1/webhooks", "/api/v1/webhooks/wh_1/deliveries", "/api/v1/webhook-key"),
    ],
)
def test_answers_for_one_caller_are_neither_cached_nor_logged(
    nginx: Nginx, hosts: Hosts, path: str
) -> None:
    """Even if a host said by mistake that they may be cached."""
    sent = dict.fromkeys(("authorization", "x_api_key", "payment_signature", "x_payment"), SECRET)
    sent |= {"cookie": SECRET, "referer": f"https://barograph.example/keys/{SECRET}"}
    for name, value in sent.items():
        nginx.get(f"{path}?leg={SECRET}", **{name: value})
    # Free reads may come from the cache whatever cookie or referrer was sent.
    assert len(hosts.heads) == len(sent) - (path == FREE)
    nginx.wait_for_log("/keys/-" if SECRET in path else path, len(sent))
    assert SECRET not in nginx.logs()


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("POST", ""), ("GET", "/wh_1/deliveries"), ("DELETE", "/wh_1")],
)
def test_requests_about_webhooks_reach_the_service_with_their_key_and_type(
    nginx: Nginx, hosts: Hosts, method: str, path: str
) -> None:
    line = f"{method} /api/v1/webhooks{path} HTTP/1.1".encode()
    fields = (b"X-API-Key: " + SECRET.encode(), b"Content-Type: application/json")
    assert nginx.knock(line, b"Host: x", *fields).status == 200
    (head,) = hosts.heads
    assert {line, *fields} < set(head.splitlines())


def test_secrets_stay_out_of_the_logs_when_hosts_fail(tmp_path: Path) -> None:
    links = (b"/keys/", b"/k%65ys/", b"/KEYS/", b"/keys;/", b"/keys.", b"/keys\\", b"/k\xc3\xa9ys/")
    with running_nginx(tmp_path / "nginx", f"{HOST}:1") as nginx:
        for link in (*links, b"/api/../keys/", b"//keys/", PAID.encode() + b"?", b"/markets;"):
            line = b"GET " + link + SECRET.encode() + b" HTTP/1.1"
            referrer = b"Referer: https://barograph.example/keys/" + SECRET.encode()
            nginx.knock(line, b"Host: x", referrer, b"Connection: close")
        nginx.wait_for_log("/markets")
        assert SECRET not in nginx.logs()


def break_off(_: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Le"


@pytest.mark.parametrize("path", PRIVATE)
def test_a_request_that_may_charge_reaches_one_host_even_if_that_one_breaks(
    nginx: Nginx, hosts: Hosts, path: str
) -> None:
    hosts.reply_with(break_off)
    answer = nginx.get(path, payment_signature="a proof")
    assert answer.status_code == 503
    assert len(hosts.heads) == 1
    is_paid = path.startswith("/api/x402/")
    assert ("send the same proof again" in answer.json()["message"]) is is_paid
    assert answer.headers["retry-after"] == ("15" if is_paid else "5")
    hosts.reply_with(plain)
    assert {nginx.get(path).status_code for _ in range(4)} == {200}


def test_a_proof_that_no_host_has_seen_is_not_pending(nginx: Nginx, hosts: Hosts) -> None:
    hosts.reply_with(break_off)
    with ThreadPoolExecutor(6) as pool:  # no host is left
        list(pool.map(lambda _: nginx.get(PAID), range(6)))
    answers = [nginx.get(path, payment_signature="a proof") for path in PRIVATE]
    assert [(each.status_code, each.json()["error"]) for each in answers] == [
        (503, code) for code in CODES.values()
    ]
    assert "send the same proof again" in answers[1].json()["message"]
    assert len(hosts.heads) == 6
    nginx.get("/api/mcp")  # counted by itself
    assert len(hosts.heads) > 6


def test_another_host_answers_a_free_read_and_half_an_answer_is_not_cached(
    nginx: Nginx, hosts: Hosts
) -> None:
    hosts.one.reply = break_off
    answers = [nginx.get(f"{FREE}?n={number}") for number in range(4)]
    assert [each.status_code for each in answers] == [200] * 4
    hosts.other.reply = lambda head: plain(head)[:-9]
    with pytest.raises(httpx2.RemoteProtocolError):
        nginx.get(FREE)
    hosts.other.reply = plain
    assert nginx.get(FREE).status_code == 200


def test_hosts_get_the_path_and_host_as_sent_and_the_real_address(
    nginx: Nginx, hosts: Hosts
) -> None:
    long = b"PAYMENT-SIGNATURE: " + b"p" * 15_000
    target = b"/api/agents//a%2Fb/./%7e?leg=" + b"%41" * 2_000
    forged = b"X-Forwarded-For: 198.51.100.1"
    fields = (b"Host: Barograph.example:8443", forged, b"Connection: close", long)
    assert nginx.knock(b"GET " + target + b" HTTP/1.1", *fields, long[8:]).status == 200
    (head,) = hosts.heads
    lines = head.splitlines()
    assert lines[0] == b"GET " + target + b" HTTP/1.1"
    assert b"Host: Barograph.example:8443" in lines
    assert [each for each in lines if b"forwarded" in each.lower()] == [
        b"X-Forwarded-For: 127.0.0.1"
    ]
    assert long in lines


LONG = b"x" * 16_500
REFUSED = [
    (b"get %b HTTP/1.1", (), 400),
    (b"GET %b HTTP/1.1", (), 400),  # without a Host
    (b"TRACE %b HTTP/1.1", (b"Host: x",), 405),
    (b"POST %b HTTP/1.1", (b"Host: x", b"Content-Length: 16385"), 413),
    (b"GET %b?" + LONG + b" HTTP/1.1", (b"Host: x",), 414),
    (b"GET %b HTTP/1.1", (b"Host: x", b"Authorization: Bearer " + LONG), 431),
    (b'GET %b?" HTTP/1.1', (b"Host: x",), 400),
    (b"GET %b?\xff HTTP/1.1", (b"Host: x",), 400),
    (b"GET %b HTTP/1.1", (b"Host: x", b"Accept: \x01"), 400),
    (b"GET HTTP://x%b?%%zz< HTTP/1.1", (b"Host: x",), 400),
]
ENCODED = ("/api/%78402/feed", "/api/%61gents/material-change", "/api/x402/%66eed")


@pytest.mark.parametrize(("line", "fields", "status"), REFUSED)
def test_requests_that_nginx_refuses_get_the_documented_body(
    nginx: Nginx,
    hosts: Hosts,
    line: bytes,
    fields: tuple[bytes, ...],
    status: int,
) -> None:
    for path in (FREE, *PRIVATE, *ENCODED, "/badge/regime.svg", "/badge/regime.json"):
        answer = nginx.knock(line % path.encode(), *fields)
        assert answer.status == status
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
        if path.startswith("/badge/"):
            assert answer.body == refused_badge(path, status).body
            kept = "public, max-age=60" if status == 414 else "no-store"
            assert answer.headers["cache-control"] == kept
            policy = refused_badge(path, status).headers.get("content-security-policy")
            assert answer.headers.get("content-security-policy") == policy
        elif path == FREE:
            assert list(json.loads(answer.body)) == ["error"]
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["access-control-allow-origin"] == "*"
        else:
            assert list(json.loads(answer.body)) == ["error", "message"]
            assert answer.headers["cache-control"] == "private, no-store"
            assert answer.headers.get("allow") == ("GET" if status == 405 else None)
    assert hosts.heads == []


CODES = dict(
    zip(
        PRIVATE,
        ("stance_unavailable", "payment_unavailable", "feed_unavailable", "comparison_unavailable"),
        strict=True,
    )
)


def test_a_host_that_is_gone_or_accepts_nothing_gives_documented_errors(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0), backlog=0) as full, ExitStack() as stack:
        busy = full.getsockname()
        for _ in range(2):  # they fill its queue, so that it accepts nobody
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(busy)
        for number, address, status in ((1, f"{HOST}:1", 502), (2, f"{HOST}:{busy[1]}", 504)):
            with running_nginx(tmp_path / f"nginx{number}", address) as nginx:
                free = nginx.get(FREE)
                assert (free.status_code, free.headers["retry-after"]) == (status, "5")
                assert "try again shortly" in free.json()["error"]
                badge = nginx.get("/badge/regime.svg")
                assert (badge.status_code, badge.headers["cache-control"]) == (
                    status,
                    "public, max-age=60",
                )
                assert nginx.get("/markets", accept="text/html").text.startswith("<!doctype html>")
                for path, code in CODES.items():
                    answer = nginx.get(path)
                    assert (answer.status_code, answer.json()["error"]) == (503, code)
                    assert answer.headers["cache-control"] == "private, no-store"


def test_slow_senders_and_clients_that_do_not_read_are_cut_off_and_occupy_no_host(
    nginx: Nginx, hosts: Hosts
) -> None:
    taken = Event()

    def large(_: bytes) -> bytes:
        return http_reply(b"x" * 20_000_000)

    for host in hosts:
        host.reply, host.after_reply = large, taken.set
    with nginx.connect() as headers, nginx.connect() as body, nginx.connect() as reader:
        headers.sendall(b"GET / HTTP/1.1\r\nHost:")
        body.sendall(b"POST /api/mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        reader.sendall(b"GET /data/all.csv HTTP/1.1\r\nHost: x\r\n\r\n")
        assert taken.wait(60)  # nginx has the whole answer, and the host is free again
        assert len(hosts.heads) == 1
        for slow in (headers, body):
            with suppress(OSError):
                assert slow.recv(1) == b""
        nginx.wait_for_log("/data/all.csv")  # written when nginx gave the reader up


def test_one_address_has_a_hundred_requests_at_once(nginx: Nginx, hosts: Hosts) -> None:
    go_on = Event()

    def wait(head: bytes) -> bytes:
        assert go_on.wait(60)
        return plain(head)

    hosts.reply_with(wait)
    with ThreadPoolExecutor(100) as pool:
        first = [pool.submit(nginx.get, f"{PAID}?n={number}") for number in range(100)]
        eventually(lambda: len(hosts.heads) == 100 or None, "all of them")
        one_more = nginx.get(PAID)
        go_on.set()
    assert (one_more.status_code, one_more.json()["error"]) == (429, "too_many_requests")
    assert {each.result().status_code for each in first} == {200}


def test_idle_connections_make_room_for_requests(nginx: Nginx) -> None:
    assert raise_file_limit() > 3_000
    with ExitStack() as stack:
        for _ in range(2 * 1_100):  # nginx has two workers with 1,024 connections each
            stack.enter_context(socket.create_connection((HOST, nginx.port), 90))
        assert {nginx.get(f"{PAID}?n={number}").status_code for number in range(20)} == {200}


def curl(*arguments: str) -> str:
    command = ("curl", "-skD-", "--http2", *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("path", [*PRIVATE, "/keys/x"])
def test_early_refusals_over_http2_are_private(nginx: Nginx, path: str) -> None:
    url = nginx.base_url + path
    twice = ("-H", "Authorization: a", "-H", "Authorization: b")
    bad = [(url + "%zz",), (url + "%00",), ("-H", "Host: a b", url), ("-X", "get", url)]
    for each in (*bad, (*twice, url)):
        answer = curl(*each).lower()
        assert answer.startswith("http/2 400"), each
        assert "no-store" in answer
        assert "access-control" not in answer
        assert path == "/keys/x" or '"error":"bad_request","message"' in answer


def test_free_reads_pass_on_only_what_the_service_reads(nginx: Nginx, hosts: Hosts) -> None:
    many = (b"X-%d: \x01" % number for number in range(200))
    assert nginx.knock(b"GET / HTTP/1.1", b"Host: x", b"Accept: a", *many).status == 200
    (head,) = hosts.heads
    names = sorted(each.partition(b":")[0] for each in head.splitlines()[1:])
    assert names == [b"Accept", b"Host", b"X-Forwarded-For"]


def test_browsers_use_http2_and_plain_http_is_redirected(nginx: Nginx) -> None:
    head = curl(nginx.base_url + FREE)
    assert head.startswith("HTTP/2 200")
    assert "strict-transport-security: max-age=31536000" in head
    plain_url = f"http://{HOST}:{nginx.plain_port}/keys/{SECRET}"
    answer = httpx2.get(plain_url, trust_env=False, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (
        308,
        f"https://barograph.example/keys/{SECRET}",
    )
    assert (answer.headers["cache-control"], answer.headers["server"]) == ("no-store", "nginx")
    assert SECRET not in nginx.logs()
