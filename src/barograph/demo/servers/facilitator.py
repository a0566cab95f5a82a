"""The demo's x402 v2 facilitator: what it says about a payment, and how it settles one.

It checks what a real one checks (https://docs.x402.org, the `exact` scheme on EVM), the signature
included, against the demo's own ledger, and gives the reasons that real ones give.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from barograph.demo.servers.chain import ASSET, NETWORK, TOKEN, Ledger, block_at
from barograph.demo.servers.signatures import (
    Authorization,
    InvalidSignature,
    recover,
    transfer_digest,
)

X402_VERSION: Final = 2
NO_FUNDS: Final = "invalid_exact_evm_insufficient_balance"
USED: Final = "invalid_exact_evm_nonce_already_used"

_SIGNER: Final = "0xd173e9f15655851edd602c9a89ca136d97957a85"
_SECOND: Final = 1_000

Address = Annotated[str, Meta(pattern=r"^0x[0-9a-fA-F]{40}\Z")]
Nonce = Annotated[str, Meta(pattern=r"^0x[0-9a-fA-F]{64}\Z")]
Signature = Annotated[str, Meta(pattern=r"^0x([0-9a-fA-F]{2})*\Z")]
Number = Annotated[str, Meta(pattern=r"^[0-9]{1,77}\Z")]
"""Up to 77 digits always fit into 256 bits."""


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """What has other names on the wire."""


class Extra(_Wire, frozen=True):
    """The token's domain, as the seller knows it."""

    name: str
    version: str


class Terms(_Wire, frozen=True):
    """What a seller wants."""

    scheme: str
    network: str
    amount: Number
    asset: Address
    pay_to: Address
    max_timeout_seconds: int
    extra: Extra


class WireAuthorization(_Wire, frozen=True):
    """What a payer signed."""

    payer: Address = msgspec.field(name="from")
    to: Address
    value: Number
    valid_after: Number
    valid_before: Number
    nonce: Nonce


class Signed(_Wire, frozen=True):
    """An authorization and its signature."""

    signature: Signature
    authorization: WireAuthorization


class Payment(_Wire, frozen=True):
    """What a payer sent."""

    x402_version: Literal[2]
    accepted: Terms
    payload: Signed


class Question(_Wire, frozen=True):
    """What a seller asks: is this payment good, or settle it."""

    x402_version: Literal[2]
    payment_payload: Payment
    payment_requirements: Terms

    @property
    def payer(self) -> str:
        """Who is said to pay."""
        return self.payment_payload.payload.authorization.payer

    @property
    def authorization(self) -> Authorization:
        """What was signed, with numbers for numbers."""
        wire = self.payment_payload.payload.authorization
        numbers = (int(wire.value), int(wire.valid_after), int(wire.valid_before))
        return Authorization(wire.payer, wire.to, *numbers, wire.nonce)


def read_question(body: bytes) -> Question:
    """Read the body of a request.

    Raises:
        ValueError: it is no question.
    """
    return msgspec.json.decode(body, type=Question)


class Facilitator:
    """Judges payments and moves the money of its ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def verify(self, question: Question, now: int) -> str | None:
        """Why a payment is no good, if it is not; `now` is in milliseconds."""
        return (
            _wrong_terms(question)
            or _wrong_time(question.authorization, now // _SECOND)
            or _wrong_signature(question)
            or self._wrong_funds(question.authorization)
        )

    def settle(self, question: Question, now: int) -> dict[str, Any]:
        """Move the money of a payment that is still good, and say how it went."""
        reason = self.verify(question, now)
        if reason is not None:
            return not_settled(question, reason)
        transaction = self._ledger.move(question.authorization, block_at(now))
        return {
            "success": True,
            "transaction": transaction,
            "network": NETWORK,
            "payer": question.payer,
        }

    def _wrong_funds(self, authorization: Authorization) -> str | None:
        if self._ledger.is_used(authorization.payer, authorization.nonce):
            return USED
        if self._ledger.balance(authorization.payer) < authorization.value:
            return NO_FUNDS
        return None


def verdict(question: Question, reason: str | None) -> dict[str, Any]:
    """The answer of `/verify`."""
    if reason is None:
        return {"isValid": True, "payer": question.payer}
    return {"isValid": False, "invalidReason": reason, "payer": question.payer}


def not_settled(question: Question, reason: str) -> dict[str, Any]:
    """The answer of `/settle` when nothing moved."""
    return {
        "success": False,
        "errorReason": reason,
        "transaction": "",
        "network": NETWORK,
        "payer": question.payer,
    }


def supported() -> dict[str, Any]:
    """The answer of `/supported`."""
    kind = {"x402Version": X402_VERSION, "scheme": "exact", "network": NETWORK}
    return {"kinds": [kind], "extensions": [], "signers": {"eip155:*": [_SIGNER]}}


def _wrong_terms(question: Question) -> str | None:
    terms, accepted = question.payment_requirements, question.payment_payload.accepted
    authorization = question.authorization
    checks = {
        "unsupported_scheme": (terms.scheme, accepted.scheme) == ("exact", "exact"),
        "network_mismatch": (terms.network, accepted.network) == (NETWORK, NETWORK),
        "asset_not_deployed_contract": terms.asset.lower() == accepted.asset.lower() == ASSET,
        "invalid_exact_evm_token_name_mismatch": terms.extra.name == TOKEN.name,
        "invalid_exact_evm_token_version_mismatch": terms.extra.version == TOKEN.version,
        "invalid_exact_evm_payload_recipient_mismatch": authorization.to.lower()
        == terms.pay_to.lower(),
        "invalid_exact_evm_payload_authorization_value_mismatch": authorization.value
        == int(terms.amount),
    }
    return next((reason for reason, holds in checks.items() if not holds), None)


def _wrong_time(authorization: Authorization, second: int) -> str | None:
    if authorization.valid_before <= second:
        return "invalid_exact_evm_payload_authorization_valid_before"
    if authorization.valid_after >= second:
        return "invalid_exact_evm_payload_authorization_valid_after"
    return None


def _wrong_signature(question: Question) -> str | None:
    signature = bytes.fromhex(question.payment_payload.payload.signature[2:])
    try:
        signer = recover(transfer_digest(TOKEN, question.authorization), signature)
    except InvalidSignature:
        signer = ""
    if signer != question.payer.lower():
        return "invalid_exact_evm_payload_signature"
    return None
