"""What is recorded, what is not, and in which order."""

import asyncio
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

import support
from barograph.errors import LeaseLost
from barograph.history.digest import GENESIS, history_digest
from barograph.history.ledger import Appended, HeadMoved, Ledger, StaleLeg
from barograph.history.reader import RecordDamaged
from barograph.history.records import DigestRow, LegEvidence, Proposal
from barograph.history.verify import Counts, IntactRecord, verify
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.json import canonical, digest
from barograph.kit.timestamps import DAY
from support.backends import drop_trigger
from support.clock import START, HandClock
from support.stances import FUNDING, RATES, make_history, proposal

HEX_64 = re.compile(r"[0-9a-f]{64}")


@pytest.fixture
def history(empty_database: Database, runner: asyncio.Runner) -> Database:
    runner.run(make_history(empty_database))
    return empty_database


@pytest.fixture
def ledger(history: Database) -> Ledger:
    return Ledger(history, HandClock())


@pytest.fixture
def append(ledger: Ledger, runner: asyncio.Runner) -> Callable[..., Appended]:
    def one(proposed: Proposal, **conditions: object) -> Appended:
        return runner.run(ledger.append(proposed, **conditions))  # type: ignore[arg-type]

    return one


@pytest.mark.contract("stance.leg-id", "stance.revision", "stance.issued-at")
def test_the_first_version_opens_its_chain(append: Callable[..., Appended]) -> None:
    version, is_new = append(proposal())

    assert is_new
    assert (version.sequence, version.revision, version.previous_digest) == (1, 1, GENESIS)
    assert version.leg_id == "funding-regime-stance:2026-11-06T21:20:00.000Z"
    assert (version.issued_at, version.leg) == (START, proposal().leg)
    assert version.history_digest == history_digest(version)
    assert HEX_64.fullmatch(version.salt)


def test_each_version_links_to_the_one_before_it(append: Callable[..., Appended]) -> None:
    first, second, third = (append(proposal(number)).version for number in range(3))

    assert [each.sequence for each in (first, second, third)] == [1, 2, 3]
    assert second.previous_digest == first.history_digest
    assert third.previous_digest == second.history_digest
    assert len({each.salt for each in (first, second, third)}) == 3


@pytest.mark.contract("stance.kinds")
def test_each_kind_has_a_chain_of_its_own(
    append: Callable[..., Appended], ledger: Ledger, runner: asyncio.Runner
) -> None:
    kinds = ("btc-etf-stance", "rates-desk", "funding-regime-stance")
    for kind in kinds:
        first = append(proposal(0, kind=kind)).version
        assert (first.sequence, first.previous_digest) == (1, GENESIS)
    append(proposal(1, kind=RATES))

    assert [runner.run(ledger.count(kind, "versions")) for kind in kinds] == [1, 2, 1]


@pytest.mark.contract("stance.kinds")
def test_an_unknown_kind_is_refused_with_the_list(append: Callable[..., Appended]) -> None:
    with pytest.raises(ValueError, match="btc-etf-stance, rates-desk, funding-regime-stance"):
        append(proposal(kind="gold-stance"))


@pytest.mark.contract("stance.reread-records-nothing")
def test_the_same_content_again_records_nothing(
    append: Callable[..., Appended], ledger: Ledger, runner: asyncio.Runner
) -> None:
    first = append(proposal()).version
    again = append(proposal(issued_at=START + DAY))
    read = [runner.run(ledger.newest_versions(FUNDING)) for _ in range(3)]

    assert again == (first, False)
    assert read == [[first]] * 3
    assert runner.run(ledger.count(FUNDING, "versions")) == 1


@pytest.mark.contract("stance.revision-keeps-leg")
def test_other_content_for_the_same_leg_is_its_next_revision(
    append: Callable[..., Appended],
) -> None:
    versions = [
        append(proposal(label=label)).version for label in ("neutral", "cautious", "neutral")
    ]

    assert [each.revision for each in versions] == [1, 2, 3]
    assert [each.sequence for each in versions] == [1, 2, 3]
    assert len({each.leg_id for each in versions}) == 1


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
def test_every_part_of_the_leg_makes_it_other_content(
    append: Callable[..., Appended], other: Proposal
) -> None:
    append(proposal())

    version, is_new = append(other)

    assert (is_new, version.revision) == (True, 2)


def test_an_older_leg_is_never_revised(
    append: Callable[..., Appended], ledger: Ledger, runner: asyncio.Runner
) -> None:
    append(proposal(0))
    append(proposal(1))

    with pytest.raises(StaleLeg):
        append(proposal(0, label="cautious"))
    assert runner.run(ledger.count(FUNDING, "versions")) == 2


def test_an_older_leg_that_is_issued_again_unchanged_is_found_and_not_recorded(
    append: Callable[..., Appended], ledger: Ledger, runner: asyncio.Runner
) -> None:
    append(proposal(0))
    revised = append(proposal(0, label="cautious")).version
    append(proposal(1))

    assert append(proposal(0, label="cautious")) == (revised, False)
    with pytest.raises(StaleLeg):
        append(proposal(0))
    assert runner.run(ledger.count(FUNDING, "versions")) == 3


def test_the_collector_never_overwrites_a_decision_on_the_same_evidence(
    append: Callable[..., Appended], ledger: Ledger, runner: asyncio.Runner
) -> None:
    head = append(proposal(), only_new_evidence=True).version
    decided = append(
        proposal(label="stand-aside", by="operator"), expected_head=head.history_digest
    ).version

    assert append(proposal(), only_new_evidence=True) == (decided, False)

    late = LegEvidence("Bybit", "2026-11-06T22:00:00.000Z", dict(proposal().leg.evidence.inputs))
    same_numbers = changed(evidence=late)
    assert append(same_numbers, only_new_evidence=True) == (decided, False)
    assert runner.run(ledger.count(FUNDING, "versions")) == 2


def test_the_collector_records_new_evidence_after_a_decision(
    append: Callable[..., Appended],
) -> None:
    append(proposal(label="stand-aside", by="operator"))

    version, is_new = append(proposal(inputs={"levels": {"score": 0.6}}), only_new_evidence=True)

    assert (is_new, version.revision) == (True, 2)


def test_who_decides_on_an_outdated_head_is_refused(
    append: Callable[..., Appended], ledger: Ledger, runner: asyncio.Runner
) -> None:
    seen = append(proposal(0)).version.history_digest
    append(proposal(0, inputs={}))

    with pytest.raises(HeadMoved):
        append(proposal(0, label="cautious"), expected_head=seen)
    with pytest.raises(HeadMoved):
        append(proposal(0, kind=RATES), expected_head=seen)
    assert runner.run(ledger.count(FUNDING, "versions")) == 2


def test_the_newest_goes_by_the_order_of_recording_and_not_by_time(
    append: Callable[..., Appended], ledger: Ledger, runner: asyncio.Runner
) -> None:
    append(proposal(0, issued_at=START + DAY))
    append(proposal(1, issued_at=START - DAY))
    append(proposal(2, issued_at=START))

    newest = runner.run(ledger.newest_versions(FUNDING, 3))

    assert [each.sequence for each in newest] == [3, 2, 1]
    assert [each.issued_at for each in newest] == [START, START - DAY, START + DAY]
    assert runner.run(ledger.newest_versions(FUNDING)) == newest[:2]
    assert runner.run(ledger.newest_versions(RATES)) == []


def test_versions_and_digests_are_found_by_their_place(
    append: Callable[..., Appended], ledger: Ledger, runner: asyncio.Runner
) -> None:
    versions = [append(proposal(number)).version for number in range(5)]
    rows = [DigestRow(v.sequence, v.history_digest, v.issued_at) for v in versions]

    assert runner.run(ledger.version_at(FUNDING, 4)) == versions[3]
    assert runner.run(ledger.version_at(FUNDING, 6)) is None
    assert runner.run(ledger.digests(FUNDING, "versions", 0, 3)) == rows[:3]
    assert runner.run(ledger.digests(FUNDING, "versions", 3, 100)) == rows[3:]
    assert runner.run(ledger.digests(RATES, "versions", 0, 100)) == []


def test_a_leader_that_was_replaced_records_nothing(
    append: Callable[..., Appended], ledger: Ledger, runner: asyncio.Runner
) -> None:
    runner.run(ledger.announce_leader(7))
    append(proposal(0), token=7)
    runner.run(ledger.announce_leader(8))

    with pytest.raises(LeaseLost):
        append(proposal(1), token=7)
    with pytest.raises(LeaseLost):
        runner.run(ledger.announce_leader(7))
    assert runner.run(ledger.count(FUNDING, "versions")) == 1
    runner.run(ledger.announce_leader(8))
    assert append(proposal(1), token=8).is_new


def test_a_leader_that_was_not_announced_is_known_by_its_first_append(
    append: Callable[..., Appended],
) -> None:
    append(proposal(0), token=9)

    with pytest.raises(LeaseLost):
        append(proposal(1), token=8)


def test_a_person_needs_no_lease(
    append: Callable[..., Appended], ledger: Ledger, runner: asyncio.Runner
) -> None:
    head = append(proposal(), token=7).version.history_digest
    runner.run(ledger.announce_leader(8))

    assert append(proposal(label="cautious"), expected_head=head).is_new


def test_a_version_is_withdrawn_once(
    append: Callable[..., Appended], history: Database, runner: asyncio.Runner
) -> None:
    clock = HandClock()
    ledger = Ledger(history, clock)
    version = append(proposal()).version

    def withdraw() -> object:
        return runner.run(
            ledger.withdraw(FUNDING, why="wrong", by="ann", expected_head=version.history_digest)
        )

    first = withdraw()
    clock.pass_seconds(60)

    assert withdraw() == first
    (event,) = runner.run(ledger.events(FUNDING))
    assert event == first
    assert (event.type, event.at, event.version_sequence) == ("withdrawn", START, 1)
    assert (event.why, event.by, event.previous_digest) == ("wrong", "ann", GENESIS)
    assert event.evidence_digest == digest(
        canonical(
            {
                "by": "ann",
                "history_digest": version.history_digest,
                "salt": event.salt,
                "why": "wrong",
            }
        )
    )
    assert event.evidence_digest not in {event.event_digest, version.history_digest}
    assert runner.run(ledger.newest_versions(FUNDING)) == [version]
    assert runner.run(ledger.count(FUNDING, "events")) == 1


def test_only_the_newest_version_is_withdrawn(
    append: Callable[..., Appended], ledger: Ledger, runner: asyncio.Runner
) -> None:
    older = append(proposal(0)).version.history_digest
    append(proposal(1))

    for kind in (FUNDING, RATES):
        with pytest.raises(HeadMoved):
            runner.run(ledger.withdraw(kind, why="wrong", by="ann", expected_head=older))
    assert runner.run(ledger.events(FUNDING)) == []


def test_a_withdrawn_kind_is_opened_again_by_other_content_only(
    append: Callable[..., Appended], ledger: Ledger, runner: asyncio.Runner
) -> None:
    head = append(proposal()).version
    runner.run(ledger.withdraw(FUNDING, why="1", by="ann", expected_head=head.history_digest))

    assert append(proposal()) == (head, False)
    assert append(proposal(label="cautious"), only_new_evidence=True) == (head, False)
    head = append(proposal(label="cautious")).version
    assert head.sequence == 2
    runner.run(ledger.withdraw(FUNDING, why="2", by="ann", expected_head=head.history_digest))

    first, second = runner.run(ledger.events(FUNDING))
    assert (second.sequence, second.previous_digest) == (2, first.event_digest)
    assert all(HEX_64.fullmatch(each.salt) for each in (first, second, head))
    assert len({first.salt, second.salt, head.salt}) == 3
    assert runner.run(ledger.digests(FUNDING, "events", 1, 10)) == [
        DigestRow(2, second.event_digest, START)
    ]


def test_what_cannot_be_written_alike_everywhere_is_refused_and_nothing_recorded(
    append: Callable[..., Appended], ledger: Ledger, runner: asyncio.Runner
) -> None:
    with pytest.raises(ValueError, match=r".*"):
        append(proposal(inputs={"value": float("nan")}))
    assert runner.run(ledger.count(FUNDING, "versions")) == 0


def test_whole_numbers_held_as_floats_are_the_same_content(
    append: Callable[..., Appended],
) -> None:
    first = append(proposal(inputs={"value": 3.0, "large": 1e17, "none": -0.0})).version

    assert append(proposal(inputs={"value": 3, "large": 1e17, "none": 0})) == (first, False)


def test_a_damaged_version_is_neither_shown_nor_built_upon(
    append: Callable[..., Appended], ledger: Ledger, history: Database, runner: asyncio.Runner
) -> None:
    append(proposal())

    async def damage(tx: Transaction) -> None:
        await tx.script(drop_trigger(history.engine, "stance_versions", "never_change"))
        await tx.execute(
            "UPDATE stance_versions SET document = replace(document, $1, $2)",
            "neutral",
            "cautious",
        )

    runner.run(history.write(damage))

    with pytest.raises(RecordDamaged):
        runner.run(ledger.newest_versions(FUNDING))
    with pytest.raises(RecordDamaged):
        append(proposal(1))


def test_a_record_without_its_tables_is_unavailable(
    empty_database: Database, runner: asyncio.Runner
) -> None:
    ledger = Ledger(empty_database, HandClock())

    with pytest.raises(DatabaseUnavailable):
        runner.run(ledger.append(proposal()))
    with pytest.raises(DatabaseUnavailable):
        runner.run(ledger.newest_versions(FUNDING))


ISSUER = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(support.__file__).parents[1])!r})
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


def race(
    start_python: Callable[[str], "subprocess.Popen[str]"], legs: list[str]
) -> list[list[list[str]]]:
    """What each issuer was told for each of its appends."""
    issuers = [start_python(ISSUER.replace("LEG", leg)) for leg in legs]
    for issuer in issuers:
        assert issuer.stdout is not None
        assert issuer.stdout.readline() == "ready\n"
    for issuer in issuers:
        assert issuer.stdin is not None
        issuer.stdin.write("go\n")
        issuer.stdin.flush()
    return [
        [line.split() for line in each.communicate(timeout=60)[0].splitlines()] for each in issuers
    ]


def test_two_issuers_of_the_same_stances_record_each_once(
    history: Database,
    start_python: Callable[[str], "subprocess.Popen[str]"],
    runner: asyncio.Runner,
) -> None:
    told = race(start_python, ["0", "0"])

    answers = [(sequence, own) for issuer in told for sequence, own, _ in issuer]
    assert len(answers) == 60
    assert len(set(answers)) == 1
    assert [new for issuer in told for *_, new in issuer].count("True") == 1
    assert runner.run(verify(history)) == IntactRecord({FUNDING: Counts(1, 0)})


@pytest.mark.thorough
@pytest.mark.both_engines
def test_two_issuers_of_other_stances_record_all_in_one_order(
    history: Database,
    start_python: Callable[[str], "subprocess.Popen[str]"],
    runner: asyncio.Runner,
) -> None:
    told = race(start_python, ["number", "1000 + number"])

    recorded = runner.run(Ledger(history, HandClock()).digests(FUNDING, "versions", 0, 100))
    said = {int(sequence): own for issuer in told for sequence, own, _ in issuer}
    assert said == {row.sequence: row.digest for row in recorded}
    assert sorted(said) == list(range(1, 61))
    assert [new for issuer in told for *_, new in issuer] == ["True"] * 60
    for issuer in told:
        places = [int(sequence) for sequence, *_ in issuer]
        assert places == sorted(places)
    assert runner.run(verify(history)) == IntactRecord({FUNDING: Counts(60, 0)})
