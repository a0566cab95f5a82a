"""From evidence to the record: what is issued, once, by whomever, through every failure."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import date, timedelta
from functools import partial
from random import Random
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from barograph.accuracy.assess import record_definition
from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Publication
from barograph.errors import LeaseLost
from barograph.events.store import event_text, events_of_type, remove_text
from barograph.history.digest import version_document
from barograph.history.ledger import Ledger
from barograph.history.records import KINDS, CurrentStance, NotIssuedYet, Stances, Version
from barograph.history.verify import IntactRecord, verify
from barograph.kit.business_days import business_days
from barograph.kit.database import Database, DatabaseUnavailable, Work
from barograph.kit.json import canonical
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR, SECOND, iso_timestamp
from barograph.macro.records import (
    EFFR,
    EFFR_HIGH,
    EFFR_LOW,
    OPERATOR_AUM,
    OPERATOR_BTC,
    OPERATOR_FLOW,
    SOFR,
    US2Y,
    US3M,
    US10Y,
    Figure,
)
from barograph.macro.store import record_figures
from barograph.markets.failover import VENUE_IN_USE, VenueInUse
from barograph.markets.settlements import REVISION_DELAY
from barograph.markets.store import record_settlement_reports
from barograph.markets.view import PERPETUALS
from barograph.material_change.compare import compare, read_retained
from barograph.settings import Settings
from barograph.stances.issue import StanceIssuer
from barograph.stances.reader import STANCES
from barograph.stances.reveals import REVEALS, announcements, revealed_at
from barograph.stances.revise import revision_of
from barograph.venues.records import Perpetuals, SettledRate
from barograph.venues.registry import HYPERLIQUID, VENUES
from support.backends import Backend
from support.clock import START
from support.databases import DatabaseDouble
from support.markets import reading
from support.stances import FUNDING, RATES, make_history
from support.steps import Steps

T = TypeVar("T")

ETF = "btc-etf-stance"
FRIDAY = date(2026, 11, 6)
SETTLED = START // (8 * HOUR) * 8 * HOUR
YIELDS = {US3M: 4.0, US2Y: 3.8, US10Y: 4.2}
OVERNIGHT = {SOFR: 3.9, EFFR: 3.88, EFFR_LOW: 3.75, EFFR_HIGH: 4.0}
FLOWS = {OPERATOR_FLOW: 1e6, OPERATOR_AUM: 1e10, OPERATOR_BTC: 5e5}


class Door(DatabaseDouble):
    """A database that can be out of reach, and that tells when it is asked."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.can_read = True
        self.can_write = True
        self.when_read: Callable[[], Coroutine[Any, Any, object]] | None = None

    def lead_to(self, database: Database) -> None:
        self._database = database

    def shut(self, *, shut: bool = True) -> None:
        self.can_read = self.can_write = not shut

    async def read(self, work: Work[T]) -> T:
        if not self.can_read:
            raise DatabaseUnavailable("out of reach")
        if self.when_read is not None:
            happens, self.when_read = self.when_read, None
            await happens()
        return await super().read(work)

    async def write(self, work: Work[T]) -> T:
        if not self.can_write:
            raise DatabaseUnavailable("out of reach")
        return await super().write(work)


class Instance(Steps):
    """Evidence, a record, and leaders who issue one after the other."""

    def __init__(
        self, database: Database, history: Database, runner: asyncio.Runner, history_store: Backend
    ) -> None:
        self.door = Door(database)
        super().__init__(self.door, runner)
        self.history_store = history_store
        self.settings = Settings.model_validate({"etf_file": "flows.csv"})
        self.history = Door(history)
        self.ledger = Ledger(history, self.clock)
        self.is_away = False
        self.restart()

    def restart(self, **settings: Any) -> None:
        """A new process leads, once the lease of the one before has run out."""
        self.settings = self.settings.model_copy(update=settings)
        self.lease = self.new_lease()
        self.issuer = self.new_issuer(self.history)

    def new_lease(self) -> Lease:
        holder = str(id(object()))
        lease = Lease(self.database, "collector", holder, clock=self.clock, milliseconds=1)
        self.clock.now += SECOND
        assert self.run(lease.acquire())
        return lease

    def new_issuer(self, history: Database, **parts: Any) -> StanceIssuer:
        ledger = Ledger(history, self.clock)
        return StanceIssuer(self.settings, self.database, ledger, self.clock, **parts)

    def issue(self) -> dict[str, CurrentStance]:
        return {stance.kind: stance for stance in self.issued().stances}

    def issued(self) -> Stances:
        if not self.is_away:
            self.publish(replace(reading(), as_of=self.clock()))
        return self.run(self.issuer.issue(self.lease))

    def settle(self, *rates: float, until: int = SETTLED, venue: str = "bybit") -> None:
        """Take what the exchange reported when the last of these was settled."""
        contract, first = VENUES[venue].contract("BTC"), until - (len(rates) - 1) * 8 * HOUR
        reported = [
            SettledRate(contract, first + number * 8 * HOUR, rate)
            for number, rate in enumerate(rates)
        ]
        self.write(lambda tx: record_settlement_reports(tx, venue, reported, until + SECOND))

    def publish(self, seen: Perpetuals) -> None:
        self.write(lambda tx: publish(tx, [Publication.of(PERPETUALS, seen)]))

    def report(self, rate: float, at: int = SETTLED) -> None:
        """Take what the exchange says that a settlement was."""
        rates = [SettledRate("BTCUSDT", at, rate)]
        self.write(lambda tx: record_settlement_reports(tx, "bybit", rates, self.clock()))

    def observe(self, values: dict[str, float], *days: str) -> None:
        """Take these daily figures."""
        figures = [Figure(name, day, values[name], "files") for name in values for day in days]
        self.write(lambda tx: record_figures(tx, figures, self.clock()))

    def count(self) -> list[int]:
        return [self.run(self.ledger.count(kind, "versions")) for kind in KINDS]

    def newest(self, kind: str) -> Version:
        return self.run(self.ledger.newest_versions(kind, 1))[0]

    def decide(self, kind: str, label: str) -> Version:
        newest = self.run(self.ledger.newest_versions(kind, 1))
        now = self.clock()
        proposal = revision_of(newest, kind, label=label, why="a feeling", by="desk", now=now)
        head = newest[0].history_digest
        return self.run(self.ledger.append(proposal, expected_head=head)).version

    def withdraw(self, kind: str) -> str:
        head = self.newest(kind).history_digest
        event = self.run(self.ledger.withdraw(kind, why="wrong", by="desk", expected_head=head))
        return event.evidence_digest

    def published(self) -> Stances | None:
        return self.run(latest_snapshot(self.database, STANCES))


def days(until: date = FRIDAY, count: int = 63) -> list[str]:
    return [each.isoformat() for each in business_days(until - timedelta(days=95), until)][-count:]


@pytest.fixture
def bare(
    database: Database, runner: asyncio.Runner, new_store: Callable[[], Backend]
) -> Iterator[Instance]:
    """An instance without any evidence."""
    store = new_store()
    history = store.open()
    runner.run(make_history(history))
    yield Instance(database, history, runner, store)
    runner.run(history.close())


@pytest.fixture
def instance(bare: Instance) -> Instance:
    """An instance that has what all kinds need."""
    return prepared(bare, days())


@pytest.fixture
def before_friday(bare: Instance) -> Instance:
    """The same, before anything about Friday is known."""
    return prepared(bare, days()[:-1])


def prepared(bare: Instance, known: Sequence[str]) -> Instance:
    bare.publish(reading())
    bare.settle(*[0.01] * 95)
    bare.observe(YIELDS | OVERNIGHT | FLOWS, *known)
    return bare


def leg(stance: CurrentStance) -> Any:
    return json.loads(stance.leg)


@pytest.mark.contract(
    "stance.kinds", "stance.leg-id", "stance.revision", "stance.issued-at", "stance.history-durable"
)
def test_every_kind_is_recorded_and_published(instance: Instance) -> None:
    stances = instance.issued()

    assert [each.kind for each in stances.stances] == [
        "btc-etf-stance",
        "rates-desk",
        "funding-regime-stance",
    ]
    assert stances.silent == {}
    assert instance.published() == stances
    for stance in stances.stances:
        version = instance.newest(stance.kind)
        assert stance.history_durable
        assert stance.history_digest == version.history_digest
        assert (stance.leg_id, stance.revision, stance.sequence) == (version.leg_id, 1, 1)
        assert (stance.issued_at, stance.salt) == (instance.clock(), version.salt)
        assert leg(stance)["evidence"]["digest"] == version.leg.evidence.digest


def test_the_leader_announces_its_terms_before_its_first_version(instance: Instance) -> None:
    for days in (7, 7, 0, 0):
        instance.restart(reveal_after_days=days)
        instance.issue()

    published = instance.run(latest_snapshot(instance.database, REVEALS))
    assert published is not None
    assert [each.after_days for each in published.announced] == [7, 0]
    recorded = instance.run(events_of_type(instance.database, "reveal.announced"))
    assert announcements(recorded) == published.announced
    for kind in KINDS:
        issued_at = instance.newest(kind).issued_at
        assert revealed_at(issued_at, published.announced) == issued_at + 7 * DAY
    sql = "SELECT digest FROM events WHERE type = 'reveal.announced'"
    for (digest,) in instance.fetch(sql):  # its text can't be removed
        assert not instance.write(partial(remove_text, text_digest=digest, why="order"))
        assert instance.run(event_text(instance.database, digest)) != ("", "order")


def test_accuracy_is_defined_before_the_first_version(instance: Instance) -> None:
    instance.restart(reveal_after_days=7)
    instance.issuer = instance.new_issuer(instance.history, define=record_definition)
    stances = instance.issue()

    (defined,) = instance.run(events_of_type(instance.database, "accuracy.defined"))
    assert defined.id == 2  # right after the announcement
    assert len(stances) == 3
    assert all(stance.issued_at >= defined.at for stance in stances.values())


def announce_later_leader(instance: Instance) -> None:
    instance.run(instance.ledger.announce_leader(instance.lease.token + 1))


def release_lease(instance: Instance) -> None:
    instance.run(instance.lease.release())


def lose_lease_after_judging(instance: Instance) -> None:
    other = Lease(instance.database, "collector", "other", clock=instance.clock, milliseconds=9_000)
    instance.clock.pass_seconds(1)
    instance.history.when_read = other.acquire


def refuse_announcements(instance: Instance) -> None:
    instance.door.can_write = False


def take_evidence_away(instance: Instance) -> None:
    instance.door.shut()


@pytest.mark.parametrize(
    ("happens", "error"),
    [
        (announce_later_leader, LeaseLost),
        (release_lease, LeaseLost),
        (lose_lease_after_judging, LeaseLost),
        (refuse_announcements, DatabaseUnavailable),
        (take_evidence_away, DatabaseUnavailable),
    ],
)
def test_nothing_is_recorded_or_published_without_lease_terms_and_evidence(
    instance: Instance, happens: Callable[[Instance], None], error: type[Exception]
) -> None:
    happens(instance)
    with pytest.raises(error):
        instance.issue()

    instance.door.shut(shut=False)
    assert (instance.count(), instance.published()) == ([0, 0, 0], None)


@pytest.mark.contract("stance.reread-records-nothing")
@pytest.mark.parametrize("restarts", [False, True])
def test_same_evidence_is_recorded_once_by_whomever(instance: Instance, restarts: bool) -> None:
    first = instance.issue()
    for _ in range(4):
        instance.clock.pass_seconds(15)
        if restarts:
            instance.restart()
        assert instance.issue() == first

    assert instance.count() == [1, 1, 1]


def test_two_processes_at_once_record_once(instance: Instance) -> None:
    other = instance.history_store.open()
    issuers = (instance.issuer, instance.new_issuer(other))

    async def both() -> list[Stances]:
        return list(await asyncio.gather(*(each.issue(instance.lease) for each in issuers)))

    one, another = instance.run(both())
    instance.run(other.close())

    assert one == another
    assert instance.count() == [1, 1, 1]


@pytest.mark.contract("stance.revision-keeps-leg")
def test_changed_evidence_is_a_revision_and_the_next_period_a_new_leg(instance: Instance) -> None:
    before = instance.issue()
    instance.observe({SOFR: 3.95}, days()[-1])
    after = instance.issue()

    assert instance.count() == [1, 2, 1]
    assert (after[RATES].leg_id, after[RATES].revision) == (before[RATES].leg_id, 2)
    assert after[RATES].previous_digest == before[RATES].history_digest
    assert (after[ETF], after[FUNDING]) == (before[ETF], before[FUNDING])

    instance.clock.pass_seconds(3 * 3600)
    instance.settle(0.01, until=SETTLED + 8 * HOUR)
    following = instance.issue()[FUNDING]
    assert (following.revision, following.sequence) == (1, 2)
    assert following.leg_id != before[FUNDING].leg_id


@pytest.mark.outcome(
    "Another venue takes over from the primary",
    "No funding stance is issued, and the last one expires: it is about the primary venue alone.",
)
@pytest.mark.parametrize("is_read", [False, True])
def test_funding_stance_never_switches_to_another_venue(instance: Instance, is_read: bool) -> None:
    before = instance.issue()[FUNDING]
    instance.is_away = True
    following = SETTLED + 8 * HOUR
    instance.clock.now = following + HOUR
    instance.settle(*[0.002] * 95, until=following, venue=HYPERLIQUID)
    instance.settle(0.01, until=following)
    if is_read:  # both venues answer, but the primary must last before it is used again
        other = replace(reading(), as_of=instance.clock(), venue=HYPERLIQUID, source="Elsewhere")
        in_use = VenueInUse(HYPERLIQUID, instance.clock(), "bybit", "it failed")
        own = replace(reading(), as_of=instance.clock())
        instance.write(
            lambda tx: publish(
                tx,
                [
                    Publication.of(VENUE_IN_USE, in_use),
                    Publication.of(PERPETUALS, other),
                    Publication.of(PERPETUALS.of("bybit"), own),
                ],
            )
        )
    stances = instance.issued()

    assert stances.silent[FUNDING] == "the primary venue, Bybit, is unavailable or not in use"
    assert stances.of(FUNDING) == before
    instance.write(
        lambda tx: publish(tx, [Publication.of(VENUE_IN_USE, VenueInUse("bybit", following))])
    )
    instance.is_away = False
    back = leg(instance.issue()[FUNDING])
    assert back["method"] == "funding-regime/2 bybit"
    assert back["period"]["start"] == iso_timestamp(following)


def test_version_of_an_earlier_method_stays_and_does_not_compare(instance: Instance) -> None:
    instance.issue()
    newest = instance.newest(FUNDING)
    earlier = replace(newest.leg, method="funding-regime/1 bybit")
    older = read_retained(canonical(version_document(replace(newest, leg=earlier))))
    found = compare(older, read_retained(canonical(version_document(newest))))

    assert (found.status, found.reasons) == ("abstained", ["method_changed"])


def test_an_operators_decision_stands_until_the_evidence_changes(instance: Instance) -> None:
    instance.issue()
    decided = instance.decide(FUNDING, "stand-aside")
    for _ in range(2):
        assert instance.issue()[FUNDING].history_digest == decided.history_digest
        instance.restart()
    instance.history.shut()
    away = instance.issue()[FUNDING]
    assert (leg(away)["decision"]["label"], away.revision) == ("stand-aside", 2)
    assert place(away) == NOT_RECORDED
    instance.history.shut(shut=False)
    instance.settle(0.012)
    after = instance.issue()[FUNDING]

    assert (after.revision, leg(after)["decision"]["by"]) == (3, "rule")
    assert instance.count() == [1, 1, 3]


def scores(stance: CurrentStance) -> set[str]:
    return set(leg(stance)["levels"]) - {"fundingRatePct8h"}


EVERY_SCORE = {"score", "score24hAgo", "delta24h"}


@pytest.mark.contract("stance.revision-keeps-leg")
def test_report_fills_in_a_missed_settlement_and_confirms_others(bare: Instance) -> None:
    for back in (0, 1, 2, *range(4, 95)):
        bare.report(0.01, SETTLED - back * 8 * HOUR)
    before = bare.issue()[FUNDING]
    bare.report(0.01, SETTLED - DAY)
    after = bare.issue()[FUNDING]

    assert (scores(before), scores(after)) == ({"score"}, EVERY_SCORE)
    assert (after.leg_id, after.revision) == (before.leg_id, 2)
    for back in range(95):
        bare.report(0.01, SETTLED - back * 8 * HOUR)
    assert bare.issue()[FUNDING] == after


@pytest.mark.contract("stance.revision-keeps-leg")
@pytest.mark.outcome(
    "The exchange changes the rate of a past settlement",
    "If a published digit changes, the rate is unknown for two hours; scores that need it are "
    "absent from stances until then.",
)
def test_revised_settlement_is_unknown_for_two_hours(instance: Instance) -> None:
    first = instance.issue()[FUNDING]
    instance.report(0.01004, SETTLED - DAY)
    assert instance.issue()[FUNDING] == first  # no published digit changes
    instance.report(0.02, SETTLED - DAY)
    contested = instance.issue()[FUNDING]
    instance.clock.now += REVISION_DELAY - 1
    assert instance.issue()[FUNDING] == contested
    instance.clock.now += 1
    settled = instance.issue()[FUNDING]

    revisions = (first, contested, settled)
    assert [scores(each) for each in revisions] == [EVERY_SCORE, {"score"}, EVERY_SCORE]
    assert [each.revision for each in revisions] == [1, 2, 3]
    assert {each.leg_id for each in revisions} == {first.leg_id}
    rates = dict(leg(settled)["evidence"]["inputs"]["rates_pct_8h"])
    assert rates[iso_timestamp(SETTLED - DAY)] == 0.02


def test_earlier_stance_stays_while_the_newest_settlement_is_contested(instance: Instance) -> None:
    first = instance.issue()[FUNDING]
    instance.report(0.02)
    contested = instance.issued()

    assert contested.silent[FUNDING] == "no settlement of the current interval is known"
    assert first in contested.stances
    instance.clock.now += REVISION_DELAY
    after = instance.issue()[FUNDING]
    assert (after.leg_id, after.revision) == (first.leg_id, 2)
    assert leg(after)["levels"]["fundingRatePct8h"] == 0.02


def test_new_settlement_is_judged_when_the_exchange_reports_it(instance: Instance) -> None:
    before = instance.issue()[FUNDING]
    second = SETTLED + 8 * HOUR
    instance.clock.now = second + HOUR
    assert instance.issue()[FUNDING] == before
    instance.report(0.0101, second)
    after = instance.issue()[FUNDING]

    assert (after.revision, leg(after)["levels"]["fundingRatePct8h"]) == (1, 0.0101)
    assert leg(after)["evidence"]["observed_at"] == iso_timestamp(instance.clock())
    assert instance.count()[-1] == 2


@pytest.mark.parametrize("restarts", [False, True])
def test_hysteresis_continues_from_the_leg_before(before_friday: Instance, restarts: bool) -> None:
    instance = before_friday
    thursday, friday = days()[-2:]

    def rates() -> tuple[bool, bool, int | None]:
        if restarts:
            instance.restart()
        stance = instance.issue()[RATES]
        inputs = leg(stance)["evidence"]["inputs"]
        return leg(stance)["levels"]["inverted"], inputs["was_inverted"], stance.sequence

    instance.observe({US10Y: 3.9}, thursday)
    assert rates() == (True, False, 1)
    instance.observe({US10Y: 4.0}, thursday)
    assert rates() == (False, False, 2)
    instance.observe({US10Y: 3.9}, thursday)
    assert rates() == (True, False, 3)
    instance.observe(YIELDS | {US10Y: 4.0}, friday)
    for _ in range(3):
        assert rates() == (True, True, 4)


def test_flows_keep_their_regime_from_leg_to_leg(before_friday: Instance) -> None:
    instance = before_friday
    instance.observe(FLOWS | {OPERATOR_FLOW: 12e6}, *days()[-6:-1])
    assert leg(instance.issue()[ETF])["levels"]["regime"] == "accumulation"
    instance.observe(FLOWS | {OPERATOR_FLOW: -20e6}, days()[-1])
    after = leg(instance.issue()[ETF])

    levels = after["levels"]
    assert (levels["flow5dPctAum"], levels["regime"]) == (0.28, "accumulation")
    assert after["evidence"]["inputs"]["previous_regime"] == "accumulation"


def test_without_evidence_nothing_is_issued_and_the_reasons_are_told(bare: Instance) -> None:
    stances = bare.issued()
    assert stances.stances == ()
    assert stances.waiting[ETF].why == "0 of 20 days are known"
    settled = "no settlement of the current interval is known"
    assert stances.silent == {RATES: "no day has all three yields", FUNDING: settled}
    bare.is_away = True
    bare.clock.now += DAY
    assert bare.issued().silent[FUNDING] == "the primary venue, Bybit, is unavailable or not in use"
    bare.clock.now -= DAY
    assert bare.count() == [0, 0, 0]

    bare.settings = Settings.model_validate({"rates_url": ",https://rates.example", "etf_url": ""})
    bare.restart()
    without_sources = bare.issued()
    waiting = NotIssuedYet("no source is configured")
    assert without_sources.waiting == dict.fromkeys((ETF, RATES), waiting)
    assert list(without_sources.silent) == [FUNDING]


@pytest.mark.outcome(
    "The clock is set back while stances are recorded",
    "Nothing is recorded twice, and the next stance is the newest.",
)
@pytest.mark.parametrize("passed", [30 * DAY, -2 * DAY])
def test_stances_stay_with_old_evidence_or_a_clock_set_back(
    instance: Instance, passed: int
) -> None:
    before = instance.issue()
    instance.clock.now += passed
    stances = instance.issued()

    assert set(stances.silent) == set(KINDS)
    assert {stance.kind: stance for stance in stances.stances} == before
    assert instance.count() == [1, 1, 1]


NOT_RECORDED = (False, None, None, None, None)


def place(stance: CurrentStance) -> tuple[object, ...]:
    digests = (stance.history_digest, stance.previous_digest, stance.salt)
    return (stance.history_durable, stance.sequence, *digests)


@pytest.mark.contract("stance.digest-never-invented")
@pytest.mark.outcome(
    "The history is unavailable when a stance is issued",
    "It is delivered without a digest (`history_durable: false`) and recorded later.",
)
def test_stance_is_not_durable_while_the_history_is_unavailable(instance: Instance) -> None:
    instance.history.shut()
    away = instance.issue()

    assert {place(each) for each in away.values()} == {NOT_RECORDED}
    assert {each.revision for each in away.values()} == {1}
    assert instance.count() == [0, 0, 0]

    instance.history.shut(shut=False)
    back = instance.issue()

    assert all(each.history_durable and each.sequence == 1 for each in back.values())
    assert {kind: each.leg for kind, each in back.items()} == {
        kind: each.leg for kind, each in away.items()
    }


def test_unrecorded_revision_has_the_number_it_would_have(instance: Instance) -> None:
    instance.issue()
    instance.history.shut()
    same = instance.issue()[FUNDING]
    instance.settle(0.012)
    changed = instance.issue()[FUNDING]
    instance.clock.pass_seconds(3 * 3600)
    instance.settle(0.01, until=SETTLED + 8 * HOUR)
    following = instance.issue()[FUNDING]

    assert [each.revision for each in (same, changed, following)] == [1, 2, 1]
    assert {place(each) for each in (same, changed, following)} == {NOT_RECORDED}
    instance.history.shut(shut=False)
    recorded = instance.issue()[FUNDING]
    assert (recorded.leg_id, recorded.revision, recorded.sequence) == (following.leg_id, 1, 2)


def shown(stance: CurrentStance) -> CurrentStance:
    """All of a stance but its place in the record."""
    nowhere = dict.fromkeys(("history_digest", "sequence", "previous_digest", "salt"))
    return replace(stance, history_durable=False, **nowhere)


def all_shown(stances: Iterable[CurrentStance]) -> dict[str, CurrentStance]:
    return {stance.kind: shown(stance) for stance in stances}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("can_read", [False, True])
@pytest.mark.outcome(
    "A stance can't be recorded for a while",
    "It keeps its first `issued_at`, even under a new leader, until its evidence changes.",
)
def test_unrecorded_stance_keeps_its_time(
    instance: Instance, restarts: bool, can_read: bool
) -> None:
    instance.history.shut()
    instance.history.can_read = can_read
    first = instance.issue()
    for _ in range(3):
        instance.clock.pass_seconds(15)
        if restarts:
            instance.restart()
        assert instance.issue() == first

    instance.settle(0.012)
    changed = instance.issue()
    assert changed[FUNDING].issued_at == instance.clock() > first[FUNDING].issued_at
    assert (changed[RATES], changed[ETF]) == (first[RATES], first[ETF])

    instance.clock.pass_seconds(15)
    instance.history.shut(shut=False)
    assert {each.issued_at for each in instance.issue().values()} == {instance.clock()}


def test_evidence_that_is_as_it_was_recorded_again_is_no_new_issue(instance: Instance) -> None:
    before = instance.issue()[FUNDING]
    instance.history.shut()
    instance.settle(0.012)
    instance.clock.pass_seconds(15)
    assert instance.issue()[FUNDING].revision == 2
    instance.settle(0.01)

    assert shown(instance.issue()[FUNDING]) == shown(before)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.outcome(
    "The history is unreadable and no new stance is issued, even after a restart",
    "The last published stances stay published, as not durable.",
)
def test_published_stances_stay_while_history_is_away(instance: Instance, restarts: bool) -> None:
    instance.issue()
    instance.withdraw(RATES)
    before = instance.issue()
    instance.history.shut()
    instance.clock.now += 30 * DAY
    for _ in range(2):
        if restarts:
            instance.restart()
        away = instance.issued()
        assert set(away.silent) == set(KINDS)
        assert all_shown(away.stances) == all_shown(before.values())
        assert {place(each) for each in away.stances} == {NOT_RECORDED}
        assert instance.published() == away

    instance.history.shut(shut=False)
    assert instance.issue() == before


@pytest.mark.parametrize("restarts", [False, True])
def test_unrecorded_stance_stays_until_the_record_is_back(
    instance: Instance, restarts: bool
) -> None:
    recorded = instance.issue()[FUNDING]
    instance.history.shut()
    instance.settle(0.012)
    newer = instance.issue()[FUNDING]
    instance.clock.now += 30 * DAY
    if restarts:
        instance.restart()
    assert instance.issue()[FUNDING] == newer != recorded

    instance.history.shut(shut=False)
    assert instance.issue()[FUNDING] == recorded


def test_new_leader_without_the_record_uses_what_was_published(before_friday: Instance) -> None:
    thursday, friday = days()[-2:]
    instance = before_friday
    instance.observe({US10Y: 3.9}, thursday)
    before = instance.issue()
    instance.decide(FUNDING, "stand-aside")
    decided = instance.issue()[FUNDING]
    instance.observe(YIELDS | {US10Y: 4.0}, friday)
    instance.history.shut()
    instance.restart()
    after = instance.issue()

    assert leg(after[RATES])["levels"]["inverted"] is True
    assert (after[RATES].leg_id != before[RATES].leg_id, after[RATES].revision) == (True, 1)
    assert shown(after[FUNDING]) == shown(decided)
    instance.settle(0.012)
    assert instance.issue()[FUNDING].revision == decided.revision + 1


def test_who_leads_again_begins_with_what_was_published_meanwhile(instance: Instance) -> None:
    first = instance.issuer
    instance.issue()
    instance.restart()
    instance.settle(0.012)
    meanwhile = instance.issue()[FUNDING]
    instance.lease, instance.issuer = instance.new_lease(), first
    instance.history.shut()
    instance.clock.now += 30 * DAY

    assert shown(instance.issue()[FUNDING]) == shown(meanwhile)


def test_nothing_judged_without_the_leg_before_it_is_recorded(before_friday: Instance) -> None:
    thursday, friday = days()[-2:]
    instance = before_friday
    instance.observe({US10Y: 3.9}, thursday)
    instance.issue()
    instance.observe(YIELDS | {US10Y: 4.0}, friday)
    instance.restart()
    instance.history.can_read = False
    assert not instance.issue()[RATES].history_durable
    assert instance.count() == [1, 1, 1]

    instance.history.can_read = True
    assert leg(instance.issue()[RATES])["levels"]["inverted"] is True
    assert instance.count() == [1, 2, 1]


def test_a_record_that_can_only_be_read_keeps_what_stands(instance: Instance) -> None:
    instance.issue()
    instance.history.can_write = False
    instance.observe({SOFR: 3.95}, days()[-1])
    stances = instance.issue()

    assert (stances[RATES].revision, place(stances[RATES])) == (2, NOT_RECORDED)
    assert instance.count() == [1, 1, 1]


def test_a_revision_by_a_clock_that_was_set_back_is_still_the_newest(instance: Instance) -> None:
    before = instance.issue()[FUNDING]
    instance.clock.now -= HOUR
    instance.settle(0.012)
    after = instance.issue()[FUNDING]

    assert after.issued_at < before.issued_at
    assert instance.newest(FUNDING).history_digest == after.history_digest
    assert after.revision == 2


def test_evidence_that_goes_back_to_an_earlier_period_records_nothing(instance: Instance) -> None:
    before = instance.issue()[FUNDING]
    instance.clock.now = SETTLED - HOUR
    stances = instance.issued()

    assert "later period" in stances.silent[FUNDING]
    assert before in stances.stances
    assert instance.count()[2] == 1


@pytest.mark.contract("stance.transitions")
def test_withdrawn_stance_is_open_again_with_the_next_recorded_version(instance: Instance) -> None:
    instance.issue()
    withdrawal = (instance.clock(), instance.withdraw(FUNDING))
    shown = [instance.issue()[FUNDING]]
    instance.history.shut()
    shown.append(instance.issue()[FUNDING])
    instance.settle(0.012)
    shown.append(instance.issue()[FUNDING])
    assert [(each.withdrawn_at, each.withdrawal_digest) for each in shown] == [withdrawal] * 3
    assert [each.history_durable for each in shown] == [True, False, False]

    instance.history.shut(shut=False)
    assert instance.count()[2] == 1
    after = instance.issue()[FUNDING]
    assert (after.history_durable, after.revision) == (True, 2)
    assert (after.withdrawn_at, after.withdrawal_digest) == (None, None)


def test_without_a_file_of_the_operator_the_issuers_figures_count(bare: Instance) -> None:
    bare.observe(FLOWS, *days())  # what was stored while there was a file
    bare.settings = Settings.model_validate({})
    bare.restart()
    for number, day in enumerate(days()):
        shares = 1e9 + number * 1e6
        values = {"shares": shares, "nav": 50.0, "btc": shares / 2_000, "aum": shares * 50}
        bare.observe({f"etf-ibit-{name}": value for name, value in values.items()}, day)
    etf = leg(bare.issue()[ETF])

    assert etf["evidence"]["inputs"]["coverage"] == "IBIT only"
    assert (etf["levels"]["netFlowUsd"], etf["levels"]["streakDays"]) == (50e6, 5)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_record_is_whole_and_no_digest_is_invented(instance: Instance, seed: int) -> None:
    chance = Random(seed)
    happenings: list[Callable[[], object]] = [
        lambda: instance.clock.pass_seconds(chance.uniform(-3600, 6 * 3600)),
        lambda: instance.settle(
            chance.choice([-0.04, 0.0, 0.01, 0.04]),
            until=instance.clock() // (8 * HOUR) * 8 * HOUR,
        ),
        lambda: instance.observe({US10Y: chance.choice([3.9, 4.0, 4.2])}, days()[-1]),
        lambda: instance.observe({SOFR: round(chance.uniform(3, 4), 2)}, days()[-1]),
        lambda: instance.history.shut(shut=chance.random() < 0.5),
        instance.restart,
        lambda: (
            instance.count()[2]
            and instance.clock() < instance.newest(FUNDING).expires_at
            and instance.decide(FUNDING, chance.choice(["neutral", "cautious"]))
        ),
        lambda: instance.count()[1] and instance.withdraw(RATES),
    ]
    for _ in range(60):
        chance.choice(happenings)()
        for stance in instance.issue().values():
            if not stance.history_durable:
                assert place(stance) == NOT_RECORDED
                continue
            assert stance.sequence is not None
            found = instance.run(instance.ledger.version_at(stance.kind, stance.sequence))
            assert found is not None
            assert found.history_digest == stance.history_digest

    instance.history.shut(shut=False)
    assert isinstance(instance.run(verify(instance.history)), IntactRecord)
    assert min(instance.count()) >= 1


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.outcome(
    "The collector finds an older or a new history in place of its own",
    "It records nothing there and marks no stance as durable.",
)
def test_nothing_is_recorded_in_a_history_that_lacks_earlier_versions(
    instance: Instance, restarts: bool, new_store: Callable[[], Backend]
) -> None:
    instance.issue()
    instance.settle(0.012)
    assert instance.issue()[FUNDING].sequence == 2
    other = new_store().open()
    instance.run(make_history(other))
    instance.history.lead_to(other)
    if restarts:
        instance.restart()

    away = instance.issue()

    assert {stance.history_durable for stance in away.values()} == {False}
    assert instance.run(Ledger(other, instance.clock).count(FUNDING, "versions")) == 0
    published = instance.published()
    assert published is not None
    assert published.recorded[FUNDING].sequence == 2
    instance.run(other.close())
