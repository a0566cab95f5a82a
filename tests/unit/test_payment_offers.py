"""What a payer is shown: exact prices, the payment-required object, the receipt."""

import json
from base64 import b64decode
from decimal import Decimal, Inexact
from typing import Any

import pytest

from barograph.entitlements.purchases import feed_requirements, stance_requirements
from barograph.payments.offers import (
    MAX_OFFER,
    payment_required,
    payment_required_field,
    payment_response_field,
)
from barograph.payments.proof import MAX_PROOF, MAX_SIGNATURE, checksummed, parse_proof
from barograph.payments.records import Listing
from barograph.settings import Settings
from support.clock import START
from support.payments import PAYER, STANCE, header, payload, payment, proof

SETTINGS = Settings(
    x402_facilitator_url="http://127.0.0.1:1",
    x402_network="eip155:84532",
    x402_asset="0x036CbD53842c5426634e7929541eC2318f3dCF7e",
    x402_pay_to="0x" + "BE" * 20,
)


REQUIREMENTS = {"feed_price_usd": feed_requirements, "stance_price_usd": stance_requirements}


def required(**said: Any) -> dict[str, Any]:
    listing = {"url": "https://example.org/x", "description": "A door."} | said
    offer, error = listing.pop("offer", STANCE), listing.pop("error", "Pay.")
    found: dict[str, Any] = json.loads(payment_required(offer, Listing(**listing), error))
    return found


@pytest.mark.parametrize(
    ("price", "amount"),
    [
        *(("25", 25_000_000), ("25.00", 25_000_000), ("2.5E+1", 25_000_000), ("0.1", 100_000)),
        *(("0.000001", 1), ("99999.999999", 99_999_999_999)),
    ],
)
def test_a_price_becomes_exactly_that_many_of_the_smallest_unit(price: str, amount: int) -> None:
    for name, required in REQUIREMENTS.items():
        assert required(SETTINGS.model_copy(update={name: Decimal(price)})).amount == amount
        finer = SETTINGS.model_copy(update={name: Decimal("0.0000001")})
        with pytest.raises(Inexact):
            required(finer)


def test_requirements_hold_the_settings_with_addresses_in_lower_case() -> None:
    feed, stance = feed_requirements(SETTINGS), stance_requirements(SETTINGS)
    assert (feed.amount, stance.amount) == (25_000_000, 250_000)
    for terms in (feed, stance):
        assert (terms.network, terms.asset, terms.pay_to) == (
            *("eip155:84532", "0x036cbd53842c5426634e7929541ec2318f3dcf7e", "0x" + "be" * 20),
        )
        assert (terms.name, terms.version, terms.max_timeout_seconds) == ("USDC", "2", 60)


def test_the_payment_required_object_is_the_one_of_version_2() -> None:
    body = payment_required(
        feed_requirements(SETTINGS),
        Listing("https://example.org/api/x402/feed", "Feed.", output_example={"tier": "feed"}),
        "Payment required",
    )
    assert body == (
        b'{"x402Version":2,"error":"Payment required",'
        b'"resource":{"url":"https://example.org/api/x402/feed","description":"Feed.",'
        b'"mimeType":"application/json"},'
        b'"accepts":[{"scheme":"exact","network":"eip155:84532","amount":"25000000",'
        b'"asset":"0x036CbD53842c5426634e7929541eC2318f3dCF7e",'
        b'"payTo":"0xBEbeBeBEbeBebeBeBEBEbebEBeBeBebeBeBebebe","maxTimeoutSeconds":60,'
        b'"extra":{"name":"USDC","version":"2"}}],'
        b'"extensions":{"bazaar":{"info":{"input":{"type":"http","method":"GET"},'
        b'"output":{"type":"json","example":{"tier":"feed"}}},'
        b'"schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",'
        b'"properties":{"input":{"type":"object","properties":{"type":{"type":"string",'
        b'"const":"http"},"method":{"type":"string","enum":["GET"]}},'
        b'"required":["type","method"],"additionalProperties":false},'
        b'"output":{"type":"object","properties":{"type":{"type":"string"},'
        b'"example":{"type":"object"}},"required":["type"]}},"required":["input"]}},'
        b'"payment-identifier":{"info":{"required":false},'
        b'"schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",'
        b'"properties":{"required":{"type":"boolean"},"id":{"type":"string",'
        b'"pattern":"^[a-zA-Z0-9_-]{16,128}$"}},"required":["required"]}}}}'
    )
    assert payment_required_field(body)[0] == b"payment-required"
    assert b64decode(payment_required_field(body)[1]) == body


def test_where_nothing_can_be_paid_for_nothing_is_accepted() -> None:
    found = required(offer=None, mime_type="text/html")
    assert (found["accepts"], found["extensions"]) == ([], {})
    assert found["resource"]["mimeType"] == "text/html"


def test_a_proof_that_repeats_the_longest_offer_is_read() -> None:
    example = {"stance": "x"}
    short = len(payment_required(STANCE, Listing("u", "d", output_example=example), ""))
    example["stance"] += "x" * (MAX_OFFER - short)
    offer = required(url="u", description="d", error="", output_example=example)
    content = payload() | {"resource": offer["resource"], "extensions": offer["extensions"]}
    content["accepted"] = offer["accepts"][0]
    content["extensions"]["payment-identifier"]["info"]["id"] = "x" * 128
    content["payload"]["signature"] = signature = "0x" + "5c" * MAX_SIGNATURE

    assert len(header(content)) <= MAX_PROOF
    assert parse_proof(header(content), [STANCE], START) == proof(signature=signature)
    with pytest.raises(ValueError, match="2048 bytes"):
        required(url="u", description="d", error="x", output_example=example)


def receipt_of(**fields: Any) -> dict[str, Any]:
    name, value = payment_response_field(payment(proof(), **fields))
    assert name == b"payment-response"
    receipt: dict[str, Any] = json.loads(b64decode(value))
    return receipt


def test_receipt_of_a_failed_payment_shows_no_reason_of_an_operator() -> None:
    receipt = receipt_of(state="failed", transaction="0x" + "ab" * 32, reason="by ann: why")
    assert (receipt["success"], receipt["transaction"]) == (False, "")
    assert receipt["errorReason"] == "settlement_failed"


@pytest.mark.parametrize("transaction", ["0x" + "ab" * 32, None])
def test_the_receipt_names_the_transaction_where_it_is_known(transaction: str | None) -> None:
    assert receipt_of(state="settled", transaction=transaction) == {
        "success": True,
        "transaction": transaction or "",
        "network": "eip155:84532",
        "payer": checksummed(PAYER),
    }
