"""Webhooks over real TLS, to endpoints that hang, flood, redirect or hide at private addresses."""

import asyncio
import ssl
from base64 import b64decode
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from standardwebhooks import Webhook as Verifier

from barograph.errors import InvalidReply, Unreachable, UpstreamError
from barograph.kit.clock import system_clock
from barograph.upstream.webhooks import MAX_REPLY, HttpWebhookSender, PrivateTarget, TimedOut
from barograph.webhooks.records import Reply
from barograph.webhooks.signing import (
    Message,
    answers,
    message_body,
    new_secret,
    public_key_text,
    signed_fields,
)
from barograph.webhooks.targets import IpAddress
from support.node import run_script
from support.tls import Authority

HOST = "hooks.example"
LOOPBACK = "127.0.0.1"
SECRET, KEY = new_secret(), Ed25519PrivateKey.generate()
MESSAGE = Message("msg_wh_1_7", message_body("regime.changed", 1_794_000_000_000, b'{"id":7}'))
Write = Callable[[asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), x509.DNSName(HOST))


def signed(message: Message) -> dict[str, str]:
    return signed_fields(message, [SECRET], [KEY], system_clock())


async def post(url: str, *found: str, body: bytes = b"{}", **options: Any) -> Reply:
    """Send to a URL whose name has these addresses."""

    async def resolve(*_: object) -> list[IpAddress]:
        return [ip_address(each) for each in found]

    options["resolve"] = resolve if found else None
    sender = HttpWebhookSender(user_agent="barograph", **options)
    try:
        return await sender.post(url, signed(MESSAGE), body)
    finally:
        sender.close()


def send(
    tls: Authority, write: Write, host: str = HOST, seconds: float = 10.0
) -> tuple[Reply, bytes]:
    """Send to a local endpoint; returns its reply and the request that it read."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        requests.append(await reader.readexactly(len(MESSAGE.body)))
        with suppress(ConnectionError, ssl.SSLError):  # we hang up on a flood
            await write(writer)
        writer.close()

    async def work() -> Reply:
        async with await asyncio.start_server(serve, LOOPBACK, 0, ssl=tls.server) as server:
            url = f"https://{host}:{server.sockets[0].getsockname()[1]}/in?a=1"
            local = {"allow_local": True, "tls": tls.client, "seconds": seconds}
            return await post(url, LOOPBACK, body=MESSAGE.body, **local)

    return asyncio.run(work()), b"".join(requests)


def answering(raw: bytes, *, hangs: bool = False) -> Write:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await (writer.wait_closed() if hangs else writer.drain())

    return write


OK = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=1\r\n\r\nhi")


def test_stock_libraries_verify_both_signatures_of_what_arrives(tls: Authority) -> None:
    reply, request = send(tls, OK)
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    fields: dict[str, Any] = dict(line.split(": ", 1) for line in lines)

    assert reply == (200, b"hi")
    assert first == "POST /in?a=1 HTTP/1.1"
    assert fields["Host"].startswith(f"{HOST}:")
    told = Verifier(SECRET).verify(body, fields)
    assert told == {
        "type": "regime.changed",
        "timestamp": "2026-11-06T21:20:00.000Z",
        "data": {"id": 7},
    }
    public = b64decode(public_key_text(KEY).removeprefix("whpk_"))
    content = b".".join([MESSAGE.id.encode(), fields["webhook-timestamp"].encode(), body])
    signature = b64decode(fields["webhook-signature"].partition(" v1a,")[2])
    Ed25519PublicKey.from_public_bytes(public).verify(signature, content)


def test_program_of_the_page_verifies_a_challenge_and_answers_it() -> None:
    page = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text("utf-8")
    program = page.partition("```python\n")[2].partition("```")[0]
    challenge = Message("msg_1", message_body("webhook.challenge", 0, b'{"challenge":"abc"}'))
    names: dict[str, Any] = {}
    exec(program.replace("whsec_…", SECRET), names)

    assert answers(names["receive"](challenge.body, signed(challenge)).encode(), "abc")
    test = Message("msg_2", message_body("webhook.test", 0, b'{"webhook":"wh_1"}'))
    assert names["receive"](test.body, signed(test)) == ""


def test_program_of_the_page_verifies_the_public_signature() -> None:
    page = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text("utf-8")
    program = page.rpartition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(program, names)

    names["verify"](MESSAGE.body, signed(MESSAGE), public_key_text(KEY))
    with pytest.raises(ValueError, match="forged or was changed"):
        names["verify"](MESSAGE.body + b" ", signed(MESSAGE), public_key_text(KEY))


@pytest.mark.thorough
def test_npm_library_verifies_the_signature() -> None:
    given = {"secret": SECRET, "body": MESSAGE.body.decode(), "headers": signed(MESSAGE)}

    assert run_script("verify_webhook.mjs", given)["data"] == {"id": 7}


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n"])
def test_endpoint_that_hangs_costs_the_time_limit(tls: Authority, start: bytes) -> None:
    with pytest.raises(TimedOut):
        send(tls, answering(start, hangs=True), seconds=0.2)


def test_status_counts_even_if_the_body_never_ends(tls: Authority) -> None:
    start = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"
    assert send(tls, answering(start, hangs=True), seconds=0.5)[0] == (200, b"half")


def test_name_without_an_address_is_called_so() -> None:
    with pytest.raises(UpstreamError) as failed:
        asyncio.run(post(f"https://{'a' * 64}.example/"))  # no resolver has to be asked
    assert failed.value.kind == "host name not found"


@pytest.mark.parametrize(
    ("head", "repeated"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nLong-Field: ", b"x"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    ],
)
def test_answer_of_100_mb_is_read_up_to_its_first_16_kib(
    tls: Authority, head: bytes, repeated: bytes
) -> None:
    sent = 0

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(head)
        while sent < 100_000_000:
            writer.write(repeated * (60_000 // len(repeated)))
            await writer.drain()
            sent += 60_000

    with nullcontext() if b"\r\n\r\n" in head else pytest.raises(InvalidReply):
        assert len(send(tls, flood)[0].start) <= MAX_REPLY
    assert sent < 20_000_000


def test_redirect_is_not_followed(tls: Authority) -> None:
    moved = b"HTTP/1.1 307 Moved\r\nLocation: https://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    assert send(tls, answering(moved))[0].status == 307


def test_certificate_must_be_of_the_name_and_not_of_the_address(tls: Authority) -> None:
    with pytest.raises(Unreachable) as failed:
        send(tls, OK, "other.example")
    assert "example" not in str(failed.value)


PRIVATE = [["10.0.0.1"], ["8.8.8.8", "169.254.169.254"], ["::ffff:127.0.0.1"], ["127.0.0.1"]]


@pytest.mark.parametrize(
    ("host", "found"),
    [
        *((HOST, found) for found in PRIVATE),
        *((host, []) for host in ("2130706433", "127.1", "0x7f000001", "localhost")),
    ],
)
async def test_name_with_any_private_address_gets_no_connection(
    host: str, found: list[str]
) -> None:
    with pytest.raises(PrivateTarget):
        await post(f"https://{host}/", *found)


def test_challenge_is_answered_as_text_or_json_only() -> None:
    for reply in (b" abc\n", b'"abc"', b'{ "challenge": "abc" }'):
        assert answers(reply, "abc")
    for reply in (b"", b"xabc", b"[" * 16_000, b'"\xff"'):
        assert not answers(reply, "abc")
