"""What a collector measures."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from barograph.collector.app import collector_gauges
from barograph.keys.outbox import put_mail
from barograph.kit.metrics import LEADER, PAYMENT_STEPS, Gauges, Metrics
from barograph.payments.journal import Journal
from support.clock import HandClock
from support.databases import take_away, upgraded_database
from support.payments import proof


def test_gauges_show_mails_and_payments_but_offline_only_leadership(tmp_path: Path) -> None:
    clock, metrics = HandClock(), Metrics()
    database = upgraded_database(tmp_path / "barograph.sqlite3")
    now = clock()

    async def work() -> None:
        journal = Journal(database, clock, metrics)
        put = partial(put_mail, recipient="a@b.example", subject="x", body="y", now=now)
        await database.write(partial(put, give_up_at=now + 1))
        payment = await journal.claim(proof(), "/paid")
        await journal.release(payment.id, "a test")
        await journal.claim(proof(), "/paid")
        add = partial(collector_gauges, lambda: True, database, journal)
        found: Gauges = {}
        await add(found)
        assert {" ".join(key).removeprefix("barograph_"): each for key, each in found.items()} == {
            "leader": 1,
            "outbox_mails": 1,
            "payments_open claimed": 1,
            "payments_open settling": 0,
            "payments_open unknown": 0,
            "payments_oldest_open_age_seconds claimed": now,
        }
        hanging: Gauges = {}
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await add(hanging)
        take_away(tmp_path / "barograph.sqlite3")
        lost: Gauges = {}
        await add(lost)
        assert hanging == lost == {(LEADER.name,): 1}
        await database.close()

    asyncio.run(work())
    name = PAYMENT_STEPS.name
    assert metrics.totals == {(name, "claimed"): [2], (name, "released"): [1]}
