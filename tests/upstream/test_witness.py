"""Witnesses over HTTP: what is sent, and what each answer means."""

import asyncio
from collections.abc import Callable

import httpx2
import pytest

from barograph.errors import (
    Forbidden,
    InvalidReply,
    Throttled,
    UnknownToUpstream,
    Unreachable,
    UpstreamError,
)
from barograph.history.witnesses import OtherSize, TreeRefused
from barograph.upstream.witness import MAX_REPLY_BYTES, HttpWitnesses

NOTE = "log.example/a\n3\nAAAA\n\n— log.example/a BBBB\n"
Handle = Callable[[httpx2.Request], httpx2.Response]


def ask(handle: Handle, *proof: bytes) -> str:
    async def run() -> str:
        witnesses = HttpWitnesses(user_agent="tests", transport=httpx2.MockTransport(handle))
        try:
            return await witnesses.add_checkpoint("https://w.example/base/", 2, proof, NOTE)
        finally:
            await witnesses.close()

    return asyncio.run(run())


def test_request_is_the_old_size_the_proof_and_the_checkpoint() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert (request.method, str(request.url)) == (
            "POST",
            "https://w.example/base/add-checkpoint",
        )
        assert request.content.decode() == f"old 2\n{'A' * 43}=\n{'A' * 42}E=\n\n{NOTE}"
        return httpx2.Response(200, text="— w.example AAAA\n")

    assert ask(handle, bytes(32), bytes(31) + b"\1") == "— w.example AAAA\n"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (403, b"", Forbidden),
        (404, b"", UnknownToUpstream),
        (409, b"", TreeRefused),
        (409, b"<html>", TreeRefused),
        (422, b"", TreeRefused),
        (429, b"", Throttled),
        (500, b"", Unreachable),
        (400, b"", InvalidReply),
        (302, b"", InvalidReply),
        (200, b"\xff", InvalidReply),
        (200, b"x" * (MAX_REPLY_BYTES + 1), InvalidReply),
    ],
)
def test_failure_is_named_by_kind(status: int, body: bytes, kind: type[UpstreamError]) -> None:
    fields = {"location": "https://other.example/"}
    with pytest.raises(kind):
        ask(lambda _: httpx2.Response(status, content=body, headers=fields))


def test_conflict_tells_the_size_that_the_witness_has() -> None:
    with pytest.raises(OtherSize) as caught:
        ask(lambda _: httpx2.Response(409, content=b"17\n"))
    assert caught.value.size == 17


@pytest.mark.parametrize("error", [httpx2.ConnectError, httpx2.ReadTimeout, httpx2.ReadError])
def test_no_answer_is_unreachable_and_names_no_address(error: type[httpx2.RequestError]) -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        raise error("at https://w.example")

    with pytest.raises(Unreachable) as caught:
        ask(handle)
    assert "w.example" not in str(caught.value)
