"""Payments as frozen records, their errors, and the ports to facilitator and chain (pure)."""

from typing import Any, Final, Literal, NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from barograph.errors import BarographError


class Listing(Struct, frozen=True):
    """What a paid endpoint is, in words and by example."""

    url: str
    description: str
    mime_type: str = "application/json"
    output_example: dict[str, Any] | None = None
    """A part of the paid body; without one, no catalog lists the endpoint."""

    def saying(self, terms: str) -> "Listing":
        """The same with one more sentence, unless that is empty."""
        return replace(self, description=f"{self.description} {terms}".rstrip())

    @property
    def resource(self) -> dict[str, Any]:
        """The x402 resource object."""
        return {"url": self.url, "description": self.description, "mimeType": self.mime_type}

    @property
    def discovery(self) -> dict[str, Any]:
        """The `bazaar` extension of an endpoint that is read with a plain GET.

        https://github.com/coinbase/x402/blob/main/specs/extensions/bazaar.md
        """
        if self.output_example is None:
            return {}
        info = {
            "input": {"type": "http", "method": "GET"},
            "output": {"type": "json", "example": self.output_example},
        }
        return {"bazaar": {"info": info, "schema": _SCHEMA}}


_SCHEMA = {
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
}


X402_VERSION: Final = 2
SCHEME: Final = "exact"

USDC_VERSION: Final = "2"
_TEST_NETWORKS: Final = ("eip155:84532", "eip155:11155420", "eip155:80002")
"""Base Sepolia, OP Sepolia and Polygon Amoy."""


def usdc_name(network: str) -> str:
    """The name of USDC in its EIP-712 domain, which depends on the chain."""
    return "USDC" if network in _TEST_NETWORKS else "USD Coin"


State = Literal["claimed", "settling", "settled", "released", "failed", "unknown"]
"""`claimed`: a request is using the proof. `settling`: the facilitator was asked to move the money.
`settled`: it moved. `released`: we did not ask to move it, and the proof can be used again.
`failed`: the facilitator or the journal refused, and it did not move. `unknown`: we don't know
whether it moved; the chain decides."""


class Requirements(Struct, frozen=True):
    """The price of a paid endpoint: the only terms that a proof may have."""

    network: str
    """CAIP-2, such as `eip155:8453`."""

    asset: str
    """The token's contract: 0x and 40 lower-case hexadecimal digits."""

    pay_to: str
    """Lower case too."""

    amount: int
    """In the token's smallest unit."""

    max_timeout_seconds: int
    name: str
    version: str
    """The token's EIP-712 domain."""

    listing: Listing | None = None
    """What is sold for this price, for the facilitator's catalog."""


class DecodedProof(Struct, frozen=True):
    """A well-formed proof whose terms may not be ours."""

    accepted: dict[str, Any]
    """The terms that it repeats."""

    network: str
    asset: str
    payer: str
    pay_to: str
    amount: str
    valid_after: int
    valid_before: int
    nonce: str
    signature: str
    """The same as in `Proof`."""

    identifier: str | None = None
    """The id of x402's `payment-identifier` extension, if the payer sent one."""

    @property
    def key(self) -> "PaymentKey":
        """Identifies the payment."""
        return PaymentKey(self.network, self.asset, self.payer, self.nonce)


class Proof(Struct, frozen=True):
    """A signed EIP-3009 authorization with our terms; every address in lower case."""

    requirements: Requirements
    payer: str
    valid_after: int
    valid_before: int
    """Seconds, as signed."""

    nonce: str
    """0x and 64 lower-case hexadecimal digits."""

    signature: str
    """0x and lower-case hexadecimal digits: 130 of them, the last two 1b or 1c, or more if the
    wallet is a smart contract."""

    @property
    def key(self) -> "PaymentKey":
        """Identifies the payment."""
        terms = self.requirements
        return PaymentKey(terms.network, terms.asset, self.payer, self.nonce)


class PaymentKey(NamedTuple):
    """Identifies a payment, whichever endpoint its proof is sent to."""

    network: str
    asset: str
    payer: str
    nonce: str


class Payment(NamedTuple):
    """A row of the journal."""

    id: str
    network: str
    asset: str
    payer: str
    nonce: str
    path: str
    """Of the endpoint that claimed it."""

    pay_to: str
    """The address that it pays, which may differ from the one configured now."""

    amount: str
    valid_before: int
    """Milliseconds."""

    state: State
    claimed_at: int
    updated_at: int
    transaction: str | None
    entitlement_id: str | None
    reason: str | None
    released_at: int | None
    """When the body was delivered first."""

    signature_digest: str
    """SHA-256 of the verified signature. Payer and nonce are public on the chain, so they alone
    don't prove whose payment it is."""

    key_digest: str | None = None
    """SHA-256 of the idempotency key of the first request, which only the payer knows. The chain
    makes the signature public."""

    item: str | None = None
    """What was sold: the sequence number of a stance within its kind."""


class Purchases(NamedTuple):
    """What a wallet has bought at one endpoint so far."""

    is_open: bool
    """Whether a purchase is claimed, being settled or unknown."""

    settled: int


class Order(NamedTuple):
    """What a proof buys, and what identifies its request."""

    item: str | None = None
    key: str | None = None
    settled_before: int | None = None
    """How often the wallet had bought the same when its request arrived; None if it may buy in
    parallel."""


class OpenCount(NamedTuple):
    """How many payments of a state are unfinished, and when the oldest made its last step."""

    state: State
    payments: int
    oldest_step_at: int


class TrailStep(NamedTuple):
    """One entry of a payment's trail."""

    step: State | Literal["delivered", "undelivered"]
    at: int
    detail: str | None
    """The path of a claim, the transaction of a settlement, and the reason if there is one."""


class Settled(NamedTuple):
    """The money moved."""

    transaction: str


class NotSettled(NamedTuple):
    """The facilitator refused, and no money moved; `reason` is its code."""

    reason: str


ANOTHER_PURCHASE: Final = "another_purchase"
"""The journal's reason for a proof that is never charged, because the wallet used another one."""


class InvalidProof(BarographError):
    """It is not a valid proof of these terms; the message says why, without values."""


class FacilitatorUnavailable(BarographError):
    """The facilitator is unavailable or gave no verdict. No money can have moved."""


class SettlementUnknown(BarographError):
    """The facilitator was asked to settle, and we don't know whether it did.

    `transaction` is the one that it named, if any.
    """

    def __init__(self, message: str, transaction: str | None = None) -> None:
        super().__init__(message)
        self.transaction = transaction


class ChainUnavailable(BarographError):
    """The chain is unavailable, or its answer makes no sense."""


class PaymentError(BarographError):
    """Why `payment` can't be used now; the message has none of its values."""

    def __init__(self, message: str, payment: Payment) -> None:
        super().__init__(message)
        self.payment = payment


class AlreadyUsed(PaymentError):
    """It was settled, and the body was delivered or is for another endpoint."""


class PaymentUnfinished(PaymentError):
    """Nothing is delivered now: don't pay again, the same proof gets the body later.

    Another request is using the proof, the client disconnected, what was bought is unavailable, or
    we don't know yet whether the facilitator settled.
    """


class PurchaseOpen(PaymentError):
    """The wallet bought the same with another proof. This one is never charged."""


class PaymentRefused(PaymentError):
    """The facilitator refused to settle it; nothing was charged or granted."""


def conflict_error(payment: Payment) -> PaymentError:
    """Why a proof can't be used that is a payment already and was not released."""
    match payment.state:
        case "settled":
            return AlreadyUsed("the payment was already used", payment)
        case "failed" if payment.reason == ANOTHER_PURCHASE:
            return PurchaseOpen("the wallet bought with another proof", payment)
        case "failed":
            return PaymentRefused("the facilitator refused to settle the payment", payment)
        case "unknown":
            return PaymentUnfinished("the outcome of the payment is unknown", payment)
        case _:
            return PaymentUnfinished("another request is using the payment", payment)


class ProofVerifier(Protocol):
    """Verifies proofs; it can't settle one."""

    async def verify(self, proof: Proof) -> None:
        """Return if the facilitator says that the proof is valid and names the same payer.

        Raises:
            InvalidProof: the facilitator says that it is invalid.
            FacilitatorUnavailable: the facilitator is unavailable or gave no verdict.
        """


class Facilitator(ProofVerifier, Protocol):
    """Verifies and settles."""

    async def settle(self, proof: Proof) -> Settled | NotSettled:
        """Move the money.

        Raises:
            FacilitatorUnavailable: the request was not sent, or was refused because of our
                configuration. No money can have moved.
            SettlementUnknown: any other outcome without a clear yes or no.
        """

    async def close(self) -> None:
        """Release every connection."""


ChainWord = Literal["used", "unused", "expired", "spent"]
"""`used`: the authorization moved the money to us. `unused`: not yet, or not final yet. `expired`:
it can't move it any more. `spent`: its nonce was cancelled, or used for something else."""


class ChainFinding(NamedTuple):
    """What the chain shows about an authorization, and in which transaction."""

    word: ChainWord
    transaction: str | None = None


class Chain(Protocol):
    """Shows whether an authorization was used."""

    async def authorization(self, payment: Payment) -> ChainFinding:
        """What became of a payment's authorization, by the chain's own clock.

        A used nonce alone doesn't prove a payment: its owner may have cancelled it, or signed
        something else with it.

        Raises:
            ChainUnavailable: the chain gave no usable answer.
        """

    async def close(self) -> None:
        """Release every connection."""
