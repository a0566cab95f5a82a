"""An x402 v2 facilitator over HTTP: https://github.com/coinbase/x402/blob/main/specs .

Its replies decide about money, so we read them strictly. A yes needs HTTP 200 and a real `true`,
and must not name another payer than the proof's.

A facilitator may say no because it could not find out, or blame our own terms; the payer must not
be asked to pay again for either. Any other no counts, because it is a clear verdict. If we have
never seen its reason, we log it.

A settlement may be pending: the transaction was sent and is not confirmed yet. Asked again, the
facilitator checks it: https://docs.cdp.coinbase.com/x402/seller/settlement-pending .
"""

import logging
import re
from collections.abc import Callable, Sequence
from typing import Final

import httpx2
import msgspec

from barograph.errors import (
    ConfigurationError,
    Forbidden,
    InvalidReply,
    UnknownToUpstream,
    Unreachable,
    UpstreamError,
)
from barograph.kit.clock import Clock, system_clock
from barograph.kit.dependency_health import DependencyHealth, linked
from barograph.kit.http_client import Busy, JsonHttp, JsonReply, NoAnswer, NotSent, Redirected
from barograph.kit.metrics import NO_METRICS, Metrics
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
from barograph.upstream.cdp_key import CdpKey
from barograph.upstream.facilitator_reasons import (
    NEVER_MOVES,
    NOTHING_MOVED,
    TRUE_AFTERWARDS,
    bare,
    fault_of,
)

log = logging.getLogger(__name__)

MAX_REPLY_BYTES = 64 * 1024
VERIFY_SECONDS = 4.0
SETTLE_SECONDS = 30.0
SETTLE_AGAIN_SECONDS = 20.0
"""For a settlement that was pending; with the calls before, less than a paid request may take."""

UNNAMED: Final = "refused_by_facilitator"
"""The reason if the facilitator gives none that can be shown."""

_OK = 200
_ACCEPTED = 202
_SERVER_ERROR = 500
# These are about us or about the load, never about a payment.
_NO_VERDICT = frozenset({401, 403, 407, 408, 425, 429})
_REFUSES_US = frozenset({401, 403, 407})
_NOT_OFFERED = frozenset({404, 405, 501})
_WORD = re.compile(r"[a-z][a-z0-9_]{0,79}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_HASH = re.compile(r"0x[0-9a-fA-F]{64}")
_TOKEN = re.compile(r"[!-~]+")
_NEW_ADDRESS = re.compile(r"(https://[A-Za-z0-9.:\[\]-]{1,200}(?:/[A-Za-z0-9._~-]+)*)/[a-z]+/?")
"""An address that an endpoint redirects to, which ends in the name of the endpoint."""


class SupportedKind(msgspec.Struct, frozen=True, rename="camel"):
    """A kind of payment that a facilitator takes."""

    x402_version: int
    scheme: str
    network: str
    """CAIP-2 in version 2, such as `eip155:8453`."""


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
        metrics: Metrics = NO_METRICS,
    ) -> None:
        """Read the settings.

        Raises:
            ConfigurationError: the token has invalid characters, or the API key can't be read.
        """
        self._url = settings.x402_facilitator_url
        self._refusals = (
            NOTHING_MOVED if settings.x402_chain_url else NOTHING_MOVED | TRUE_AFTERWARDS
        )
        self._verify_seconds = verify_seconds
        self._settle_seconds = settle_seconds
        token = settings.x402_facilitator_token.get_secret_value()
        self._http = JsonHttp(
            longest=MAX_REPLY_BYTES,
            headers=_bearer(token),
            sign=_signer(settings, clock),
            transport=transport,
            upstream="facilitator",
            metrics=metrics,
        )
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
            status = (await self._supported()).status
            answered = _may_refuse(status)
        except Busy:
            return  # that is about us
        except (NotSent, NoAnswer) as error:
            status, answered = error.status, False
        if status not in _NOT_OFFERED:
            _note(self._offer, answered=answered)

    async def supported(self) -> list[SupportedKind]:
        """The kinds of payment that it takes.

        Raises:
            UpstreamError: it does not say; the message says why, and names the target of a
                redirect.
        """
        try:
            reply = await self._supported()
        except (NotSent, NoAnswer) as error:
            raise _no_offer(error.status, self._problem(error)) from error
        if reply.status != _OK:
            raise _no_offer(reply.status, f"it answers HTTP {reply.status}")
        try:
            return msgspec.convert(reply.members.get("kinds"), list[SupportedKind])
        except msgspec.ValidationError as error:
            raise InvalidReply("its list of supported payments can't be read") from error

    async def verify(self, proof: Proof) -> None:
        """See `ProofVerifier.verify`."""
        try:
            reply = await self._post("verify", proof, self._verify_seconds)
        except (NotSent, NoAnswer) as error:
            problem = self._problem(error)
            raise FacilitatorUnavailable(f"the facilitator is unavailable: {problem}") from error
        valid = reply.members.get("isValid")
        if valid is True and reply.status == _OK and _is_payer(reply, proof):
            return
        if valid is not False or not _may_refuse(reply.status):
            raise FacilitatorUnavailable(f"the facilitator gives no verdict (HTTP {reply.status})")
        said = reply.members.get("invalidReason")
        reason = _reason(said)
        match fault_of(said, reply.members.get("invalidMessage")):
            case "ours":
                raise _our_fault(reason)
            case "unclear":
                raise FacilitatorUnavailable(
                    f"the facilitator could not check the payment ({reason})"
                )
            case "unknown":
                log.warning("facilitator gives an unknown reason", extra={"reason": reason})
        raise InvalidProof(reason)

    async def settle(self, proof: Proof) -> Settled | NotSettled:
        """See `Facilitator.settle`."""
        try:
            reply = await self._post("settle", proof, self._settle_seconds)
        except NotSent as error:
            raise FacilitatorUnavailable(f"the facilitator is unavailable: {error}") from error
        except NoAnswer as error:
            raise SettlementUnknown(f"the facilitator may have settled: {error}") from error
        if _is_pending(reply):
            return await self._settle_again(proof, _transaction(reply))
        return _settled(reply, proof) or _refused(reply, self._refusals)

    async def close(self) -> None:
        """Release every connection."""
        await self._http.close()

    async def _settle_again(self, proof: Proof, pending: str | None) -> Settled | NotSettled:
        """Ask about a pending settlement once more; its transaction may confirm at any time."""
        try:
            seconds = min(self._settle_seconds, SETTLE_AGAIN_SECONDS)
            reply = await self._post("settle", proof, seconds)
            return _settled(reply, proof) or _refused(reply, NEVER_MOVES)
        except (NotSent, NoAnswer, FacilitatorUnavailable) as error:
            raise SettlementUnknown(f"the settlement was pending: {error}", pending) from error
        except SettlementUnknown as error:
            raise SettlementUnknown(str(error), error.transaction or pending) from error

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
            self._note_payment(proof, error.status, answered=False)
            raise
        # It answered, even if it could not check the payment: the proof may be the cause.
        status = _OK if _is_pending(reply) else reply.status
        self._note_payment(proof, status, answered=_may_refuse(status))
        return reply

    async def _supported(self) -> JsonReply:
        return await self._http.get(f"{self._url}/supported", self._verify_seconds)

    def _problem(self, error: NotSent | NoAnswer) -> str:
        """A failure in words; after a redirect, with the address to configure."""
        if not isinstance(error, Redirected):
            return str(error)
        target = _NEW_ADDRESS.fullmatch(error.location)
        if target is None or target[1] == self._url:
            return str(error)
        return (
            f"it redirects to {target[1]} (HTTP {error.status}), and we don't follow redirects; "
            "set BAROGRAPH_X402_FACILITATOR_URL to that address"
        )

    def _note_payment(self, proof: Proof, status: int | None, *, answered: bool) -> None:
        """Note how a payment call went; one payer's proofs may cause a 5xx."""
        if status in _REFUSES_US:
            log.error("facilitator refuses our credentials", extra={"status": status})
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
    members, transaction = reply.members, _transaction(reply)
    if members.get("success") is not True or reply.status != _OK:
        return None
    ours = members.get("network") == proof.requirements.network and _is_payer(reply, proof)
    if ours and transaction is not None:
        return Settled(transaction)
    raise SettlementUnknown("the facilitator reports another settlement")


def _refused(reply: JsonReply, refusals: frozenset[str]) -> NotSettled:
    """A clear no for one of these reasons; anything else leaves it unknown."""
    members = reply.members
    reason = _reason(members.get("errorReason"))
    is_no = members.get("success") is False and _may_refuse(reply.status)
    if is_no and members.get("transaction") in (None, ""):
        if fault_of(reason) == "ours":
            raise _our_fault(reason)
        if bare(reason) in refusals:
            return NotSettled(reason)
    raise SettlementUnknown(
        f"the facilitator gives no clear answer (HTTP {reply.status}, {reason})",
        _transaction(reply),
    )


def _is_pending(reply: JsonReply) -> bool:
    """Coinbase says so with HTTP 500, Circle with 200; Circle's older form is 202 and an id."""
    if reply.status == _ACCEPTED:
        return "paymentId" in reply.members
    return bare(reply.members.get("errorReason")) == "settlement_pending"


def _transaction(reply: JsonReply) -> str | None:
    given = reply.members.get("transaction")
    return given.lower() if isinstance(given, str) and _HASH.fullmatch(given) else None


def _may_refuse(status: int) -> bool:
    """Whether a no with this status counts: many facilitators send 400 or 402."""
    return status == _OK or (400 <= status < 500 and status not in _NO_VERDICT)  # noqa: PLR2004


def _our_fault(reason: str) -> FacilitatorUnavailable:
    """The error for a refusal of our terms: the operator has to act, not the payer."""
    log.error("facilitator rejects our payment terms", extra={"reason": reason})
    return FacilitatorUnavailable(f"the facilitator does not accept our terms ({reason})")


def _no_offer(status: int | None, problem: str) -> UpstreamError:
    """The error for a facilitator that doesn't say what it supports."""
    if status in _REFUSES_US:
        return Forbidden(
            f"it refuses our credentials (HTTP {status}): check BAROGRAPH_X402_FACILITATOR_TOKEN, "
            "or BAROGRAPH_X402_CDP_KEY_ID and BAROGRAPH_X402_CDP_KEY_SECRET"
        )
    if status in _NOT_OFFERED or (status is not None and 300 <= status < 400):  # noqa: PLR2004
        return UnknownToUpstream(problem)
    return Unreachable(problem)


def _is_payer(reply: JsonReply, proof: Proof) -> bool:
    """Whether the reply names no other payer than the proof; naming one is optional."""
    payer = reply.members.get("payer")
    return payer is None or (
        isinstance(payer, str)
        and _ADDRESS.fullmatch(payer) is not None
        and payer.lower() == proof.payer
    )


def _reason(given: object) -> str:
    """A reason that can be shown and stored: one short word."""
    return given if isinstance(given, str) and _WORD.fullmatch(given) else UNNAMED


def _signer(settings: Settings, clock: Clock) -> Callable[[httpx2.Request], httpx2.Request] | None:
    secret = settings.x402_cdp_key_secret.get_secret_value()
    if not secret:
        return None
    key = CdpKey(settings.x402_cdp_key_id, secret)

    def sign(request: httpx2.Request) -> httpx2.Request:
        token = key.token(request.method, str(request.url), clock())
        request.headers["Authorization"] = f"Bearer {token}"
        return request

    return sign


def _bearer(token: str) -> dict[str, str]:
    if not token:
        return {}
    if _TOKEN.fullmatch(token) is None:
        raise ConfigurationError("BAROGRAPH_X402_FACILITATOR_TOKEN has invalid characters")
    return {"Authorization": f"Bearer {token}"}
