"""What a payment is, as frozen records: what is asked for, what was signed, what became of it."""

from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

X402_VERSION: Final = 2
SCHEME: Final = "exact"

State = Literal["claimed", "settling", "settled", "released", "failed", "unknown"]
"""`claimed`: a proof is being served. `settling`: the facilitator was asked to move the money.
`settled`: it moved. `released`: nothing was asked for and the proof may come again. `failed`: the
facilitator or the journal refused, and it did not move. `unknown`: nobody could tell; the chain
decides."""


class Requirements(Struct, frozen=True):
    """What one door asks for: the only terms that a proof may have."""

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


class ShownProof(Struct, frozen=True):
    """A proof as it was shown, read strictly; whether its terms are ours is not said yet."""

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
    """All as in `Proof`."""

    identifier: str | None = None
    """The id of x402's `payment-identifier` extension, if the payer sent one."""

    @property
    def key(self) -> "PaymentKey":
        """What makes it the same payment wherever it is shown."""
        return PaymentKey(self.network, self.asset, self.payer, self.nonce)


class Proof(Struct, frozen=True):
    """A signed EIP-3009 authorization, read strictly; every address in lower case."""

    requirements: Requirements
    payer: str
    valid_after: int
    valid_before: int
    """Seconds, as they were signed."""

    nonce: str
    """0x and 64 lower-case hexadecimal digits."""

    signature: str
    """0x and 130 lower-case hexadecimal digits, of which the last two are 1b or 1c."""

    @property
    def key(self) -> "PaymentKey":
        """What makes it the same payment wherever it is shown."""
        terms = self.requirements
        return PaymentKey(terms.network, terms.asset, self.payer, self.nonce)


class PaymentKey(NamedTuple):
    """What makes a payment the same one, whichever door it is shown at."""

    network: str
    asset: str
    payer: str
    nonce: str


class Payment(NamedTuple):
    """A row of the journal, in the order of its columns."""

    id: str
    network: str
    asset: str
    payer: str
    nonce: str
    door: str
    """The path at which it was claimed."""

    pay_to: str
    """Whom it pays, whoever is paid by now."""

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
    """When the body that was paid for went out first."""

    signature_digest: str
    """SHA-256 of the signature that was verified. Payer and nonce can be read on the chain by
    anybody, so they alone do not show whose payment it is."""

    key_digest: str | None = None
    """SHA-256 of the idempotency key of the first request. Once the chain has the signature, only
    the payer knows this key."""

    item: str | None = None
    """What was sold: the sequence of a stance in the record of its kind."""


class Purchases(NamedTuple):
    """What a wallet has bought at one door so far."""

    is_open: bool
    """Whether a purchase is claimed, being settled or unknown."""

    settled: int


class Order(NamedTuple):
    """What a proof buys, and what identifies its request."""

    item: str | None = None
    key: str | None = None
    settled_before: int | None = None
    """How often the wallet had bought the same when its request arrived; None where it may buy in
    parallel."""


class TrailStep(NamedTuple):
    """One entry of a payment's trail, in the order of its columns."""

    step: State | Literal["delivered", "undelivered"]
    at: int
    detail: str | None
    """The door of a claim, the transaction of a settlement, and the reason where there is one."""


class Settled(NamedTuple):
    """The money moved."""

    transaction: str


class NotSettled(NamedTuple):
    """The facilitator refused, and nothing moved; `reason` is its code."""

    reason: str
