"""Errors of paid endpoints.

PrivateError
├── InvalidIdempotencyKey   400
├── PaymentRequired         402, with the price
├── PaymentUsed             409: charged before, don't pay again
├── TooManyProofs           429
├── PaymentPending          503: don't pay again, send the same proof later
│   ├── PaymentCharged      it was charged, and the same proof gets the body later
│   └── PurchasePending     another proof of the wallet came first
└── PaymentUnavailable      503: nothing was charged
"""

from collections.abc import Sequence

from barograph.errors import PrivateError

RETRY_SECONDS = 15

NEEDED = "Payment required"
INVALID = "Invalid payment proof: {}"
REFUSED = "The payment was refused and not charged"
"""The `error` of a 402, a text for people."""


class InvalidIdempotencyKey(PrivateError):
    """Not 402, because signing again would not help."""

    status = 400
    code = "invalid_idempotency_key"

    def __init__(self) -> None:
        super().__init__(
            "the Idempotency-Key or payment identifier must be 16 to 128 letters, digits, - and _; "
            "nothing was charged"
        )


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

    def __init__(self) -> None:
        super().__init__(
            "this payment was already used. Send the same proof to the address that charged it; a "
            "purchase of Feed also needs the Idempotency-Key or payment identifier of the first "
            "request"
        )


class _TryLater(PrivateError):
    def __init__(self, message: str, seconds: int = RETRY_SECONDS) -> None:
        super().__init__(message)
        self._seconds = seconds

    def fields(self) -> Sequence[tuple[bytes, bytes]]:
        """When to try again."""
        return [(b"retry-after", b"%d" % self._seconds)]


class TooManyProofs(_TryLater):
    """One address sent too many proofs; we verify no more of them for now."""

    status = 429
    code = "too_many_requests"

    def __init__(self, seconds: int) -> None:
        super().__init__("too many payment proofs from this address; nothing was charged", seconds)


class PaymentPending(_TryLater):
    """Another request is using this proof, or we don't know yet whether it was charged."""

    status = 503
    code = "payment_pending"

    def __init__(
        self,
        message: str = "we don't know yet whether this payment was charged: do not pay again, "
        "send the same proof again later",
        seconds: int = RETRY_SECONDS,
    ) -> None:
        super().__init__(message, seconds)


class PaymentCharged(PaymentPending):
    """What the payment bought is unavailable now."""

    def __init__(self) -> None:
        super().__init__(
            "this payment was charged, but we can't deliver what it bought at the moment: do not "
            "pay again, send the same proof again later"
        )


class PurchasePending(PaymentPending):
    """The wallet was already buying Feed with another proof."""

    def __init__(self, seconds_left: int) -> None:
        """The refused proof expires in `seconds_left`."""
        super().__init__(
            "this wallet was already buying Feed with another proof, so this proof was not charged "
            "and never will be: don't send it again, send the first one instead",
            max(seconds_left, RETRY_SECONDS),
        )


class PaymentUnavailable(_TryLater):
    """The facilitator is unavailable."""

    status = 503
    code = "payment_unavailable"

    def __init__(self) -> None:
        super().__init__("payments are unavailable at the moment; nothing was charged")
