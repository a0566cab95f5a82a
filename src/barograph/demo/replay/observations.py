"""What the simulated exchange said about the demo's past, looked up in a process of its own.

The exchange answers in process, with the clock turned back; its answers go through the same
decoders as those of a real one.

The other process imports this module alone: a desk and its databases would only keep it from
beginning.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from multiprocessing import get_context, resource_tracker
from typing import NamedTuple

import msgspec

from barograph.demo.servers.rest import answer
from barograph.demo.servers.stream import liquidation_messages
from barograph.demo.servers.tickers import newest_ratio, position_tickers
from barograph.demo.world.contracts import Contract
from barograph.demo.world.world import World
from barograph.kit.clock import Clock
from barograph.kit.operating_system import die_with_parent
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.records import MAJORS, Liquidation, LongAccounts, Perpetual
from barograph.markets.samples import STEPS
from barograph.upstream.bybit.decode import (
    Instrument,
    decode_instruments,
    decode_long_accounts,
    decode_tickers,
)
from barograph.upstream.bybit.messages import Batch, decode_message
from barograph.upstream.bybit.wire import HttpReply, open_envelope

STRETCH = 60
"""How many instants are looked at before they are handed over."""

PROCESSES = 1
"""Looking takes about as long as judging what was seen, which goes on beside it. Each further
process would have to simulate the whole world for itself first."""

Step = tuple[int, int, bool]
"""The instant before, the one to look at, and whether to look at every contract's accounts."""


class Glimpse(NamedTuple):
    """What the exchange said about one instant, read by the same decoders as what comes live."""

    at: int
    since: int
    perpetuals: tuple[Perpetual, ...]
    shares: list[LongAccounts]
    liquidations: list[Liquidation]


async def glimpses(
    world: World, start: int, instants: Sequence[int], clock: Clock
) -> AsyncGenerator[tuple[int, list[Glimpse]], None]:
    """Look back over all of `instants`, in order, beside this process when there are many.

    When it took long, the instant at which it ended comes after them: what time brought meanwhile
    would otherwise look like an outage. Yields how many of `instants` are looked at so far, and
    the newest glimpses.
    """
    looks = steps(start, instants)
    stretches = [looks[first : first + STRETCH] for first in range(0, len(looks), STRETCH)]
    if len(stretches) <= 1:
        for stretch in stretches:
            yield len(stretch), _GLIMPSES.decode(look_back(world.seed, world.epoch, stretch))
        return
    loop = asyncio.get_running_loop()
    pool = ProcessPoolExecutor(
        PROCESSES, get_context("spawn"), initializer=die_with_parent, initargs=(os.getpid(),)
    )
    try:
        with _deaf_children():
            jobs = [
                loop.run_in_executor(pool, look_back, world.seed, world.epoch, stretch)
                for stretch in stretches
            ]
        done = 0
        for job, stretch in zip(jobs, stretches, strict=True):
            done += len(stretch)
            yield done, _GLIMPSES.decode(await job)
        last = [(instants[-1], clock(), True)] if clock() > instants[-1] else []
        # Here the process knows the world already.
        job = loop.run_in_executor(pool, look_back, world.seed, world.epoch, last)
        yield done, _GLIMPSES.decode(await job)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def steps(start: int, instants: Sequence[int]) -> list[Step]:
    """Look at every contract's accounts where charts will show them.

    Also at the first instant, with which a record may begin, and at the last, from which the board
    goes on.
    """
    edges = {*instants[:1], *instants[-1:]}
    return [
        (since, at, at in edges or _is_charted(since, at, instants[-1]))
        for since, at in pairwise([start, *instants])
    ]


def _is_charted(since: int, at: int, end: int) -> bool:
    """Whether charts that end at `end` or later may show what every contract's accounts were.

    Of every contract the first reading of an hour is recorded, and the further back a chart
    reaches, the fewer hours it shows: to look at all of them would cost more than twice as much.
    """
    hour = at // HOUR * HOUR
    return since < hour and any(
        hour % step == 0 and hour >= end // step * step - days * DAY for days, step in STEPS.items()
    )


def look_back(seed: int, epoch: int, stretch: Sequence[Step]) -> bytes:
    """Ask the simulated exchange about a stretch of instants.

    The world is a pure function, so every process sees the same one. The glimpses are handed over
    packed: to pickle so many small records takes four times as long.
    """
    world = _world(seed, epoch)
    return _PACK.encode([_look(world, since, at, in_full=full) for since, at, full in stretch])


def _look(world: World, since: int, at: int, *, in_full: bool) -> Glimpse:
    kept = _kept(world.seed, world.epoch)
    contracts = _kept_contracts(world)
    counted = contracts if in_full else [each for each in contracts if each.coin in MAJORS]
    batches = [decode_message(each) for each in liquidation_messages(world, since, at)]
    return Glimpse(
        at,
        since,
        decode_tickers(position_tickers(world, contracts, at), kept).perpetuals,
        [decode_long_accounts(newest_ratio(world, each, at), each.symbol) for each in counted],
        [
            each
            for batch in batches
            if isinstance(batch, Batch)
            for each in batch.liquidations
            if each.contract in kept
        ],
    )


def _ask(world: World, at: int, endpoint: str, **query: str) -> bytes:
    """The result of a REST endpoint at an instant."""
    query["category"] = "linear"
    status, body = answer(world, f"/v5/market/{endpoint}", query, at)
    return bytes(open_envelope(HttpReply(status, "application/json", None, body), at).result)


@cache
def _world(seed: int, epoch: int) -> World:
    return World(seed, epoch)


@cache
def _kept(seed: int, epoch: int) -> dict[str, Instrument]:
    """What is tradable; asked once, because in the simulated past nothing is listed anew."""
    reply = _ask(_world(seed, epoch), epoch, "instruments-info", limit="1000")
    return {each.contract: each for each in decode_instruments(reply).instruments}


@cache
def _kept_contracts(world: World) -> list[Contract]:
    listed = (world.contract(name, world.epoch) for name in _kept(world.seed, world.epoch))
    return [contract for contract in listed if contract is not None]


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Let processes that are started here never hear Ctrl-C, which is for their parent to handle.

    A blocked signal stays blocked in a child from its first instruction on.
    """
    resource_tracker.ensure_running()  # would unblock it again when started later
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


_PACK = msgspec.msgpack.Encoder()
_GLIMPSES = msgspec.msgpack.Decoder(list[Glimpse])
