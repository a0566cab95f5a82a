"""Reads payment proofs strictly: exactly our terms, valid now, or nothing (pure).

A proof is an x402 v2 payment payload with an EIP-3009 authorization. The facilitator checks the
signature; this module checks that the proof is well-formed and pays us. The reasons in errors have
no values, because a proof is money until it expires.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from barograph.errors import PrivateError
from barograph.kit.json import strict_object
from barograph.kit.keccak import keccak256
from barograph.kit.timestamps import SECOND
from barograph.payments.records import (
    SCHEME,
    X402_VERSION,
    DecodedProof,
    InvalidProof,
    Proof,
    Requirements,
)

MAX_PROOF = 8 * 1024
"""The longest proof in characters. A stock client repeats the whole offer in it."""

MAX_SIGNATURE = 1536
"""The longest signature in bytes. A smart wallet with a passkey that isn't deployed yet needs about
1,200."""

SKEW_SECONDS = 30
"""How far a payer's clock may be ahead of ours."""

MIN_LEFT_SECONDS = 6
"""How much longer a proof must be valid, because verifying, producing the body and settling take
time."""

CURVE_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""The order of secp256k1. Of the two s that sign the same, only the lower one counts."""

_HEADERS = (b"payment-signature", b"x-payment")
_KEY_HEADER = b"idempotency-key"
_KEY = re.compile(r"[A-Za-z0-9_-]{16,128}")
"""The form that x402 requires of the id in its extension `payment-identifier`."""

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_NONCE = re.compile(r"0x[0-9a-fA-F]{64}")
_SIGNATURE = re.compile(r"0x[0-9a-fA-F]{130}")
_CONTRACT_SIGNATURE = re.compile(rf"0x(?:[0-9a-fA-F]{{2}}){{66,{MAX_SIGNATURE}}}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,77}")
_NETWORK = re.compile(r"[a-z0-9-]{3,8}:[A-Za-z0-9_-]{1,32}")
"""A CAIP-2 id."""

_ZERO_ADDRESS = "0x" + "0" * 40
_ACCEPTED = {"scheme", "network", "amount", "asset", "payTo", "maxTimeoutSeconds"}
_AUTHORIZATION = {"from", "to", "value", "validAfter", "validBefore", "nonce"}
_RECOVERY = {0: "1b", 1: "1c", 27: "1b", 28: "1c"}
"""Both ways to write the last byte of a signature, mapped to the one that tokens accept."""


class InvalidIdempotencyKey(PrivateError):
    """Not 402, because signing again would not help."""

    status = 400
    code = "invalid_idempotency_key"
    text = (
        "the Idempotency-Key or payment identifier must be 16 to 128 letters, digits, - and _; "
        "nothing was charged"
    )


def proof_header(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The undecoded proof of a request; None without one.

    `PAYMENT-SIGNATURE` wins over `X-PAYMENT`, its older name.

    Raises:
        InvalidProof: the header is repeated or empty.
    """
    for wanted in _HEADERS:
        values = [value for name, value in headers if name.lower() == wanted]
        if len(values) > 1:
            raise InvalidProof("repeated_header")
        if values:
            value = values[0].strip(b" \t")
            if not value:
                raise InvalidProof("empty_header")
            return value.decode("latin-1")
    return None


def parse_proof(header: str, offers: Sequence[Requirements], now_ms: int) -> Proof:
    """Read a proof of one of these offers that can be used now.

    Raises:
        InvalidProof: it is not one; the message is one word that says why.
    """
    proof = match_offer(decode_proof(header), offers)
    require_timely(proof, now_ms)
    return proof


def decode_proof(header: str) -> DecodedProof:
    """Decode a proof of any terms, so that one that was charged before is found at any price.

    Raises:
        InvalidProof: it is malformed; the message is one word that says why.
    """
    document = _object(header)
    version = document.get("x402Version")
    if type(version) is not int or version != X402_VERSION:
        raise InvalidProof("wrong_version")
    accepted, network, asset = _terms(document.get("accepted"))
    payload = _members(document.get("payload"), {"signature", "authorization"}, "malformed_payload")
    signed = _members(payload["authorization"], _AUTHORIZATION, "malformed_authorization")
    decoded = DecodedProof(
        accepted=accepted,
        network=network,
        asset=asset,
        payer=_text(_ADDRESS, signed["from"]).lower(),
        pay_to=_text(_ADDRESS, signed["to"]).lower(),
        amount=_text(_NUMBER, signed["value"]),
        valid_after=int(_text(_NUMBER, signed["validAfter"])),
        valid_before=int(_text(_NUMBER, signed["validBefore"])),
        nonce=_text(_NONCE, signed["nonce"]).lower(),
        signature=_signature(payload["signature"]),
        identifier=_identifier(document.get("extensions")),
    )
    if decoded.payer == _ZERO_ADDRESS:
        raise InvalidProof("malformed_authorization")
    return decoded


def match_offer(decoded: DecodedProof, offers: Sequence[Requirements]) -> Proof:
    """The proof of the offer that it repeats, not just of one that it would fit.

    Raises:
        InvalidProof: it repeats none of these offers, or signs other terms than it repeats.
    """
    terms = next((offer for offer in offers if _echoes(decoded.accepted, offer)), None)
    if terms is None:
        raise InvalidProof("wrong_terms")
    if decoded.pay_to != terms.pay_to:
        raise InvalidProof("wrong_recipient")
    if decoded.amount != str(terms.amount):
        raise InvalidProof("wrong_amount")
    return Proof(
        requirements=terms,
        payer=decoded.payer,
        valid_after=decoded.valid_after,
        valid_before=decoded.valid_before,
        nonce=decoded.nonce,
        signature=decoded.signature,
    )


def require_timely(proof: Proof, now_ms: int) -> None:
    """Check that a proof is valid now, for long enough and not for too long.

    Raises:
        InvalidProof: it can't be used now.
    """
    left = proof.valid_before * SECOND - now_ms
    if proof.valid_after * SECOND > now_ms:
        raise InvalidProof("not_yet_valid")
    if left <= 0:
        raise InvalidProof("expired")
    if left < MIN_LEFT_SECONDS * SECOND:
        raise InvalidProof("expires_too_soon")
    if left > (proof.requirements.max_timeout_seconds + SKEW_SECONDS) * SECOND:
        raise InvalidProof("valid_too_long")


def idempotency_key(headers: list[tuple[bytes, bytes]], decoded: DecodedProof) -> str | None:
    """The key with which only the payer can repeat a request, as sent; None without one.

    It is the id of the extension `payment-identifier`, or else the header `Idempotency-Key`, with
    or without the quotes of a structured field. Neither ever goes on chain.
    """
    if decoded.identifier is not None:
        return decoded.identifier
    given = [value.strip(b" \t") for name, value in headers if name.lower() == _KEY_HEADER]
    key = b",".join(given).decode("latin-1")
    return key.removeprefix('"').removesuffix('"') if given else None


def require_key(key: str | None) -> None:
    """Refuse a malformed key. A repeat needs no check, because such a key was never stored.

    Raises:
        InvalidIdempotencyKey: it is too short to be a secret, too long, or has other characters.
    """
    if key is not None and _KEY.fullmatch(key) is None:
        raise InvalidIdempotencyKey


def wire_payload(proof: Proof) -> dict[str, Any]:
    """The x402 payment payload for a facilitator, made only of what we decoded and of our offer.

    A payer can change their copy of our offer, so it must not get into a catalog.
    """
    terms = proof.requirements
    listing = terms.listing
    return {
        "x402Version": X402_VERSION,
        **({} if listing is None else {"resource": listing.resource}),
        "accepted": wire_requirements(terms),
        "payload": {
            "signature": proof.signature,
            "authorization": {
                "from": checksummed(proof.payer),
                "to": checksummed(terms.pay_to),
                "value": str(terms.amount),
                "validAfter": str(proof.valid_after),
                "validBefore": str(proof.valid_before),
                "nonce": proof.nonce,
            },
        },
        **({} if listing is None else {"extensions": listing.discovery}),
    }


def wire_requirements(requirements: Requirements) -> dict[str, Any]:
    """The x402 payment requirements, for `accepts` and for a facilitator."""
    return {
        "scheme": SCHEME,
        "network": requirements.network,
        "amount": str(requirements.amount),
        "asset": checksummed(requirements.asset),
        "payTo": checksummed(requirements.pay_to),
        "maxTimeoutSeconds": requirements.max_timeout_seconds,
        "extra": _domain(requirements),
    }


@lru_cache(maxsize=256)
def checksummed(address: str) -> str:
    """An address in EIP-55 mixed case, which some readers require."""
    digits = address.removeprefix("0x").lower()
    marks = keccak256(digits.encode()).hex()
    return "0x" + "".join(
        digit.upper() if mark >= "8" else digit for digit, mark in zip(digits, marks, strict=False)
    )


def _object(header: str) -> dict[str, Any]:
    if len(header) > MAX_PROOF:
        raise InvalidProof("too_long")
    if _BASE64.fullmatch(header) is None or len(header) % 4:
        raise InvalidProof("not_base64")
    body = b64decode(header, validate=True)
    # The last character may have unused bits: only zeros are accepted.
    if b64encode(body).decode() != header:
        raise InvalidProof("not_base64")
    try:
        return strict_object(body)
    except ValueError:
        # Without its cause, which may contain the proof.
        raise InvalidProof("not_json") from None


def _terms(accepted: object) -> tuple[dict[str, Any], str, str]:
    """The terms that a proof repeats, and their network and asset."""
    if isinstance(accepted, dict):
        network = _text(_NETWORK, accepted.get("network"), "wrong_terms")
        return accepted, network, _text(_ADDRESS, accepted.get("asset"), "wrong_terms").lower()
    raise InvalidProof("wrong_terms")


def _echoes(accepted: dict[str, Any], offer: Requirements) -> bool:
    extra = accepted.get("extra", {})
    timeout = accepted.get("maxTimeoutSeconds")
    return (
        accepted.keys() - {"extra"} == _ACCEPTED
        and (accepted["scheme"], accepted["network"]) == (SCHEME, offer.network)
        and accepted["amount"] == str(offer.amount)
        and _is_address(accepted["asset"], offer.asset)
        and _is_address(accepted["payTo"], offer.pay_to)
        and (type(timeout) is int and timeout == offer.max_timeout_seconds)
        and (isinstance(extra, dict) and extra.items() <= _domain(offer).items())
    )


def _signature(given: object) -> str:
    """The normalized signature of a wallet.

    One with more than 65 bytes is a smart wallet's (ERC-1271 or ERC-6492). Only the wallet's
    contract can tell whether it is valid, so the facilitator has to ask it.
    """
    if not isinstance(given, str):
        raise InvalidProof("malformed_signature")
    if _CONTRACT_SIGNATURE.fullmatch(given) is not None:
        return given.lower()
    if _SIGNATURE.fullmatch(given) is None:
        raise InvalidProof("malformed_signature")
    r, s, v = int(given[2:66], 16), int(given[66:130], 16), int(given[130:], 16)
    if not 0 < r < CURVE_ORDER or not 0 < s <= CURVE_ORDER // 2 or v not in _RECOVERY:
        raise InvalidProof("malformed_signature")
    return given[:130].lower() + _RECOVERY[v]


def _identifier(extensions: object) -> str | None:
    """The payment identifier as sent. A client without one echoes our offer, which has no id."""
    for name in ("payment-identifier", "info", "id"):
        extensions = extensions.get(name) if isinstance(extensions, dict) else None
    return extensions if extensions is None or isinstance(extensions, str) else ""


def _members(given: object, names: set[str], reason: str) -> dict[str, Any]:
    if not isinstance(given, dict) or given.keys() != names:
        raise InvalidProof(reason)
    return given


def _text(pattern: re.Pattern[str], given: object, reason: str = "malformed_authorization") -> str:
    if not isinstance(given, str) or pattern.fullmatch(given) is None:
        raise InvalidProof(reason)
    return given


def _is_address(given: object, ours: str) -> bool:
    return (
        isinstance(given, str) and _ADDRESS.fullmatch(given) is not None and given.lower() == ours
    )


def _domain(requirements: Requirements) -> dict[str, str]:
    return {"name": requirements.name, "version": requirements.version}
