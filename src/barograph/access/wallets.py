"""Who shows a payment proof: a wallet, known by what it signed. Nothing here can settle."""

from collections.abc import Sequence

from barograph.access.allowances import PROOFS
from barograph.access.feed_refusals import TooManyProofs
from barograph.access.fields import retry_seconds
from barograph.access.gate import Gate
from barograph.access.identity import IdentityRefused, IdentityUnavailable
from barograph.access.refusals import TooManyRequests
from barograph.kit.clock import Clock
from barograph.kit.http import Scope
from barograph.payments.journal import Journal
from barograph.payments.ports import (
    AlreadyUsed,
    FacilitatorUnavailable,
    InvalidProof,
    PaymentError,
    PaymentRefused,
    ProofVerifier,
    PurchaseOpen,
    in_the_way,
)
from barograph.payments.proof import parse_proof, presented, require_timely
from barograph.payments.records import Proof, Purchases, Requirements


class Wallets:
    """Verifies proofs without any charge."""

    def __init__(self, verifier: ProofVerifier, journal: Journal, gate: Gate, clock: Clock) -> None:
        self._verifier = verifier
        self._journal = journal
        self._gate = gate
        self._clock = clock

    async def payer(self, scope: Scope, offers: Sequence[Requirements]) -> str | None:
        """The wallet whose proof of one of these offers is presented; None without a proof.

        Raises:
            IdentityRefused: it does not verify, or was settled already.
            IdentityUnavailable: whether it does cannot be told now.
        """
        try:
            header = presented(scope["headers"])
            if header is None:
                return None
            proof = parse_proof(header, offers, self._clock())
            await self.verify(proof, scope)
        except (InvalidProof, AlreadyUsed, PaymentRefused, PurchaseOpen) as error:
            raise IdentityRefused("the payment proof does not verify") from error
        except (FacilitatorUnavailable, PaymentError, TooManyProofs) as error:
            raise IdentityUnavailable("the payment proof cannot be verified now") from error
        return proof.payer

    async def verify(self, proof: Proof, scope: Scope) -> None:
        """Return when a proof is good, was not settled and is not about to be.

        Raises:
            InvalidProof: it cannot be used now, or the facilitator says no.
            PaymentError: it is a payment, or whether it is one is being found out.
            FacilitatorUnavailable: it cannot be told.
            TooManyProofs: its address has shown too many.
        """
        await self._require_unclaimed(proof)
        try:
            require_timely(proof, self._clock())
            await self.limit(scope)
            await self._verifier.verify(proof)
        except InvalidProof:
            # It may have been charged at another door since it was looked up.
            await self._require_unclaimed(proof)
            raise

    async def purchases(self, payer: str, offer: Requirements, door: str) -> Purchases:
        """What a wallet has bought at a door so far, and whether a purchase is unfinished."""
        return await self._journal.purchases(offer.network, offer.asset, payer, door)

    async def _require_unclaimed(self, proof: Proof) -> None:
        standing = await self._journal.find(proof.key)
        if standing is not None and standing.state != "released":
            raise in_the_way(standing)

    async def limit(self, scope: Scope) -> None:
        """Count a question to the facilitator.

        Raises:
            TooManyProofs: this address has caused too many.
        """
        try:
            await self._gate.charge(PROOFS, self._gate.caller(scope))
        except TooManyRequests as error:
            raise TooManyProofs(retry_seconds(error.standing)) from error
