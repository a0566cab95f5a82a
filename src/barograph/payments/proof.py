"""A payment proof, read strictly: exactly our terms, signed for now, or nothing (pure).

What is read here is an x402 v2 payment payload with an EIP-3009 authorization. Whether the payer
signed it is for the facilitator to say; that it is well-formed and meant for us is said here.
Reasons are words without values: until it expires, a proof is money to whoever holds it.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from barograph.kit.json import strict_object
from barograph.kit.keccak import keccak256
from barograph.kit.timestamps import SECOND
from barograph.payments.records import (
    SCHEME,
    X402_VERSION,
    InvalidKey,
    InvalidProof,
    Proof,
    Requirements,
    ShownProof,
)

MAX_PROOF = 4 * 1024
"""So many characters a proof may have. A stock client repeats the whole offer in it."""

SKEW_SECONDS = 30
"""A payer's clock may be ahead of ours by so much."""

MIN_LEFT_SECONDS = 6
"""A proof must be good for so much longer: verifying, producing the body and settling take time,
and an authorization that expires on the way to the chain is a body made for nothing."""

CURVE_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""The order of secp256k1. Of s and its negative, which sign the same, only the lower one counts."""

_HEADERS = (b"payment-signature", b"x-payment")
_KEY_HEADER = b"idempotency-key"
_KEY = re.compile(r"[A-Za-z0-9_-]{16,128}")
"""As x402 limits the id of its extension `payment-identifier`."""

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_NONCE = re.compile(r"0x[0-9a-fA-F]{64}")
_SIGNATURE = re.compile(r"0x[0-9a-fA-F]{130}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,77}")
_NOBODY = "0x" + "0" * 40
_ACCEPTED = {"scheme", "network", "amount", "asset", "payTo", "maxTimeoutSeconds"}
_AUTHORIZATION = {"from", "to", "value", "validAfter", "validBefore", "nonce"}
_RECOVERY = {0: "1b", 1: "1c", 27: "1b", 28: "1c"}
"""Both ways to write the last byte of a signature, and the one that token contracts take."""


def presented(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The proof of a request, unread; None when it presents none.

    `PAYMENT-SIGNATURE` decides alone, where it is there; `X-PAYMENT` is an older name of it.

    Raises:
        InvalidProof: such a header is there twice, or it is empty.
    """
    for wanted in _HEADERS:
        found = [value for name, value in headers if name.lower() == wanted]
        if len(found) > 1:
            raise InvalidProof("repeated_header")
        if found:
            value = found[0].strip(b" \t")
            if not value:
                raise InvalidProof("empty_header")
            return value.decode("latin-1")
    return None


def parse_proof(header: str, offers: Sequence[Requirements], now_ms: int) -> Proof:
    """Read a proof of one of these offers that can be used now.

    Raises:
        InvalidProof: it is not one; the message is one word that says why.
    """
    proof = read_proof(header, offers)
    require_timely(proof, now_ms)
    return proof


def read_proof(header: str, offers: Sequence[Requirements]) -> Proof:
    """Read a proof of one of these offers, whenever it was or will be good.

    Raises:
        InvalidProof: it is not one; the message is one word that says why.
    """
    return agreed(read_shown(header), offers)


def read_shown(header: str) -> ShownProof:
    """Read a proof of any terms: what was charged before is known by it, whatever is asked now.

    Raises:
        InvalidProof: it is none; the message is one word that says why.
    """
    found = _object(header)
    version = found.get("x402Version")
    if type(version) is not int or version != X402_VERSION:
        raise InvalidProof("wrong_version")
    accepted, network, asset = _terms(found.get("accepted"))
    payload = _members(found.get("payload"), {"signature", "authorization"}, "malformed_payload")
    signed = _members(payload["authorization"], _AUTHORIZATION, "malformed_authorization")
    shown = ShownProof(
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
        identifier=_identifier(found.get("extensions")),
    )
    if shown.payer == _NOBODY:
        raise InvalidProof("malformed_authorization")
    return shown


def idempotency_key(headers: list[tuple[bytes, bytes]], shown: ShownProof) -> str | None:
    """The key with which only the payer can repeat a request, as it was sent; None without one.

    It is the id of the extension `payment-identifier`, or else the header `Idempotency-Key`, with
    or without the quotes of a structured field. Neither ever goes on chain.
    """
    if shown.identifier is not None:
        return shown.identifier
    given = [value.strip(b" \t") for name, value in headers if name.lower() == _KEY_HEADER]
    key = b",".join(given).decode("latin-1")
    return key.removeprefix('"').removesuffix('"') if given else None


def require_key(key: str | None) -> None:
    """Refuse a key of the wrong form. A repeat needs no check, because such a key was never stored.

    Raises:
        InvalidKey: it is too short to be a secret, too long, or has other characters.
    """
    if key is not None and _KEY.fullmatch(key) is None:
        raise InvalidKey("malformed_idempotency_key")


def agreed(shown: ShownProof, offers: Sequence[Requirements]) -> Proof:
    """The same as a proof of the offer that it repeats; not merely of one that it would fit.

    Raises:
        InvalidProof: its terms are of none of these offers, or not those that were signed.
    """
    terms = next((offer for offer in offers if _echoes(shown.accepted, offer)), None)
    if terms is None:
        raise InvalidProof("wrong_terms")
    if shown.pay_to != terms.pay_to:
        raise InvalidProof("wrong_recipient")
    if shown.amount != str(terms.amount):
        raise InvalidProof("wrong_amount")
    return Proof(
        requirements=terms,
        payer=shown.payer,
        valid_after=shown.valid_after,
        valid_before=shown.valid_before,
        nonce=shown.nonce,
        signature=shown.signature,
    )


def require_timely(proof: Proof, now_ms: int) -> None:
    """Refuse what is not good yet, not any more, not for long enough, or for too long.

    Raises:
        InvalidProof: it cannot be used now.
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


def wire_payload(proof: Proof) -> dict[str, Any]:
    """The x402 payment payload for a facilitator, made of what we read and nothing else."""
    terms = proof.requirements
    return {
        "x402Version": X402_VERSION,
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
    }


def wire_requirements(requirements: Requirements) -> dict[str, Any]:
    """The x402 payment requirements, as `accepts` shows them and as a facilitator gets them."""
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
    """An address with the capitals of EIP-55, without which some readers refuse it."""
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
    # The last character has bits that no byte takes: only one way to write them counts.
    if b64encode(body).decode() != header:
        raise InvalidProof("not_base64")
    try:
        return strict_object(body)
    except ValueError:
        # Without its cause, which may repeat what was sent.
        raise InvalidProof("not_json") from None


def _terms(accepted: object) -> tuple[dict[str, Any], str, str]:
    """The terms that a proof repeats, with the network and the asset among them."""
    if isinstance(accepted, dict):
        network, asset = accepted.get("network"), accepted.get("asset")
        if isinstance(network, str) and isinstance(asset, str) and _ADDRESS.fullmatch(asset):
            return accepted, network, asset.lower()
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
    """One that a wallet made by itself; a contract's signature has another length."""
    if not isinstance(given, str) or _SIGNATURE.fullmatch(given) is None:
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


def _text(pattern: re.Pattern[str], given: object) -> str:
    if not isinstance(given, str) or pattern.fullmatch(given) is None:
        raise InvalidProof("malformed_authorization")
    return given


def _is_address(given: object, ours: str) -> bool:
    return (
        isinstance(given, str) and _ADDRESS.fullmatch(given) is not None and given.lower() == ours
    )


def _domain(requirements: Requirements) -> dict[str, str]:
    return {"name": requirements.name, "version": requirements.version}
