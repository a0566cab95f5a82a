"""What real facilitators send, and how we read every reason and field of it."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from barograph.errors import Forbidden, InvalidReply, UnknownToUpstream, Unreachable, UpstreamError
from barograph.payments.records import (
    FacilitatorUnavailable,
    InvalidProof,
    NotSettled,
    Settled,
    SettlementUnknown,
)
from barograph.settings import Settings
from barograph.upstream.facilitator import HttpFacilitator, SupportedKind
from support.demo_facilitator import World, question, with_world
from support.payments import PAYMENTS, proof
from support.shapes import differences

SAMPLES = Path(__file__).parent / "samples" / "x402"
REPLIES: dict[str, dict[str, dict[str, Any]]] = json.loads((SAMPLES / "replies.json").read_text())
REASONS: dict[str, tuple[str, str]] = json.loads((SAMPLES / "reasons.json").read_text())
URL = "https://facilitator.example/x402"
ELSEWHERE = "it redirects to another address (HTTP {})"
WWW = (
    "it redirects to https://www.facilitator.example/x402 (HTTP {}), and we don't follow "
    "redirects; set BAROGRAPH_X402_FACILITATOR_URL to that address"
)
NO_CHAIN: dict[str, Any] = {}
PENDING_HASH = "0x" + "9e" * 32
CHAIN: dict[str, Any] = {"x402_chain_url": "https://node.example"}

FIELDS = {
    "verify": {
        "isValid": "read",
        "invalidReason": "read",
        "invalidMessage": "read: tells a revert of the contract from a failure of the chain",
        "payer": "read",
        "extensions": "ignored: nothing that we sell depends on them",
    },
    "settle": {
        "success": "read",
        "paymentId": "read: with HTTP 202 it means that the settlement is pending",
        "errorReason": "read",
        "errorMessage": "ignored: only the reason is a known word",
        "transaction": "read",
        "network": "read",
        "payer": "read",
        "amount": "ignored: the exact scheme moves exactly what was signed",
        "extensions": "ignored: nothing that we sell depends on them",
    },
    "supported": {
        "kinds": "read",
        "extensions": "ignored: a facilitator without a catalog ignores our listing",
        "signers": "ignored: the token checks who may settle",
    },
}
KIND_FIELDS = {
    "x402Version": "read",
    "scheme": "read",
    "network": "read",
    "extra": "ignored: our settings name the token",
}

Work = Callable[[HttpFacilitator], Awaitable[Any]]


def told(work: Work, reply: Any, status: int = 200, headers: Any = None, **settings: Any) -> str:
    """The outcome of one request that gets this reply."""
    return outcome_of(
        work, lambda _: httpx2.Response(status, json=reply, headers=headers), settings
    )


def outcome_of(
    work: Work, answer: Callable[[httpx2.Request], httpx2.Response], settings: dict[str, Any]
) -> str:

    async def run() -> str:
        given = PAYMENTS | {"x402_facilitator_url": URL} | settings
        transport = httpx2.MockTransport(answer)
        client = HttpFacilitator(Settings.model_validate(given), transport=transport)
        try:
            return outcome(await work(client))
        except InvalidProof as error:
            return f"invalid {error}"
        except FacilitatorUnavailable as error:
            return f"unavailable: {error}"
        except SettlementUnknown as error:
            return f"unknown {error.transaction or ''}".rstrip()
        finally:
            await client.close()

    return asyncio.run(run())


def outcome(found: Any) -> str:
    match found:
        case Settled():
            return "settled"
        case NotSettled(reason):
            return f"refused {reason}"
        case None:
            return "valid"
    return " ".join(each.network for each in found)


WORK: dict[str, Work] = {
    "verify": lambda client: client.verify(proof()),
    "settle": lambda client: client.settle(proof()),
    "supported": lambda client: client.supported(),
}
verify, settle, supported = WORK.values()
EXPECTED = {
    "verify": {
        "valid": "valid",
        "valid_without_payer": "valid",
        "invalid": "invalid insufficient_funds",
        "invalid_with_message": "invalid invalid_exact_evm_transaction_simulation_failed",
    },
    "settle": {
        "success": "settled",
        "success_without_payer": "settled",
        "success_with_amount": "settled",
        "failure": "refused insufficient_funds",
        "failure_with_message": "refused invalid_exact_evm_payload_signature",
        "pending": f"unknown {PENDING_HASH}",
        "pending_at_circle": "unknown",
        "pending_at_circle_before": "unknown",
    },
    "supported": {
        "specification": "eip155:84532",
        "openx402": "eip155:8453",
        "both_versions": "base-sepolia eip155:84532",
    },
}


@pytest.mark.parametrize("endpoint", FIELDS)
def test_every_sampled_reply_is_understood(endpoint: str) -> None:
    rows = REPLIES[endpoint]
    assert {name: told(WORK[endpoint], row) for name, row in rows.items()} == EXPECTED[endpoint]
    ignored = [name for name, use in FIELDS[endpoint].items() if use.startswith("ignored")]
    for name, row in rows.items():
        rest = {member: value for member, value in row.items() if member not in ignored}
        assert told(WORK[endpoint], rest) == EXPECTED[endpoint][name]


SETTLE = REPLIES["settle"]
FIRST = {"pending": 500, "pending_at_circle": 200, "pending_at_circle_before": 202}
SECOND = {
    "settled": (200, SETTLE["success"]),
    "refused invalid_exact_evm_payload_signature": (400, SETTLE["failure_with_message"]),
    "unknown: broken": (500, {"success": True}),
    "unknown: pending": (500, SETTLE["pending_at_circle"]),
    "unknown: unreachable": (0, {}),
} | {
    # The wallet is empty, or its address is blocked, perhaps since the first transaction; and what
    # we did wrong now may have been right before.
    f"unknown: {reason}": (200, {"success": False, "errorReason": reason, "transaction": ""})
    for reason in (
        "insufficient_funds",
        "invalid_exact_evm_nonce_already_used",
        "invalid_exact_evm_payload_authorization_from_address_kyt",
        "invalid_network",
    )
}


@pytest.mark.parametrize("expected", SECOND)
@pytest.mark.parametrize("first", FIRST)
def test_pending_settlement_is_asked_about_once_more(first: str, expected: str) -> None:
    replies = [(FIRST[first], SETTLE[first]), SECOND[expected]]
    asked: list[bytes] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        status, reply = replies[len(asked)]
        asked.append(request.content)
        if not status:
            raise httpx2.ConnectError("unreachable")
        return httpx2.Response(status, json=reply)

    said, _, _ = outcome_of(settle, answer, {}).partition(f" {PENDING_HASH}")
    assert said == expected.partition(":")[0]
    assert (asked[0], len(asked)) == (asked[1], 2)


def test_every_field_of_the_samples_is_read_or_ignored_on_purpose() -> None:
    assert {name: members(rows.values()) for name, rows in REPLIES.items()} == {
        name: set(fields) for name, fields in FIELDS.items()
    }
    kinds = [kind for row in REPLIES["supported"].values() for kind in row["kinds"]]
    assert members(kinds) == set(KIND_FIELDS)


def members(rows: Iterable[dict[str, Any]]) -> set[str]:
    return {name for row in rows for name in row}


def test_simulated_facilitator_replies_in_the_shape_of_the_samples(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        asked, poor = question(world.proof()), question(world.proof(nonce="0x" + "9" * 64))
        for path, name, body in (
            ("verify", "valid", asked),
            ("verify", "invalid", poor),
            ("settle", "success", asked),
            ("settle", "failure", asked),
        ):
            said = await world.post(f"/{path}", body)
            assert differences(REPLIES[path][name], said) == [], (path, name)
        assert await world.facilitator.supported() == [SupportedKind(2, "exact", "eip155:84532")]

    with_world(tmp_path, work)


def loud(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    found = [record for record in caplog.records if record.levelno >= logging.WARNING]
    return [(record.levelname, record.__dict__["reason"]) for record in found]


@pytest.mark.parametrize(("reason", "meaning"), REASONS.items(), ids=REASONS)
def test_each_reason_is_attributed_to_the_payer_to_us_or_to_nobody(
    reason: str, meaning: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    fault, settled = meaning
    said = told(verify, {"isValid": False, "invalidReason": reason})
    assert said == {
        "payer": f"invalid {reason}",
        "ours": f"unavailable: the facilitator does not accept our terms ({reason})",
        "unclear": f"unavailable: the facilitator could not check the payment ({reason})",
    }.get(fault)
    assert loud(caplog) == ([("ERROR", reason)] if fault == "ours" else [])
    no = {"success": False, "errorReason": reason, "transaction": ""}
    # With a chain to ask, a reason that is also true afterwards is no proof that nothing moved.
    found = {told(settle, no, **each).split(" ")[0].strip(":") for each in (NO_CHAIN, CHAIN)}
    assert found == set(settled.split(" or "))


@pytest.mark.outcome(
    "The facilitator refuses a proof for a reason that we have never seen",
    "402, because the refusal is clear. The log names the reason.",
)
def test_a_clear_no_for_an_unknown_reason_counts_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = told(verify, {"isValid": False, "invalidReason": "sanctioned_wallet"})
    assert (said, loud(caplog)) == ("invalid sanctioned_wallet", [("WARNING", "sanctioned_wallet")])


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize(
    ("location", "named"),
    [
        ("https://www.facilitator.example/x402/verify", WWW),
        (f"{URL}/verify/", ELSEWHERE),
        ("/elsewhere", ELSEWHERE),
        ("https://user:secret@[", ELSEWHERE),
    ],
)
def test_redirect_is_named_and_not_followed(status: int, location: str, named: str) -> None:
    said = told(verify, {"isValid": True}, status, {"Location": location})
    assert said == f"unavailable: the facilitator is unavailable: {named.format(status)}"
    # The money may have moved before it.
    assert told(settle, {"success": True}, status, {"Location": location}) == "unknown"
    with pytest.raises(UnknownToUpstream) as caught:
        told(supported, {}, status, {"Location": location.replace("verify", "supported")})
    assert str(caught.value) == named.format(status)


@pytest.mark.parametrize(
    ("status", "reply", "error"),
    [
        (401, {"errorType": "unauthorized"}, Forbidden),
        (403, "no object", Forbidden),
        (404, {}, UnknownToUpstream),
        (429, {}, Unreachable),
        (500, {}, Unreachable),
        (200, "no object", Unreachable),
        (200, {}, InvalidReply),
        (200, {"kinds": [{"x402Version": "2", "scheme": "exact", "network": "x"}]}, InvalidReply),
    ],
)
def test_facilitator_that_does_not_say_what_it_supports_is_an_error(
    status: int, reply: Any, error: type[UpstreamError]
) -> None:
    with pytest.raises(error) as caught:
        told(supported, reply, status)
    assert ("BAROGRAPH_X402_CDP_KEY_ID" in str(caught.value)) == (error is Forbidden)


def test_a_facilitator_that_refuses_our_credentials_is_logged_as_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert told(verify, {"errorType": "unauthorized"}, 401).startswith("unavailable")
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.getMessage() == "facilitator refuses our credentials"
