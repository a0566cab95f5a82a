"""Entitlements: who may read what, when, and a trail of it that cannot be changed."""

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.entitlements.store import (
    _HAS_ACTIVE,
    FEED,
    LATEST,
    RESERVE,
    CannotGrant,
    Entitlement,
    Entitlements,
    Holder,
    InvalidHolder,
    Tier,
    TrailEntry,
    UnknownEntitlement,
    _end_after,
)
from barograph.kit.database import (
    ConstraintViolated,
    Database,
    DatabaseUnavailable,
    Row,
    Transaction,
)
from barograph.kit.timestamps import DAY, HOUR
from barograph.payments.proof import checksummed
from support.backends import StartPython, on_engines, on_sqlite, run_together
from support.clock import START
from support.steps import Steps

USER = Holder("user", "8c5e0f6a-user")
WALLET = Holder("wallet", checksummed("0x" + "ab" * 20))
PERIOD = 30 * DAY


class Desk(Steps):
    """The verbs of the store, each run to its end."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.store = Entitlements(database, self.clock)

    def is_open(self, holder: Holder = USER, tier: Tier = FEED) -> bool:
        return self.run(self.store.has_active(holder, tier))

    def grant(
        self,
        starts_at: int = START,
        ends_at: int = START + PERIOD,
        holder: Holder = USER,
        tier: Tier = FEED,
        **said: Any,
    ) -> Entitlement:
        said = {"source": "operator", "by": "desk", "why": "a guest"} | said
        work = self.store.grant(holder, tier, starts_at=starts_at, ends_at=ends_at, **said)
        return self.run(work)

    async def grant_period(
        self, tx: Transaction, holder: Holder = USER, tier: Tier = FEED, period: int = PERIOD
    ) -> Entitlement:
        said = {"source": "x402", "by": "payment", "why": "x402"}
        return await self.store.grant_period(
            tx, holder, tier, period_ms=period, now=self.clock(), **said
        )

    def pay(self, holder: Holder = USER, tier: Tier = FEED, period: int = PERIOD) -> Entitlement:
        return self.write(lambda tx: self.grant_period(tx, holder, tier, period))

    def revoke(self, entitlement_id: str, why: str = "refunded") -> Entitlement:
        return self.run(self.store.revoke(entitlement_id, by="desk", why=why))

    def find(self, **wanted: Any) -> list[Entitlement]:
        return self.run(self.store.find(**wanted))

    def trail(self, entitlement_id: str) -> list[TrailEntry]:
        return self.run(self.store.trail(entitlement_id))

    def rows(self) -> list[Row]:
        return self.fetch("SELECT * FROM entitlement_trail ORDER BY sequence")


@pytest.fixture
def desk(database: Database, runner: asyncio.Runner) -> Desk:
    return Desk(database, runner)


def test_an_entitlement_opens_from_its_start_until_just_before_its_end(desk: Desk) -> None:
    granted = desk.grant(START + HOUR, START + 2 * HOUR)
    expected = {START: False, START + HOUR - 1: False, START + HOUR: True}
    expected |= {START + 2 * HOUR - 1: True, START + 2 * HOUR: False}

    for now, is_open in expected.items():
        desk.clock.now = now
        assert desk.is_open() is is_open
        assert granted.is_active(now) is is_open
        assert desk.find(active_only=True) == ([granted] if is_open else [])


def test_what_is_granted_is_kept_with_its_trail(desk: Desk) -> None:
    granted = desk.grant(source="card", by=" desk ", why="paid by card\n")
    end = START + PERIOD

    assert re.fullmatch(r"ent_[a-z2-7]{16}", granted.id)
    assert granted == Entitlement(
        granted.id, FEED, "user", USER.id, START, end, "card", START, None
    )
    assert desk.run(desk.store.get(granted.id)) == granted
    assert desk.trail(granted.id) == [TrailEntry("granted", START, end, "desk", "paid by card")]


@pytest.mark.contract("auth.reserve-insufficient")
def test_reserve_alone_never_opens_feed(desk: Desk) -> None:
    desk.grant(tier=RESERVE)
    desk.pay(tier=RESERVE)
    assert (desk.is_open(tier=RESERVE), desk.is_open(tier=FEED)) == (True, False)
    desk.pay(tier=FEED)
    assert desk.is_open(tier=FEED)


def test_a_wallet_is_the_same_in_either_case_and_a_user_is_exact(desk: Desk) -> None:
    desk.pay(WALLET)
    desk.pay(Holder("user", "Ann"))
    desk.pay(Holder("user", "0x" + "cd" * 20))

    assert desk.is_open(Holder("wallet", "0x" + "AB" * 20))
    assert desk.is_open(Holder("wallet", "0x" + "ab" * 20))
    for stranger in (
        Holder("user", WALLET.id),
        Holder("wallet", "0x" + "cd" * 20),
        Holder("user", "ann"),
        Holder("user", "Ann "),
    ):
        assert not desk.is_open(stranger)
    assert desk.pay(Holder("wallet", "0x" + "AB" * 20)).ends_at == START + 2 * PERIOD


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(("user", text) for text in ("", "a" * 201, "a\nb", "a\x00", "\ud800")),
        ("wallet", ""),
        ("wallet", "ab" * 20),
        ("wallet", "0X" + "ab" * 20),
        ("wallet", "0x" + "ab" * 19),
        ("wallet", "0x" + "ab" * 20 + "\n"),
        ("wallet", "0x" + "ag" * 20),
        ("wallet", "0x" + "aB" * 20),
        ("wallet", "0x" + "٣" * 40),
    ],
)
def test_what_names_nobody_is_refused_and_not_repeated(kind: Any, text: str) -> None:
    assert Holder("user", "ä" * 200).id == "ä" * 200
    with pytest.raises(InvalidHolder) as refused:
        Holder(kind, text)
    assert not text or text not in str(refused.value)


@pytest.mark.parametrize(
    ("starts_at", "ends_at"),
    [
        (START, START),
        (START + HOUR, START),
        (START - 2 * HOUR, START - HOUR),
        (START - HOUR, START),
        (-1, START + HOUR),
        (START, LATEST + 1),
    ],
)
def test_a_span_that_opens_nothing_is_not_granted(desk: Desk, starts_at: int, ends_at: int) -> None:
    with pytest.raises(CannotGrant):
        desk.grant(starts_at, ends_at)
    with pytest.raises(CannotGrant):
        desk.pay(period=min(ends_at - starts_at, 0))
    assert desk.find() == []


@pytest.mark.parametrize("name", ["source", "by", "why"])
@pytest.mark.parametrize("text", ["", "  ", "two\nlines", "a" * 501])
def test_grant_needs_a_source_a_name_and_a_reason(desk: Desk, name: str, text: str) -> None:
    said: dict[str, Any] = {name: text}
    with pytest.raises(CannotGrant, match=f"'{name}' must be one line"):
        desk.grant(**said)
    assert (desk.find(), desk.rows()) == ([], [])


def test_a_period_begins_now_and_extends_what_is_running(desk: Desk) -> None:
    first = desk.pay()
    desk.clock.now = START + 10 * DAY
    again = desk.pay()

    assert (first.starts_at, first.ends_at, first.source) == (START, START + PERIOD, "x402")
    assert again == first._replace(ends_at=START + 2 * PERIOD)
    assert desk.find() == [again]
    assert desk.trail(first.id) == [
        TrailEntry("granted", START, START + PERIOD, "payment", "x402"),
        TrailEntry("extended", START + 10 * DAY, START + 2 * PERIOD, "payment", "x402"),
    ]
    desk.clock.now = START + 2 * PERIOD - 1
    assert desk.is_open()


def test_a_period_after_the_end_begins_anew(desk: Desk) -> None:
    first = desk.pay()
    desk.clock.now = first.ends_at
    again = desk.pay()

    assert again.id != first.id
    assert (again.starts_at, again.ends_at) == (first.ends_at, first.ends_at + PERIOD)
    assert desk.find() == [again, first]


def test_period_is_not_added_to_a_revoked_or_another_entitlement(desk: Desk) -> None:
    revoked = desk.revoke(desk.pay().id)
    reserve, wallet = desk.pay(tier=RESERVE), desk.pay(WALLET)
    new = desk.pay()

    assert new.id not in {revoked.id, reserve.id, wallet.id}
    assert new.ends_at == START + PERIOD
    assert desk.is_open()


def test_a_period_is_part_of_its_transaction(desk: Desk) -> None:
    async def work(tx: Transaction) -> None:
        await desk.grant_period(tx)
        raise KeyError

    with pytest.raises(KeyError):
        desk.write(work)
    assert (desk.find(), desk.rows()) == ([], [])


@pytest.mark.outcome(
    "A Feed period is bought while entitlements overlap or one is planned",
    "It fills the gaps, then follows the last entitlement. No paid day is lost.",
)
def test_bought_period_adds_its_full_length_despite_overlapping_grants(desk: Desk) -> None:
    running = desk.grant(START - DAY, START + 10 * DAY)
    overlapping = desk.grant(START + 5 * DAY, START + 60 * DAY)
    planned = desk.grant(START + 70 * DAY, START + 100 * DAY)
    paid = desk.pay()

    # Ten days between the second and the third, twenty behind the third.
    assert paid == running._replace(ends_at=START + 120 * DAY)
    assert {each.id for each in desk.find()} == {running.id, overlapping.id, planned.id}


def test_the_entitlement_that_ends_last_is_extended(desk: Desk) -> None:
    short, long = desk.grant(ends_at=START + DAY), desk.grant(ends_at=START + 3 * DAY)

    assert desk.pay() == long._replace(ends_at=START + 3 * DAY + PERIOD)
    assert [entry.action for entry in desk.trail(short.id)] == ["granted"]
    desk.grant(START, LATEST)
    assert desk.pay().ends_at == LATEST


def test_who_has_only_a_planned_entitlement_and_pays_may_read_at_once(desk: Desk) -> None:
    planned = desk.grant(START + 10 * DAY, START + 20 * DAY)
    paid = desk.pay()

    assert paid.id != planned.id
    assert (paid.starts_at, paid.ends_at) == (START, START + 40 * DAY)
    assert desk.is_open()


SPANS = st.lists(st.tuples(st.integers(-20, 60), st.integers(1, 40)), max_size=5)


@given(SPANS, st.integers(1, 50))
def test_period_adds_exactly_its_length(spans: list[tuple[int, int]], period: int) -> None:
    standing = [
        Entitlement("e", FEED, "user", "u", start, start + length, "s", -100, None)
        for start, length in spans
        if start + length > 0
    ]
    before = {at for each in standing for at in range(max(each.starts_at, 0), each.ends_at)}
    after = before | set(range(_end_after(standing, period, now=0)))

    assert len(after) - len(before) == period


@pytest.mark.outcome(
    "The clock is set back after a Feed entitlement was granted",
    "It is active anyway, and another payment extends it.",
)
def test_entitlement_stays_active_when_the_clock_is_set_back(desk: Desk) -> None:
    paid = desk.pay()
    desk.clock.now = START - HOUR

    assert desk.is_open()
    assert desk.find(active_only=True) == [paid]
    assert desk.pay() == paid._replace(ends_at=START + 2 * PERIOD)
    assert [entry.at for entry in desk.trail(paid.id)] == [START, START - HOUR]


def test_a_clock_set_back_opens_neither_a_revoked_one_nor_a_planned_one(desk: Desk) -> None:
    desk.grant(START + HOUR, START + 2 * HOUR)
    paid = desk.pay()
    desk.clock.now = START + DAY
    desk.revoke(paid.id)
    for now in (START, START - HOUR):
        desk.clock.now = now
        assert not desk.is_open()


def test_a_revoked_one_opens_nothing_and_revoking_again_changes_nothing(desk: Desk) -> None:
    paid = desk.pay()
    desk.clock.now = START + HOUR
    revoked = desk.revoke(paid.id)

    assert revoked == paid._replace(revoked_at=START + HOUR)
    assert not desk.is_open()
    assert not revoked.is_active(START + HOUR)

    desk.clock.now = START + 2 * HOUR
    assert desk.revoke(paid.id, why="once more") == revoked
    assert desk.trail(paid.id)[1:] == [
        TrailEntry("revoked", START + HOUR, paid.ends_at, "desk", "refunded")
    ]


def test_an_unknown_id_cannot_be_revoked_or_shown(desk: Desk) -> None:
    with pytest.raises(UnknownEntitlement):
        desk.revoke("ent_0000000000000000")
    with pytest.raises(UnknownEntitlement):
        desk.run(desk.store.get("ent_0000000000000000"))
    assert desk.trail("ent_0000000000000000") == []


def test_entitlements_are_found_by_holder_tier_and_state_newest_first(desk: Desk) -> None:
    feed = desk.pay()
    desk.clock.pass_seconds(1)
    reserve = desk.pay(tier=RESERVE)
    desk.clock.pass_seconds(1)
    wallet = desk.pay(WALLET)
    desk.clock.pass_seconds(1)
    revoked = desk.revoke(desk.grant(holder=WALLET).id)

    assert desk.find() == [revoked, wallet, reserve, feed]
    assert desk.find(limit=2) == [revoked, wallet]
    assert desk.find(holder=USER) == [reserve, feed]
    assert desk.find(holder=USER, tier=FEED) == [feed]
    assert desk.find(tier=FEED) == [revoked, wallet, feed]
    assert desk.find(holder=WALLET, tier=FEED, active_only=True) == [wallet]
    assert desk.find(holder=Holder("user", WALLET.id)) == []


@on_sqlite
def test_the_question_of_every_request_reads_by_the_holder_s_index(desk: Desk) -> None:
    sql = f"EXPLAIN QUERY PLAN {_HAS_ACTIVE}"
    plan = [row[3] for row in desk.fetch(sql, FEED, USER.kind, USER.id, START)]
    by = "(holder_kind=? AND holder=? AND tier=? AND ends_at>?)"
    assert plan == [f"SEARCH entitlements USING INDEX entitlements_by_holder {by}"]


@pytest.mark.parametrize(
    ("engine", "sql"),
    on_engines(
        "UPDATE entitlement_trail SET why = 'another'",
        "UPDATE entitlement_trail SET sequence = 9 WHERE sequence = 1",
        "DELETE FROM entitlement_trail",
        "TRUNCATE entitlement_trail",
        "DELETE FROM entitlement_trail WHERE sequence = 2",
        "REPLACE INTO entitlement_trail VALUES (1, 'e', 'granted', 0, 9, 'x', 'y')",
        "INSERT OR REPLACE INTO entitlement_trail VALUES (2, 'e', 'revoked', 0, 9, 'x', 'y')",
        (
            "INSERT INTO entitlement_trail VALUES (1, 'e', 'revoked', 0, 9, 'x', 'y') "
            "ON CONFLICT (sequence) DO UPDATE SET why = 'another'"
        ),
        "INSERT INTO entitlement_trail VALUES (0, 'e', 'revoked', 0, 9, 'x', 'y')",
        "INSERT INTO entitlement_trail VALUES (4, 'e', 'revoked', 0, 9, 'x', 'y')",
        "INSERT INTO entitlement_trail VALUES (NULL, 'e', 'revoked', 0, 9, 'x', 'y')",
        "INSERT INTO entitlement_trail VALUES (3, 'e', 'forgotten', 0, 9, 'x', 'y')",
    ),
    indirect=["engine"],
)
def test_the_database_itself_refuses_to_change_the_trail(desk: Desk, sql: str) -> None:
    desk.pay()
    desk.pay()
    before = desk.rows()
    assert len(before) == 2

    with pytest.raises(ConstraintViolated):
        desk.execute(sql)

    assert desk.rows() == before


@pytest.mark.parametrize(
    "changed", ["ends_at = starts_at", "tier = 'gold'", "holder_kind = 'email'"]
)
def test_database_refuses_an_entitlement_that_makes_no_sense(desk: Desk, changed: str) -> None:
    desk.pay()
    with pytest.raises(ConstraintViolated):
        desk.execute(f"UPDATE entitlements SET {changed}")


def test_missing_store_is_no_answer(empty_database: Database, runner: asyncio.Runner) -> None:
    with pytest.raises(DatabaseUnavailable):
        Desk(empty_database, runner).is_open()


BUYER = f"""
import asyncio, sys
from barograph.entitlements.store import Entitlements, Holder

async def main():
    store = Entitlements(database, lambda: {START} + AHEAD)
    for number in range(20):
        said = dict(source="x402", by="payment", why="a period")
        holder = Holder("user", f"user {{number % 4}}")
        await store.add_period(holder, "feed", period_ms={PERIOD}, **said)
    await database.close()

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main())
"""


def test_periods_bought_by_two_processes_all_count(desk: Desk, start_python: StartPython) -> None:
    """Also with clocks that disagree by a minute."""
    run_together(start_python(BUYER.replace("AHEAD", ahead)) for ahead in ("0", "60_000"))

    assert [row[0] for row in desk.rows()] == list(range(1, 41))
    bought = desk.find()
    assert {each.holder for each in bought} == {f"user {number}" for number in range(4)}
    assert [each.ends_at - each.starts_at for each in bought] == [10 * PERIOD] * 4
