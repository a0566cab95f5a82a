"""Every fault of the liquidation stream ends in its documented outcome, over real connections.

The scenarios run side by side in one event loop, each with an exchange, a collector and a web
side of its own; the tests then look at what was seen.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from barograph.kit.database import Row, Transaction
from support.stack import Stack, running_stack

pytestmark = pytest.mark.thorough

HOUR_MS = 3_600_000
Seen = dict[str, Any]


async def _unwatched(stack: Stack, fault: str) -> Seen:
    """Break the stream for two hours of the clock: the gap can never be refilled."""
    stack.faults.turn_on(fault, stack.clock())
    await asyncio.sleep(1)
    stack.clock.ahead += 2 * HOUR_MS
    await stack.until_data(200)

    async def unavailable() -> bool:
        status, body = await stack.get("/api/agent/market-state")
        return status == 200 and body["liq24h"]["available"] is False

    await stack.until(unavailable, "liq24h unavailable")
    _, state = await stack.get("/api/agent/market-state")
    _, during = await stack.get("/api/status")
    stack.faults.clear()
    await _until_watching(stack)
    return {"state": state, "status": during}


async def _until_watching(stack: Stack) -> None:
    start = stack.clock()

    async def watching() -> bool:
        rows = await stack.database.read(_newest_watched)
        return bool(rows[0][0] > start)

    await stack.until(watching, "time that is watched from now on")


async def _duplicates(stack: Stack, _fault: str) -> Seen:
    """Let time run fast until liquidations came, each batch twice and on both connections."""
    stack.faults.turn_on("stream-duplicates", stack.clock())

    async def heard() -> bool:
        stack.clock.ahead += 20_000
        return len(await stack.database.read(_recorded_liquidations)) > 1

    await stack.until(heard, "liquidations")
    stack.faults.clear()
    stack.faults.turn_on("stream-drop", stack.clock())

    async def settled() -> bool:
        code, state = await stack.get("/api/agent/market-state")
        rows = await stack.database.read(_recorded_liquidations)
        return code == 200 and state["liq24h"]["totalNotional"] == pytest.approx(_total(rows))

    await stack.until(settled, "a total that counts each recorded liquidation once")
    _, state = await stack.get("/api/agent/market-state")
    return {"state": state, "rows": await stack.database.read(_recorded_liquidations)}


def _total(rows: list[Row]) -> float:
    return float(sum(round(100 * size * price) for _, _, _, size, price in rows)) / 100


async def _newest_watched(tx: Transaction) -> list[Row]:
    return await tx.fetch("SELECT max(end_at) FROM watched_spans")


async def _recorded_liquidations(tx: Transaction) -> list[Row]:
    return await tx.fetch("SELECT at, contract, side, size, price FROM liquidations")


SCENARIOS: Mapping[str, Callable[[Stack, str], Awaitable[Seen]]] = {
    "stream-drop": _unwatched,
    "stream-silence": _unwatched,
    "stream-duplicates": _duplicates,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    async def scenario(fault: str, folder: Path) -> Seen:
        ping_seconds = 20 if fault == "stream-duplicates" else 0.3
        async with running_stack(folder, ping_seconds) as stack:
            await stack.until_data(200)
            return await SCENARIOS[fault](stack, fault)

    async def everything() -> dict[str, Seen]:
        runs = [scenario(fault, tmp_path_factory.mktemp("stack")) for fault in SCENARIOS]
        return dict(zip(SCENARIOS, await asyncio.gather(*runs), strict=True))

    return asyncio.run(everything())


@pytest.mark.parametrize("fault", ["stream-drop", "stream-silence"])
@pytest.mark.outcome(
    "The liquidation stream drops or falls silent",
    "That time doesn't count as covered; below 95 % `liq24h` is unavailable. It reconnects.",
)
def test_unwatched_time_makes_liquidations_unavailable(
    results: dict[str, Seen], fault: str
) -> None:
    seen = results[fault]
    assert seen["state"]["liq24h"] == {
        "available": False,
        "totalNotional": None,
        "longPct": None,
        "topAsset": None,
    }
    assert seen["status"]["feed"]["liquidation_coverage_pct"] < 95
    checks = {check["name"]: check["status"] for check in seen["status"]["checks"]}
    assert checks["liquidations"] == "degraded"
    assert checks["market-feed"] == "ok"


@pytest.mark.outcome(
    "A liquidation batch arrives twice",
    "Each liquidation counts once.",
)
def test_duplicate_batches_count_once(results: dict[str, Seen]) -> None:
    seen = results["stream-duplicates"]
    rows = seen["rows"]
    assert len(rows) > 1
    assert len(set(rows)) == len(rows)
    assert seen["state"]["liq24h"]["available"] is True
    assert seen["state"]["liq24h"]["totalNotional"] == pytest.approx(_total(rows))
