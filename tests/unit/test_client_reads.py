"""How the client plans requests and judges answers, without sending any."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from barograph_client import Barograph, calls
from barograph_client.calls import Call
from barograph_client.errors import (
    ClientError,
    CredentialRefused,
    InvalidAnswer,
    InvalidRequest,
    NoPair,
    NotFound,
    PaymentRequired,
    RateLimited,
    RecordUnavailable,
    Refused,
    Unavailable,
    Unreachable,
    UpstreamUnavailable,
)
from barograph_client.reads import (
    MOST_KEPT,
    Credentials,
    Get,
    HttpReply,
    Patience,
    Pause,
    Reader,
    Step,
)
from barograph_client.records import Market, Reference
from support.clock import HandClock

BASE = "https://barograph.example"
MARKET = {"source": "venue", "notice": "Information only.", "assets": []}
ALL = Credentials(api_key="the-key", bearer="the-token", proof="the-proof")
REFERENCE = Reference("rates-desk:2026-11-06T00:00:00.000Z", 1, "a" * 64, "2026")


def reader(credentials: Credentials = ALL, **patience: Any) -> Reader:
    return Reader(BASE, credentials, Patience(**patience), HandClock())


def reply(status: int = 200, body: object = MARKET, /, **headers: str) -> HttpReply:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpReply(status, fields, content)


def converse(
    reader: Reader, call: Call[Any], *replies: HttpReply | Unreachable
) -> tuple[Any, list[Step]]:
    """Play a conversation with replies at hand; an error takes the answer's place."""
    steps, left = reader.read(call), list(replies)
    done: list[Step] = []
    sent: HttpReply | Unreachable | None = None
    try:
        while True:
            step = steps.send(sent)
            done.append(step)
            sent = left.pop(0) if isinstance(step, Get) else None
    except StopIteration as end:
        return end.value, done
    except ClientError as error:
        return error, done
    finally:
        assert left == []


def test_a_time_without_a_zone_is_refused_in_words_that_help() -> None:
    naive = datetime(2026, 11, 14, 8)  # noqa: DTZ001
    with pytest.raises(ValueError, match=r"08:00:00 has no time zone: write .* \.astimezone\(\)"):
        calls.liquidations(start=naive)
    zoned = calls.liquidations(start=naive.replace(tzinfo=UTC))
    assert zoned.first.target.endswith("from=2026-11-14T08%3A00%3A00%2B00%3A00")


def sent(call: Call[Any], credentials: Credentials = ALL) -> Mapping[str, str]:
    (ask,) = converse(reader(credentials), call, Unreachable())[1]
    assert isinstance(ask, Get)
    return ask.headers


def error_of(status: int, body: object, **headers: str) -> Any:
    return converse(reader(tries=1), calls.market(), reply(status, body, **headers))[0]


@pytest.mark.parametrize(
    ("call", "target"),
    [
        (calls.briefs(0), "/api/agent/briefs?limit=0"),
        (calls.derivatives("a&b=c d/é"), "/api/agent/derivatives?symbol=a%26b%3Dc%20d%2F%C3%A9"),
    ],
)
def test_a_call_asks_for_its_address(call: Call[Any], target: str) -> None:
    assert call.target == target


def test_an_unknown_kind_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="choose one of btc-etf-stance, "):
        calls.stance("gold")


@pytest.mark.parametrize("base_url", ["", "barograph.example", "ftp://barograph.example", "http:/"])
def test_a_base_address_that_is_none_is_refused(base_url: str) -> None:
    with pytest.raises(ValueError, match="must start with http"):
        Reader(base_url, ALL, Patience(), HandClock())


def test_a_slash_at_the_end_of_the_base_address_does_not_matter() -> None:
    steps = Reader(f"{BASE}/", ALL, Patience(), HandClock()).read(calls.market())
    assert next(steps) == Get(f"{BASE}/api/agent/market", {"Accept": "application/json"})


def test_credentials_go_only_where_they_count() -> None:
    plain = {"Accept": "application/json"}
    assert sent(calls.market()) == plain
    assert sent(calls.status()) == plain
    assert sent(calls.signals()) == {**plain, "X-API-Key": "the-key"}
    assert sent(calls.feed_now()) == {**plain, "Authorization": "Bearer the-token"}
    assert sent(calls.stance("rates-desk")) == {**plain, "Authorization": "Bearer the-token"}


def test_a_proof_is_shown_without_a_token_and_never_where_it_could_be_charged() -> None:
    wallet = Credentials(proof="the-proof")
    assert sent(calls.feed_now(), wallet)["PAYMENT-SIGNATURE"] == "the-proof"
    compare = calls.material_change("rates-desk", REFERENCE, REFERENCE)
    assert sent(compare, wallet)["PAYMENT-SIGNATURE"] == "the-proof"
    for kind in calls.STANCE_PATHS:
        assert sent(calls.stance(kind), wallet) == {"Accept": "application/json"}


def test_a_credential_may_be_renewed_between_two_requests() -> None:
    tokens = iter(["first", "second\n"])
    changing = reader(Credentials(bearer=lambda: next(tokens)))
    shown = [next(changing.read(calls.feed_now())) for _ in range(2)]
    assert [step.headers["Authorization"] for step in shown if isinstance(step, Get)] == [
        "Bearer first",
        "Bearer second",
    ]


@pytest.mark.parametrize("token", ["", " ", "a\nb", "tokén", "a\x00"])
def test_a_credential_that_no_header_can_carry_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(ValueError, match="a header can't carry") as caught:
        next(reader(Credentials(bearer=token)).read(calls.feed_now()))
    assert token.strip() not in str(caught.value) or not token.strip()


def test_an_answer_that_did_not_change_is_the_one_that_was_kept() -> None:
    client = reader()
    first, _ = converse(client, calls.market(), reply(etag='"one"'))
    again, steps = converse(client, calls.market(), reply(304, b"", etag='W/"one"'))
    assert again is first
    (ask,) = steps
    assert isinstance(ask, Get)
    assert ask.headers["If-None-Match"] == '"one"'
    new, _ = converse(client, calls.market(), reply(200, {**MARKET, "source": "new"}, etag="2"))
    assert new.source == "new"
    assert converse(client, calls.market(), reply(304, b"", etag="2"))[0] is new


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_what_was_kept_is_no_substitute_for_an_answer(status: int) -> None:
    client = reader(tries=1)
    converse(client, calls.market(), reply(etag='"one"'))
    error, _ = converse(client, calls.market(), reply(status, {"error": "no"}))
    assert isinstance(error, Refused)
    assert error.status == status
    unreachable, _ = converse(client, calls.market(), Unreachable("gone"))
    assert isinstance(unreachable, Unreachable)


def test_not_modified_is_no_answer_without_the_very_thing_that_was_kept() -> None:
    client = reader()
    assert isinstance(converse(client, calls.market(), reply(304, b""))[0], InvalidAnswer)
    converse(client, calls.market(), reply(etag='"one"'))
    other, _ = converse(client, calls.market(), reply(304, b"", etag='"two"'))
    assert isinstance(other, InvalidAnswer)


PRIVATE = {"as_of": "2026", "tape": {"stance_tape": []}, "notice": "Information only."}


@pytest.mark.parametrize(
    ("call", "body", "headers"),
    [
        (calls.market(), MARKET, {}),
        (calls.market(), MARKET, {"etag": '"one"', "cache_control": "no-store"}),
        (calls.feed_now(), PRIVATE, {"etag": '"one"'}),
    ],
)
def test_an_answer_that_is_private_or_may_not_be_kept_is_not(
    call: Call[Any], body: object, headers: dict[str, str]
) -> None:
    client = reader()
    converse(client, call, reply(200, body, **headers))
    (ask,) = converse(client, call, reply(200, body))[1]
    assert isinstance(ask, Get)
    assert "If-None-Match" not in ask.headers


def test_only_so_many_answers_are_kept_those_read_last() -> None:
    client = reader()
    for number in range(MOST_KEPT):
        converse(client, Call(f"/{number}", Market), reply(etag='"one"'))
    converse(client, Call("/0", Market), reply(304, b""))
    converse(client, Call("/more", Market), reply(etag='"one"'))

    def is_kept(target: str) -> bool:
        ask = next(client.read(Call(target, Market)))
        return isinstance(ask, Get) and "If-None-Match" in ask.headers

    assert [is_kept(f"/{name}") for name in (0, 1, 2, "more")] == [True, False, True, True]


BUSY = reply(503, {"error": "busy"})
AFTER_11, AFTER_17, AFTER_20 = (
    reply(429, {"error": "too many"}, retry_after=each) for each in ("11", "17", "20")
)


@pytest.mark.parametrize(
    ("patience", "replies", "pauses", "expected"),
    [
        ({}, [AFTER_17, AFTER_17, reply(500, {"error": "x"})], [17.0, 17.0], RecordUnavailable),
        ({"tries": 4}, [BUSY, BUSY, BUSY, reply()], [1.0, 2.0, 4.0], Market),
        ({"tries": 2}, [BUSY, BUSY], [1.0], Unavailable),
        ({"tries": 9, "seconds": 30}, [AFTER_20, AFTER_11], [20.0], RateLimited),
    ],
)
def test_a_free_read_waits_as_told_or_twice_as_long_each_time_and_gives_up(
    patience: dict[str, Any], replies: list[HttpReply], pauses: list[float], expected: type[Any]
) -> None:
    answer, steps = converse(reader(**patience), calls.market(), *replies)
    assert isinstance(answer, expected)
    assert [step.seconds for step in steps if isinstance(step, Pause)] == pauses


ENTITLED = (
    calls.feed_now(),
    calls.stance("rates-desk"),
    calls.material_change("rates-desk", REFERENCE, REFERENCE),
)


@pytest.mark.parametrize(
    ("call", "status"),
    [
        *((calls.market(), status) for status in (400, 401, 402, 404, 500, 502)),
        *((call, status) for call in ENTITLED for status in (429, 503)),
    ],
)
def test_only_free_reads_are_sent_again_after_429_and_503(call: Call[Any], status: int) -> None:
    body = {"error": "code", "message": "later"}
    error, steps = converse(reader(), call, reply(status, body, retry_after="1"))
    assert isinstance(error, Refused)
    assert [type(step) for step in steps] == [Get]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, InvalidRequest),
        (401, CredentialRefused),
        (402, PaymentRequired),
        (404, NotFound),
        (418, Refused),
        (429, RateLimited),
        (500, RecordUnavailable),
        (502, UpstreamUnavailable),
        (503, Unavailable),
        (504, Refused),
    ],
)
def test_each_status_has_its_error(status: int, error: type[Refused]) -> None:
    found = error_of(status, {"error": "the sentence"})
    assert type(found) is error
    assert (found.status, found.message, found.code) == (status, "the sentence", "")


@pytest.mark.parametrize(
    ("code", "error"), [("comparison_reference_unavailable", NoPair), ("not_found", NotFound)]
)
def test_an_error_with_a_code_says_both(code: str, error: type[Refused]) -> None:
    found = error_of(404, {"error": code, "message": "a sentence"})
    assert (type(found), found.code, str(found)) == (error, code, "a sentence")


@pytest.mark.parametrize(
    "page", [b"<html>Bad Gateway</html>", b"", b"[]", b'{"error": 1}', b"\xff"]
)
def test_a_proxy_s_page_is_known_by_its_status(page: bytes) -> None:
    found = error_of(502, page)
    assert isinstance(found, UpstreamUnavailable)
    assert str(found) == "status 502"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        *((200, body) for body in (b"", b"<html>", b"{}", b'{"source": 1}', b"\xff", b"null")),
        *((status, MARKET) for status in (204, 206, 301, 307)),
    ],
)
def test_what_is_no_answer_is_an_error_and_no_redirect_followed(status: int, body: object) -> None:
    found, steps = converse(reader(), calls.market(), reply(status, body, location="https://other"))
    assert isinstance(found, InvalidAnswer)
    assert len(steps) == 1


@pytest.mark.parametrize(("part", "seconds"), [(b" " * 65_536, 30), (b" ", 0.01)])
def test_an_answer_without_end_or_that_drips_is_given_up(part: bytes, seconds: float) -> None:
    endless = lambda _: httpx2.Response(200, content=(part for _ in range(10**9)))  # noqa: E731
    with (
        Barograph(BASE, timeout=seconds, transport=httpx2.MockTransport(endless)) as client,
        pytest.raises(Unreachable),
    ):
        client.market()
