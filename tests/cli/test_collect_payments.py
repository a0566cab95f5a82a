"""What `barograph collect` does about payments, with the demo's facilitator and chain."""

import asyncio
from pathlib import Path

from barograph.collector.app import build_reconciler
from barograph.entitlements.purchases import feed_requirements
from barograph.entitlements.refusals import FEED_PATH
from barograph.entitlements.store import Entitlement, Entitlements, Holder
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY
from barograph.payments.journal import Journal
from barograph.payments.proof import decode_proof, match_offer, wire_requirements
from barograph.payments.reconcile import Reconciled
from barograph.payments.records import Payment
from barograph.settings import Settings
from barograph.upstream.chain import JsonRpcChain
from barograph.upstream.facilitator import HttpFacilitator
from barograph_demo.configuration import payment_settings
from barograph_demo.servers.facilitator import load_ledger, running_facilitator
from barograph_demo.servers.wallets import demo_proof
from support.clock import HandClock


async def settle_and_lose_sight(
    settings: Settings, journal: Journal, folder: Path, now: int
) -> Payment:
    """Move the money for Feed, and tell the journal that nobody knows."""
    terms = feed_requirements(settings)
    text = demo_proof(folder, "none", wire_requirements(terms), now)
    proof = match_offer(decode_proof(text), [terms])
    claimed = await journal.claim(proof, FEED_PATH)
    await journal.mark_settling(claimed.id)
    facilitator = HttpFacilitator(settings)
    await facilitator.settle(proof)
    await facilitator.close()
    return await journal.mark_unknown(claimed.id, "no answer")


async def collect_once(folder: Path) -> tuple[Payment, list[Entitlement]]:
    clock = HandClock()
    database = SQLiteDatabase(folder / "barograph.sqlite3")
    await upgrade(database, packaged_migrations(), clock)
    journal = Journal(database, clock)
    async with running_facilitator(load_ledger(folder), clock=clock) as address:
        settings = Settings.model_validate(payment_settings(f"{address.host}:{address.port}"))
        lost = await settle_and_lose_sight(settings, journal, folder, clock())
        chain = JsonRpcChain(settings)
        assert await build_reconciler(settings, database, chain, clock).once() == Reconciled(
            settled=1
        )
        await chain.close()
    found = await journal.get(lost.id)
    granted = await Entitlements(database, clock).find(holder=Holder("wallet", found.payer))
    await database.close()
    return found, granted


def test_the_collector_grants_what_was_paid_for_and_never_told(tmp_path: Path) -> None:
    payment, (granted,) = asyncio.run(collect_once(tmp_path))

    assert payment.state == "settled"
    assert payment.transaction is not None
    assert payment.entitlement_id == granted.id
    assert granted.ends_at - granted.starts_at == 30 * DAY
