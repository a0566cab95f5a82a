"""What is recorded, what is not, and in which order."""

import asyncio
import re
from typing import Any

import pytest
from msgspec.structs import replace

from barograph.errors import LeaseLost
from barograph.history.digest import GENESIS, history_digest
from barograph.history.ledger import Appended, HeadMoved, Ledger, StaleLeg
from barograph.history.reader import RecordDamaged
from barograph.history.records import DigestRow, LegEvidence, Proposal, Version, VersionEvent
from barograph.history.verify import Counts, IntactRecord, verify
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.json import Json, canonical, digest
from barograph.kit.timestamps import DAY
from support.backends import TESTS, StartPython, drop_trigger, run_together
from support.clock import START
from support.stances import FUNDING, RATES, make_history, proposal
from support.steps import Steps

HEX_64 = re.compile(r"[0-9a-f]{64}")


class Record(Steps):
    """A ledger, whose verbs run to their end."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.ledger = Ledger(database, self.clock)

    def append(self, proposed: Proposal, **conditions: Any) -> Appended:
        return self.run(self.ledger.append(proposed, **conditions))

    def version(self, *numbers: Any, **fields: Any) -> Version:
        """Append a proposal with these fields."""
        return self.append(proposal(*numbers, **fields)).version

    def count(self, kind: str = FUNDING) -> int:
        return self.run(self.ledger.count(kind, "versions"))

    def lead(self, token: int) -> None:
        self.run(self.ledger.announce_leader(token))

    def withdraw(self, head: Version, kind: str = FUNDING) -> VersionEvent:
        digest = head.history_digest
        work = self.ledger.withdraw(kind, why="wrong", by="ann", expected_head=digest)
        return self.run(work)

    def events(self) -> list[VersionEvent]:
        return self.run(self.ledger.events(FUNDING))


@pytest.fixture
def record(empty_database: Database, runner: asyncio.Runner) -> Record:
    runner.run(make_history(empty_database))
    return Record(empty_database, runner)


@pytest.mark.contract("stance.leg-id", "stance.revision", "stance.issued-at")
def test_the_first_version_opens_its_chain(record: Record) -> None:
    version, is_new = record.append(proposal())

    assert is_new
    assert (version.sequence, version.revision, version.previous_digest) == (1, 1, GENESIS)
    assert version.leg_id == "funding-regime-stance:2026-11-06T21:20:00.000Z"
    assert (version.issued_at, version.leg) == (START, proposal().leg)
    assert version.history_digest == history_digest(version)
    assert HEX_64.fullmatch(version.salt)


def test_each_version_links_to_the_one_before_it(record: Record) -> None:
    versions = first, second, third = [record.version(number) for number in range(3)]

    assert [version.sequence for version in versions] == [1, 2, 3]
    assert second.previous_digest == first.history_digest
    assert third.previous_digest == second.history_digest
    assert len({version.salt for version in versions}) == 3


@pytest.mark.contract("stance.kinds")
def test_each_kind_has_a_chain_of_its_own_and_there_is_no_other(record: Record) -> None:
    kinds = ("btc-etf-stance", "rates-desk", "funding-regime-stance")
    for kind in kinds:
        first = record.version(kind=kind)
        assert (first.sequence, first.previous_digest) == (1, GENESIS)
    record.version(1, kind=RATES)

    assert [record.count(kind) for kind in kinds] == [1, 2, 1]
    with pytest.raises(ValueError, match=", ".join(kinds)):
        record.version(kind="gold-stance")


@pytest.mark.contract("stance.reread-records-nothing")
def test_the_same_content_again_records_nothing(record: Record) -> None:
    first = record.version()

    assert record.append(proposal(issued_at=START + DAY)) == (first, False)
    assert record.run(record.ledger.newest_versions(FUNDING)) == [first]
    assert record.count() == 1


@pytest.mark.contract("stance.revision-keeps-leg")
def test_other_content_for_the_same_leg_is_its_next_revision(record: Record) -> None:
    versions = [record.version(label=label) for label in ("neutral", "cautious", "neutral")]

    assert [(each.revision, each.sequence) for each in versions] == [(1, 1), (2, 2), (3, 3)]
    assert len({version.leg_id for version in versions}) == 1


def changed(**members: object) -> Proposal:
    base = proposal()
    return replace(base, leg=replace(base.leg, **members))


@pytest.mark.parametrize(
    "other",
    [
        changed(period={"start": "2026-11-06T21:20:00.000Z", "end": "later"}),
        changed(levels={"fundingPct": 0.011, "coins": ["BTC", "ETH"]}),
        changed(conditions=[]),
        changed(method="funding-v2"),
        changed(evidence=replace(proposal().leg.evidence, source="OKX")),
        changed(evidence=replace(proposal().leg.evidence, observed_at="later")),
        changed(evidence=replace(proposal().leg.evidence, inputs={"levels": {"score": 0}})),
        proposal(by="operator"),
    ],
)
def test_every_part_of_the_leg_makes_it_other_content(record: Record, other: Proposal) -> None:
    record.version()
    version, is_new = record.append(other)

    assert (is_new, version.revision) == (True, 2)


def test_an_older_leg_is_never_revised_but_found_if_it_is_issued_unchanged(record: Record) -> None:
    record.version(0)
    revised = record.version(0, label="cautious")
    record.version(1)

    assert record.append(proposal(0, label="cautious")) == (revised, False)
    for label in ("neutral", "stand-aside"):
        with pytest.raises(StaleLeg):
            record.version(0, label=label)
    assert record.count() == 3


def test_the_collector_overwrites_a_decision_only_with_new_evidence(record: Record) -> None:
    head = record.append(proposal(), only_new_evidence=True).version.history_digest
    decided = record.append(proposal(label="stand-aside", by="operator"), expected_head=head)
    inputs = dict(proposal().leg.evidence.inputs)
    late = changed(evidence=LegEvidence("Bybit", "2026-11-06T22:00:00.000Z", inputs))

    for same in (proposal(), late):
        assert record.append(same, only_new_evidence=True) == (decided.version, False)
    new = record.append(proposal(inputs={"levels": {"score": 0.6}}), only_new_evidence=True)
    assert (new.is_new, new.version.revision, record.count()) == (True, 3, 3)


def test_who_decides_on_an_outdated_head_is_refused(record: Record) -> None:
    seen = record.version(0).history_digest
    record.version(0, inputs={})

    for kind in (FUNDING, RATES):
        with pytest.raises(HeadMoved):
            record.append(proposal(0, kind=kind, label="cautious"), expected_head=seen)
    assert record.count() == 2


def test_the_newest_goes_by_the_order_of_recording_and_not_by_time(record: Record) -> None:
    issued = (START + DAY, START - DAY, START)
    versions = [record.version(number, issued_at=at) for number, at in enumerate(issued)]
    newest = record.ledger.newest_versions

    assert [version.issued_at for version in versions] == [*issued]
    assert record.run(newest(FUNDING, 3)) == versions[::-1]
    assert record.run(newest(FUNDING)) == versions[:0:-1]
    assert record.run(newest(RATES)) == []


def test_versions_and_digests_are_found_by_their_place(record: Record) -> None:
    versions = [record.version(number) for number in range(5)]
    rows = [DigestRow(v.sequence, v.history_digest, v.issued_at) for v in versions]
    ledger, run = record.ledger, record.run

    assert run(ledger.version_at(FUNDING, 4)) == versions[3]
    assert run(ledger.version_at(FUNDING, 6)) is None
    assert run(ledger.digests(FUNDING, "versions", 0, 3)) == rows[:3]
    assert run(ledger.digests(FUNDING, "versions", 3, 100)) == rows[3:]
    assert run(ledger.digests(RATES, "versions", 0, 100)) == []


def test_a_leader_that_was_replaced_records_nothing(record: Record) -> None:
    record.lead(7)
    record.append(proposal(0), token=7)
    record.lead(8)

    with pytest.raises(LeaseLost):
        record.append(proposal(1), token=7)
    with pytest.raises(LeaseLost):
        record.lead(7)
    assert record.count() == 1
    record.lead(8)
    assert record.append(proposal(1), token=8).is_new


def test_a_leader_that_was_not_announced_is_known_by_its_first_append(record: Record) -> None:
    record.append(proposal(0), token=9)

    with pytest.raises(LeaseLost):
        record.append(proposal(1), token=8)


def test_a_person_needs_no_lease(record: Record) -> None:
    head = record.append(proposal(), token=7).version.history_digest
    record.lead(8)

    assert record.append(proposal(label="cautious"), expected_head=head).is_new


def test_a_version_is_withdrawn_once(record: Record) -> None:
    version = record.version()
    event = record.withdraw(version)
    record.clock.pass_seconds(60)

    assert record.withdraw(version) == event
    assert record.events() == [event]
    assert (event.type, event.at, event.version_sequence) == ("withdrawn", START, 1)
    assert (event.why, event.by, event.previous_digest) == ("wrong", "ann", GENESIS)
    hidden: dict[str, Json] = {"by": "ann", "why": "wrong", "salt": event.salt}
    hidden["history_digest"] = version.history_digest
    assert event.evidence_digest == digest(canonical(hidden))
    assert event.evidence_digest not in {event.event_digest, version.history_digest}
    assert record.run(record.ledger.newest_versions(FUNDING)) == [version]
    assert record.run(record.ledger.count(FUNDING, "events")) == 1


def test_only_the_newest_version_is_withdrawn(record: Record) -> None:
    older = record.version(0)
    record.version(1)

    for kind in (FUNDING, RATES):
        with pytest.raises(HeadMoved):
            record.withdraw(older, kind)
    assert record.events() == []


def test_a_withdrawn_kind_is_opened_again_by_other_content_only(record: Record) -> None:
    head = record.version()
    record.withdraw(head)

    assert record.append(proposal()) == (head, False)
    assert record.append(proposal(label="cautious"), only_new_evidence=True) == (head, False)
    head = record.version(label="cautious")
    assert head.sequence == 2
    record.withdraw(head)

    first, second = record.events()
    assert (second.sequence, second.previous_digest) == (2, first.event_digest)
    assert all(HEX_64.fullmatch(each.salt) for each in (first, second, head))
    assert len({first.salt, second.salt, head.salt}) == 3
    digests = record.run(record.ledger.digests(FUNDING, "events", 1, 10))
    assert digests == [DigestRow(2, second.event_digest, START)]


def test_number_that_json_does_not_know_is_refused(record: Record) -> None:
    with pytest.raises(ValueError, match=r".*"):
        record.version(inputs={"value": float("nan")})
    assert record.count() == 0


def test_whole_numbers_held_as_floats_are_the_same_content(record: Record) -> None:
    first = record.version(inputs={"value": 3.0, "large": 1e17, "none": -0.0})

    again = record.append(proposal(inputs={"value": 3, "large": 1e17, "none": 0}))
    assert again == (first, False)


def test_a_damaged_version_is_neither_shown_nor_built_upon(record: Record) -> None:
    record.version()
    record.execute(drop_trigger(record.database.engine, "stance_versions", "never_change"))
    record.execute("UPDATE stance_versions SET document = replace(document, 'neutral', 'other')")

    with pytest.raises(RecordDamaged):
        record.run(record.ledger.newest_versions(FUNDING))
    with pytest.raises(RecordDamaged):
        record.version(1)


def test_missing_tables_are_unavailable(empty_database: Database, runner: asyncio.Runner) -> None:
    record = Record(empty_database, runner)
    with pytest.raises(DatabaseUnavailable):
        record.version()
    with pytest.raises(DatabaseUnavailable):
        record.run(record.ledger.newest_versions(FUNDING))


ISSUER = f"""
import asyncio, sys
sys.path.insert(0, {TESTS!r})
from barograph.history.ledger import Ledger
from support.clock import HandClock
from support.stances import proposal

async def main():
    ledger = Ledger(database, HandClock())
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(30):
        done = await ledger.append(proposal(LEG))
        print(done.version.sequence, done.version.history_digest, done.is_new, flush=True)

asyncio.run(main())
"""


def race(start_python: StartPython, *legs: str) -> list[list[list[str]]]:
    """What each issuer was told for each of its appends."""
    printed = run_together(start_python(ISSUER.replace("LEG", leg)) for leg in legs)
    return [[line.split() for line in text.splitlines()] for text in printed]


def test_two_issuers_record_a_stance_once(record: Record, start_python: StartPython) -> None:
    told = race(start_python, "0", "0")

    answers = [(sequence, own) for issuer in told for sequence, own, _ in issuer]
    assert len(answers) == 60
    assert len(set(answers)) == 1
    assert [new for issuer in told for *_, new in issuer].count("True") == 1
    assert record.run(verify(record.database)) == IntactRecord({FUNDING: Counts(1, 0)})


@pytest.mark.thorough
@pytest.mark.both_engines
def test_two_issuers_record_all_in_one_order(record: Record, start_python: StartPython) -> None:
    told = race(start_python, "number", "1000 + number")

    recorded = record.run(record.ledger.digests(FUNDING, "versions", 0, 100))
    said = {int(sequence): own for issuer in told for sequence, own, _ in issuer}
    assert said == {row.sequence: row.digest for row in recorded}
    assert sorted(said) == list(range(1, 61))
    assert [new for issuer in told for *_, new in issuer] == ["True"] * 60
    for issuer in told:
        places = [int(sequence) for sequence, *_ in issuer]
        assert places == sorted(places)
    assert record.run(verify(record.database)) == IntactRecord({FUNDING: Counts(60, 0)})
