"""What a restored record may sign, and what a new key means for old signatures."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from barograph.errors import BarographError, ConfigurationError
from barograph.history.checkpoint import (
    Checkpoint,
    CheckpointRefused,
    LogKeys,
    open_checkpoint,
    verifier_of,
)
from barograph.history.guards import Continuity, SignedHeads, SigningRefused, store_log_keys
from barograph.history.ledger import Ledger
from barograph.history.origins import Record, hold_signing, resume_signing, rotate_key
from barograph.history.public_log import PublicLog
from barograph.history.reader import HistoryRewritten
from barograph.history.records import KINDS
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from support.backends import Backend
from support.clock import START, HandClock
from support.events import add_events
from support.events import change as new_event
from support.history import salts, tamper
from support.service import BASE_URL
from support.stances import make_history

KEY, NEXT, THIRD = (Ed25519PrivateKey.from_private_bytes(bytes([n] * 32)) for n in range(3))
NAME = "barograph.example/history/events"


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
    """A service with a log of events; two of the same size hold the same."""

    def __init__(self, service: Database, history: Database) -> None:
        self.service = service
        self.ledger = Ledger(history, HandClock(), salt=salts())
        self.record = self.record_while(None)

    def record_while(self, work: Coroutine[Any, Any, object] | None) -> Record:
        continuity = Meanwhile(self.ledger, work)
        return Record(self.service, self.ledger, BASE_URL, continuity, HandClock())

    async def grow(self, size: int, later: int = 0) -> None:
        ((known,),) = await self.service.fetch("SELECT count(*) FROM events")
        await add_events(self.service, [new_event(each + later) for each in range(known, size)])

    def worker(self, *keys: Ed25519PrivateKey, record: Record | None = None) -> PublicLog:
        """A process that finds the last key when it reads its key again."""
        signed = SignedHeads(self.service, self.ledger.database, HandClock())
        continuity = (record or self.record).continuity
        return PublicLog(keys[0], BASE_URL, signed, continuity, reload_key=lambda: keys[-1])

    async def sign(self, key: Ed25519PrivateKey = KEY) -> str:
        return (await self.worker(key).checkpoint()).note

    async def restore(self) -> None:
        await self.service.write(lambda tx: hold_signing(tx, START))


Make = Callable[[int], Coroutine[Any, Any, Instance]]


@pytest.fixture
def instance(new_store: Callable[[], Backend], runner: asyncio.Runner) -> Iterator[Make]:
    """Makes an instance with this many events, which has signed."""
    opened: list[Database] = []

    async def make(size: int) -> Instance:
        service, history = (new_store().open() for _ in range(2))
        opened.extend((service, history))
        await upgrade(service, packaged_migrations(SERVICE, service.engine), HandClock())
        await make_history(history)
        made = Instance(service, history)
        await made.grow(size)
        await made.sign()
        return made

    yield make
    for database in opened:
        runner.run(database.close())


def opened(note: str, key: Ed25519PrivateKey, name: str = NAME) -> Checkpoint:
    return open_checkpoint(note, verifier_of(key, name))


@pytest.mark.both_engines
@pytest.mark.parametrize("has_kept", [True, False])
@pytest.mark.outcome(
    "A restored backup is not proven to hold everything that was signed",
    "The log continues under another name, and says up to where both are the same.",
)
async def test_log_not_proven_complete_starts_a_new_origin(instance: Make, has_kept: bool) -> None:
    lost, restored = await instance(2), await instance(2)

    await lost.grow(4)
    kept, old = await lost.sign(), await restored.sign()
    await restored.restore()
    with pytest.raises(SigningRefused, match="a restore from a backup was interrupted"):
        await restored.sign()
    keys, why = await resume_signing(restored.record, KEY, [kept] if has_kept else [])
    expected = "it lacks 2 of the 4 entries" if has_kept else "no checkpoint was given"
    assert why.startswith(expected)
    await restored.grow(5, later=7)
    name = f"barograph.example/history-{keys.name}/events"
    assert opened(await restored.sign(), KEY, name).size == 5
    (last,) = keys.retired[0].checkpoints
    assert opened(last, KEY) == opened(old, KEY)
    assert f"\nsuccessor {verifier_of(KEY, name).text}\n" in last
    with pytest.raises(CheckpointRefused, match="of another log"):
        await resume_signing(restored.record, KEY, [old])


async def test_log_with_other_entries_starts_a_new_origin(instance: Make) -> None:
    lost, restored = await instance(2), await instance(2)
    older = await restored.sign()
    await lost.grow(4)
    kept = await lost.sign()
    await restored.grow(5, later=7)
    _, why = await resume_signing(restored.record, KEY, [kept])
    assert why == "its first 4 entries are not the ones that were signed"

    await lost.grow(5)
    _, why = await resume_signing(lost.record, KEY, [older])
    assert why == "4 entries were signed, so a checkpoint of 2 is not the newest"


async def test_log_whose_key_is_lost_continues_as_a_new_origin(instance: Make) -> None:
    made = await instance(2)

    kept = await made.sign()
    with pytest.raises(SigningRefused, match="doesn't have the current key"):
        await made.sign(NEXT)
    keys, why = await resume_signing(made.record, NEXT, [kept])
    assert why == "its key was replaced or lost"
    name = f"barograph.example/history-{keys.name}/events"
    assert opened(await made.sign(NEXT), NEXT, name).size == 2
    (last,) = keys.retired[0].checkpoints
    with pytest.raises(CheckpointRefused):
        opened(last, KEY)
    assert keys.retired[0].public_key == verifier_of(KEY, NAME).public


async def test_restored_log_that_holds_everything_signed_keeps_its_name(instance: Make) -> None:
    restored = await instance(3)

    kept, running = await restored.sign(), restored.worker(KEY)
    await restored.restore()
    forged = kept.replace("\n3\n", "\n2\n")
    for file, refusal in ((forged, "no key of this log"), ("{}", "is not the JSON of")):
        with pytest.raises(CheckpointRefused, match=refusal):
            await resume_signing(restored.record, KEY, [file])
    document = {"checkpoint": kept}
    earlier = {"checkpoints": [], "event_log": document}  # while there were several logs
    files = [kept, json.dumps(document), json.dumps(earlier)]
    keys, why = await resume_signing(restored.record, KEY, files)
    assert (keys.name, keys.retired, why) == ("", (), "")
    assert (await running.checkpoint()).note == kept


@pytest.mark.both_engines
@pytest.mark.outcome(
    "The operator rotates the signing key while web processes run",
    "A process with only the old key stops signing. Old checkpoints still verify.",
)
async def test_old_signatures_verify_after_a_rotation(instance: Make) -> None:
    rotated = await instance(2)

    old, behind = await rotated.sign(), rotated.worker(KEY)
    await rotated.service.write(lambda tx: tx.execute("DELETE FROM history_origin"))
    assert await rotated.sign() == old  # as after an upgrade
    await rotate_key(rotated.record, KEY, NEXT)
    await rotated.grow(3)
    with pytest.raises(SigningRefused, match="doesn't have the current key"):
        await behind.checkpoint()
    following = rotated.worker(KEY, NEXT)
    new = (await following.checkpoint()).note
    assert opened(new, NEXT).size == 3
    (last,) = following.keys.retired[0].checkpoints
    assert opened(last, KEY) == opened(last, NEXT) == opened(old, KEY)
    for key in (KEY, NEXT):
        with pytest.raises(ConfigurationError, match="signed checkpoints before"):
            await rotate_key(rotated.record, NEXT, key)
    await rotated.restore()
    assert (await resume_signing(rotated.record, NEXT, [old, new]))[1] == ""


@pytest.mark.both_engines
async def test_new_origin_is_held_to_its_start_under_any_name(instance: Make) -> None:
    restored = await instance(3)

    history, service = restored.ledger.database, restored.service
    await tamper(service, "DELETE FROM events WHERE id = 3")
    await restored.restore()
    await resume_signing(restored.record, KEY, [])
    assert await history.fetch("SELECT name, size FROM event_heads") == [("", 2)]
    await restored.sign()

    keys = replace(await restored.record.log_keys(), name="")
    await service.write(lambda tx: store_log_keys(tx, keys))
    await tamper(service, "DELETE FROM events WHERE id = 2")
    with pytest.raises(HistoryRewritten):
        await restored.sign()


async def new_origin(record: Record, _: Ed25519PrivateKey, new: Ed25519PrivateKey) -> LogKeys:
    return (await resume_signing(record, new, []))[0]


ChangeKey = Callable[[Record, Ed25519PrivateKey, Ed25519PrivateKey], Coroutine[Any, Any, LogKeys]]
CHANGES = pytest.mark.parametrize("change", [rotate_key, new_origin])


@CHANGES
async def test_last_checkpoint_is_signed_under_its_address(
    instance: Make, change: ChangeKey
) -> None:
    made = await instance(1)
    publish = "INSERT INTO cosigned_checkpoints VALUES ($1, 1, '', '')"

    await made.service.write(lambda tx: tx.execute(publish, NAME))
    elsewhere = made.record._replace(base_url="http://127.0.0.1:8000")
    with pytest.raises(ConfigurationError, match="set BAROGRAPH_BASE_URL to the address"):
        await change(elsewhere, KEY, NEXT)
    assert len((await change(made.record, KEY, NEXT)).retired) == 1


@CHANGES
async def test_key_that_is_replaced_in_use_signs_no_more(instance: Make, change: ChangeKey) -> None:
    changed = await instance(2)

    during = changed.record_while(change(changed.record, KEY, NEXT))
    worker = changed.worker(KEY, NEXT, record=during)
    published = await worker.checkpoint()
    assert published.verifier.public == worker.keys.public_key
    assert published.checkpoint.origin == worker.origin
    during = changed.record_while(new_origin(changed.record, NEXT, THIRD))
    with pytest.raises(BarographError, match=r"current key|changed the signing key"):
        await change(during, NEXT, Ed25519PrivateKey.generate())
    assert (await changed.worker(THIRD).checkpoint()).checkpoint.size == 2


@pytest.mark.outcome(
    "The history is available again",
    "Every web worker signs checkpoints again within seconds.",
)
async def test_signing_is_tried_again_seconds_after_the_history_failed(instance: Make) -> None:
    class Away(Meanwhile):
        rounds = 0

        async def require(self, _: str) -> None:
            if self.rounds < 2:
                raise DatabaseUnavailable("away")

        async def pause(self, _: float) -> None:
            self.rounds += 1
            if self.rounds > 3:
                raise asyncio.CancelledError

    made = await instance(2)
    away = Away(made.ledger, None)
    worker = made.worker(KEY, record=made.record._replace(continuity=away))
    await worker.probe()
    assert worker.last_signed is None
    with pytest.raises(asyncio.CancelledError):
        await worker.retry(away.pause)
    assert worker.last_signed == (2, START)
