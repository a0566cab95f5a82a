"""The demo's past as the simulated exchange reports it, computed in another process.

The records are what the decoders read from the exchange's answers; encoding and decoding so many
would take most of the time. The other process imports only this module, so that it starts quickly.
"""

import asyncio
import gc
import os
import signal
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from multiprocessing import get_context, resource_tracker
from typing import NamedTuple

import msgspec

from barograph.kit.clock import Clock
from barograph.kit.http_client import HttpReply
from barograph.kit.operating_system import die_with_parent
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.frames import StoredFrame, stored
from barograph.markets.samples import STEPS
from barograph.venues.bybit.decode import contracts_of, decode_instruments
from barograph.venues.bybit.rest import open_envelope
from barograph.venues.kit.contract_cache import Contract as ListedContract
from barograph.venues.records import (
    MAJORS,
    Frame,
    Liquidation,
    LongAccounts,
    PastValues,
    Perpetual,
    Side,
)
from barograph.venues.registry import BYBIT, coin_of
from barograph_demo.replay.other_venues import FRAMES_EVERY, Moment, VenuePast, observe_others
from barograph_demo.servers.rest import answer
from barograph_demo.world.contracts import Contract
from barograph_demo.world.liquidations import LONG, SimulatedLiquidation
from barograph_demo.world.world import RATIO_PERIOD, World

BATCH = 24
"""Observations that are handed over together; the judge waits for the first ones."""

PROCESSES = 1
"""Observing takes about as long as judging, which happens at the same time. Each further process
would first have to simulate the whole world."""

PACE = 5 * MINUTE
"""How often bitcoin is observed in the recent past, because labels change within an hour."""

FRAME_STEP = 10 * MINUTE
"""In the recent past, all prices are observed this often, so that one is within five minutes of 7
days ago at every moment."""

RECENT_MS = 8 * DAY
"""A week of labels, and the day before, which 24-hour changes compare with. All of the past at this
pace would take a fifth longer."""

Step = tuple[int, int, bool, bool]
"""The time before, the time to observe, whether to read every contract's accounts, and whether it
is recent."""


class MarketObservation(NamedTuple):
    """What the exchange reports for one time."""

    at: int
    since: int
    perpetuals: tuple[Perpetual, ...]
    shares: list[LongAccounts]
    liquidations: list[Liquidation]
    between: list[tuple[int, Perpetual]]
    """Bitcoin and its times in the recent past, since the last one."""

    frames: list[StoredFrame]
    """The prices of all contracts in the recent past, since the last one."""

    others: list[VenuePast]
    """What the other venues recorded."""


async def observe(
    world: World, start: int, instants: Sequence[int], clock: Clock
) -> AsyncGenerator[tuple[int, list[MarketObservation]], None]:
    """Observe all `instants` in order, in another process if there are many.

    Then also observe the time that has come meanwhile, or it would look like an outage. Yields the
    number of instants done so far and the newest observations.
    """
    todo = steps(start, instants)
    batches = [todo[first : first + BATCH] for first in range(0, len(todo), BATCH)]
    if len(batches) <= 1:
        for batch in batches:
            yield len(batch), _DECODER.decode(observe_batch(world.seed, world.epoch, batch))
        return
    loop = asyncio.get_running_loop()
    pool = ProcessPoolExecutor(
        PROCESSES, get_context("spawn"), initializer=_begin, initargs=(os.getpid(),)
    )
    try:
        with _children_ignore_interrupts():
            jobs = [
                loop.run_in_executor(pool, observe_batch, world.seed, world.epoch, batch)
                for batch in batches
            ]
        done = 0
        for job, batch in zip(jobs, batches, strict=True):
            done += len(batch)
            yield done, _DECODER.decode(await job)
        last: list[Step] = [(instants[-1], clock(), True, False)] if clock() > instants[-1] else []
        job = loop.run_in_executor(pool, observe_batch, world.seed, world.epoch, last)
        yield done, _DECODER.decode(await job)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(parent: int) -> None:
    die_with_parent(parent)
    gc.disable()  # the process ends soon, and collecting takes a tenth of its time


def steps(start: int, instants: Sequence[int]) -> list[Step]:
    """Read every contract's accounts where charts show them, and at the first and last time."""
    edges = {*instants[:1], *instants[-1:]}
    return [
        (
            since,
            at,
            at in edges or _is_charted(since, at, instants[-1]),
            at >= instants[-1] - RECENT_MS,
        )
        for since, at in pairwise([start, *instants])
    ]


def _is_charted(since: int, at: int, end: int) -> bool:
    """Whether a chart that ends at `end` or later may show every contract's accounts.

    The first reading of an hour is recorded, and longer charts show fewer hours. Reading all of
    them would cost more than twice as much.
    """
    hour = at // HOUR * HOUR
    return since < hour and any(
        hour % step == 0 and hour >= end // step * step - days * DAY for days, step in STEPS.items()
    )


def observe_batch(seed: int, epoch: int, batch: Sequence[Step]) -> bytes:
    """Observations as MessagePack; pickling so many small records takes four times as long."""
    world = _world(seed, epoch)
    return msgspec.msgpack.encode([_observe(world, step) for step in batch])


def _observe(world: World, step: Step) -> MarketObservation:
    since, at, in_full, _ = step
    kept = _kept(world.seed, world.epoch, at // DAY)
    contracts = [contract for contract in world.perpetuals if contract.symbol in kept]
    bitcoin = next(each for each in contracts if each.coin == "BTC")
    counted = (
        contracts if in_full else [contract for contract in contracts if contract.coin in MAJORS]
    )
    return MarketObservation(
        at,
        since,
        tuple(perpetual_of(world, each, at) for each in contracts),
        [long_accounts_of(world, each, at) for each in counted],
        [
            liquidation_of(each)
            for each in world.liquidations(since, at)
            # Those before a midnight belong to a contract that is delisted then.
            if each.symbol in _kept(world.seed, world.epoch, each.time // DAY)
        ],
        [(time, perpetual_of(world, bitcoin, time)) for time in _between(step, PACE)],
        [
            stored(Frame(time, {each.symbol: _past_price(world, each, time) for each in contracts}))
            for time in _between(step, FRAME_STEP)
        ],
        observe_others(world, _moment(world, step)),
    )


def _moment(world: World, step: Step) -> Moment:
    since, at, in_full, _ = step
    is_last_day = at - since <= PACE
    is_framed = is_last_day and at // FRAMES_EVERY != since // FRAMES_EVERY
    return Moment(at, in_full, is_last_day, is_framed, since == world.epoch)


def _between(step: Step, pace: int) -> range:
    since, at, _, is_recent = step
    return range(since // pace * pace + pace, at if is_recent else since, pace)


def perpetual_of(world: World, contract: Contract, time: int) -> Perpetual:
    """What the service reads from a ticker of the exchange."""
    state = world.market(contract).state(time)
    coins = contract.open_interest_usd / contract.price * state.interest
    turnover = contract.open_interest_usd * state.turnover
    coin, multiplier = _coin(contract.coin)
    return Perpetual(
        contract=contract.symbol,
        base=contract.coin,
        last_price=round(state.last, contract.price_decimals),
        funding_rate_pct=round(100 * round(world.funding_rate(contract, time), 8), 6) + 0.0,
        funding_interval_hours=contract.funding_hours,
        next_funding_time=world.next_funding(contract, time),
        open_interest_usd=round(coins * state.last, 2),
        open_interest_coins=round(coins, contract.size_decimals),
        coin=coin,
        multiplier=multiplier,
        mark_price=round(state.mark_price, contract.price_decimals),
        index_price=round(state.index_price, contract.price_decimals),
        volume_24h_usd=round(turnover, 4),
        volume_24h_coins=round(turnover / state.last, 4),
    )


@cache
def _coin(base: str) -> tuple[str, int]:
    coin, multiplier = coin_of(BYBIT, base)
    return "" if multiplier == 1 else coin, multiplier


def long_accounts_of(world: World, contract: Contract, time: int) -> LongAccounts:
    """What the service reads from the exchange's newest count of accounts."""
    share = round(100 * round(world.long_share(contract, time), 4), 2)
    return LongAccounts(contract.symbol, share, time - time % RATIO_PERIOD)


def liquidation_of(each: SimulatedLiquidation) -> Liquidation:
    """What the service reads from the exchange's stream."""
    side: Side = "long" if each.side == LONG else "short"
    return Liquidation(each.time, each.symbol, side, float(each.size), float(each.price))


def _past_price(world: World, contract: Contract, time: int) -> PastValues:
    """The price as the exchange writes it."""
    return PastValues(round(world.price(contract, time), contract.price_decimals))


@cache
def _world(seed: int, epoch: int) -> World:
    return World(seed, epoch)


@cache
def _kept(seed: int, epoch: int, day: int) -> Mapping[str, ListedContract]:
    """The contracts that the service keeps on a day; they are listed and delisted at midnight."""
    query = {"category": "linear", "limit": "1000"}
    at = max(epoch, day * DAY)
    status, body = answer(_world(seed, epoch), "/v5/market/instruments-info", query, at)
    envelope = open_envelope(HttpReply(status, {}, body), at)
    return contracts_of([decode_instruments(envelope.result)]).kept


@contextmanager
def _children_ignore_interrupts() -> Iterator[None]:
    """Block Ctrl-C in processes started here; their parent handles it."""
    resource_tracker.ensure_running()  # it would unblock the signal if it started later
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


_DECODER = msgspec.msgpack.Decoder(list[MarketObservation])
