"""The journal of payments: every step once, in order, with a trail that cannot be changed."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from barograph.entitlements.purchases import FeedGrants
from barograph.entitlements.store import Entitlements
from barograph.kit.database import POSTGRESQL, SQLITE, ConstraintViolated, Database, Transaction
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.payments.journal import (
    AlreadyClaimed,
    Journal,
    UnknownPayment,
    WrongTransition,
    signature_digest,
)
from barograph.payments.records import (
    Order,
    Payment,
    Proof,
    PurchaseOpen,
    Purchases,
    State,
    TrailStep,
)
from support.backends import on_engines, on_sqlite
from support.clock import START, HandClock
from support.payments import FEED, PAYER, SIGNATURE, STANCE, TRANSACTION, bring, proof
from support.steps import Steps

DOOR = "/api/x402/rates-desk"

ORDER = Order()


class Desk(Steps):
    """The verbs of the journal, each run to its end."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.journal = Journal(database, self.clock)

    def claim(self, of: Proof | None = None, door: str = DOOR, order: Order = ORDER) -> Payment:
        return self.run(self.journal.claim(of or proof(), door, order))

    def get(self, payment: Payment) -> Payment:
        return self.run(self.journal.get(payment.id))

    def trail(self, payment: Payment) -> list[TrailStep]:
        return self.run(self.journal.trail(payment.id))

    def bring(self, payment: Payment, state: State) -> Payment:
        """Through the steps that lead from a claim to a state."""
        return self.run(bring(self.journal, payment, state))


@pytest.fixture
def desk(database: Database, runner: asyncio.Runner) -> Desk:
    return Desk(database, runner)


def test_a_claim_is_kept_with_everything_but_the_signature(desk: Desk) -> None:
    assert desk.run(desk.journal.find(proof().key)) is None
    claimed = desk.claim()

    assert re.fullmatch(r"pay_[a-z2-7]{16}", claimed.id)
    assert claimed == Payment(
        *(claimed.id, STANCE.network, STANCE.asset, PAYER, proof().nonce),
        path=DOOR,
        pay_to=STANCE.pay_to,
        amount="250000",
        valid_before=START + 60_000,
        state="claimed",
        claimed_at=START,
        updated_at=START,
        transaction=None,
        entitlement_id=None,
        reason=None,
        released_at=None,
        signature_digest=signature_digest(proof()),
    )
    assert desk.run(desk.journal.find(proof().key)) == desk.get(claimed) == claimed
    assert SIGNATURE[2:] not in str(claimed)


STATES: list[State] = ["claimed", "settling", "settled", "released", "failed", "unknown"]
ALLOWED: dict[str, set[State]] = {
    "settling": {"claimed"},
    "settled": {"settling", "unknown"},
    "failed": {"settling", "unknown"},
    "unknown": {"settling"},
    "release": {"claimed", "settling"},
    "mark_delivered": {"settled"},
}
STEPS: dict[str, Callable[[Journal, str], Coroutine[Any, Any, Payment]]] = {
    "settling": lambda journal, own: journal.mark_settling(own),
    "settled": lambda journal, own: journal.mark_settled(own, None, reason="found on chain"),
    "failed": lambda journal, own: journal.mark_failed(own, "refused"),
    "unknown": lambda journal, own: journal.mark_unknown(own, "silence"),
    "release": lambda journal, own: journal.release(own, "not_produced"),
    "mark_delivered": lambda journal, own: journal.mark_delivered(own),
}


@pytest.mark.parametrize("name", sorted(STEPS))
@pytest.mark.parametrize("state", STATES)
def test_each_step_is_made_only_from_its_own_states(desk: Desk, state: State, name: str) -> None:
    before = desk.bring(desk.claim(), state)
    trail = desk.trail(before)
    desk.clock.pass_seconds(1)
    step = STEPS[name](desk.journal, before.id)
    if state in ALLOWED[name]:
        assert desk.run(step) == desk.get(before) != before
        *earlier, last = desk.trail(before)
        assert (earlier, last.at) == (trail, START + 1000)
    else:
        with pytest.raises(WrongTransition):
            desk.run(step)
        assert (desk.get(before), desk.trail(before)) == (before, trail)


@pytest.mark.parametrize("name", sorted(set(STEPS) - {"mark_delivered"}))
def test_no_step_of_an_unknown_payment_is_made(desk: Desk, name: str) -> None:
    with pytest.raises(UnknownPayment):
        desk.run(STEPS[name](desk.journal, "pay_none"))
    with pytest.raises(UnknownPayment):
        desk.run(desk.journal.get("pay_none"))


@pytest.mark.parametrize("state", [state for state in STATES if state != "released"])
def test_an_authorization_is_one_payment_at_whichever_door(desk: Desk, state: State) -> None:
    first = desk.bring(desk.claim(), state)
    other = proof(signature=SIGNATURE[:-1] + "c")
    for again, door in ((proof(), DOOR), (proof(), "/elsewhere"), (other, DOOR)):
        with pytest.raises(AlreadyClaimed) as caught:
            desk.claim(again, door)
        assert caught.value.payment == first


def test_another_authorization_is_another_payment(desk: Desk) -> None:
    proofs = (proof(), proof(2), proof(payer="0x" + "d5" * 20))
    assert len({desk.claim(each).id for each in proofs}) == 3


def test_released_payment_can_be_claimed_at_another_endpoint(desk: Desk) -> None:
    first = desk.bring(desk.claim(), "released")
    desk.clock.pass_seconds(5)
    elsewhere = replace(FEED, pay_to="0x" + "0d" * 20)
    again = desk.claim(proof(offer=elsewhere, signature=SIGNATURE[:-1] + "c"), "/api/x402/feed")

    assert (again.id, again.state, again.reason) == (first.id, "claimed", None)
    assert (again.path, again.amount) == ("/api/x402/feed", "25000000")
    assert again.pay_to == elsewhere.pay_to
    assert again.claimed_at == START + 5000
    assert again.signature_digest != first.signature_digest
    assert desk.trail(again) == [
        TrailStep("claimed", START, DOOR),
        TrailStep("released", START, "why"),
        TrailStep("claimed", START + 5000, "/api/x402/feed"),
    ]


FEED_DOOR = "/api/x402/feed"


@pytest.mark.parametrize("state", STATES)
def test_a_wallet_has_one_open_purchase_of_feed(desk: Desk, state: State) -> None:
    first = desk.bring(desk.claim(proof(offer=FEED), FEED_DOOR), state)
    is_open = state in {"claimed", "settling", "unknown"}
    of = desk.journal.purchases(FEED.network, FEED.asset, PAYER, FEED_DOOR)
    assert desk.run(of) == Purchases(is_open, int(state == "settled"))
    desk.claim(proof(2, offer=FEED, payer="0x" + "d5" * 20), FEED_DOOR)
    desk.claim(proof(3))
    order = Order(settled_before=int(state == "settled"))
    if is_open:
        with pytest.raises(PurchaseOpen) as caught:
            desk.claim(proof(4, offer=FEED), FEED_DOOR, order)
        assert desk.trail(caught.value.payment) == [TrailStep("failed", START, "another_purchase")]
        with pytest.raises(AlreadyClaimed):
            desk.claim(proof(4))
        with pytest.raises(ConstraintViolated):  # the database's own rule
            desk.claim(proof(5, offer=FEED), FEED_DOOR)
    else:
        desk.claim(proof(4, offer=FEED), FEED_DOOR, order)
    assert desk.get(first) == first


def test_purchase_that_ended_while_another_was_verified_is_not_bought_again(desk: Desk) -> None:
    desk.bring(desk.claim(proof(offer=FEED), FEED_DOOR), "settled")
    with pytest.raises(PurchaseOpen):
        desk.claim(proof(2, offer=FEED), FEED_DOOR, Order(settled_before=0))


def test_only_a_second_purchase_of_feed_is_called_one(desk: Desk) -> None:
    refuse = {
        SQLITE: "BEGIN SELECT RAISE(ABORT, 'no'); END",
        POSTGRESQL: "FOR EACH ROW EXECUTE FUNCTION refuse('no')",
    }
    desk.execute(f"CREATE TRIGGER no BEFORE INSERT ON payments {refuse[desk.database.engine]}")
    with pytest.raises(ConstraintViolated):
        desk.claim()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.both_engines
def test_one_key_is_one_payment_of_a_wallet_at_a_door(desk: Desk, state: State) -> None:
    order = Order(key="0123456789abcdef")
    first = desk.bring(desk.run(desk.journal.claim(proof(), DOOR, order)), state)
    desk.claim(proof(2, payer="0x" + "d5" * 20), DOOR, order)
    desk.claim(proof(4), "/elsewhere", order)
    again = desk.journal.claim(proof(3), DOOR, order)
    if state in {"released", "failed"}:
        assert desk.run(again).key_digest == first.key_digest
    else:
        with pytest.raises(AlreadyClaimed) as caught:
            desk.run(again)
        assert caught.value.payment == first


@on_sqlite
def test_upgrade_keeps_open_purchases(empty_database: Database, runner: asyncio.Runner) -> None:
    steps = packaged_migrations()
    place = [step.name for step in steps].index("payment_keys")
    runner.run(upgrade(empty_database, steps[:place], HandClock()))
    old = Desk(empty_database, runner)
    row = "'n', 'a', 'p', {0}, '/api/x402/feed', 't', '1', 0, {1!r}, {0}, 0, NULL, NULL, NULL, 0"
    for number, state in enumerate(["unknown", "settling", "claimed", "settled", "unknown"]):
        old.execute(
            f"INSERT INTO payments VALUES ('pay_{number}', {row.format(number, state)}, 's')"
        )
    runner.run(upgrade(empty_database, steps, HandClock()))
    assert runner.run(old.journal.purchases("n", "a", "p", FEED_DOOR)) == Purchases(True, 1)
    for number in (0, 1, 4):
        if number != 1:
            old.run(old.journal.mark_failed(f"pay_{number}", "expired unused"))
        else:
            old.run(old.journal.mark_settled("pay_1", None))
    old.run(old.journal.release("pay_2", "abandoned"))
    assert runner.run(old.journal.purchases("n", "a", "p", FEED_DOOR)) == Purchases(False, 2)


def test_stale_claim_cannot_change_a_newer_claim(desk: Desk) -> None:
    first = desk.claim()
    desk.run(desk.journal.release(first.id, "abandoned"))
    desk.clock.pass_seconds(130)
    second = desk.claim(door="/elsewhere")

    with pytest.raises(WrongTransition):
        desk.run(desk.journal.mark_settling(first.id, claimed_at=first.claimed_at))
    with pytest.raises(WrongTransition):
        desk.run(desk.journal.release(first.id, "why", claimed_at=first.claimed_at))
    settling = desk.run(desk.journal.mark_settling(second.id, claimed_at=second.claimed_at))
    assert (settling.state, settling.path) == ("settling", "/elsewhere")


@pytest.mark.both_engines
def test_a_body_goes_out_once_unless_it_did_not_go_out_after_all(desk: Desk) -> None:
    settled = desk.bring(desk.claim(), "settled")
    sent = desk.run(desk.journal.mark_delivered(settled.id))
    assert sent.released_at == START
    with pytest.raises(WrongTransition):
        desk.run(desk.journal.mark_delivered(settled.id))
    desk.clock.pass_seconds(1)
    assert desk.run(desk.journal.mark_undelivered(sent)) == settled
    with pytest.raises(WrongTransition):
        desk.run(desk.journal.mark_undelivered(sent))

    desk.clock.pass_seconds(1)
    later = desk.run(desk.journal.mark_delivered(settled.id))
    with pytest.raises(WrongTransition):
        desk.run(desk.journal.mark_undelivered(sent))
    assert desk.get(settled) == later
    assert desk.trail(settled) == [
        TrailStep("claimed", START, DOOR),
        TrailStep("settling", START, None),
        TrailStep("settled", START, TRANSACTION),
        TrailStep("delivered", START, None),
        TrailStep("undelivered", START + 1000, None),
        TrailStep("delivered", START + 2000, None),
    ]


def test_a_settlement_and_its_grant_are_one(desk: Desk) -> None:
    entitlements = Entitlements(desk.database, desk.clock)
    grant = FeedGrants(entitlements, desk.clock, 30).grant
    settling = desk.bring(desk.claim(proof(offer=FEED)), "settling")
    given: list[Payment] = []

    async def broken(tx: Transaction, payment: Payment) -> str | None:
        given.append(payment)
        await grant(tx, payment)
        raise RuntimeError("nobody foresaw this")

    with pytest.raises(RuntimeError):
        desk.run(desk.journal.mark_settled(settling.id, TRANSACTION, broken))
    assert given[0].transaction == TRANSACTION
    assert desk.get(settling) == settling
    assert desk.run(entitlements.find()) == []

    settled = desk.run(desk.journal.mark_settled(settling.id, TRANSACTION, grant))
    (granted,) = desk.run(entitlements.find())
    assert (settled.state, settled.transaction) == ("settled", TRANSACTION)
    assert settled.entitlement_id == granted.id
    assert desk.get(settled) == settled
    assert desk.trail(settled)[-1] == TrailStep("settled", START, TRANSACTION)

    with pytest.raises(WrongTransition):
        desk.run(desk.journal.mark_settled(settling.id, TRANSACTION, grant))
    assert desk.run(entitlements.find()) == [granted]


@pytest.mark.parametrize(
    ("transaction", "detail"),
    [(None, "found on chain"), (TRANSACTION, f"{TRANSACTION} found on chain")],
)
def test_the_trail_keeps_the_transaction_of_a_settlement_and_why_it_counts(
    desk: Desk, transaction: str | None, detail: str
) -> None:
    unknown = desk.bring(desk.claim(), "unknown")
    mark = desk.journal.mark_settled(unknown.id, transaction, reason="found on chain")
    settled = desk.run(mark)
    assert (settled.state, settled.transaction) == ("settled", transaction)
    assert settled.reason == "found on chain"
    assert desk.trail(settled)[-1] == TrailStep("settled", START, detail)


def test_of_many_claims_at_once_one_wins(open_database: Callable[[], Database], desk: Desk) -> None:
    journals = [Journal(open_database(), desk.clock) for _ in range(4)]

    async def all_at_once() -> list[Payment | BaseException]:
        claims = [each.claim(proof(), f"/{n}") for n, each in enumerate(journals * 3)]
        return await asyncio.gather(*claims, return_exceptions=True)

    ends = desk.run(all_at_once())
    (winner,) = (end for end in ends if isinstance(end, Payment))
    assert sum(isinstance(end, AlreadyClaimed) for end in ends) == len(ends) - 1
    assert desk.trail(winner) == [TrailStep("claimed", START, winner.path)]


def test_open_payments_list_crashed_ones_before_unknown_ones(desk: Desk) -> None:
    for number, state in enumerate(["unknown", *STATES, "claimed"], 1):
        desk.clock.pass_seconds(1)
        desk.bring(desk.claim(proof(number)), state)

    def nonces(before: int, limit: int = 100) -> list[int]:
        payments = desk.run(desk.journal.open_payments(before, limit))
        return [int(payment.nonce, 16) for payment in payments]

    assert nonces(START + 9000) == [2, 8, 3, 1, 7]
    assert nonces(START + 8000) == [2, 3, 1, 7]
    assert nonces(START + 9000, limit=2) == [2, 8]
    assert nonces(START + 1000) == []


def test_payments_are_listed_by_state_and_payer(desk: Desk) -> None:
    other = "0x" + "d5" * 20
    desk.bring(desk.claim(proof(1)), "settled")
    desk.clock.pass_seconds(1)
    desk.bring(desk.claim(proof(2, payer=other)), "settled")
    desk.clock.pass_seconds(1)
    desk.claim(proof(3))

    def nonces(**wanted: Any) -> list[int]:
        payments = desk.run(desk.journal.search(**wanted))
        return [int(payment.nonce, 16) for payment in payments]

    assert nonces() == [3, 2, 1]
    assert nonces(limit=2) == [3, 2]
    assert nonces(state="settled") == [2, 1]
    assert nonces(payer="0x" + other[2:].upper()) == [2]
    assert nonces(state="claimed", payer=other) == []


@pytest.mark.parametrize(
    ("engine", "statement"),
    on_engines(
        "UPDATE payment_trail SET detail = 'x'",
        "DELETE FROM payment_trail",
        "TRUNCATE payment_trail",
        "INSERT OR REPLACE INTO payment_trail SELECT * FROM payment_trail",
        "INSERT INTO payment_trail SELECT 9, payment_id, step, at, detail FROM payment_trail",
        "DELETE FROM payments",
        "TRUNCATE payments CASCADE",
        "UPDATE payments SET state = 'released'",
        "UPDATE payments SET state = 'failed'",
        "UPDATE payments SET nonce = 'x'",
        "UPDATE payments SET payer = 'x'",
        "UPDATE payments SET state = 'refunded'",
    ),
    indirect=["engine"],
)
def test_the_database_refuses_to_rewrite_what_happened(desk: Desk, statement: str) -> None:
    settled = desk.bring(desk.claim(), "settled")
    trail = desk.trail(settled)
    with pytest.raises(ConstraintViolated):
        desk.execute(statement)
    assert desk.trail(settled) == trail
    assert desk.get(settled) == settled
