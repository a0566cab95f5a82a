"""What a restored record may sign, and what a new key means for old signatures."""

import asyncio
import json
from collections.abc import Callable
from itertools import product

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.errors import ConfigurationError
from barograph.history.checkpoint import (
    LOGS,
    CheckpointRefused,
    PublishedCheckpoint,
    Verifier,
    open_checkpoint,
    verifier_of,
)
from barograph.history.guards import Continuity, SignedHeads
from barograph.history.ledger import Ledger
from barograph.history.log_keys import SigningRefused
from barograph.history.merkle import tree_root
from barograph.history.origins import (
    KeyChange,
    Record,
    RecordBehind,
    hold_signing,
    new_origin,
    resume_signing,
    rotated_key,
    store_key_change,
)
from barograph.history.public_log import PublicLogs
from barograph.history.records import KINDS
from barograph.kit.database import Database
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from support.backends import Backend
from support.clock import START, HandClock
from support.history import RATES, proposal, salts
from support.service import BASE_URL
from support.stances import make_history

pytestmark = pytest.mark.both_engines

KEY, NEXT, THIRD = (Ed25519PrivateKey.from_private_bytes(bytes([n] * 32)) for n in range(3))


class Instance:
    """A service with a record of stances; equal instances are copies of each other."""

    def __init__(self, service: Database, history: Database, size: int) -> None:
        self.service, self.clock = service, HandClock()
        self.ledger = Ledger(history, self.clock, salt=salts())
        self.continuity = Continuity(self.ledger, lambda: None)
        self.record = Record(service, self.ledger, BASE_URL, self.continuity, self.clock)
        self.size = size

    async def prepare(self) -> None:
        await upgrade(self.service, packaged_migrations(SERVICE, self.service.engine), self.clock)
        size, self.size = self.size, 0
        await self.grow(size)
        await self.sign()

    async def grow(self, size: int, later: int = 0) -> None:
        for number in range(self.size, size):
            await self.ledger.append(proposal(number + later))
        self.size = size

    def worker(self, *keys: Ed25519PrivateKey) -> PublicLogs:
        """Loads each key in turn, as a process whose file is replaced does."""
        signed, left = SignedHeads(self.service, self.clock), list(keys)
        load = lambda: left.pop(0) if len(left) > 1 else left[0]  # noqa: E731
        return PublicLogs(self.ledger, load, BASE_URL, signed, self.continuity)

    async def sign(self, key: Ed25519PrivateKey = KEY) -> dict[tuple[str, str], str]:
        return notes(await self.worker(key).checkpoints())

    async def restore(self) -> None:
        await self.service.write(lambda tx: hold_signing(tx, START))

    async def store(self, change: KeyChange) -> KeyChange:
        await self.service.write(lambda tx: store_key_change(tx, change))
        return change


def notes(published: list[PublishedCheckpoint]) -> dict[tuple[str, str], str]:
    return {(each.kind, each.log): each.note for each in published}


@pytest.fixture
def instance(
    new_store: Callable[[], Backend], runner: asyncio.Runner
) -> "Callable[[int], Instance]":
    opened: list[Database] = []

    def make(size: int) -> Instance:
        opened.extend(new_store().open() for _ in range(2))
        runner.run(make_history(opened[-1]))
        made = Instance(*opened[-2:], size)
        runner.run(made.prepare())
        return made

    yield make  # type: ignore[misc]
    for each in opened:
        runner.run(each.close())


Make = Callable[[int], Instance]


@pytest.mark.outcome(
    "A backup is restored that lacks versions which were signed after it",
    "Nothing is signed under the old name. The operator restores a newer backup, or starts a new "
    "origin with another name and key.",
)
def test_restored_record_that_is_behind_never_signs_under_the_old_name(
    instance: Make, runner: asyncio.Runner
) -> None:
    lost, restored = instance(2), instance(2)

    async def work() -> None:
        await lost.grow(4)
        kept = list((await lost.sign()).values())
        await restored.restore()
        with pytest.raises(SigningRefused, match="restored from a backup"):
            await restored.sign()
        with pytest.raises(RecordBehind, match=f"{RATES} versions: it lacks 2 of the 4 entries"):
            await resume_signing(restored.record, KEY, kept)
        await restored.grow(5, later=7)
        with pytest.raises(RecordBehind, match=f"{RATES} versions: its first 4 entries are not"):
            await resume_signing(restored.record, KEY, kept)
        with pytest.raises(ConfigurationError, match="the new key has signed checkpoints before"):
            await new_origin(restored.record, None, KEY)
        with pytest.raises(SigningRefused):
            await restored.sign()

    runner.run(work())


def test_new_origin_has_another_name_and_says_up_to_where_both_agree(
    instance: Make, runner: asyncio.Runner
) -> None:
    restored = instance(2)

    async def work() -> None:
        old = await restored.sign()
        await restored.restore()
        await restored.grow(5, later=7)
        change = await restored.store(await new_origin(restored.record, KEY, NEXT))
        with pytest.raises(SigningRefused, match="doesn't have the key"):
            await restored.sign(KEY)
        signed = await restored.sign(NEXT)
        name = f"barograph.example/history-{change.after.name}/{RATES}"
        begun = open_checkpoint(signed[RATES, "versions"], verifier_of(NEXT, name))
        assert (change.after.name[:2], begun.size) == ("2-", 5)

        (retired,) = (await restored.record.log_keys()).retired
        ended = {(kind, log): note for kind, log, note in retired.checkpoints}
        assert ended.keys() == old.keys() == signed.keys() == set(product(KINDS, LOGS))
        last = open_checkpoint(ended[RATES, "versions"], rates_verifier(KEY))
        assert last == open_checkpoint(old[RATES, "versions"], rates_verifier(KEY))
        assert f"\nsuccessor {name}+" in ended[RATES, "versions"]
        with pytest.raises(ConfigurationError, match="signed checkpoints before"):
            await new_origin(restored.record, None, KEY)
        with pytest.raises(CheckpointRefused, match="of another log"):
            await resume_signing(restored.record, NEXT, list(old.values()))

    runner.run(work())


def test_two_origins_from_the_same_backup_have_different_names(
    instance: Make, runner: asyncio.Runner
) -> None:
    restored = instance(2)
    changes = [runner.run(new_origin(restored.record, KEY, key)) for key in (NEXT, THIRD)]
    assert len({each.after.name for each in changes}) == 2


def test_restored_record_that_holds_everything_signed_continues_with_its_key(
    instance: Make, runner: asyncio.Runner
) -> None:
    lost, restored = instance(3), instance(3)

    async def work() -> None:
        kept = await lost.sign()
        await restored.restore()
        one = [kept[RATES, "versions"]]
        with pytest.raises(RecordBehind, match="no checkpoint of this log was given"):
            await resume_signing(restored.record, KEY, one)
        forged = one[0].replace("\n3\n", "\n2\n")
        with pytest.raises(CheckpointRefused, match="no key of this record signed"):
            await resume_signing(restored.record, KEY, [forged])
        with pytest.raises(ConfigurationError, match="doesn't have the key"):
            await resume_signing(restored.record, NEXT, one)
        document = {"checkpoints": [{"checkpoint": each} for each in kept.values()]}
        running = restored.worker(KEY)
        compared = await resume_signing(restored.record, KEY, [*one, json.dumps(document)])
        assert [(each.size, each.signed) for each in compared if each[:2] == (RATES, "versions")]
        assert notes(await running.checkpoints()) == kept

    runner.run(work())


@pytest.mark.outcome(
    "The operator rotates the signing key while web processes run",
    "A process that has only the old key stops signing. Old checkpoints can still be verified.",
)
def test_old_signatures_verify_after_a_rotation_and_the_old_key_signs_no_more(
    instance: Make, runner: asyncio.Runner
) -> None:
    rotated, copy = instance(2), instance(2)

    async def work() -> None:
        old, behind, following = (
            await rotated.sign(),
            rotated.worker(KEY),
            rotated.worker(KEY, NEXT),
        )
        await rotated.store(await rotated_key(rotated.record, KEY, NEXT))
        await rotated.grow(3)
        with pytest.raises(SigningRefused, match="doesn't have the key"):
            await behind.checkpoints()
        new = notes(await following.checkpoints())
        assert open_checkpoint(new[RATES, "versions"], rates_verifier(NEXT)).size == 3

        keys = await rotated.record.log_keys()
        assert list(keys.signers()) == [rates_verifier(each).public_key for each in (NEXT, KEY)]
        last = next(each.note for each in keys.retired[0].checkpoints if each.kind == RATES)
        for key in (KEY, NEXT):
            checkpoint = open_checkpoint(last, rates_verifier(key))
        assert checkpoint == open_checkpoint(old[RATES, "versions"], rates_verifier(KEY))
        digests = [each.digest for each in await copy.ledger.digests(RATES, "versions", 0, 2)]
        assert checkpoint[1:] == (2, tree_root(digests))

        await rotated.restore()
        await resume_signing(rotated.record, NEXT, [*old.values(), *new.values()])
        with pytest.raises(ConfigurationError, match="signed checkpoints before"):
            await rotated_key(rotated.record, NEXT, KEY)

    runner.run(work())


def rates_verifier(key: Ed25519PrivateKey) -> Verifier:
    return verifier_of(key, f"barograph.example/history/{RATES}")
