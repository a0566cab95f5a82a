"""The table of errors on the developer page, asked of the whole application row by row."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from barograph.history.records import Version
from barograph.kit.timestamps import DAY
from barograph.limits.rate_limits import PROOFS
from barograph.payments.records import (
    FacilitatorUnavailable,
    InvalidProof,
    NotSettled,
    Requirements,
)
from barograph.site.developers import problems
from barograph.site.developers.problems import CODED_ERRORS, STANCE_READS
from support.payments import FEED, PAYMENTS, STANCE, HandFacilitator, header, payload, proof
from support.service import Answer, ask
from support.stances import FUNDING
from support.subscribers import (
    FEED_ENTRY,
    FEED_NOW,
    FEED_TOKEN,
    MATERIAL_CHANGE,
    PLAIN_TOKEN,
    SubscriberService,
)
from support.subscribers import STANCE_READS as STANCE_PATHS

PATHS = {
    problems.COMPARISON: MATERIAL_CHANGE,
    problems.FEED_NOW: FEED_NOW,
    STANCE_READS: STANCE_PATHS[FUNDING],
    problems.FEED_ENTRY: FEED_ENTRY,
}


class Door:
    """One door of a service that takes payments, or of one that does not."""

    before: Version
    after: Version

    def __init__(self, folder: Path, door: str, *, is_open: bool = True) -> None:
        self.facilitator = HandFacilitator()
        self.path = PATHS[door]
        self.terms: Requirements = STANCE if door == STANCE_READS else FEED
        settings: dict[str, Any] = PAYMENTS if is_open else {}
        facilitator = self.facilitator if is_open else None
        self.service = SubscriberService(folder, facilitator=facilitator, **settings)

    def token(self, token: str) -> Answer:
        return self.service.read(self.path, token)

    def pay(self, number: int = 1, terms: Requirements | None = None) -> Answer:
        now = self.service.clock() // 1000
        shown = payload(proof(number, offer=terms or self.terms, now_seconds=now))
        fields = [("payment-signature", header(shown))]
        return ask(self.service.app, self.path, fields=fields)


def unverified(door: Door) -> Answer:
    if door.path in (MATERIAL_CHANGE, FEED_NOW):
        door.facilitator.refuse()
        assert door.pay().status == 401
    return door.token("nobody's token")


def malformed_key(door: Door) -> Answer:
    shown = header(payload(proof(offer=door.terms)))
    fields = [("payment-signature", shown), ("idempotency-key", "short")]
    return ask(door.service.app, door.path, fields=fields)


def without_anything(door: Door) -> Answer:
    if door.path != FEED_ENTRY:
        assert door.token(PLAIN_TOKEN).status == 402
    return door.service.ask(door.path)


def bad_proof(door: Door) -> Answer:
    door.facilitator.on_verify = InvalidProof("insufficient_funds")
    assert door.pay().json()["error"] == "Invalid payment proof: insufficient_funds"
    shown = [("payment-signature", "rubbish")]
    return ask(door.service.app, door.path, fields=shown)


def unsettled(door: Door) -> Answer:
    door.facilitator.on_settle = NotSettled("insufficient_funds")
    return door.pay()


def expired(door: Door) -> Answer:
    door.service.clock.now += 30 * DAY
    return door.pay()


def used(door: Door) -> Answer:
    assert door.pay().status == 200
    door.path = FEED_ENTRY if door.path != FEED_ENTRY else PATHS[STANCE_READS]
    return door.pay()


def too_many(door: Door) -> Answer:
    door.facilitator.refuse()
    return [door.pay(number) for number in range(1, PROOFS.requests + 2)][-1]


def unknown_end(door: Door) -> Answer:
    door.facilitator.fall_silent(after_charging=True)
    return door.pay()


def facilitator_away(door: Door) -> Answer:
    door.facilitator.on_verify = FacilitatorUnavailable("unreachable")
    return door.pay()


def identity_away(door: Door) -> Answer:
    door.service.identities.is_down = True
    return door.token(FEED_TOKEN)


HAPPENINGS: dict[tuple[int, str], Callable[[Door], Answer]] = {
    (400, "invalid_comparison_reference"): lambda door: door.token(FEED_TOKEN),
    (400, "invalid_idempotency_key"): malformed_key,
    (401, "verified_feed_identity_required"): unverified,
    (402, "Active verified Feed entitlement required"): without_anything,
    (402, "Payment required"): without_anything,
    (402, "Invalid payment proof: …"): bad_proof,
    (402, "The payment was refused and not charged"): unsettled,
    (404, "comparison_reference_unavailable"): lambda door: door.service.compare(
        door.after, door.before
    ),
    (404, "not_found"): lambda door: door.service.ask(door.path),
    (404, "no_stance"): lambda door: door.token(FEED_TOKEN),
    (404, "stance_not_active"): expired,
    (405, "method_not_allowed"): lambda door: door.service.ask(door.path, method="POST"),
    (409, "payment_used"): used,
    (429, "too_many_requests"): too_many,
    (503, "payment_pending"): unknown_end,
    (503, "payment_unavailable"): facilitator_away,
    (503, "comparison_unavailable"): identity_away,
    (503, "feed_unavailable"): identity_away,
    (503, "stance_unavailable"): identity_away,
}
ROWS = [(row.status, row.error, door) for row in CODED_ERRORS for door in row.endpoints]


@pytest.mark.parametrize(("status", "error", "door"), ROWS)
def test_each_row_is_really_answered_at_each_of_its_doors(
    tmp_path: Path, status: int, error: str, door: str
) -> None:
    opened = Door(tmp_path, door, is_open=error != "not_found")
    with closing(opened.service):
        if error != "no_stance":
            opened.before, opened.after = opened.service.two_versions()
        answer = HAPPENINGS[status, error](opened)

    found = answer.json()["error"]
    assert answer.status == status
    assert found == error or (error.endswith("…") and found.startswith(error[:-1]))


def test_every_happening_has_its_row() -> None:
    assert {(row.status, row.error) for row in CODED_ERRORS} == set(HAPPENINGS)
