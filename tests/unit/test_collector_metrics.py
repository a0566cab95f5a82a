"""What a collector measures."""

import asyncio
from functools import partial
from pathlib import Path

from barograph.collector.metrics import collector_gauges
from barograph.keys.outbox import put_mail
from barograph.kit.metrics import PAYMENT_STEPS, Metrics
from barograph.payments.journal import Journal
from support.clock import HandClock
from support.databases import take_away, upgraded_database
from support.payments import proof


def test_gauges_show_waiting_mails_and_payments_and_no_more_without_the_database(
    tmp_path: Path,
) -> None:
    clock, metrics = HandClock(), Metrics()
    now = clock()

    async def work() -> None:
        database = upgraded_database(tmp_path / "barograph.sqlite3")
        journal = Journal(database, clock, metrics)
        put = partial(put_mail, recipient="a@b.example", subject="x", body="y", now=now)
        await database.write(partial(put, give_up_at=now + 1))
        payment = await journal.claim(proof(), "/paid")
        await journal.release(payment.id, "a test")
        await journal.claim(proof(), "/paid")
        found = await collector_gauges(database, journal, is_leading=True)
        assert {
            " ".join(key).removeprefix("barograph_"): value for key, value in found.items()
        } == {
            "leader": 1,
            "outbox_mails": 1,
            "payments_open claimed": 1,
            "payments_open settling": 0,
            "payments_open unknown": 0,
            "payments_oldest_open_age_seconds claimed": now,
        }
        take_away(tmp_path / "barograph.sqlite3")
        assert len(await collector_gauges(database, journal, is_leading=False)) == 1
        await database.close()

    asyncio.run(work())
    states = {
        key[1]: count for key, count in metrics.totals.items() if key[0] == PAYMENT_STEPS.name
    }
    assert states == {"claimed": [2], "released": [1]}
