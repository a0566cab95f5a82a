"""Processes that append to one record of stances; each of them imports only this."""

import asyncio
import time
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier

from msgspec.structs import replace

from barograph.history.ledger import Ledger
from barograph.history.records import Proposal
from barograph.kit.clock import system_clock
from barograph.kit.opening import Address, open_database

LONGEST_SECONDS = 300


def append_rate(address: Address, proposal: Proposal, writers: int, appends: int) -> float:
    """Appends per second; each writer is a process with its own legs, and all share one chain."""
    context = get_context("spawn")
    ready, done = context.Barrier(writers + 1), context.Barrier(writers + 1)
    given = (address, proposal, appends, (ready, done))
    started = [context.Process(target=_run, args=(n, *given)) for n in range(writers)]
    for process in started:
        process.start()
    ready.wait(LONGEST_SECONDS)
    began = time.perf_counter()
    done.wait(LONGEST_SECONDS)
    rate = writers * appends / (time.perf_counter() - began)
    for process in started:
        process.join()
    return rate


def _run(
    writer: int, address: Address, proposal: Proposal, appends: int, at: tuple[Barrier, Barrier]
) -> None:
    ready, done = at

    async def work() -> None:
        database = open_database(address, write_ms=60_000)
        ledger = Ledger(database, system_clock)
        await ledger.count(proposal.kind, "versions")
        ready.wait(LONGEST_SECONDS)
        for number in range(appends):
            await ledger.append(replace(proposal, leg_id=f"{writer}-{number}"))
        done.wait(LONGEST_SECONDS)
        await database.close()

    asyncio.run(work())
