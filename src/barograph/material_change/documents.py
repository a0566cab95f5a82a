"""Where the bytes of a comparison are rendered (pure)."""

from typing import Protocol

from msgspec import to_builtins

from barograph.kit.timestamps import iso_timestamp
from barograph.material_change.compare import Assessment
from barograph.material_change.query import Pair, Reference
from barograph.material_change.wire import AssessmentBody, Comparison, VersionReference
from barograph.notice import NOTICE


class Issued(Protocol):
    """A recorded version."""

    @property
    def issued_at(self) -> int:
        """When it was issued, in milliseconds."""


def comparison_body(
    pair: Pair, before: Issued, after: Issued, assessment: Assessment, *, compared_at: int
) -> bytes:
    """The body for a pair that was found and compared."""
    body = Comparison(
        kind=pair.kind,
        before=_reference(pair.before, before),
        after=_reference(pair.after, after),
        compared_at=iso_timestamp(compared_at),
        assessment=AssessmentBody(status=assessment.status, **to_builtins(assessment)),
        notice=NOTICE,
    )
    return body.encode()


def _reference(reference: Reference, version: Issued) -> VersionReference:
    return VersionReference(
        leg_id=reference.leg_id,
        revision=reference.revision,
        history_digest=reference.history_digest,
        issued_at=iso_timestamp(version.issued_at),
    )
