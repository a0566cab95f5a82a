"""An x402 v2 facilitator over HTTP: https://github.com/coinbase/x402/blob/main/specs .

Its replies decide about money, so they are read strictly. A yes needs HTTP 200, a real `true` and
the payer of the proof.

A no counts only if its reason is about the payment. A facilitator may also say that it could not
find out, or blame our own terms; the payer must not be asked to pay again for either.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import httpx2

from barograph.errors import ConfigurationError
from barograph.kit.clock import Clock, system_clock
from barograph.kit.dependency_health import DependencyHealth, linked
from barograph.payments.proof import wire_payload, wire_requirements
from barograph.payments.records import (
    X402_VERSION,
    FacilitatorUnavailable,
    InvalidProof,
    NotSettled,
    Proof,
    Settled,
    SettlementUnknown,
)
from barograph.settings import Settings
from barograph.upstream.http import Busy, JsonHttp, JsonReply, NoAnswer, NotSent

MAX_REPLY_BYTES = 64 * 1024
VERIFY_SECONDS = 4.0
SETTLE_SECONDS = 30.0

UNNAMED: Final = "refused_by_facilitator"
"""The reason if the facilitator gives none that can be shown."""

CANNOT_TELL: Final = frozenset(
    {
        "unexpected_verify_error",
        "unexpected_settle_error",
        "invalid_transaction_state",
        "invalid_exact_evm_failed_to_verify_signature",
        "invalid_exact_evm_failed_to_get_asset_info",
        "settlement_pending",
    }
)
"""Reasons of a facilitator that could not check the payment."""

CANNOT_TELL_PARTS: Final = (
    "rpc",
    "timeout",
    "timed_out",
    "unavailable",
    "unreachable",
    "connection",
    "internal",
    "unexpected",
    "network_error",
    "rate_limit",
    "too_many_requests",
    "try_again",
    "failed_to_",
)
"""Parts of other reasons with the same meaning."""

OUR_TERMS: Final = frozenset(
    {
        "asset_not_deployed_contract",
        "invalid_exact_evm_eip3009_not_supported",
        "invalid_exact_evm_failed_to_get_network_config",
        "invalid_exact_evm_token_name_mismatch",
        "invalid_exact_evm_token_version_mismatch",
        "invalid_network",
        "invalid_payment_requirements",
        "invalid_scheme",
        "invalid_x402_version",
        "missing_eip712_domain",
        "network_mismatch",
        "unsupported_network",
        "unsupported_scheme",
    }
)
"""Reasons about our terms or configuration, which the payer can't change."""

TRUE_AFTERWARDS: Final = frozenset(
    {
        "insufficient_funds",
        "invalid_exact_evm_insufficient_balance",
        "invalid_exact_evm_payload_authorization_valid_before",
    }
)
"""Reasons that a facilitator may also give after it moved the money: the wallet is empty because it
paid, or the proof expired because the chain was slow. The chain shows which."""

NOTHING_MOVED: Final = frozenset(
    {
        "invalid_exact_evm_payload_authorization_from_address_kyt",
        "invalid_exact_evm_payload_authorization_to_address_kyt",
        "invalid_exact_evm_payload_authorization_typed_data_message",
        "invalid_exact_evm_payload_authorization_valid_after",
        "invalid_exact_evm_payload_authorization_value",
        "invalid_exact_evm_payload_authorization_value_mismatch",
        "invalid_exact_evm_payload_authorization_value_too_low",
        "invalid_exact_evm_payload_recipient_mismatch",
        "invalid_exact_evm_payload_signature",
        "invalid_exact_evm_payload_signature_address",
        "invalid_exact_evm_payload_undeployed_smart_wallet",
        "invalid_payload",
    }
)
"""Reasons for which a facilitator sends no transaction, so that no money can have moved.

A used nonce is not among them, nor a duplicate, a failed transaction or a failed simulation: they
may follow from an earlier attempt whose answer was lost. The chain decides."""

_OK = 200
_SERVER_ERROR = 500
# These are about us or about the load, never about a payment.
_NO_VERDICT = frozenset({401, 403, 407, 408, 425, 429})
_NOT_OFFERED = frozenset({404, 405, 501})
_SIMULATION = "simulation_failed"
_REVERT = "revert"
_WORD = re.compile(r"[a-z][a-z0-9_]{0,79}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_HASH = re.compile(r"0x[0-9a-fA-F]{64}")
_TOKEN = re.compile(r"[!-~]+")


class HttpFacilitator:
    """The facilitator of the settings."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock = system_clock,
        transport: httpx2.AsyncBaseTransport | None = None,
        verify_seconds: float = VERIFY_SECONDS,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        """Read the settings.

        Raises:
            ConfigurationError: the token has invalid characters.
        """
        self._url = settings.x402_facilitator_url
        self._refusals = (
            NOTHING_MOVED if settings.x402_chain_url else NOTHING_MOVED | TRUE_AFTERWARDS
        )
        self._verify_seconds = verify_seconds
        self._settle_seconds = settle_seconds
        token = settings.x402_facilitator_token.get_secret_value()
        self._http = JsonHttp(longest=MAX_REPLY_BYTES, headers=_bearer(token), transport=transport)
        self._payments = DependencyHealth(clock)
        self._offer = DependencyHealth(clock)
        self._health = linked(self._payments, self._offer)
        self._doubted_payer: str | None = None

    @property
    def health(self) -> Sequence[DependencyHealth]:
        """The health of payment calls, and of reading what it supports."""
        return self._health

    async def probe(self) -> None:
        """Read what it supports; a facilitator without that endpoint shows no health."""
        status: int | None
        try:
            status = (await self._http.get(f"{self._url}/supported", self._verify_seconds)).status
            answered = _may_refuse(status)
        except Busy:
            return  # that is about us
        except (NotSent, NoAnswer) as error:
            status = error.status if isinstance(error, NoAnswer) else None
            answered = False
        if status not in _NOT_OFFERED:
            _note(self._offer, answered=answered)

    async def verify(self, proof: Proof) -> None:
        """See `ProofVerifier.verify`."""
        try:
            reply = await self._post("verify", proof, self._verify_seconds)
        except (NotSent, NoAnswer) as error:
            raise FacilitatorUnavailable(f"the facilitator is unavailable: {error}") from error
        valid = reply.members.get("isValid")
        if valid is True and reply.status == _OK and _is_payer(reply, proof):
            return
        if valid is not False or not _may_refuse(reply.status):
            raise FacilitatorUnavailable(f"the facilitator gives no verdict (HTTP {reply.status})")
        reason = _reason(reply.members.get("invalidReason"))
        if not _is_about_the_payment(reply.members):
            raise FacilitatorUnavailable(f"the facilitator could not check the payment ({reason})")
        raise InvalidProof(reason)

    async def settle(self, proof: Proof) -> Settled | NotSettled:
        """See `Facilitator.settle`."""
        try:
            reply = await self._post("settle", proof, self._settle_seconds)
        except NotSent as error:
            raise FacilitatorUnavailable(f"the facilitator is unavailable: {error}") from error
        except NoAnswer as error:
            raise SettlementUnknown(f"the facilitator may have settled: {error}") from error
        return _settled(reply, proof) or self._refused(reply)

    async def close(self) -> None:
        """Release every connection."""
        await self._http.close()

    def _refused(self, reply: JsonReply) -> NotSettled:
        members = reply.members
        reason = _reason(members.get("errorReason"))
        is_no = members.get("success") is False and _may_refuse(reply.status)
        if is_no and members.get("transaction") in (None, ""):
            if reason in OUR_TERMS:
                raise FacilitatorUnavailable(
                    f"the facilitator does not accept our terms ({reason})"
                )
            if reason in self._refusals:
                return NotSettled(reason)
        raise SettlementUnknown(
            f"the facilitator gives no clear answer (HTTP {reply.status}, {reason})"
        )

    async def _post(self, path: str, proof: Proof, seconds: float) -> JsonReply:
        message = {
            "x402Version": X402_VERSION,
            "paymentPayload": wire_payload(proof),
            "paymentRequirements": wire_requirements(proof.requirements),
        }
        try:
            reply = await self._http.post(f"{self._url}/{path}", message, seconds)
        except Busy:
            raise  # that is about us
        except (NotSent, NoAnswer) as error:
            status = error.status if isinstance(error, NoAnswer) else None
            self._note_payment(proof, status, answered=False)
            raise
        # It answered, even if it could not check the payment: the proof may be the cause.
        self._note_payment(proof, reply.status, answered=_may_refuse(reply.status))
        return reply

    def _note_payment(self, proof: Proof, status: int | None, *, answered: bool) -> None:
        """Note how a payment call went; one payer's proofs may cause a 5xx."""
        doubted, self._doubted_payer = self._doubted_payer, None
        if status is not None and status >= _SERVER_ERROR:
            self._doubted_payer = proof.payer
            if doubted in (None, proof.payer):
                return
        _note(self._payments, answered=answered)


def _note(health: DependencyHealth, *, answered: bool) -> None:
    if answered:
        health.answered()
    else:
        health.failed()


def _settled(reply: JsonReply, proof: Proof) -> Settled | None:
    """A clear yes about this payment; None if it isn't a yes."""
    members, transaction = reply.members, reply.members.get("transaction")
    if members.get("success") is not True or reply.status != _OK:
        return None
    ours = members.get("network") == proof.requirements.network and _is_payer(reply, proof)
    if ours and isinstance(transaction, str) and _HASH.fullmatch(transaction):
        return Settled(transaction.lower())
    raise SettlementUnknown("the facilitator reports another settlement")


def _may_refuse(status: int) -> bool:
    """Whether a no with this status counts: many facilitators send 400 or 402."""
    return status == _OK or (400 <= status < 500 and status not in _NO_VERDICT)  # noqa: PLR2004


def _is_payer(reply: JsonReply, proof: Proof) -> bool:
    payer = reply.members.get("payer")
    return (
        isinstance(payer, str)
        and _ADDRESS.fullmatch(payer) is not None
        and payer.lower() == proof.payer
    )


def _is_about_the_payment(members: dict[str, Any]) -> bool:
    """Whether the reason of a no is about the payment."""
    name = _name(members.get("invalidReason"))
    if name in CANNOT_TELL or name in OUR_TERMS:
        return False
    if _SIMULATION in name:
        # The contract refuses with a revert; anything else means that the chain failed.
        return _REVERT in name or _REVERT in _name(members.get("invalidMessage"))
    return not any(part in name for part in CANNOT_TELL_PARTS)


def _name(given: object) -> str:
    """A normalized reason; some facilitators write sentences."""
    return "_".join(given.lower().split()) if isinstance(given, str) else ""


def _reason(given: object) -> str:
    """A reason that can be shown and stored: one short word."""
    return given if isinstance(given, str) and _WORD.fullmatch(given) else UNNAMED


def _bearer(token: str) -> dict[str, str]:
    if not token:
        return {}
    if _TOKEN.fullmatch(token) is None:
        raise ConfigurationError("BAROGRAPH_X402_FACILITATOR_TOKEN has invalid characters")
    return {"Authorization": f"Bearer {token}"}
