"""Offers of paid endpoints, as an x402 v2 payer reads them (pure)."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec.json import encode
from pydantic import Field

from barograph.errors import PrivateError
from barograph.kit.wire import WireModel
from barograph.payments.proof import checksummed, wire_requirements
from barograph.payments.records import X402_VERSION, Listing, Payment, Requirements


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


RETRY_SECONDS = 15

NEEDED = "Payment required"
INVALID = "Invalid payment proof: {}"
REFUSED = "The payment was refused and not charged"
"""The `error` of a 402, a text for people."""


class PaymentRequired(PrivateError):
    """Nothing was charged. `document` is the x402 object; `receipt` is of a refused settlement."""

    status = 402
    code = "payment_required"

    def __init__(self, document: bytes, *receipt: tuple[bytes, bytes]) -> None:
        super().__init__("payment required")
        self.document, self.receipt = document, receipt


class PaymentUsed(PrivateError):
    """This payment was charged before; never ask for another one."""

    status = 409
    code = "payment_used"
    text = (
        "this payment was already used. Send the same proof to the address that charged it; a "
        "purchase of Feed also needs the Idempotency-Key or payment identifier of the first "
        "request"
    )


class _TryLater(PrivateError):
    def __init__(self, seconds: int = RETRY_SECONDS) -> None:
        super().__init__()
        self._seconds = seconds

    def fields(self) -> Sequence[tuple[bytes, bytes]]:
        """When to try again."""
        return [(b"retry-after", b"%d" % self._seconds)]


class TooManyProofs(_TryLater):
    """One address sent too many proofs; we verify no more of them for now."""

    status = 429
    code = "too_many_requests"
    text = "too many payment proofs from this address; nothing was charged"


class PaymentPending(_TryLater):
    """Another request is using this proof, or we don't know yet whether it was charged."""

    status = 503
    code = "payment_pending"
    text = (
        "we don't know yet whether this payment was charged: do not pay again, send the same proof "
        "again later"
    )


class PaymentCharged(PaymentPending):
    """What the payment bought is unavailable now."""

    text = (
        "this payment was charged, but we can't deliver what it bought at the moment: do not "
        "pay again, send the same proof again later"
    )


class PurchasePending(PaymentPending):
    """The wallet was already buying Feed with another proof."""

    text = (
        "this wallet was already buying Feed with another proof, so this proof was not charged "
        "and never will be: don't send it again, send the first one instead"
    )

    def __init__(self, seconds_left: int) -> None:
        """The refused proof expires in `seconds_left`."""
        super().__init__(max(seconds_left, RETRY_SECONDS))


class PaymentUnavailable(_TryLater):
    """The facilitator is unavailable."""

    status = 503
    code = "payment_unavailable"
    text = "payments are unavailable at the moment; nothing was charged"
