"""`barograph stances list` and `show`: what an operator sees of a version."""

from hashlib import sha256
from typing import Any

import pytest
import rfc8785

from barograph.kit.json import Json
from barograph.kit.timestamps import iso_timestamp
from barograph_client.audit.stance import stance_digest
from support.operator import REVISE, WITHDRAW, Operator
from support.stances import FUNDING, STANCE_MEMBERS

MEMBERS = [*STANCE_MEMBERS, "sequence", "previous_digest"]


def recomputed(told: dict[str, Any]) -> str:
    return stance_digest(told, told["sequence"], told["previous_digest"]).hex()


def test_versions_are_listed_newest_first(operator: Operator) -> None:
    versions = [operator.record(number) for number in range(3)]
    lines = operator.run("list", FUNDING, "--last", "2").stdout.splitlines()

    assert [line.split()[0] for line in lines] == ["3", "2"]
    assert "neutral (medium, rules)" in lines[0]
    assert [each["history_digest"] for each in operator.read_json("list", FUNDING)] == [
        each.history_digest for each in reversed(versions)
    ]


def test_the_list_tells_the_state_of_each_version(operator: Operator) -> None:
    operator.record(0, lasts=-1)
    operator.record(1)
    operator.run(*WITHDRAW)
    operator.record(2)
    lines = operator.run("list", FUNDING).stdout.splitlines()

    assert [line.split()[5] for line in lines] == ["active", "withdrawn", "expired"]
    assert [each["state"] for each in operator.read_json("list", FUNDING)] == [
        "active",
        "terminal",
        "expired",
    ]


def test_a_version_is_told_as_it_is_delivered_with_its_place(operator: Operator) -> None:
    first, second = operator.record(0), operator.record(1)
    newest, before = operator.read_json("list", FUNDING)
    decided = operator.read_json(*REVISE)

    for told in (newest, before, decided):
        assert list(told) == MEMBERS
        assert recomputed(told) == told["history_digest"]
    assert (newest["sequence"], newest["previous_digest"]) == (2, first.history_digest)
    assert newest == operator.read_json("show", FUNDING, "--sequence", "2")
    assert newest["events"] == [
        {
            "type": "issued",
            "at": iso_timestamp(second.issued_at),
            "evidence_digest": second.leg.evidence.digest,
        }
    ]


@pytest.mark.contract("stance.evidence-digests-distinct")
def test_a_version_is_shown_whole(operator: Operator) -> None:
    first, second = operator.record(0), operator.record(1)
    shown = operator.read_json("show", FUNDING)
    text = operator.run("show", FUNDING, "--sequence", "1").stdout
    leg = first.leg

    assert shown["history_digest"] == second.history_digest
    assert shown["leg"]["evidence"]["digest"] == second.leg.evidence.digest
    assert shown["leg"]["evidence"]["digest"] != shown["history_digest"]
    for expected in (
        "active",
        iso_timestamp(first.expires_at),
        f"{leg.period['start']} to {leg.period['end']}",
        "neutral, by rules",
        "medium (how complete the data was; not a probability, never scored)",
        "funding is where it mostly is",
        'coins                ["BTC", "ETH"]',
        "levels.fundingPct >= 0.03: longs pay heavily",
        "funding-v1",
        "Bybit",
        f"observed_at {leg.evidence.observed_at}",
        f"digest {leg.evidence.digest}",
        'levels               {"delta24h": 0.5, "score": 0.5, "score24hAgo": 0}',
        f"issued {iso_timestamp(first.issued_at)}",
        first.history_digest,
        first.previous_digest,
    ):
        assert expected in text
    assert "no such version" in str(operator.refused("show", FUNDING, "--sequence", "9"))


def test_an_event_is_shown_whole_with_the_version_that_it_is_about(operator: Operator) -> None:
    operator.record(0)
    told = operator.read_json(*WITHDRAW, "--by", "night desk")
    text = operator.run("show", FUNDING).stdout
    operator.record(1)
    newest, withdrawn = operator.read_json("list", FUNDING)
    recorded = dict(told)
    digest = recorded.pop("event_digest")

    assert len(newest["events"]) == 1
    assert withdrawn["events"][1:] == [told]
    assert operator.read_json("show", FUNDING, "--sequence", "1") == withdrawn
    assert (told["why"], told["by"]) == ("a wrong file", "night desk")
    assert f"withdrawn {told['at']} by night desk: a wrong file\n" in text
    assert len(bytes.fromhex(told["salt"])) == 32
    assert told["salt"] != withdrawn["salt"]
    assert sha256(rfc8785.dumps(recorded)).hexdigest() == digest


def test_conditions_are_shown_in_words(operator: Operator) -> None:
    condition: Json = {"text": "it is hot", "path": "levels.a", "compare": ">=", "value": 2}
    operator.record(conditions=[condition, {"text": "unheard of"}, 7])
    text = operator.run("show", FUNDING).stdout

    assert "it is hot (levels.a >= 2)\n" in text
    assert '{"text": "unheard of"}\n' in text
    assert text.count("None") == 0


@pytest.mark.outcome(
    "A recorded stance contains terminal control characters",
    "`stances list` and `show` print them escaped.",
)
def test_control_characters_in_a_recorded_stance_are_escaped(operator: Operator) -> None:
    operator.record(by="\x1b[2J\nsomebody")

    for command in (("list", FUNDING), ("show", FUNDING)):
        text = operator.run(*command).stdout
        assert "\x1b" not in text
        assert r"\u001b[2J\nsomebody" in text
