"""Offers of paid endpoints, as an x402 v2 payer reads them (pure)."""

from base64 import b64encode
from typing import Annotated, Any, Literal

from msgspec.json import encode
from pydantic import Field

from barograph.kit.wire import WireModel
from barograph.payments.listings import Listing
from barograph.payments.proof import checksummed, wire_requirements
from barograph.payments.records import X402_VERSION, Payment, Requirements


class PaidResource(WireModel):
    """The resource for sale."""

    url: str
    description: str
    mimeType: str


class PaymentDomain(WireModel):
    """The token's EIP-712 domain."""

    name: str
    version: str


class PaymentTermsBody(WireModel):
    """One way to pay."""

    scheme: Literal["exact"]
    network: Annotated[str, Field(description="CAIP-2, such as eip155:8453.")]
    amount: Annotated[
        str, Field(description="In the token's smallest unit.", pattern="^[1-9][0-9]*$")
    ]
    asset: Annotated[str, Field(description="Address of the token's contract.")]
    payTo: str
    maxTimeoutSeconds: int
    extra: PaymentDomain


class PaymentRequiredBody(WireModel):
    """The terms of payment. Nothing was charged. Do not pay again automatically."""

    x402Version: Literal[2]
    error: str
    resource: PaidResource
    accepts: Annotated[list[PaymentTermsBody], Field(description="Empty if x402 is disabled.")]
    extensions: dict[str, Any]


MAX_OFFER = 2 * 1024
"""The longest offer in bytes: a payer's proof repeats nearly all of it in base64, and must not be
longer than `proof.MAX_PROOF`."""


def payment_required(requirements: Requirements | None, listing: Listing, error: str) -> bytes:
    """The x402 v2 payment-required object; without requirements it offers nothing.

    Raises:
        ValueError: it is too long, so that we would refuse the proof that repeats it.
    """
    body = encode(
        {
            "x402Version": X402_VERSION,
            "error": error,
            "resource": listing.resource,
            "accepts": [] if requirements is None else [wire_requirements(requirements)],
            "extensions": {} if requirements is None else listing.discovery | _IDENTIFIER,
        }
    )
    if len(body) > MAX_OFFER:
        raise ValueError(f"an offer may have at most {MAX_OFFER} bytes, this one has {len(body)}")
    return body


def payment_required_field(body: bytes) -> tuple[bytes, bytes]:
    """The header field that repeats the object."""
    return (b"payment-required", b64encode(body))


def payment_response_field(payment: Payment) -> tuple[bytes, bytes]:
    """The header field with the payer's receipt: of a settled payment, or of one that failed."""
    is_settled = payment.state == "settled"
    receipt = {
        "success": is_settled,
        # A payment that was found on the chain later may have no transaction.
        "transaction": payment.transaction or "" if is_settled else "",
        "network": payment.network,
        "payer": checksummed(payment.payer),
    }
    if not is_settled:
        # A facilitator's reason is one word; the reasons of operators are not for the payer.
        reason = payment.reason or ""
        receipt["errorReason"] = reason if reason.isidentifier() else "settlement_failed"
    return (b"payment-response", b64encode(encode(receipt)))


_IDENTIFIER = {
    "payment-identifier": {
        "info": {"required": False},
        "schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "required": {"type": "boolean"},
                "id": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{16,128}$"},
            },
            "required": ["required"],
        },
    }
}
"""The `payment-identifier` extension: with its own id a payer can repeat a paid request."""
