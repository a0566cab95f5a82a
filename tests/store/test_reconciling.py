"""Payments that nobody finished: each is let go, settled, failed, or left for somebody to see."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

import pytest

from barograph.entitlements.purchases import FeedGrants
from barograph.entitlements.refusals import FEED_PATH
from barograph.entitlements.store import FEED as FEED_TIER
from barograph.entitlements.store import Entitlement, Entitlements
from barograph.kit.database import Database, DatabaseUnavailable, Transaction, Work
from barograph.kit.timestamps import DAY, SECOND
from barograph.payments.checkout import Cashier
from barograph.payments.journal import Journal, WrongTransition
from barograph.payments.reconcile import (
    ABANDONED,
    CUT_OFF,
    EXPIRED,
    FOUND,
    MAX_FAILURES,
    SPENT,
    STALE_MS,
    Reconciled,
    Reconciler,
)
from barograph.payments.records import (
    ChainFinding,
    ChainUnavailable,
    Payment,
    PaymentUnfinished,
    State,
    TrailStep,
)
from support.clock import START
from support.databases import DatabaseDouble
from support.payments import (
    FEED,
    PAYER,
    STANCE,
    TRANSACTION,
    HandFacilitator,
    bring,
    proof,
    show,
)
from support.steps import Steps

T = TypeVar("T")
STANCE_DOOR = "/api/x402/rates-desk"


class HandChain:
    """Tells of each nonce what it was told to, and what it was told to of all others."""

    def __init__(self, otherwise: ChainFinding | Exception | None = None) -> None:
        self.otherwise = otherwise or ChainFinding("unused")
        self.findings: dict[str, ChainFinding | Exception] = {}
        self.asked: list[str] = []
        self.meanwhile: Callable[[], Coroutine[Any, Any, Any]] | None = None

    async def authorization(self, payment: Payment) -> ChainFinding:
        self.asked.append(payment.nonce)
        if self.meanwhile is not None:
            await self.meanwhile()
        await asyncio.sleep(0)
        found = self.findings.get(payment.nonce, self.otherwise)
        if isinstance(found, Exception):
            raise found
        return found

    async def close(self) -> None:
        """Nothing to release."""


class Desk(Steps):
    """A journal, a chain and who reconciles them."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.journal = Journal(database, self.clock)
        self.entitlements = Entitlements(database, self.clock)
        self.grants = FeedGrants(self.entitlements, self.clock, 30)
        self.chain = HandChain()

    def reconciler(self, database: Database | None = None, **changes: Any) -> Reconciler:
        parts: dict[str, Any] = {"chain": self.chain, "grant_for": self.grants.grant_for}
        parts |= changes
        journal = Journal(database or self.database, self.clock)
        return Reconciler(journal, parts["chain"], self.clock, parts["grant_for"], random=Random(1))

    def reconcile(self, **changes: Any) -> Reconciled:
        return self.run(self.reconciler(**changes).once())

    def pay(self, number: int = 1, state: State = "unknown", door: str = FEED_PATH) -> Payment:
        """Bring a payment to a state; each number has a wallet of its own."""
        offer = FEED if door == FEED_PATH else STANCE
        payer = PAYER if number == 1 else f"0x{number:040x}"
        claimed = self.run(self.journal.claim(proof(number, offer=offer, payer=payer), door))
        return self.run(bring(self.journal, claimed, state))

    def now(self, payment: Payment) -> Payment:
        return self.run(self.journal.get(payment.id))

    def wait(self, milliseconds: int = STALE_MS + SECOND) -> None:
        self.clock.now += milliseconds

    def feed(self) -> list[Entitlement]:
        """What the payers were granted."""
        return self.run(self.entitlements.find())


@pytest.fixture
def desk(database: Database, runner: asyncio.Runner) -> Desk:
    return Desk(database, runner)


@pytest.mark.parametrize("state", ["claimed", "settling", "settled", "failed", "released"])
def test_what_may_still_be_under_way_or_has_ended_is_left_alone(desk: Desk, state: State) -> None:
    payment = desk.pay(state=state)
    desk.chain.otherwise = ChainFinding("used", TRANSACTION)
    is_open = state in {"claimed", "settling"}
    desk.wait(STALE_MS if is_open else DAY)

    assert desk.reconcile() == Reconciled(busy=int(is_open))
    assert desk.now(payment) == payment
    assert (desk.chain.asked, desk.feed()) == ([], [])


@pytest.mark.outcome(
    "The service dies after it claimed a payment and before settlement",
    "Nothing is charged. After two minutes, the wallet can pay again.",
)
def test_abandoned_claim_is_released(desk: Desk) -> None:
    payment = desk.pay(state="claimed")
    desk.wait()

    assert desk.reconcile() == Reconciled(released=1)
    assert desk.now(payment).state == "released"
    steps = desk.run(desk.journal.trail(payment.id))
    assert steps[-1] == TrailStep("released", desk.clock(), ABANDONED)
    assert desk.chain.asked == []
    assert desk.run(desk.journal.claim(proof(offer=FEED), STANCE_DOOR)).state == "claimed"


def test_claim_that_was_renewed_or_moved_to_settling_is_not_released(desk: Desk) -> None:
    first = desk.pay(state="claimed")
    desk.run(desk.journal.release(first.id, "why"))
    desk.wait()
    second = desk.pay(state="claimed")
    with pytest.raises(WrongTransition):
        desk.run(desk.journal.abandon(first, ABANDONED))
    assert desk.now(second).state == "claimed"

    desk.run(desk.journal.mark_settling(second.id))
    with pytest.raises(WrongTransition):
        desk.run(desk.journal.abandon(second, ABANDONED))
    assert desk.now(second).state == "settling"


class Late(DatabaseDouble):
    """A journal's database on which somebody else always comes first."""

    def __init__(self, database: Database, first: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        super().__init__(database)
        self._first = first

    async def write(self, work: Work[T]) -> T:
        await self._first()
        return await self._database.write(work)


def test_payment_that_advances_during_reconciling_is_left_alone(desk: Desk) -> None:
    claimed, settling = desk.pay(1, "claimed"), desk.pay(2, "settling")
    desk.wait()

    async def go_on() -> None:
        if (await desk.journal.get(claimed.id)).state == "claimed":
            await desk.journal.mark_settling(claimed.id)
            await desk.journal.mark_settled(settling.id, TRANSACTION)

    found = desk.run(desk.reconciler(Late(desk.database, go_on)).once())

    assert found == Reconciled(busy=1)
    assert (desk.now(claimed).state, desk.now(settling).state) == ("settling", "settled")


@pytest.mark.outcome(
    "The service dies while the facilitator settles a payment",
    "After two minutes, the collector asks the chain. Either nothing was charged, or the "
    "same proof gets what it paid for.",
)
@pytest.mark.parametrize(
    ("word", "state", "reason"),
    [
        ("used", "settled", FOUND),
        ("expired", "failed", EXPIRED),
        ("spent", "failed", SPENT),
        ("unused", "unknown", CUT_OFF),
    ],
)
def test_chain_decides_an_interrupted_settlement(
    desk: Desk, word: Any, state: State, reason: str
) -> None:
    payment = desk.pay(state="settling")
    desk.chain.otherwise = ChainFinding(word)
    desk.wait()

    ends = {"settled": "settled", "failed": "failed", "unknown": "waiting"}
    assert desk.reconcile() == Reconciled(lost=1, **{ends[state]: 1})
    assert (desk.now(payment).state, desk.now(payment).reason) == (state, reason)
    assert desk.now(payment).transaction is None
    steps = [step.step for step in desk.run(desk.journal.trail(payment.id))]
    ended = [] if state == "unknown" else [state]
    assert steps == ["claimed", "settling", "unknown", *ended]
    assert len(desk.feed()) == (1 if state == "settled" else 0)


@pytest.mark.outcome(
    "The facilitator settles a Feed payment but never says so",
    "The service finds it on the chain and grants Feed once.",
)
def test_paid_feed_is_granted_when_its_settlement_is_found(desk: Desk) -> None:
    payment = desk.pay()
    desk.chain.otherwise = ChainFinding("used", TRANSACTION)

    assert desk.reconcile() == Reconciled(settled=1)

    (granted,) = desk.feed()
    assert (granted.tier, granted.holder, granted.ends_at) == (FEED_TIER, PAYER, START + 30 * DAY)
    settled = desk.now(payment)
    assert settled.state == "settled"
    assert (settled.transaction, settled.entitlement_id) == (TRANSACTION, granted.id)
    assert (settled.reason, settled.released_at) == (FOUND, None)

    desk.wait(DAY)
    assert desk.reconcile() == Reconciled()
    assert desk.feed() == [granted]


def test_what_is_not_settled_yet_is_asked_for_again(desk: Desk) -> None:
    payment = desk.pay(door=STANCE_DOOR)
    assert desk.reconcile() == Reconciled(waiting=1)
    assert desk.now(payment) == payment

    desk.chain.otherwise = ChainFinding("used", TRANSACTION)
    assert desk.reconcile() == Reconciled(settled=1)
    settled = desk.now(payment)  # a paid read grants nothing
    assert (settled.state, settled.entitlement_id, desk.feed()) == ("settled", None, [])


@pytest.mark.outcome(
    "The result of a payment is unknown and no chain is configured",
    "It stays `unknown`, and is not charged again, until the operator resolves it. The trail "
    "names the operator.",
)
def test_unknown_payment_stays_unknown_without_a_chain(desk: Desk) -> None:
    states: list[State] = ["unknown", "settling", "claimed"]
    payments = [desk.pay(number, state) for number, state in enumerate(states, 1)]
    desk.wait(DAY)

    assert desk.reconcile(chain=None) == Reconciled(released=1, lost=1, waiting=2)
    assert desk.reconcile(chain=None) == Reconciled(waiting=2)
    after = [desk.now(payment).state for payment in payments]
    assert after == ["unknown", "unknown", "released"]
    assert desk.feed() == []


def test_missing_chain_changes_nothing(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    payment = desk.pay()
    desk.chain.otherwise = ChainUnavailable("the node does not answer in time")
    desk.wait(DAY)

    assert desk.reconcile() == Reconciled(waiting=1)
    assert desk.now(payment) == payment
    (said,) = caplog.records
    assert (said.message, said.__dict__["payment"]) == ("payment waits for the chain", payment.id)
    assert PAYER not in str(said.__dict__)
    assert payment.nonce not in str(said.__dict__)


def test_one_of_which_the_chain_cannot_tell_does_not_keep_the_others_waiting(desk: Desk) -> None:
    payments = [desk.pay(number) for number in range(1, 8)]
    desk.chain.otherwise = ChainFinding("expired")
    desk.chain.findings[payments[3].nonce] = ChainUnavailable("two nonces, one transfer")

    assert desk.reconcile() == Reconciled(failed=6, waiting=1)
    assert desk.now(payments[3]).state == "unknown"


def test_a_chain_that_is_down_is_not_asked_for_every_payment(desk: Desk) -> None:
    for number in range(1, MAX_FAILURES + 5):
        desk.pay(number)
    desk.chain.otherwise = ChainUnavailable("down")

    reconciler = desk.reconciler()
    assert desk.run(reconciler.once()) == Reconciled(waiting=MAX_FAILURES + 4)
    assert len(desk.chain.asked) == MAX_FAILURES
    # Others come first another time.
    for _ in range(8):
        desk.run(reconciler.once())
    assert len(set(desk.chain.asked)) == MAX_FAILURES + 4


def test_payment_that_cannot_be_granted_stays_open_and_delays_no_other(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    payments = [desk.pay(number) for number in (1, 2, 3)]
    desk.chain.otherwise = ChainFinding("used", TRANSACTION)

    async def grant(tx: Transaction, payment: Payment) -> str:
        granted = await desk.grants.grant(tx, payment)
        if payment.id == payments[1].id:
            raise RuntimeError("a defect")
        return granted

    assert desk.reconcile(grant_for=lambda _: grant) == Reconciled(settled=2, waiting=1)
    assert desk.now(payments[1]) == payments[1]
    assert [each.ends_at for each in desk.feed()] == [START + 30 * DAY] * 2
    assert "payment not concluded" in caplog.messages

    assert desk.reconcile() == Reconciled(settled=1)
    assert [each.ends_at for each in desk.feed()] == [START + 30 * DAY] * 3


def test_a_journal_that_cannot_be_written_ends_the_round_and_grants_nothing(desk: Desk) -> None:
    payment = desk.pay()
    desk.chain.otherwise = ChainFinding("used", TRANSACTION)

    async def fail() -> None:
        raise DatabaseUnavailable("full")

    with pytest.raises(DatabaseUnavailable):
        desk.run(desk.reconciler(Late(desk.database, fail)).once())
    assert (desk.now(payment), desk.feed()) == (payment, [])


def test_of_two_who_reconcile_at_once_one_settles_and_grants(
    desk: Desk, open_database: Callable[[], Database]
) -> None:
    payments = [desk.pay(number) for number in (1, 2, 3)]
    desk.pay(4, "claimed")
    desk.wait()
    desk.chain.otherwise = ChainFinding("used", TRANSACTION)

    async def both() -> list[Reconciled]:
        pair = [desk.reconciler(open_database()) for _ in range(2)]
        return list(await asyncio.gather(*(each.once() for each in pair)))

    first, second = desk.run(both())

    assert first.settled + second.settled == len(payments)
    assert first.released + second.released == 1
    # Who comes second asks again about what the first has not written yet.
    assert set(desk.chain.asked) == {each.nonce for each in payments}
    assert [each.ends_at for each in desk.feed()] == [desk.clock() + 30 * DAY] * len(payments)


def test_who_settles_late_and_who_reconciles_grant_once_between_them(desk: Desk) -> None:
    """The facilitator's answer comes just after the chain was asked."""
    payment = desk.pay()
    desk.chain.otherwise = ChainFinding("used", TRANSACTION)

    async def settle_late() -> None:
        await desk.journal.mark_settled(payment.id, TRANSACTION, desk.grants.grant)

    desk.chain.meanwhile = settle_late
    assert desk.reconcile().settled == 0

    (granted,) = desk.feed()
    assert granted.ends_at == START + 30 * DAY
    assert desk.now(payment).reason is None


def test_payer_of_an_unreported_settlement_gets_the_body_with_same_proof(desk: Desk) -> None:
    """From the first request to the body, by way of a settlement that nobody told of."""
    facilitator = HandFacilitator()
    facilitator.fall_silent(after_charging=True)
    cashier = Cashier(desk.journal, facilitator, desk.clock)
    own = proof(offer=FEED)

    async def produce() -> str:
        return "the body"

    def take() -> str:
        return desk.run(show(cashier, own, FEED_PATH, produce, desk.grants.grant)).body

    for _ in range(2):
        with pytest.raises(PaymentUnfinished, match="outcome"):
            take()
    desk.chain.otherwise = ChainFinding("used", TRANSACTION)
    assert desk.reconcile() == Reconciled(settled=1)
    desk.wait(DAY)

    assert take() == "the body"
    assert facilitator.charged == facilitator.asked == [own.nonce]
    (granted,) = desk.feed()
    assert granted.ends_at == START + 30 * DAY
