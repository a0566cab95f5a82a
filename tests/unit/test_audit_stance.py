"""The offline check of a stance with its proof."""

import json
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
import rfc8785

from barograph_client.audit.notes import LOG_KEY, WITNESS_KEY, parse_key
from barograph_client.audit.stance import check_stance
from barograph_client.audit.trust import Trusted
from barograph_client.errors import Contradiction, NotAudited
from support.static_logs import StaticLog, digests, path_of, private_key, verifier

SIZE, SEQUENCE, INDEX = 11, 6, 5


class Delivery:
    """A delivered stance and its proof."""

    def __init__(self) -> None:
        members = ("leg_id", "revision", "issued_at", "expires_at", "leg", "salt")
        self.stance: dict[str, Any] = {"schema": "s", "kind": "rates-desk"}
        self.stance |= dict.fromkeys(members, 0.5)
        self.stance["issued_at"] = "2026-05-28T20:26:40Z"
        place = {"sequence": SEQUENCE, "previous_digest": "0" * 64}
        digest = sha256(rfc8785.dumps(self.stance | place)).hexdigest()
        self.stance["history_digest"] = digest
        event = {"type": "stance.recorded", "kind": "rates-desk", "sequence": SEQUENCE}
        event |= {"history_digest": digest, "at": self.stance["issued_at"], "id": INDEX + 1}
        entries, text = digests(SIZE), json.dumps(event)
        entries[INDEX] = sha256(text.encode()).digest()
        self.log = StaticLog("events", entries)
        hashes = [b64encode(each).decode() for each in path_of(entries, INDEX)]
        shown = {"event": text, "previous_digest": place["previous_digest"]}
        extra = b64encode(json.dumps(shown).encode()).decode()
        head = ["c2sp.org/tlog-proof@v1", f"extra {extra}", f"index {INDEX}", *hashes]
        self.proof = "\n".join(head) + f"\n\n{self.log.note}"
        self.trusted = Trusted((parse_key(verifier(self.log.key, self.log.origin), LOG_KEY),))

    def check(self) -> int:
        body = json.dumps(self.stance).encode()
        return check_stance(body, self.proof, self.trusted).sequence

    def replace_line(self, number: int, *others: str) -> None:
        lines = self.proof.split("\n")
        lines[number : number + 1] = others
        self.proof = "\n".join(lines)


@pytest.fixture
def delivery() -> Delivery:
    return Delivery()


def test_a_stance_in_the_tree_of_a_signed_checkpoint_is_proven(delivery: Delivery) -> None:
    assert delivery.check() == SEQUENCE


def require_witness(delivery: Delivery) -> None:
    witness = parse_key(verifier(private_key(2), "w", WITNESS_KEY), WITNESS_KEY)
    policy = delivery.trusted.policy._replace(witnesses={"w": witness}, quorum="w")
    delivery.trusted = delivery.trusted._replace(policy=policy)


def trust_another_key(delivery: Delivery) -> None:
    key = parse_key(verifier(private_key(9), delivery.log.origin), LOG_KEY)
    delivery.trusted = Trusted((key,))


def trust_another_log(delivery: Delivery) -> None:
    key = parse_key(verifier(delivery.log.key, "other.example/history/events"), LOG_KEY)
    delivery.trusted = Trusted((key,))


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (lambda each: each.stance.update(leg=0.25), "it is not what was recorded"),
        (lambda each: each.stance.update(kind="etf"), "it is not what was recorded"),
        (lambda each: each.replace_line(2, "index 4"), "gives the root "),
        (lambda each: each.replace_line(3, b64encode(bytes(32)).decode()), "gives the root "),
        (lambda each: each.replace_line(3), "the inclusion proof has the wrong length"),
        (lambda each: each.replace_line(9, "12"), "does not match the checkpoint of 12 entries"),
        (require_witness, "0 of 1 witnesses cosigned"),
        (trust_another_key, "no key that you trust signed the checkpoint"),
        (trust_another_log, "no key that you trust signed the checkpoint of barograph.ex"),
    ],
)
def test_a_stance_or_a_proof_that_was_changed_is_a_contradiction(
    delivery: Delivery, tamper: Callable[[Delivery], object], said: str
) -> None:
    tamper(delivery)

    with pytest.raises(Contradiction, match=said):
        delivery.check()


@pytest.mark.parametrize(
    "tamper",
    [
        lambda each: each.stance.pop("salt"),
        lambda each: each.replace_line(0, "another format"),
        lambda each: setattr(each, "trusted", Trusted()),
    ],
)
def test_a_check_that_lacks_something_proves_nothing(
    delivery: Delivery, tamper: Callable[[Delivery], object]
) -> None:
    tamper(delivery)

    with pytest.raises(NotAudited):
        delivery.check()
