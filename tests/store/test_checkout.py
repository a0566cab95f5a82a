"""Taking payments: one body, one charge, and no charge for what failed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barograph.entitlements.purchases import FeedGrants
from barograph.entitlements.store import Entitlement, Entitlements
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.timestamps import DAY
from barograph.payments.checkout import RETRY_PAUSES, Cashier, Delivery
from barograph.payments.journal import Journal
from barograph.payments.records import (
    AlreadyUsed,
    FacilitatorUnavailable,
    InvalidProof,
    NotSettled,
    Order,
    Payment,
    PaymentRefused,
    PaymentUnfinished,
    Proof,
    SettlementUnknown,
)
from support.clock import START
from support.databases import DatabaseDouble
from support.payments import FEED, PAYER, SIGNATURE, HandFacilitator, bring, proof, show
from support.steps import Steps

DOOR = "/api/x402/rates-desk"
BODY = b'{"kind":"rates-desk"}'
OTHER_SIGNATURE = SIGNATURE[:-1] + "c"
KEY = "0123456789abcdef"


class Counter(Steps):
    """A paid door, seen from behind: what it made, what it gave away, what it granted."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.journal = Journal(database, self.clock)
        self.entitlements = Entitlements(database, self.clock)
        self.grant = FeedGrants(self.entitlements, self.clock, 30).grant
        self.facilitator = HandFacilitator()
        self.cashier = Cashier(self.journal, self.facilitator, self.clock)
        self.paused: list[float] = []
        self.made = 0
        self.cannot_make: BaseException | None = None
        self.while_making: Callable[[], Awaitable[None]] | None = None

    async def pause(self, seconds: float) -> None:
        self.paused.append(seconds)

    async def make(self, _: Payment | None = None) -> bytes:
        self.made += 1
        if self.while_making is not None:
            await self.while_making()
        if self.cannot_make is not None:
            raise self.cannot_make
        return BODY

    def take(self, of: Proof | None = None, door: str = DOOR, **how: Any) -> Delivery[bytes]:
        return self.run(show(self.cashier, of or proof(), door, self.make, **how))

    async def taken_until(self, reached: asyncio.Event) -> asyncio.Future[Delivery[bytes]]:
        """Begin to take a payment, and come back when it has reached a point."""
        taking = asyncio.ensure_future(show(self.cashier, proof(), DOOR, self.make))
        await reached.wait()
        return taking

    def owe(self, key: str | None = None) -> Payment:
        """Charge a proof whose body does not go out."""
        claimed = self.run(self.journal.claim(proof(), DOOR, Order(key=key)))
        return self.run(bring(self.journal, claimed, "settled"))

    def payment(self) -> Payment | None:
        return self.run(self.journal.find(proof().key))

    def paid(self) -> Payment:
        payment = self.payment()
        assert payment is not None
        return payment

    def state(self) -> str | None:
        payment = self.payment()
        return None if payment is None else payment.state

    async def let_go(self) -> None:
        """Release the claim, as who reconciles does."""
        payment = await self.journal.find(proof().key)
        assert payment is not None
        await self.journal.release(payment.id, "abandoned")

    async def claim_anew(self) -> None:
        """Let another request claim the released payment."""
        await self.let_go()
        self.clock.pass_seconds(10)
        await self.journal.claim(proof(), "/elsewhere")

    def granted(self) -> list[Entitlement]:
        return self.run(self.entitlements.find())

    def steps(self) -> list[str]:
        return [step.step for step in self.run(self.journal.trail(self.paid().id))]


class Stop:
    """A point at which work waits until it may go on."""

    def __init__(self) -> None:
        self.reached, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.may_go_on.wait()


async def leave(taking: "asyncio.Future[Delivery[bytes]]", stop: Stop | None = None) -> None:
    """Be cut off, and let what is under way go on."""
    taking.cancel()
    if stop is not None:
        await asyncio.sleep(0)
        stop.may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await taking


@pytest.fixture
def counter(database: Database, runner: asyncio.Runner) -> Counter:
    return Counter(database, runner)


def test_a_good_proof_is_charged_once_and_the_body_goes_out(counter: Counter) -> None:
    seen: list[str | None] = []

    async def look() -> None:
        found = await counter.journal.find(proof().key)
        seen.append(None if found is None else found.state)

    counter.while_making = counter.facilitator.before_settling = look
    body, payment = counter.take(before_verify=look)

    assert seen == [None, "claimed", "settling"]  # as it is limited, produced and settled
    assert body == BODY
    assert counter.facilitator.charged == [proof().nonce]
    assert (payment.state, payment.released_at) == ("settled", START)
    assert payment.transaction == "0x" + "01" * 32
    assert counter.payment() == payment
    assert counter.steps() == ["claimed", "settling", "settled", "delivered"]


def test_a_purchase_grants_one_period_with_the_settlement(counter: Counter) -> None:
    how: dict[str, Any] = {"door": "/api/x402/feed", "grant": counter.grant, "key": KEY}
    payment = counter.take(proof(offer=FEED), **how).payment
    (granted,) = counter.granted()
    assert (granted.holder, granted.tier) == (PAYER, "feed")
    assert payment.entitlement_id == granted.id

    assert counter.take(proof(offer=FEED), **how).payment == payment
    assert counter.granted() == [granted]
    assert counter.facilitator.asked == [proof().nonce]


def test_twelve_requests_with_one_proof_are_one_body_and_one_charge(
    counter: Counter, open_database: Callable[[], Database]
) -> None:
    journals = [Journal(open_database(), counter.clock) for _ in range(3)]
    cashiers = [Cashier(each, counter.facilitator, counter.clock) for each in journals] * 4

    async def all_at_once() -> list[Delivery[bytes] | BaseException]:
        served = asyncio.Event()
        ended: list[asyncio.Future[Delivery[bytes]]] = []

        def count(one: "asyncio.Future[Delivery[bytes]]") -> None:
            ended.append(one)
            if len(ended) == 11:
                served.set()

        async def settling() -> None:
            await served.wait()

        counter.facilitator.before_settling = settling
        takes = [
            asyncio.ensure_future(
                show(cashier, proof(offer=FEED), DOOR, counter.make, counter.grant)
            )
            for cashier in cashiers
        ]
        for take in takes:
            take.add_done_callback(count)
        return await asyncio.gather(*takes, return_exceptions=True)

    ends = counter.run(all_at_once())
    assert sum(isinstance(end, Delivery) for end in ends) == 1
    assert sum(isinstance(end, PaymentUnfinished) for end in ends) == 11
    assert counter.facilitator.asked == counter.facilitator.charged == [proof().nonce]
    assert [granted.ends_at for granted in counter.granted()] == [START + 30 * DAY]


def test_delivered_body_is_delivered_again_if_the_endpoint_allows_it(counter: Counter) -> None:
    first = counter.take(key=KEY)
    counter.clock.now = first.payment.valid_before + DAY
    assert counter.take(key=KEY) == first
    for key in (None, KEY[::-1]):
        with pytest.raises(AlreadyUsed):
            counter.take(key=key)
    assert counter.run(counter.cashier.redeliver(proof(), DOOR, counter.make)) == first
    assert (counter.made, counter.facilitator.asked) == (3, [proof().nonce])
    assert counter.steps()[-1] == "delivered"


@pytest.mark.parametrize("fails", [HandFacilitator.refuse, HandFacilitator.go_away])
def test_a_facilitator_that_refuses_or_is_away_leaves_nothing(
    counter: Counter, fails: Callable[[HandFacilitator], None]
) -> None:
    fails(counter.facilitator)
    with pytest.raises((InvalidProof, FacilitatorUnavailable)):
        counter.take()
    counter.clock.pass_seconds(55)
    counter.facilitator.verified.clear()
    with pytest.raises(InvalidProof, match="expires_too_soon"):  # which is not even verified
        counter.take()
    assert counter.facilitator.verified == []
    assert (counter.state(), counter.made, counter.facilitator.asked) == (None, 0, [])


@pytest.mark.outcome(
    "The service can't produce the body that a payment is for",
    "Nothing is charged, and the same proof works later.",
)
def test_nothing_is_charged_if_the_body_cannot_be_produced(counter: Counter) -> None:
    counter.cannot_make = LookupError("expired stance")
    with pytest.raises(LookupError):
        counter.take()
    assert (counter.state(), counter.facilitator.asked) == ("released", [])

    counter.cannot_make = None
    assert counter.take(door="/elsewhere").body == BODY
    assert counter.facilitator.charged == [proof().nonce]
    again = ["claimed", "settling", "settled", "delivered"]
    assert counter.steps() == ["claimed", "released", *again]


@pytest.mark.parametrize("after_charging", [True, False])
def test_settlement_without_an_answer_is_unknown(counter: Counter, after_charging: bool) -> None:
    counter.facilitator.fall_silent(after_charging=after_charging)
    counter.facilitator.on_settle = SettlementUnknown("pending", transaction := "0x" + "9e" * 32)
    for _ in range(3):
        with pytest.raises(PaymentUnfinished, match="outcome"):
            counter.take(grant=counter.grant)
    unknown = counter.paid()
    assert (unknown.state, unknown.transaction) == ("unknown", transaction)
    *_, step = counter.run(counter.journal.trail(unknown.id))
    assert step.detail == f"{transaction} SettlementUnknown"
    assert counter.facilitator.asked == [proof().nonce]
    assert counter.granted() == []


def test_a_failure_that_nobody_foresaw_is_unknown_too(counter: Counter) -> None:
    counter.facilitator.on_settle = KeyError("transaction")
    with pytest.raises(PaymentUnfinished, match="outcome"):
        counter.take()
    assert (counter.paid().state, counter.paid().reason) == ("unknown", "KeyError")


def test_who_paid_and_was_cut_off_gets_the_body_without_a_charge(counter: Counter) -> None:
    async def leave_while_it_settles() -> None:
        stop = counter.facilitator.before_settling = Stop()
        await leave(await counter.taken_until(stop.reached))
        with pytest.raises(PaymentUnfinished):
            await counter.cashier.redeliver(proof(), DOOR, counter.make)
        stop.may_go_on.set()
        await counter.cashier.close()

    counter.run(leave_while_it_settles())
    paid = counter.paid()
    assert (paid.state, paid.released_at) == ("settled", None)

    counter.clock.pass_seconds(3600)
    forged = proof(signature=OTHER_SIGNATURE)
    for other, door in ((proof(), "/elsewhere"), (forged, DOOR)):
        with pytest.raises(AlreadyUsed):
            counter.take(other, door)
    # Anybody can rebuild the proof from the chain, so no repeat uses the body up.
    for _ in range(3):
        assert counter.take() == Delivery(BODY, paid)
        counter.clock.pass_seconds(3600)
    assert counter.facilitator.asked == [proof().nonce]


@pytest.mark.parametrize(("key", "bodies"), [(KEY, 1), (None, 12)])
def test_owed_body_goes_out_once_to_a_key(counter: Counter, key: str | None, bodies: int) -> None:
    beginning = asyncio.Barrier(12)

    async def together() -> None:
        await beginning.wait()

    async def all_at_once() -> list[Delivery[bytes] | BaseException | None]:
        counter.while_making = together
        takes = [counter.cashier.redeliver(proof(), DOOR, counter.make) for _ in range(12)]
        return await asyncio.gather(*takes, return_exceptions=True)

    counter.owe(key)
    counter.cannot_make = LookupError()
    with pytest.raises(LookupError):
        counter.take(key=key)
    counter.cannot_make = None

    ends = counter.run(all_at_once())
    assert sum(isinstance(end, Delivery) for end in ends) == bodies
    assert sum(isinstance(end, PaymentUnfinished) for end in ends) == 12 - bodies
    assert counter.facilitator.asked == []


def test_a_settlement_that_is_cut_off_with_the_server_is_unknown(counter: Counter) -> None:
    async def stop_everything() -> None:
        stop = counter.facilitator.before_settling = Stop()
        taking = await counter.taken_until(stop.reached)
        everything = asyncio.all_tasks() - {asyncio.current_task()}
        for task in everything:
            task.cancel()
        await asyncio.gather(*everything, return_exceptions=True)
        assert taking.cancelled()

    counter.run(stop_everything())
    assert counter.state() == "unknown"


def test_who_leaves_while_the_body_is_made_is_not_charged(counter: Counter) -> None:
    async def leave_early() -> None:
        stop = counter.while_making = Stop()
        await leave(await counter.taken_until(stop.reached))

    counter.run(leave_early())
    assert (counter.state(), counter.facilitator.asked) == ("released", [])


class Hindered(DatabaseDouble):
    """A database whose writes can be held up or made to fail, counted from now."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.stops: dict[int, Stop] = {}
        self.failing: set[int] = set()
        self.writes = 0

    async def write(self, work: Any) -> Any:
        self.writes += 1
        if self.writes in self.stops:
            await self.stops[self.writes]()
        if self.writes in self.failing:
            raise DatabaseUnavailable("full")
        return await super().write(work)


@pytest.fixture
def hindered(counter: Counter) -> Hindered:
    hindered = Hindered(counter.database)
    journal = Journal(hindered, counter.clock)
    counter.cashier = Cashier(journal, counter.facilitator, counter.clock, pause=counter.pause)
    return hindered


def test_who_leaves_while_claiming_does_not_keep_it(counter: Counter, hindered: Hindered) -> None:
    async def leave_early() -> None:
        stop = Stop()
        hindered.stops[CLAIM] = stop
        await leave(await counter.taken_until(stop.reached), stop)

    counter.run(leave_early())
    assert (counter.state(), counter.made) == ("released", 0)


CLAIM, SETTLING, END, DELIVERED = 1, 2, 3, 4
EVERY_END = set(range(END, END + len(RETRY_PAUSES) + 1))


@pytest.mark.parametrize(
    ("failing", "raised", "left"),
    [
        ({CLAIM}, DatabaseUnavailable, (None, 0)),
        ({SETTLING}, DatabaseUnavailable, ("released", 0)),
        ({SETTLING, SETTLING + 1}, DatabaseUnavailable, ("claimed", 0)),
        (EVERY_END, PaymentUnfinished, ("settling", 1)),
        ({DELIVERED}, DatabaseUnavailable, ("settled", 1)),
    ],
)
def test_nothing_moves_that_the_journal_could_not_note_before(
    counter: Counter,
    hindered: Hindered,
    failing: set[int],
    raised: type[Exception],
    left: tuple[str | None, int],
) -> None:
    hindered.failing = failing
    with pytest.raises(raised):
        counter.take()
    assert (counter.state(), len(counter.facilitator.charged)) == left


@pytest.mark.outcome(
    "The database rejects writes after the facilitator settled a payment",
    "The service retries, then grants and delivers what was paid for.",
)
@pytest.mark.parametrize("failures", [1, len(RETRY_PAUSES)])
def test_payment_result_is_written_again(
    counter: Counter, hindered: Hindered, failures: int
) -> None:
    hindered.failing = set(range(END, END + failures))
    taken = counter.take(grant=counter.grant)
    assert (taken.payment.state, counter.paused) == ("settled", [*RETRY_PAUSES[:failures]])
    assert len(counter.granted()) == 1
    assert counter.facilitator.asked == [proof().nonce]


def test_a_refusal_is_noted_again_until_it_is_noted(counter: Counter, hindered: Hindered) -> None:
    hindered.failing = {END}
    counter.facilitator.on_settle = NotSettled("insufficient_funds")
    with pytest.raises(PaymentRefused):
        counter.take()
    assert counter.state() == "failed"


def test_payment_result_that_cannot_be_recorded_is_logged(
    counter: Counter, hindered: Hindered, caplog: pytest.LogCaptureFixture
) -> None:
    hindered.failing = EVERY_END
    with pytest.raises(PaymentUnfinished, match="outcome"):
        counter.take()
    (told,) = (vars(each) for each in caplog.records if each.levelname == "ERROR")
    assert (told["payment"], told["transaction"]) == (counter.paid().id, "0x" + "01" * 32)


def test_who_leaves_during_delivery_gets_it_later(counter: Counter, hindered: Hindered) -> None:
    async def leave_late() -> None:
        stop = Stop()
        hindered.stops[DELIVERED] = stop
        await leave(await counter.taken_until(stop.reached), stop)

    counter.run(leave_late())
    assert counter.steps()[-2:] == ["delivered", "undelivered"]
    assert (counter.paid().state, counter.paid().released_at) == ("settled", None)
    counter.clock.pass_seconds(3600)
    assert counter.take().body == BODY
    assert counter.facilitator.asked == [proof().nonce]


def test_who_is_gone_before_the_charge_is_not_charged(counter: Counter) -> None:
    with pytest.raises(PaymentUnfinished, match="disconnected"):
        counter.take(is_disconnected=lambda: True)
    assert (counter.state(), counter.facilitator.asked) == ("released", [])
    assert counter.take().body == BODY


def test_who_is_gone_after_the_charge_gets_the_body_later(counter: Counter) -> None:
    with pytest.raises(PaymentUnfinished, match="disconnected"):
        counter.take(is_disconnected=lambda: bool(counter.facilitator.charged))
    assert counter.steps() == ["claimed", "settling", "settled"]
    counter.clock.pass_seconds(3600)
    assert counter.take().body == BODY
    assert counter.facilitator.asked == [proof().nonce]


def test_who_is_gone_again_does_not_use_up_what_is_owed(counter: Counter) -> None:
    counter.owe()
    with pytest.raises(PaymentUnfinished, match="disconnected"):
        counter.run(
            counter.cashier.redeliver(proof(), DOOR, counter.make, is_disconnected=lambda: True)
        )
    assert counter.take().body == BODY


def test_a_grant_that_fails_leaves_the_settlement_to_be_looked_into(counter: Counter) -> None:
    async def broken(tx: Transaction, payment: Payment) -> str | None:
        await counter.grant(tx, payment)
        raise RuntimeError("nobody foresaw this")

    with pytest.raises(PaymentUnfinished, match="outcome"):
        counter.take(grant=broken)
    assert counter.state() == "settling"
    assert counter.granted() == []


def test_what_was_reconciled_meanwhile_is_not_granted_a_second_time(counter: Counter) -> None:
    async def reconcile() -> None:
        payment = await counter.journal.find(proof().key)
        assert payment is not None
        await counter.journal.mark_unknown(payment.id, "old")
        await counter.journal.mark_settled(payment.id, None, counter.grant, reason="found on chain")

    counter.facilitator.before_settling = reconcile
    taken = counter.take(grant=counter.grant)
    assert (taken.body, taken.payment.reason) == (BODY, "found on chain")
    assert [granted.ends_at for granted in counter.granted()] == [START + 30 * DAY]


def test_claim_that_was_released_or_taken_over_is_not_settled(counter: Counter) -> None:
    for meanwhile, state in ((counter.let_go, "released"), (counter.claim_anew, "claimed")):
        counter.while_making = meanwhile
        with pytest.raises(PaymentUnfinished):
            counter.take()
        assert (counter.state(), counter.facilitator.asked) == (state, [])


def test_failed_stale_claim_does_not_release_a_newer_claim(counter: Counter) -> None:
    counter.while_making, counter.cannot_make = counter.claim_anew, LookupError()
    with pytest.raises(LookupError):
        counter.take()
    assert (counter.state(), counter.facilitator.asked) == ("claimed", [])
