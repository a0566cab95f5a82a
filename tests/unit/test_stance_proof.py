"""Proving a delivered stance against the published list and its checkpoints."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from barograph.history.checkpoint import Checkpoint
from barograph.history.merkle import is_consistent, is_included, tree_root
from barograph.history.proof import ProofFailed, prove, recompute_digest
from barograph_client.audit.stance import DELIVERED
from support.history import PublicHistory, delivered

ORIGIN = "barograph.example/history/rates-desk"
SIZE = 9


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    history = PublicHistory(tmp_path_factory.mktemp("proof"))
    yield [delivered(version) for version in history.record(SIZE)]
    history.close()


@pytest.fixture(scope="module")
def digests(bodies: list[dict[str, Any]]) -> list[str]:
    return [body["history_digest"] for body in bodies]


def checkpoint(digests: list[str], size: int = SIZE, origin: str = ORIGIN) -> Checkpoint:
    return Checkpoint(origin, size, tree_root(digests[:size]))


def test_every_stance_of_the_list_can_be_proved(
    bodies: list[dict[str, Any]], digests: list[str]
) -> None:
    for place, body in enumerate(bodies):
        proof = prove(body, digests, checkpoint(digests))

        assert (proof.sequence, proof.history_digest) == (place + 1, digests[place])
        assert is_included(digests[place], place, proof.size, proof.inclusion, proof.root)
        assert proof.older_size is None


@pytest.mark.parametrize("older", range(SIZE + 1))
def test_every_older_checkpoint_still_holds(
    bodies: list[dict[str, Any]], digests: list[str], older: int
) -> None:
    kept = checkpoint(digests, older)
    proof = prove(bodies[0], digests, checkpoint(digests), kept)

    assert proof.older_size == older
    assert is_consistent(older, kept.root, proof.size, proof.root, proof.consistency)


def test_a_stance_of_a_log_that_began_again_under_another_name_can_be_proved(
    bodies: list[dict[str, Any]], digests: list[str]
) -> None:
    renamed = checkpoint(digests, origin=ORIGIN.replace("/history/", "/history-0a1b2c3d/"))
    assert prove(bodies[3], digests, renamed).sequence == 4


def test_a_list_that_is_longer_than_the_checkpoint_is_no_trouble(
    bodies: list[dict[str, Any]], digests: list[str]
) -> None:
    assert prove(bodies[3], digests, checkpoint(digests, 4)).size == 4


@pytest.mark.parametrize("member", DELIVERED)
def test_a_stance_of_which_anything_was_changed_is_refused(
    bodies: list[dict[str, Any]], digests: list[str], member: str
) -> None:
    changed = {**bodies[2], member: bodies[3][member] if member == "salt" else "another"}
    with pytest.raises(ProofFailed):
        prove(changed, digests, checkpoint(digests))


def test_a_level_that_was_changed_by_a_hair_is_refused(
    bodies: list[dict[str, Any]], digests: list[str]
) -> None:
    changed = deepcopy(bodies[2])
    changed["leg"]["levels"]["us10y"] += 1e-9
    with pytest.raises(ProofFailed, match="not what was recorded"):
        prove(changed, digests, checkpoint(digests))


@pytest.mark.parametrize("member", DELIVERED)
def test_a_stance_that_lacks_something_is_refused_by_name(
    bodies: list[dict[str, Any]], member: str
) -> None:
    partial = {name: value for name, value in bodies[0].items() if name != member}
    with pytest.raises(ProofFailed, match=f"lacks {member}"):
        recompute_digest(partial, 1, "0" * 64)


def test_a_stance_that_is_nested_without_end_is_refused(bodies: list[dict[str, Any]]) -> None:
    nested: list[Any] = []
    for _ in range(10_000):
        nested = [nested]
    with pytest.raises(ProofFailed, match="nested too deeply"):
        recompute_digest({**bodies[0], "leg": nested}, 1, "0" * 64)


def test_a_stance_that_is_not_durable_or_not_listed_is_refused(
    bodies: list[dict[str, Any]], digests: list[str]
) -> None:
    with pytest.raises(ProofFailed, match="it is not durable"):
        prove({**bodies[0], "history_digest": None}, digests, checkpoint(digests))
    with pytest.raises(ProofFailed, match="not in the list"):
        prove({**bodies[0], "history_digest": "0" * 64}, digests, checkpoint(digests))


def test_a_stance_that_is_newer_than_the_checkpoint_is_told_so(
    bodies: list[dict[str, Any]], digests: list[str]
) -> None:
    with pytest.raises(ProofFailed, match="use a newer checkpoint"):
        prove(bodies[5], digests, checkpoint(digests, 5))


def test_a_list_that_is_too_short_or_another_is_refused(
    bodies: list[dict[str, Any]], digests: list[str]
) -> None:
    signed = checkpoint(digests)
    with pytest.raises(ProofFailed, match="read the rest of the list"):
        prove(bodies[0], digests[:-1], signed)
    with pytest.raises(ProofFailed, match="the checkpoint was signed for another list"):
        prove(bodies[0], [*digests[:-1], "0" * 64], signed)


def test_a_checkpoint_of_another_log_is_refused(
    bodies: list[dict[str, Any]], digests: list[str]
) -> None:
    for origin in (f"{ORIGIN}/events", "barograph.example/history/btc-etf-stance"):
        other = checkpoint(digests, origin=origin)
        with pytest.raises(ProofFailed, match=origin):
            prove(bodies[0], digests, other)
        with pytest.raises(ProofFailed, match=f"the older checkpoint is of {origin}"):
            prove(bodies[0], digests, checkpoint(digests), other)


@pytest.mark.outcome(
    "Someone rewrites a recorded stance directly in the database file",
    "It contradicts any checkpoint kept from before, and `stances prove` says so.",
)
def test_a_history_that_was_rewritten_contradicts_an_older_checkpoint(
    bodies: list[dict[str, Any]], digests: list[str]
) -> None:
    kept = Checkpoint(ORIGIN, 6, tree_root([*digests[:5], "0" * 64]))
    with pytest.raises(ProofFailed, match="rewritten since the older checkpoint"):
        prove(bodies[0], digests, checkpoint(digests), kept)


def test_a_history_that_was_cut_contradicts_an_older_checkpoint(
    bodies: list[dict[str, Any]], digests: list[str]
) -> None:
    with pytest.raises(ProofFailed, match="the history was truncated"):
        prove(bodies[0], digests, checkpoint(digests, 5), checkpoint(digests, 6))
