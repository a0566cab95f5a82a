"""A facilitator that may answer anything, over real connections: what counts as which verdict."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, NamedTuple, TypeVar

import pytest

from barograph.errors import ConfigurationError
from barograph.kit.http_client import MAX_REQUESTS
from barograph.payments.proof import wire_payload, wire_requirements
from barograph.payments.records import (
    FacilitatorUnavailable,
    InvalidProof,
    Settled,
    SettlementUnknown,
)
from barograph.settings import Settings
from barograph.upstream.facilitator import MAX_REPLY_BYTES, UNNAMED, HttpFacilitator
from support.payments import PAYER, STANCE, proof

T = TypeVar("T")
TRANSACTION = "0x" + "Ab" * 32
TOKEN = "token-of-the-operator"
VALID = {"isValid": True, "payer": PAYER}
DONE = {
    "success": True,
    "payer": PAYER,
    "transaction": TRANSACTION,
    "network": STANCE.network,
}


class Asked(NamedTuple):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: Any


Script = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Lets a script answer every request, and remembers what it was asked."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self.url = ""
        self._busy: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._busy.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        body = await reader.readexactly(int(headers["content-length"]))
        self.asked.append(Asked(first.split()[1], headers, json.loads(body)))
        await self.script(writer)
        await writer.drain()
        return not writer.is_closing()

    def end(self) -> None:
        for task in self._busy:
            task.cancel()


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Server]:
    own = Server(script)
    async with await asyncio.start_server(own.serve, "127.0.0.1", 0) as listening:
        own.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield own
        own.end()


def says(
    content: Any, status: int = 200, *, length: int | None = None, headers: str = ""
) -> Script:
    """Answer with this; `length` may lie."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    announced = len(body) if length is None else length

    async def script(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {announced}\r\n{headers}\r\n"
        writer.write(head.encode() + body)

    return script


async def hangs(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def hangs_up(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def stops_half_way(writer: asyncio.StreamWriter) -> None:
    await says(json.dumps(DONE | VALID).encode(), length=10_000)(writer)
    writer.close()


async def never_ends(writer: asyncio.StreamWriter) -> None:
    await says(json.dumps(DONE | VALID).encode(), length=10_000)(writer)
    await writer.drain()
    await asyncio.Event().wait()


async def drips(writer: asyncio.StreamWriter) -> None:
    """Give a byte now and then, so that no single read takes long."""
    await says(b"", length=10_000)(writer)
    while not writer.is_closing():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


async def speaks_no_http(writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 smtp.example\r\n\r\n")
    writer.close()


@asynccontextmanager
async def facilitator(
    url: str, seconds: float = 10.0, **settings: Any
) -> AsyncIterator[HttpFacilitator]:
    terms = {"x402_asset": STANCE.asset, "x402_pay_to": STANCE.pay_to}
    all_settings = Settings.model_validate({"x402_facilitator_url": url, **terms, **settings})
    client = HttpFacilitator(all_settings, verify_seconds=seconds, settle_seconds=seconds)
    try:
        yield client
    finally:
        await client.close()


async def verify(client: HttpFacilitator) -> str:
    try:
        await client.verify(proof())
    except InvalidProof as error:
        return f"invalid {error}"
    except FacilitatorUnavailable:
        return "unavailable"
    return "valid"


async def settle(client: HttpFacilitator) -> str:
    try:
        outcome = await client.settle(proof())
    except FacilitatorUnavailable:
        return "unavailable"
    except SettlementUnknown:
        return "unknown"
    if isinstance(outcome, Settled):
        return f"settled {outcome.transaction}"
    return f"refused {outcome.reason}"


def ask(
    script: Script,
    work: Callable[[HttpFacilitator], Coroutine[Any, Any, T]],
    seconds: float = 10.0,
) -> T:
    """Have one question answered by the script, which must be asked only once."""

    async def run() -> T:
        async with serving(script) as server, facilitator(server.url, seconds) as client:
            outcome = await work(client)
            assert len(server.asked) == 1
            return outcome

    return asyncio.run(run())


NO_ANSWERS: dict[str, Script] = {
    "hangs up": hangs_up,
    "half a body": stops_half_way,
    "no http": speaks_no_http,
    "a page": says(b"<!DOCTYPE html><title>Sorry</title>"),
    "a page with 502": says(b"<!DOCTYPE html><title>Bad gateway</title>", 502),
    "nothing": says(b""),
    "a list": says([DONE | VALID]),
    "a text": says(b'"ok"'),
    "huge": says({**DONE, **VALID, "x": "x" * MAX_REPLY_BYTES}),
    "deep": says(b'{"isValid":true,"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
    "a member twice": says(json.dumps(DONE | VALID).encode()[:-1] + b',"success":true}'),
    "not a number": says(json.dumps(DONE | VALID).encode()[:-1] + b',"x":NaN}'),
    "not utf-8": says(json.dumps(DONE | VALID).encode()[:-1] + b',"x":"\xff"}'),
    "packed": says(DONE | VALID, headers="Content-Encoding: gzip\r\n"),
    "redirect": says(b"", 307, headers="Location: /elsewhere\r\n"),
    "redirect that says yes": says(DONE | VALID, 302, headers="Location: /elsewhere\r\n"),
    "redirect that says no": says({"success": False, "isValid": False}, 302),
    "throttled": says({"error": "slow down"}, 429, headers="Retry-After: 1\r\n"),
    "throttled that says no": says({"success": False, "isValid": False}, 429),
    "our token is refused": says({"success": False, "isValid": False}, 401),
    "we are not allowed": says({"success": False, "isValid": False}, 403),
    "broken": says({"error": "oops"}, 500),
    "yes inside a 500": says(DONE | VALID, 500),
    "no inside a 500": says(
        {"isValid": False, "invalidReason": "insufficient_funds", "success": False}, 500
    ),
    "yes inside a 201": says(DONE | VALID, 201),
    "yes inside a 402": says(DONE | VALID, 402),
    "wrong payer": says({**DONE, **VALID, "payer": STANCE.pay_to}),
    "an empty payer": says({**DONE, **VALID, "payer": ""}),
    "payer is no text": says({**DONE, **VALID, "payer": [PAYER]}),
    "payer and more": says({**DONE, **VALID, "payer": PAYER + "\n"}),
    "the text true": says({**DONE, "isValid": "true", "success": "true"}),
    "the number 1": says({**DONE, "isValid": 1, "success": 1}),
    "the number 0": says({"isValid": 0, "success": 0, "errorReason": "insufficient_funds"}),
    "the text false": says({"isValid": "false", "success": "false"}),
    "null": says({**DONE, "isValid": None, "success": None}),
    "no verdict": says({"payer": PAYER}),
}


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_unclear_reply_leaves_a_proof_unverified_and_a_settlement_unknown(name: str) -> None:
    assert ask(NO_ANSWERS[name], verify) == "unavailable"
    assert ask(NO_ANSWERS[name], settle) == "unknown"


@pytest.mark.parametrize("script", [hangs, never_ends])
def test_a_facilitator_that_takes_too_long_is_not_waited_for(script: Script) -> None:
    assert ask(script, verify, seconds=0.6) == "unavailable"
    assert ask(script, settle, seconds=0.6) == "unknown"


@pytest.mark.outcome(
    "The facilitator is unreachable",
    "Nothing is charged, and the same proof works later.",
)
async def test_unreachable_facilitator_counts_as_not_asked() -> None:
    async with serving(hangs) as server:
        gone = server.url
        # It does not speak TLS: the connection never comes about.
        async with facilitator(gone.replace("http:", "https:"), seconds=0.6) as secure:
            outcomes = [await verify(secure), await settle(secure)]
        assert server.asked == []
    async with facilitator(gone) as client:
        outcomes += [await verify(client), await settle(client)]
    assert outcomes == ["unavailable"] * 4


async def test_a_connection_that_the_facilitator_closes_meanwhile_leaves_it_unknown() -> None:
    async with serving(says(VALID)) as server, facilitator(server.url) as client:
        assert await verify(client) == "valid"
        server.script = hangs_up
        assert await settle(client) == "unknown"


@pytest.mark.thorough
async def test_request_beyond_the_connection_limit_is_never_sent() -> None:
    # A busy machine sends them late.
    async with serving(hangs) as server, facilitator(server.url, seconds=4.0) as client:
        outcomes = await asyncio.gather(*(settle(client) for _ in range(MAX_REQUESTS + 1)))
        assert len(server.asked) == MAX_REQUESTS
    assert outcomes == ["unknown"] * MAX_REQUESTS + ["unavailable"]


async def test_a_full_pool_of_our_own_tells_nothing_about_the_facilitator() -> None:
    is_full = asyncio.Event()

    async def fills(writer: asyncio.StreamWriter) -> None:
        if len(server.asked) == MAX_REQUESTS:
            is_full.set()
        await hangs(writer)

    # A busy machine sends them late.
    async with serving(fills) as server, facilitator(server.url, seconds=4.0) as client:
        settling = [asyncio.create_task(settle(client)) for _ in range(MAX_REQUESTS)]
        await is_full.wait()
        _, outcome = await asyncio.gather(client.probe(), verify(client))
        assert outcome == "unavailable"
        learned = {(each.answered_at, each.failing_since) for each in client.health}
        assert learned == {(None, None)}
        for task in settling:
            task.cancel()
        await asyncio.gather(*settling, return_exceptions=True)


async def test_more_questions_than_may_be_asked_at_once_can_be_asked_one_after_the_other() -> None:
    async with serving(says(VALID)) as server, facilitator(server.url) as client:
        assert {await verify(client) for _ in range(MAX_REQUESTS + 1)} == {"valid"}
        server.script = hangs_up
        assert {await verify(client) for _ in range(MAX_REQUESTS + 1)} == {"unavailable"}
        assert len(server.asked) == 2 * MAX_REQUESTS + 2


@pytest.mark.thorough
async def test_replies_that_never_end_do_not_keep_others_from_asking() -> None:
    async with serving(drips) as server, facilitator(server.url, seconds=3) as client:
        assert "unknown" in await asyncio.gather(*(settle(client) for _ in range(MAX_REQUESTS)))
        server.script = says(VALID)
        assert await verify(client) == "valid"


@pytest.mark.parametrize("payer", [PAYER, PAYER.upper().replace("X", "x")])
def test_a_plain_yes_about_the_payer_is_valid_and_settled(payer: str) -> None:
    assert ask(says({**VALID, "payer": payer}), verify) == "valid"
    assert ask(says({**DONE, "payer": payer}), settle) == f"settled {TRANSACTION.lower()}"


@pytest.mark.parametrize(
    "changes",
    [
        {"transaction": ""},
        {"transaction": None},
        {"transaction": "0x" + "ab" * 31},
        {"transaction": "0x" + "ab" * 32 + "\n"},
        {"transaction": "0x" + "zz" * 32},
        {"transaction": int("ab" * 32, 16)},
        {"transaction": {"hash": TRANSACTION}},
        {"network": "eip155:1"},
        {"network": "base"},
        {"network": None},
    ],
    ids=count(),
)
def test_a_yes_about_something_else_leaves_it_unknown(changes: dict[str, Any]) -> None:
    assert ask(says({**DONE, **changes}), settle) == "unknown"


@pytest.mark.parametrize("status", [200, 400, 402, 404, 409, 412, 422])
def test_a_plain_no_counts_with_any_status_that_is_about_the_payment(status: int) -> None:
    reason = "insufficient_funds"
    no = {"isValid": False, "invalidReason": reason, "payer": None}
    assert ask(says(no, status), verify) == f"invalid {reason}"
    no = {"success": False, "errorReason": reason, "transaction": "", "network": "", "payer": ""}
    assert ask(says(no, status), settle) == f"refused {reason}"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("invalid_exact_evm_nonce_already_used", "invalid_exact_evm_nonce_already_used"),
        ("a_reason_of_its_own", "a_reason_of_its_own"),
        ("Insufficient funds: " + PAYER, UNNAMED),
        ("x" * 81, UNNAMED),
        ("word\n", UNNAMED),
        ("wörd", UNNAMED),
        ("", UNNAMED),
        (None, UNNAMED),
        (["insufficient_funds"], UNNAMED),
        (7, UNNAMED),
    ],
    ids=count(),
)
def test_only_a_short_word_is_shown_as_the_reason(given: Any, shown: str) -> None:
    assert ask(says({"isValid": False, "invalidReason": given}), verify) == f"invalid {shown}"


_SIMULATION = "invalid_exact_evm_transaction_simulation_failed"


@pytest.mark.parametrize(
    "said",
    [
        {"invalidReason": "rpc_down"},
        {"invalidReason": "upstream_timeout"},
        {"invalidReason": "chain_unavailable"},
        {"invalidReason": "internal_server_error"},
        {"invalidReason": "server_error"},
        {"invalidReason": "network_not_configured"},
        {"invalidReason": "Failed to reach the node"},
        {"invalidReason": "Connection refused"},
        {"invalidReason": _SIMULATION},
        {"invalidReason": _SIMULATION, "invalidMessage": "connection refused"},
        {"invalidReason": _SIMULATION, "invalidMessage": ["execution reverted"]},
    ],
    ids=lambda said: said["invalidReason"],
)
@pytest.mark.outcome(
    "The facilitator can't check a proof because its chain is down",
    "Nothing is charged, and the same proof works later.",
)
def test_facilitator_that_cannot_check_a_proof_is_unavailable(said: dict[str, Any]) -> None:
    assert ask(says({"isValid": False, **said}, 400), verify) == "unavailable"


@pytest.mark.parametrize("message", ["execution reverted", "Execution Reverted: 0x1234"])
def test_a_simulation_that_the_contract_refused_is_a_no(message: str) -> None:
    said = {"isValid": False, "invalidReason": _SIMULATION, "invalidMessage": message}
    assert ask(says(said), verify) == f"invalid {_SIMULATION}"


@pytest.mark.outcome(
    "The facilitator refuses to settle because of this instance's configuration",
    "Nothing is charged, and the same proof works later.",
)
def test_settlement_refused_for_our_configuration_can_be_retried() -> None:
    said = {"success": False, "errorReason": "invalid_network", "transaction": None}
    assert ask(says(said), settle) == "unavailable"
    assert ask(says(said | {"transaction": TRANSACTION}), settle) == "unknown"


@pytest.mark.parametrize(
    "said",
    [
        {"errorReason": "invalid_exact_evm_nonce_already_used"},
        {"errorReason": "duplicate_settlement"},
        {"errorReason": "transaction_failed"},
        {"errorReason": _SIMULATION},
        {"errorReason": "a_reason_of_its_own"},
        {"errorReason": "server_error"},
        {"errorReason": "Insufficient Funds"},
        {"errorReason": None},
        {"errorReason": ["insufficient_funds"]},
        {"errorReason": "insufficient_funds", "transaction": TRANSACTION},
        {"errorReason": "insufficient_funds", "transaction": "pending"},
        {"errorReason": "insufficient_funds", "transaction": []},
        {"errorReason": "insufficient_funds", "transaction": False},
    ],
    ids=count(),
)
@pytest.mark.outcome(
    "The facilitator reports a failure that doesn't rule out a charge",
    "The payment is unresolved until the chain shows it. Nobody is told to pay again.",
)
def test_failure_that_does_not_rule_out_a_charge_is_unknown(said: dict[str, Any]) -> None:
    assert ask(says({"success": False, **said}), settle) == "unknown"


@pytest.mark.parametrize(("work", "path"), [(verify, "/x402/verify"), (settle, "/x402/settle")])
async def test_the_facilitator_gets_what_was_read_of_the_proof_and_the_token(
    work: Callable[[HttpFacilitator], Coroutine[Any, Any, str]], path: str
) -> None:
    async with serving(says(b"", headers="Set-Cookie: a=b\r\n")) as server:
        url = f"{server.url}/x402"
        async with facilitator(url, x402_facilitator_token=TOKEN) as client:
            await work(client)
            await work(client)
        async with facilitator(url) as client:
            await work(client)
    *with_token, without = server.asked
    for asked in with_token:
        assert asked.path == path
        assert asked.body == {
            "x402Version": 2,
            "paymentPayload": wire_payload(proof()),
            "paymentRequirements": wire_requirements(STANCE),
        }
        assert asked.headers["authorization"] == f"bearer {TOKEN}"
        assert asked.headers["content-type"] == "application/json"
        assert asked.headers["accept-encoding"] == "identity"
        assert "cookie" not in asked.headers
    assert "authorization" not in without.headers


@pytest.mark.parametrize("token", ["two words", "line\n", "schlüssel"])
async def test_a_token_that_cannot_be_sent_is_refused_at_the_start(token: str) -> None:
    with pytest.raises(ConfigurationError, match="BAROGRAPH_X402_FACILITATOR_TOKEN") as caught:
        await facilitator("http://127.0.0.1:1", x402_facilitator_token=token).__aenter__()
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    "script", [hangs_up, says(b"<html>"), says(VALID, 500), says({"isValid": False})]
)
async def test_no_error_tells_of_the_proof_the_token_or_the_place(script: Script) -> None:
    async with (
        serving(script) as server,
        facilitator(server.url, x402_facilitator_token=TOKEN) as client,
    ):
        for work in (client.verify, client.settle):
            with pytest.raises((InvalidProof, FacilitatorUnavailable, SettlementUnknown)) as caught:
                await work(proof())
            for secret in (TOKEN, PAYER, proof().nonce, proof().signature, server.url[7:]):
                assert secret not in str(caught.value)
