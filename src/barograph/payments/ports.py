"""What payments need from outside, and how taking one can end.

BarographError
├── InvalidProof              it does not fit these terms, or the facilitator says no
├── InvalidKey                the idempotency key of a request has the wrong form
├── FacilitatorUnavailable    nothing was asked to be settled, or nothing can have moved
├── SettlementUnknown         of the facilitator: it was asked, and nobody can say
├── ChainUnavailable          the chain cannot tell
└── PaymentError              what the journal knows of this very payment
    ├── AlreadyUsed           it was settled, and what it paid for went out
    ├── InProgress            another request is being served with it
    ├── CallerGone            who showed it is gone; the same proof gets what it paid for
    ├── SettlementPending     whether it was settled is being found out; never pay again
    ├── PurchaseOpen          its wallet bought the same with another proof at the same time
    └── PaymentRefused        the facilitator did not settle it; it is of no use any more
"""

from typing import Final, Literal, NamedTuple, Protocol

from barograph.errors import BarographError
from barograph.payments.records import NotSettled, Payment, Proof, Settled

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
