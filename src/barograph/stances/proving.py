"""Proves a stance against this instance's own record and key."""

from collections.abc import Mapping

from barograph.settings import Settings
from barograph.stances.checkpoint import log_origin, open_checkpoint, verifier_of
from barograph.stances.ledger import Ledger
from barograph.stances.proof import Proof, ProofFailed, prove
from barograph.stances.public_log import PublicLogs
from barograph.stances.records import KINDS
from barograph.stances.signing import load_history_key

PAGE = 10_000


async def prove_in(ledger: Ledger, settings: Settings, body: object, kept: str | None) -> Proof:
    """Prove a delivered body; `kept` is the text of an older checkpoint.

    Raises:
        ProofFailed: something does not fit; the message says what.
        CheckpointRefused: the older checkpoint was not signed with this instance's key.
        DatabaseUnavailable: the record cannot be read.
    """
    kind = body.get("kind") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or kind not in KINDS:
        raise ProofFailed(f"it is no stance: its kind must be one of {', '.join(KINDS)}")
    key = load_history_key(settings)
    logs = PublicLogs(ledger, key, settings.base_url)
    signed = next(
        each for each in await logs.checkpoints() if each.kind == kind and each.log == "versions"
    )
    verifier = verifier_of(key, log_origin(settings.base_url, kind, "versions"))
    older = None if kept is None else open_checkpoint(kept, verifier)
    return prove(body, await _digests(ledger, kind), signed.checkpoint, older)


async def _digests(ledger: Ledger, kind: str) -> list[str]:
    found: list[str] = []
    while page := await ledger.digests(kind, len(found), PAGE):
        found += [row.history_digest for row in page]
    return found
