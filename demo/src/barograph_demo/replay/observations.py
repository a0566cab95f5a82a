"""The demo's past as the simulated exchange reports it, computed in another process.

The records are what the decoders read from the exchange's answers; encoding and decoding so many
would take most of the time. The other process imports only this module, so that it starts quickly.
"""

import asyncio
import gc
import os
import signal
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from itertools import pairwise
from multiprocessing import get_context, resource_tracker
from typing import NamedTuple

import msgspec

from barograph.kit.clock import Clock
from barograph.kit.http_client import HttpReply
from barograph.kit.operating_system import die_with_parent
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.frames import StoredFrame, frame_of, stored
from barograph.markets.store import ReadingRow, Resolution
from barograph.venues.bybit.decode import contracts_of, decode_instruments
from barograph.venues.bybit.rest import open_envelope
from barograph.venues.kit.cells import settled_pct
from barograph.venues.kit.contract_cache import Contract as ListedContract
from barograph.venues.records import (
    MAJORS,
    Frame,
    Liquidation,
    LongAccounts,
    PastValues,
    Perpetual,
    SettledRate,
    Side,
)
from barograph.venues.registry import BYBIT, coin_of
from barograph_demo.replay.other_venues import VenuePast, observe_others, reading_row
from barograph_demo.servers.rest import answer
from barograph_demo.servers.tickers import decimal
from barograph_demo.world.contracts import Contract
from barograph_demo.world.liquidations import LONG, SimulatedLiquidation
from barograph_demo.world.world import RATIO_PERIOD, World, reported_rate

BATCH = 8
"""Observations that are handed over together; the judge waits for the first ones."""

PROCESSES = 1
"""Observing takes about as long as judging, which happens at the same time. Each further process
would first have to simulate the whole world."""

FINE_MS = DAY + HOUR + 15 * MINUTE
"""How far back charts show steps of five minutes. It is more than a day, because charts begin at a
full hour, and because 24-hour changes need frames from some minutes before."""

RECENT_MS = 8 * DAY
"""A week of labels, and the day before, which 24-hour changes compare with."""

FINE_PACE = 5 * MINUTE
RECENT_PACE = 15 * MINUTE
"""How often bitcoin is observed in the recent past, because labels change within an hour."""

FRAMES_EVERY = 10 * MINUTE
"""Every moment has a frame within five minutes."""

IDLE = 19
"""The niceness of a process that uses only idle processors."""


class Step(NamedTuple):
    """A time to observe, and how often to observe some contracts since the one before."""

    since: int
    at: int
    pace: int


class Between(NamedTuple):
    """What the exchange reports for a time at which the whole market is not judged."""

    at: int
    bitcoin: Perpetual
    rows: list[ReadingRow]
    """The rows of BTC, ETH and SOL."""

    frames: list[StoredFrame]
    """The frame of all contracts in the last day."""


class MarketObservation(NamedTuple):
    """What the exchange reports for one time."""

    at: int
    since: int
    perpetuals: tuple[Perpetual, ...]
    shares: list[LongAccounts]
    liquidations: list[Liquidation]
    between: list[Between]
    """The times since the last one."""

    others: list[VenuePast]
    """What the other venues recorded."""


class Sample(NamedTuple):
    """What to observe of the older past: prices at Bybit, or everything at the other venues."""

    at: int
    is_frame: bool
    of_majors: bool = False
    """Whether only BTC, ETH and SOL are observed."""


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
    async with _other_process() as run:
        jobs = [run(observe_batch, world.seed, world.epoch, batch) for batch in batches]
        done = 0
        for job, batch in zip(jobs, batches, strict=True):
            done += len(batch)
            yield done, _DECODER.decode(await job)
        last = steps(instants[-1], [clock()] if clock() > instants[-1] else [])
        yield done, _DECODER.decode(await run(observe_batch, world.seed, world.epoch, last))


async def observe_samples(
    world: World, samples: Sequence[Sample]
) -> AsyncGenerator[list[VenuePast], None]:
    """Observe older samples in another process, which yields the processors to all others."""
    async with _other_process(IDLE) as run:
        for first in range(0, len(samples), BATCH):
            # One at a time, because a stop waits for the one that is being observed.
            jobs = [
                run(_observe_sample, world.seed, world.epoch, sample)
                for sample in samples[first : first + BATCH]
            ]
            yield [past for job in jobs for past in _SAMPLES.decode(await job)]


@asynccontextmanager
async def _other_process(niceness: int = 0) -> AsyncIterator[Callable[..., Awaitable[bytes]]]:
    """Yield a function that runs another one in a separate process, one call at a time."""
    start, loop = get_context("spawn"), asyncio.get_running_loop()
    pool = ProcessPoolExecutor(
        PROCESSES, start, initializer=_begin, initargs=(os.getpid(), niceness)
    )

    def run(function: Callable[..., bytes], *values: object) -> Awaitable[bytes]:
        with _children_ignore_interrupts():
            return loop.run_in_executor(pool, function, *values)

    try:
        yield run
    finally:
        await asyncio.to_thread(pool.shutdown, cancel_futures=True)


def _begin(parent: int, niceness: int) -> None:
    die_with_parent(parent)
    os.nice(niceness)
    gc.disable()  # there is little to collect, and it would take a tenth of the time


def steps(start: int, instants: Sequence[int]) -> list[Step]:
    """How often to observe between the instants; the last instant is now."""
    return [Step(since, at, _pace(instants[-1] - at)) for since, at in pairwise([start, *instants])]


def _pace(age: int) -> int:
    if age <= FINE_MS:
        return FINE_PACE
    return RECENT_PACE if age <= RECENT_MS else HOUR


def observe_batch(seed: int, epoch: int, batch: Sequence[Step]) -> bytes:
    """Observations as MessagePack; pickling so many small records takes four times as long."""
    world = _world(seed, epoch)
    return msgspec.msgpack.encode([_observe(world, step) for step in batch])


def _observe(world: World, step: Step) -> MarketObservation:
    since, at, pace = step
    contracts = _listed(world, at)
    times = range(since // pace * pace + pace, at, pace)
    is_fine, is_first = pace == FINE_PACE, since == world.epoch
    framed = [time for time in (*times, at) if is_fine and time % FRAMES_EVERY == 0]
    return MarketObservation(
        at,
        since,
        tuple(perpetual_of(world, each, at) for each in contracts),
        [long_accounts_of(world, each, at) for each in contracts],
        [
            liquidation_of(each)
            for each in world.liquidations(since, at)
            # Those before a midnight belong to a contract that is delisted then.
            if each.symbol in _kept(world.seed, world.epoch, each.time // DAY)
        ],
        [_between(world, contracts, time, pace) for time in times],
        [
            past
            for time in dict.fromkeys([*framed, *([at] if is_fine or is_first else [])])
            for past in observe_others(world, time, is_framed=time in framed, is_first=is_first)
        ],
    )


def _observe_sample(seed: int, epoch: int, sample: Sample) -> bytes:
    world, at = _world(seed, epoch), sample.at
    if sample.is_frame:
        prices = {each.symbol: _past_price(world, each, at) for each in _listed(world, at)}
        pasts = [VenuePast(BYBIT, [], [stored(Frame(at, prices))], [])]
    else:
        pasts = observe_others(world, at, of_majors=sample.of_majors)
    return msgspec.msgpack.encode(pasts)


def _listed(world: World, at: int) -> list[Contract]:
    kept = _kept(world.seed, world.epoch, at // DAY)
    return [contract for contract in world.perpetuals if contract.symbol in kept]


def _between(world: World, contracts: Sequence[Contract], at: int, pace: int) -> Between:
    resolutions: list[Resolution] = ["hour"] if at % HOUR == 0 else []
    if resolutions or pace == FINE_PACE:
        resolutions.append("minute")
    bases = MAJORS if resolutions else ("BTC",)
    majors = {each: perpetual_of(world, each, at) for each in contracts if each.coin in bases}
    frames = []
    if pace == FINE_PACE and at % FRAMES_EVERY == 0:
        frames = [stored(frame_of(at, [perpetual_of(world, each, at) for each in contracts]))]
    return Between(
        at,
        next(perpetual for each, perpetual in majors.items() if each.coin == "BTC"),
        [
            reading_row(
                resolution, at, perpetual, long_accounts_of(world, each, at).long_account_pct
            )
            for resolution in resolutions
            for each, perpetual in majors.items()
        ],
        frames,
    )


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


def settled_rates_of(world: World, contract: Contract, start: int, now: int) -> list[SettledRate]:
    """What the service reads from the exchange's history of funding since `start`."""
    symbol = contract.symbol
    return [
        SettledRate(
            symbol, time, settled_pct(decimal(reported_rate(world.seed, symbol, *settled, now)))
        )
        for settled in world.settlements(contract, start, now)
        for time in settled[:1]
    ]


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
_SAMPLES = msgspec.msgpack.Decoder(list[VenuePast])
