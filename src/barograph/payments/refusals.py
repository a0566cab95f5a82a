"""How somebody is refused who neither has Feed nor pays.

PrivateError
├── InvalidIdempotencyKey           400
├── FeedIdentityRequired            401
├── PaymentRequired                 402, with what is asked for
│   └── FeedEntitlementRequired     with the Feed entry resource
├── FeedEntryClosed                 404, while nothing can be paid for by x402
├── PaymentUsed                     409: it was charged, and nothing is asked for
├── TooManyProofs                   429
├── PaymentPending                  503: never pay again, ask again
│   └── PurchasePending             another proof of the wallet came first
└── PaymentUnavailable              503: nothing was charged
"""

from collections.abc import Sequence

from barograph.errors import PrivateError

RETRY_SECONDS = 15

NEEDED = "Payment required"
INVALID = "Invalid payment proof: {}"
REFUSED = "The payment was refused and not charged"
"""What the `error` of a 402 says, which x402 has as a text for people."""


class InvalidIdempotencyKey(PrivateError):
    """Signing again would not help, so it is not 402."""

    status = 400
    code = "invalid_idempotency_key"

    def __init__(self) -> None:
        super().__init__(
            "the Idempotency-Key or payment identifier must be 16 to 128 letters, digits, - and _; "
            "nothing was charged"
        )


class PaymentRequired(PrivateError):
    """Nothing was charged; `document` is the x402 v2 object that says what is asked for."""

    status = 402
    code = "payment_required"

    def __init__(self, document: bytes) -> None:
        super().__init__("payment required")
        self.document = document


class PaymentUsed(PrivateError):
    """This payment was charged before; never a reason to ask for another one."""

    status = 409
    code = "payment_used"

    def __init__(self) -> None:
        super().__init__(
            "this payment was already used. To repeat the request, send the Idempotency-Key or "
            "payment identifier of the first one to the same address"
        )


class TooManyProofs(PrivateError):
    """One address showed so many proofs that no more are verified for now."""

    status = 429
    code = "too_many_requests"

    def __init__(self, seconds: int) -> None:
        super().__init__("too many payment proofs from this address; nothing was charged")
        self._seconds = seconds

    def fields(self) -> Sequence[tuple[bytes, bytes]]:
        """When to come again."""
        return [(b"retry-after", str(self._seconds).encode())]


class PaymentPending(PrivateError):
    """This very proof is being served, or whether it was charged is being found out."""

    status = 503
    code = "payment_pending"

    def __init__(
        self,
        message: str = "we don't know yet whether this payment was charged: do not pay again, "
        "send the same proof again later",
        seconds: int = RETRY_SECONDS,
    ) -> None:
        super().__init__(message)
        self._seconds = seconds

    def fields(self) -> Sequence[tuple[bytes, bytes]]:
        """When to come again."""
        return [(b"retry-after", str(self._seconds).encode())]


class PurchasePending(PaymentPending):
    """The wallet was already buying Feed with another proof."""

    def __init__(self, seconds_left: int) -> None:
        """Until the refused proof expires, in `seconds_left`, nobody should send it again."""
        super().__init__(
            "this wallet was already buying Feed with another proof, so this proof was not charged "
            "and never will be: don't send it again, send the first one instead",
            max(seconds_left, RETRY_SECONDS),
        )


class PaymentUnavailable(PrivateError):
    """Payments cannot be verified now."""

    status = 503
    code = "payment_unavailable"

    def __init__(self) -> None:
        super().__init__("payments cannot be taken at the moment; nothing was charged")

    def fields(self) -> Sequence[tuple[bytes, bytes]]:
        """When to come again."""
        return [(b"retry-after", str(RETRY_SECONDS).encode())]
