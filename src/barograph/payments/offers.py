"""What is asked for at a paid door, as an x402 v2 payer reads it (pure)."""

from base64 import b64encode
from collections.abc import Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Annotated, Any, Literal, Protocol

from msgspec.json import encode
from pydantic import Field

from barograph.kit.wire import WireModel
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
"""So many bytes an offer may have: a payer repeats nearly all of it in a proof, in base64, and
that must stay readable (`proof.MAX_PROOF`)."""

_EXACT = Context(prec=100, traps=[Inexact, InvalidOperation])


class PaymentTerms(Protocol):
    """The settings that make a price an offer."""

    @property
    def x402_network(self) -> str:
        """CAIP-2."""

    @property
    def x402_asset(self) -> str:
        """The token's address, in either case."""

    @property
    def x402_asset_name(self) -> str:
        """Of its EIP-712 domain."""

    @property
    def x402_asset_version(self) -> str:
        """Of its EIP-712 domain."""

    @property
    def x402_asset_decimals(self) -> int:
        """How many decimals it has."""

    @property
    def x402_pay_to(self) -> str:
        """The address that is paid, in either case."""

    @property
    def x402_timeout_seconds(self) -> int:
        """How long a proof may be good."""

    @property
    def feed_price_usd(self) -> Decimal:
        """For one period."""

    @property
    def stance_price_usd(self) -> Decimal:
        """For one read."""


def feed_requirements(terms: PaymentTerms) -> Requirements:
    """What one period of Feed costs."""
    return _requirements(terms, terms.feed_price_usd)


def stance_requirements(terms: PaymentTerms) -> Requirements:
    """What one read of a stance costs."""
    return _requirements(terms, terms.stance_price_usd)


def payment_required(
    requirements: Requirements | None,
    *,
    url: str,
    description: str,
    error: str,
    mime_type: str = "application/json",
    output_example: Mapping[str, Any] | None = None,
) -> bytes:
    """The x402 v2 payment-required object; without requirements nothing can be paid for here.

    With an example of what a payer gets it carries discovery metadata, so that a facilitator's
    catalog can list the door.

    Raises:
        ValueError: it is so long that a payer's proof, which repeats it, would be refused.
    """
    body = encode(
        {
            "x402Version": X402_VERSION,
            "error": error,
            "resource": {"url": url, "description": description, "mimeType": mime_type},
            "accepts": [] if requirements is None else [wire_requirements(requirements)],
            "extensions": {}
            if output_example is None
            else {"bazaar": _discovery(output_example), "payment-identifier": _IDENTIFIER},
        }
    )
    if len(body) > MAX_OFFER:
        raise ValueError(f"an offer may have {MAX_OFFER} bytes, and this has {len(body)}")
    return body


def payment_required_field(body: bytes) -> tuple[bytes, bytes]:
    """The header field that repeats the object."""
    return (b"payment-required", b64encode(body))


def payment_response_field(payment: Payment) -> tuple[bytes, bytes]:
    """The header field that is the payer's receipt of a settled payment."""
    receipt = {
        "success": True,
        # Found on the chain later, it moved in a transaction that nobody named to us.
        "transaction": payment.transaction or "",
        "network": payment.network,
        "payer": checksummed(payment.payer),
    }
    return (b"payment-response", b64encode(encode(receipt)))


def _requirements(terms: PaymentTerms, price: Decimal) -> Requirements:
    units = _EXACT.multiply(price, Decimal(10) ** terms.x402_asset_decimals)
    return Requirements(
        network=terms.x402_network,
        asset=terms.x402_asset.lower(),
        pay_to=terms.x402_pay_to.lower(),
        amount=int(_EXACT.to_integral_exact(units)),
        max_timeout_seconds=terms.x402_timeout_seconds,
        name=terms.x402_asset_name,
        version=terms.x402_asset_version,
    )


_IDENTIFIER = {
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
"""The `payment-identifier` extension: with an id of its own a payer can repeat a paid request."""


def _discovery(output_example: Mapping[str, Any]) -> dict[str, Any]:
    """The `bazaar` extension of a door that is read with a plain GET."""
    return {
        "info": {
            "input": {"type": "http", "method": "GET"},
            "output": {"type": "json", "example": output_example},
        },
        "schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "input": {
                    "type": "object",
                    "properties": {
                        "type": {"type": "string", "const": "http"},
                        "method": {"type": "string", "enum": ["GET"]},
                    },
                    "required": ["type", "method"],
                    "additionalProperties": False,
                },
                "output": {
                    "type": "object",
                    "properties": {"type": {"type": "string"}, "example": {"type": "object"}},
                    "required": ["type"],
                },
            },
            "required": ["input"],
        },
    }
