"""What a payment is, as frozen records: what is asked for, what was signed, what became of it."""

from typing import Any, Final, Literal, NamedTuple, Protocol

from msgspec import Struct

from barograph.errors import BarographError

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


ANOTHER_PURCHASE: Final = "another_purchase"
"""The journal's reason for a proof that is never charged, because another one of its wallet was."""


class InvalidProof(BarographError):
    """It is no proof of these terms; the message names what is wrong, never a value."""


class InvalidKey(BarographError):
    """The idempotency key is too short to be a secret, too long, or has other characters."""


class FacilitatorUnavailable(BarographError):
    """The facilitator could not be asked, or could not tell. Nothing can have moved."""


class SettlementUnknown(BarographError):
    """The facilitator was asked to settle, and nobody can say whether it did."""


class ChainUnavailable(BarographError):
    """The chain could not be asked, or its answer made no sense."""


class PaymentError(BarographError):
    """What has become of `payment`; the message names none of its values."""

    def __init__(self, message: str, payment: Payment) -> None:
        super().__init__(message)
        self.payment = payment


class AlreadyUsed(PaymentError):
    """It was settled, and what it paid for went out, or is for another door."""


class InProgress(PaymentError):
    """Another request is being served with the same proof."""


class CallerGone(PaymentError):
    """Whoever showed it went away before the body went out; the same proof gets it later."""


class SettlementPending(PaymentError):
    """The facilitator was asked to move the money, and whether it did is not known yet."""


class PurchaseOpen(PaymentError):
    """The wallet bought the same with another proof meanwhile. This one is never charged."""


class PaymentRefused(PaymentError):
    """The facilitator refused to settle it: nothing moved, and nothing was granted."""


def in_the_way(payment: Payment) -> PaymentError:
    """Why a proof cannot be taken that is a payment already and was not let go."""
    match payment.state:
        case "settled":
            return AlreadyUsed("the payment was used already", payment)
        case "failed" if payment.reason == ANOTHER_PURCHASE:
            return PurchaseOpen("the wallet bought with another proof", payment)
        case "failed":
            return PaymentRefused("the facilitator refused to settle the payment", payment)
        case "unknown":
            return SettlementPending("the payment is being looked into", payment)
        case _:
            return InProgress("the payment is being served already", payment)


class ProofVerifier(Protocol):
    """Tells whether a proof is good. It has no way to settle one."""

    async def verify(self, proof: Proof) -> None:
        """Return when the facilitator says that the proof is valid and names the same payer.

        Raises:
            InvalidProof: the facilitator says no.
            FacilitatorUnavailable: it cannot be asked, or cannot tell.
        """


class Facilitator(ProofVerifier, Protocol):
    """Verifies and settles."""

    async def settle(self, proof: Proof) -> Settled | NotSettled:
        """Move the money.

        Raises:
            FacilitatorUnavailable: the request never left, or was refused because of how we are
                set up; nothing can have moved.
            SettlementUnknown: anything else that is neither a clear yes nor a clear no.
        """

    async def close(self) -> None:
        """Release every connection."""


ChainWord = Literal["used", "unused", "expired", "spent"]
"""`used`: the authorization moved the money to us. `unused`: not yet, or not for certain yet.
`expired`: it never can any more. `spent`: its nonce was cancelled, or used for something else."""


class ChainFinding(NamedTuple):
    """What the chain shows of an authorization, and in which transaction."""

    word: ChainWord
    transaction: str | None = None


class Chain(Protocol):
    """The chain's own evidence about an authorization."""

    async def authorization(self, payment: Payment) -> ChainFinding:
        """What became of the authorization of a payment, by the chain's own clock.

        That a nonce is taken does not tell that anybody was paid: its owner may have cancelled it,
        or signed something else with it.

        Raises:
            ChainUnavailable: nobody can tell now.
        """

    async def close(self) -> None:
        """Release every connection."""
