"""What a restored record may sign, and what a new key means for old signatures."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from barograph.errors import BarographError, ConfigurationError
from barograph.history.checkpoint import Checkpoint, CheckpointRefused, open_checkpoint, verifier_of
from barograph.history.guards import Continuity, SignedHeads, SigningRefused, store_log_keys
from barograph.history.ledger import Ledger
from barograph.history.origins import (
    Record,
    RecordBehind,
    hold_signing,
    resume_signing,
    rotate_key,
    start_origin,
)
from barograph.history.public_log import HistoryRewritten, PublicLogs
from barograph.history.records import KINDS
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from support.backends import Backend
from support.clock import START, HandClock
from support.events import add_events
from support.events import change as new_event
from support.history import RATES, ChangeKey, proposal, salts, tamper
from support.service import BASE_URL
from support.stances import make_history

KEY, NEXT, THIRD = (Ed25519PrivateKey.from_private_bytes(bytes([n] * 32)) for n in range(3))
NAME = f"barograph.example/history/{RATES}"


class Meanwhile(Continuity):
    """Does something once, between the checks of two kinds."""

    def __init__(self, ledger: Ledger, work: Coroutine[Any, Any, object] | None) -> None:
        super().__init__(ledger, lambda: None)
        self.work = work

    async def require(self, kind: str) -> None:
        if kind == KINDS[1] and self.work is not None:
            work, self.work = self.work, None
            await work


class Instance:
    """A service with a record of stances; two of the same size hold the same."""

    def __init__(self, service: Database, history: Database) -> None:
        self.service = service
        self.ledger = Ledger(history, HandClock(), salt=salts())
        self.record = self.record_while(None)

    def record_while(self, work: Coroutine[Any, Any, object] | None) -> Record:
        continuity = Meanwhile(self.ledger, work)
        return Record(self.service, self.ledger, BASE_URL, continuity, HandClock())

    async def grow(self, size: int, later: int = 0) -> None:
        for number in range(await self.ledger.count(RATES, "versions"), size):
            await self.ledger.append(proposal(number + later))

    def worker(self, *keys: Ed25519PrivateKey, record: Record | None = None) -> PublicLogs:
        """A process that finds the last key when it reads its key again."""
        signed = SignedHeads(self.service, self.ledger.database, HandClock())
        continuity = (record or self.record)[3]
        reload_key = lambda: keys[-1]  # noqa: E731
        return PublicLogs(self.ledger, keys[0], BASE_URL, signed, continuity, reload_key=reload_key)

    async def sign(self, key: Ed25519PrivateKey = KEY) -> list[str]:
        return [each.note for each in await self.worker(key).checkpoints()]

    async def restore(self) -> None:
        await self.service.write(lambda tx: hold_signing(tx, START))


Make = Callable[[int], Instance]


@pytest.fixture
def instance(new_store: Callable[[], Backend], runner: asyncio.Runner) -> Iterator[Make]:
    """Makes an instance of this size, which has signed."""
    opened: list[Database] = []

    async def prepare(made: Instance, size: int) -> None:
        steps = packaged_migrations(SERVICE, made.service.engine)
        await upgrade(made.service, steps, HandClock())
        await make_history(opened[-1])
        await made.grow(size)
        await made.sign()

    def make(size: int) -> Instance:
        opened.extend(new_store().open() for _ in range(2))
        made = Instance(*opened[-2:])
        runner.run(prepare(made, size))
        return made

    yield make
    for each in opened:
        runner.run(each.close())


def rates(notes: Iterable[str]) -> str:
    return next(each for each in notes if each.partition("\n")[0].endswith(RATES))


def opened(note: str, key: Ed25519PrivateKey, name: str = NAME) -> Checkpoint:
    return open_checkpoint(note, verifier_of(key, name))


@pytest.mark.thorough
@pytest.mark.both_engines
@pytest.mark.parametrize("is_marked", [True, False])
@pytest.mark.outcome(
    "A restored backup lacks versions that were signed after it was made",
    "Nothing is signed under the old name. The operator restores a newer backup, or starts a new "
    "origin with another name and key.",
)
def test_restored_record_that_is_behind_never_signs_under_the_old_name(
    instance: Make, runner: asyncio.Runner, is_marked: bool
) -> None:
    lost, restored = instance(2), instance(2)

    async def work() -> None:
        await lost.grow(4)
        kept = await lost.sign()
        if is_marked:  # `barograph restore` does it, other tools don't
            await restored.restore()
        with pytest.raises(RecordBehind, match=f"{RATES} versions: it lacks 2 of the 4 entries"):
            await resume_signing(restored.record, KEY, kept)
        await restored.grow(5, later=7)
        with pytest.raises(SigningRefused, match="restored from a backup"):
            await restored.sign()
        with pytest.raises(RecordBehind, match=f"{RATES} versions: its first 4 entries are not"):
            await resume_signing(restored.record, KEY, kept)

    runner.run(work())


def test_new_origin_has_another_name_and_key_and_says_up_to_where_both_logs_agree(
    instance: Make, runner: asyncio.Runner
) -> None:
    restored = instance(2)

    async def work() -> None:
        old = await restored.sign()
        await restored.restore()
        await restored.grow(5, later=7)
        keys = await start_origin(restored.record, KEY, NEXT)
        with pytest.raises(SigningRefused, match="doesn't have the current key"):
            await restored.sign(KEY)
        name = f"barograph.example/history-{keys.name}/{RATES}"
        assert opened(rates(await restored.sign(NEXT)), NEXT, name).size == 5
        last = rates(keys.retired[0].checkpoints)
        assert opened(last, KEY) == opened(rates(old), KEY)
        assert f"\nsuccessor {verifier_of(NEXT, name).text}\n" in last
        for key in (KEY, NEXT):
            with pytest.raises(ConfigurationError, match="signed checkpoints before"):
                await start_origin(restored.record, None, key)
        with pytest.raises(CheckpointRefused, match="of another log"):
            await resume_signing(restored.record, NEXT, old)

    runner.run(work())


def test_restored_record_that_holds_everything_signed_continues_with_its_key(
    instance: Make, runner: asyncio.Runner
) -> None:
    restored = instance(3)

    async def work() -> None:
        kept, running = await restored.sign(), restored.worker(KEY)
        await restored.restore()
        forged = rates(kept).replace("\n3\n", "\n2\n")
        for files, refusal in (([rates(kept)], "no checkpoint of"), ([forged], "no key of this")):
            with pytest.raises(CheckpointRefused, match=refusal):
                await resume_signing(restored.record, KEY, files)
        with pytest.raises(ConfigurationError, match="doesn't have the current key"):
            await resume_signing(restored.record, NEXT, kept)
        document = json.dumps({"checkpoints": [{"checkpoint": each} for each in kept]})
        compared = await resume_signing(restored.record, KEY, [rates(kept), document])
        assert (
            f"{RATES} versions: the record has 3 entries, including all 3 that were signed"
            in compared
        )
        assert [each.note for each in await running.checkpoints()] == kept

    runner.run(work())


@pytest.mark.both_engines
@pytest.mark.outcome(
    "The operator rotates the signing key while web processes run",
    "A process that has only the old key stops signing. Old checkpoints can still be verified.",
)
def test_old_signatures_verify_after_a_rotation_and_the_old_key_signs_no_more(
    instance: Make, runner: asyncio.Runner
) -> None:
    rotated = instance(2)

    async def work() -> None:
        old, behind = await rotated.sign(), rotated.worker(KEY)
        await rotated.service.write(lambda tx: tx.execute("DELETE FROM history_origin"))
        assert await rotated.sign() == old  # as after an upgrade
        await rotate_key(rotated.record, KEY, NEXT)
        await rotated.grow(3)
        with pytest.raises(SigningRefused, match="doesn't have the current key"):
            await behind.checkpoints()
        following = rotated.worker(KEY, NEXT)
        new = [each.note for each in await following.checkpoints()]
        assert opened(rates(new), NEXT).size == 3
        last = rates(following.keys.retired[0].checkpoints)
        assert opened(last, KEY) == opened(last, NEXT) == opened(rates(old), KEY)
        await rotated.restore()
        await resume_signing(rotated.record, NEXT, [*old, *new])

    runner.run(work())


@pytest.mark.both_engines
def test_head_of_the_log_of_events_is_moved_to_the_history_and_found_only_there(
    instance: Make, runner: asyncio.Runner
) -> None:
    upgraded = instance(0)
    move = "INSERT INTO signed_heads VALUES ('events', 'events', $1, $2)"

    async def work() -> None:
        history, service = upgraded.ledger.database, upgraded.service
        await add_events(service, [new_event(number) for number in range(3)])
        signed = await upgraded.sign()
        ((name, *head),) = rows = await history.fetch("SELECT name, size, root FROM event_heads")
        await history.write(lambda tx: tx.execute("DELETE FROM event_heads"))
        await service.write(lambda tx: tx.execute(move, *head))  # as an earlier version left it
        assert (name, await upgraded.sign()) == ("", signed)
        assert await history.fetch("SELECT name, size, root FROM event_heads") == rows

        await tamper(service, "DELETE FROM events WHERE id = 3", "DELETE FROM signed_heads")
        with pytest.raises(HistoryRewritten):
            await upgraded.sign()

    runner.run(work())


@pytest.mark.both_engines
@pytest.mark.parametrize("is_new_origin", [True, False])
def test_log_of_events_that_begins_again_is_held_to_its_new_start_under_any_name(
    instance: Make, runner: asyncio.Runner, is_new_origin: bool
) -> None:
    restored = instance(2)

    async def work() -> None:
        history, service = restored.ledger.database, restored.service
        await add_events(service, [new_event(number) for number in range(3)])
        kept = await restored.sign()
        await tamper(service, "DELETE FROM events WHERE id = 3")
        await restored.restore()
        if is_new_origin:
            await start_origin(restored.record, KEY, NEXT)
        else:
            assert "begins again as" in (await resume_signing(restored.record, KEY, kept))[-1]
        ((start,),) = await history.fetch("SELECT size FROM event_heads")
        assert (start, len(await restored.sign(NEXT if is_new_origin else KEY))) == (2, len(kept))

        keys = replace(await restored.record.log_keys(), name="", events="")
        await service.write(lambda tx: store_log_keys(tx, keys))
        await tamper(service, "DELETE FROM events WHERE id = 2", "DELETE FROM signed_heads")
        with pytest.raises(HistoryRewritten):
            await restored.sign(NEXT if is_new_origin else KEY)

    runner.run(work())


@pytest.mark.parametrize("change", [rotate_key, start_origin])
def test_last_checkpoints_are_signed_only_under_the_address_that_witnesses_know(
    instance: Make, runner: asyncio.Runner, change: ChangeKey
) -> None:
    made = instance(1)
    publish = "INSERT INTO cosigned_checkpoints VALUES ($1, 1, '', '')"

    async def work() -> None:
        await made.service.write(lambda tx: tx.execute(publish, NAME))
        elsewhere = made.record._replace(base_url="http://127.0.0.1:8000")
        with pytest.raises(ConfigurationError, match="set BAROGRAPH_BASE_URL to the address"):
            await change(elsewhere, KEY, NEXT)
        assert len((await change(made.record, KEY, NEXT)).retired) == 1

    runner.run(work())


@pytest.mark.parametrize("change", [rotate_key, start_origin])
def test_key_that_is_replaced_while_another_process_uses_it_signs_no_more(
    instance: Make, runner: asyncio.Runner, change: ChangeKey
) -> None:
    changed = instance(2)

    async def work() -> None:
        during = changed.record_while(change(changed.record, KEY, NEXT))
        worker = changed.worker(KEY, NEXT, record=during)
        published = await worker.checkpoints()
        assert {each.verifier.public for each in published} == {worker.keys.public_key}
        folder = "history" + (worker.keys.name and f"-{worker.keys.name}")
        assert {each.checkpoint.origin.split("/")[1] for each in published} == {folder}
        during = changed.record_while(start_origin(changed.record, NEXT, THIRD))
        with pytest.raises(BarographError, match=r"current key|changed the signing key"):
            await change(during, NEXT, Ed25519PrivateKey.generate())
        assert len(await changed.sign(THIRD)) == len(published)

    runner.run(work())


@pytest.mark.outcome(
    "The history is available again",
    "Every web worker signs checkpoints again within seconds, and `/api/status` says so.",
)
def test_signing_is_tried_again_seconds_after_the_history_failed(
    instance: Make, runner: asyncio.Runner
) -> None:
    class Away(Meanwhile):
        rounds = 0

        async def require(self, _: str) -> None:
            if self.rounds < 2:
                raise DatabaseUnavailable("away")

        async def pause(self, _: float) -> None:
            self.rounds += 1
            if self.rounds > 3:
                raise asyncio.CancelledError

    made = instance(2)
    away = Away(made.ledger, None)
    worker = made.worker(KEY, record=made.record._replace(continuity=away))
    runner.run(worker.probe())
    assert worker.last_signed is None
    with pytest.raises(asyncio.CancelledError):
        runner.run(worker.retry(away.pause))
    assert worker.last_signed == (2, START)
