"""Every fault of the exchange ends in its documented outcome, over real HTTP and websockets.

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
SILENCING = {
    "502": "unreachable",
    "hang": "unreachable",
    "reset": "unreachable",
    "10016": "unreachable",
    "truncated": "unreachable",
    "empty-list": "invalid reply",
    "stale-clock": "invalid reply",
    "429": "throttled",
    "10006": "throttled",
    "403-json": "throttled",
    "403-html": "refused",
    "outage": "unreachable",
}
"""Faults that leave no reading at all, and the kind of failure that status names."""

Seen = dict[str, Any]


async def _silencing(stack: Stack, fault: str) -> Seen:
    """Break, wait past the bound, mend, wait for recovery."""
    stack.faults.turn_on(fault, stack.clock())
    await stack.until_data(502)

    async def named() -> bool:
        checks = (await stack.get("/api/status"))[1]["checks"]
        detail = next(each["detail"] for each in checks if each["name"] == "exchange")
        return SILENCING[fault] in detail

    await stack.until(named, "the failure in the status")
    _, status = await stack.get("/api/status")
    stack.faults.clear()
    stack.clock.ahead += HOUR_MS  # past every pause that the exchange asked for
    await stack.until_data(200)
    return {"status": status, "after": (await stack.get("/api/status"))[1]}


async def _delisting(stack: Stack, _fault: str) -> Seen:
    stack.faults.turn_on("delisting", stack.clock())

    async def gone() -> bool:
        return (await stack.get("/api/agent/derivatives?symbol=SOL"))[1].get("available") is False

    await stack.until(gone, "SOL unavailable")
    await stack.until_data(200)
    seen = {
        "SOL": (await stack.get("/api/agent/derivatives?symbol=SOL")),
        "market": (await stack.get("/api/agent/market")),
        "status": (await stack.get("/api/status"))[1],
    }
    stack.faults.clear()

    async def back() -> bool:
        return (await stack.get("/api/agent/derivatives?symbol=SOL"))[1].get("available") is True

    await stack.until(back, "SOL back")
    return seen


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


async def _unknown_topic(stack: Stack, fault: str) -> Seen:
    """Reconnect to a stream that doesn't know one of the listed contracts."""
    stack.faults.turn_on(fault, stack.clock())
    stack.faults.turn_on("stream-drop", stack.clock())
    await asyncio.sleep(1)
    stack.faults.turn_off("stream-drop")
    await _until_watching(stack)
    return {"state": (await stack.get("/api/agent/market-state"))[1]}


async def _unknown_class(stack: Stack, fault: str) -> Seen:
    stack.faults.turn_on(fault, stack.clock())

    async def named() -> bool:
        return "prediction" in str((await stack.get("/api/status"))[1]["checks"])

    await stack.until(named, "the unknown class in the status")
    return {"EURUSD": (await stack.get("/api/agent/derivatives?symbol=EURUSD"))[1]}


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
    **dict.fromkeys(SILENCING, _silencing),
    "delisting": _delisting,
    "unknown-topic": _unknown_topic,
    "unknown-class": _unknown_class,
    "stream-drop": _unwatched,
    "stream-silence": _unwatched,
    "stream-duplicates": _duplicates,
}


class Result:
    def __init__(self, seen: Seen, answers: list[tuple[str, int, dict[str, Any]]]) -> None:
        self.seen = seen
        self.answers = answers


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    a_few_at_once = asyncio.Semaphore(8)

    async def scenario(fault: str, folder: Path) -> tuple[str, Result]:
        ping_seconds = 20 if fault == "stream-duplicates" else 0.3
        async with a_few_at_once, running_stack(folder, ping_seconds) as stack:
            await stack.until_data(200)
            seen = await SCENARIOS[fault](stack, fault)
            return fault, Result(seen, stack.seen)

    async def everything() -> dict[str, Result]:
        runs = [scenario(fault, tmp_path_factory.mktemp("stack")) for fault in SCENARIOS]
        return dict(await asyncio.gather(*runs))

    return asyncio.run(everything())


@pytest.mark.outcome(
    "The exchange returns 502 or its own error 10016, hangs, resets connections, cuts its replies "
    "off or is unreachable",
    "502 after the freshness limit; status `down` (unreachable). "
    "Both end when the exchange recovers.",
)
@pytest.mark.outcome(
    "The exchange returns an empty list or repeats old data",
    "502 after the freshness limit; status `down` (invalid reply). "
    "Both end when the exchange recovers.",
)
@pytest.mark.outcome(
    "The exchange throttles the service (429 or 10006), or bans it for too many requests "
    "(403 JSON)",
    "502 after the freshness limit; status `down` (throttled). "
    "Both end when the exchange recovers.",
)
@pytest.mark.outcome(
    "The exchange refuses the service's region (403 HTML)",
    "502 after the freshness limit; status `down` (refused). Both end when the exchange recovers.",
)
@pytest.mark.parametrize("fault", SILENCING)
def test_failing_exchange_leads_to_502_and_a_named_failure(
    results: dict[str, Result], fault: str
) -> None:
    status = results[fault].seen["status"]
    checks = {check["name"]: check for check in status["checks"]}
    assert status["status"] == "down"
    assert status["feed"]["status"] == "down"
    assert checks["exchange"]["status"] == "degraded"
    assert SILENCING[fault] in checks["exchange"]["detail"]
    assert results[fault].seen["after"]["feed"]["status"] == "ok"


@pytest.mark.parametrize("fault", SCENARIOS)
def test_fault_never_yields_an_empty_success_or_an_undocumented_status(
    results: dict[str, Result], fault: str
) -> None:
    for path, status, body in results[fault].answers:
        assert status in {200, 502}, (path, status)
        if status == 502:
            assert list(body) == ["error"]
        elif "symbol=BTC" in path:
            assert body["available"] is True
            assert body["lastPrice"] > 0
        elif path.endswith("/market"):
            bitcoin = body["assets"][0]
            assert bitcoin["available"] is True
            assert bitcoin["lastPrice"] > 0


@pytest.mark.outcome(
    "The exchange delists a contract",
    "`available: false` with null numbers. Everything else goes on.",
)
def test_delisted_contract_becomes_unavailable_and_comes_back(results: dict[str, Result]) -> None:
    seen = results["delisting"].seen
    status, record = seen["SOL"]
    assert status == 200
    assert record["available"] is False
    assert record["lastPrice"] is None
    _, market = seen["market"]
    assert [asset["available"] for asset in market["assets"]] == [True, True, False]


@pytest.mark.parametrize("fault", ["stream-drop", "stream-silence"])
@pytest.mark.outcome(
    "The liquidation stream drops or falls silent",
    "That time doesn't count as covered; below 95 % `liq24h` is unavailable. It reconnects.",
)
def test_unwatched_time_makes_liquidations_unavailable(
    results: dict[str, Result], fault: str
) -> None:
    seen = results[fault].seen
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
def test_duplicate_batches_count_once(results: dict[str, Result]) -> None:
    seen = results["stream-duplicates"].seen
    rows = seen["rows"]
    assert len(rows) > 1
    assert len(set(rows)) == len(rows)
    assert seen["state"]["liq24h"]["available"] is True
    assert seen["state"]["liq24h"]["totalNotional"] == pytest.approx(_total(rows))


@pytest.mark.outcome(
    "The liquidation stream refuses the topic of one contract",
    "The collector leaves that contract out and watches all others.",
)
def test_refused_topic_leaves_the_others_watched(results: dict[str, Result]) -> None:
    assert results["unknown-topic"].seen["state"]["liq24h"]["available"] is True


@pytest.mark.outcome(
    "The exchange gives contracts a class that we don't know",
    "The collector leaves them out until a new version knows the class. `/api/status` names it.",
)
def test_contract_of_an_unknown_class_is_unavailable(results: dict[str, Result]) -> None:
    assert results["unknown-class"].seen["EURUSD"]["available"] is False
