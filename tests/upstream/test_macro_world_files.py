"""The published files over real loopback connections: as the adapters read them, and each fault."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx2
import msgspec
import pytest
from websockets.asyncio.client import connect

from barograph.collector.app import macro_sources
from barograph.errors import InvalidReply
from barograph.settings import Settings
from barograph.upstream.etf import decode_holdings
from barograph.upstream.files import FileClient
from barograph.upstream.interest_rates import decode_effr, decode_sofr, decode_yields
from barograph_demo.servers.control import ServerAddress, send_command
from barograph_demo.servers.faults import MacroFault, MacroFaults
from barograph_demo.servers.macro_files import FUND_PATH, TREASURY_PATH, answer
from barograph_demo.servers.macro_server import running_macro
from barograph_demo.world.macro import MacroWorld
from barograph_demo.world.world import World

DAY = 86_400_000
EPOCH = 1_789_999_200_000
NOW = EPOCH + 60 * DAY
MACRO = MacroWorld(World(7, EPOCH))

TREASURY = f"{TREASURY_PATH}/2026/all?type=daily_treasury_yield_curve&_format=csv"
SOFR = "/api/rates/secured/sofr/last/30.json"
EFFR = "/api/rates/unsecured/effr/last/30.json"
ADDRESSES = {"treasury": TREASURY, "sofr": SOFR, "effr": EFFR, "etf": FUND_PATH}
PATIENCE = 30.0

T = TypeVar("T")


class Client:
    """What a test needs of a running server of files."""

    def __init__(self, address: ServerAddress, http: httpx2.AsyncClient) -> None:
        self.address = address
        self.http = http

    async def get(self, file: str) -> httpx2.Response:
        return await self.http.get(ADDRESSES[file])

    async def bodies(self) -> dict[str, bytes]:
        return {file: (await self.get(file)).content for file in ADDRESSES}

    async def command(self, **command: object) -> dict[str, Any]:
        async with connect(self.address.control_url, proxy=None) as control:
            await control.send(msgspec.json.encode(command).decode())
            return msgspec.json.decode(await control.recv(), type=dict[str, Any])

    async def until_asked(self, file: str) -> None:
        while file not in (await self.command(count=True))["requests"]:
            pass

    async def fault(self, name: str, on: bool = True, **limits: object) -> list[str]:
        reply = await self.command(fault=name, on=on, **limits)
        assert reply["ok"], reply
        active: list[str] = reply["active"]
        return active


@asynccontextmanager
async def server(faults: MacroFaults | None = None) -> AsyncIterator[Client]:
    async with (
        running_macro(MACRO, faults, clock=lambda: NOW) as address,
        httpx2.AsyncClient(
            base_url=address.url, trust_env=False, verify=False, timeout=PATIENCE
        ) as http,
    ):
        yield Client(address, http)


def during(scenario: Callable[[Client], Awaitable[T]]) -> T:
    async def run() -> T:
        async with server() as client:
            return await asyncio.wait_for(scenario(client), 4 * PATIENCE)

    return asyncio.run(run())


def at(time: int) -> dict[str, bytes]:
    """The files as they stood at a time."""
    found = {}
    for file, address in ADDRESSES.items():
        url = httpx2.URL(address)
        found[file] = answer(MACRO, url.path, dict(url.params), time).body
    return found


def test_every_file_is_served_as_of_now() -> None:
    async def scenario(client: Client) -> tuple[dict[str, bytes], dict[str, str]]:
        kinds = {file: (await client.get(file)).headers["content-type"] for file in ADDRESSES}
        return await client.bodies(), kinds

    bodies, kinds = during(scenario)
    assert bodies == at(NOW)
    assert kinds == {
        "treasury": "text/csv; charset=UTF-8",
        "sofr": "application/json",
        "effr": "application/json",
        "etf": "text/csv; charset=UTF-8",
    }


def test_the_adapters_read_the_worlds_figures() -> None:
    bodies = during(lambda client: client.bodies())
    curve, sofr, effr = MACRO.curves(NOW)[-1], MACRO.sofr(NOW)[-1], MACRO.effr(NOW)[-1]
    fund = MACRO.fund(NOW)[-1]
    yields = decode_yields(bodies["treasury"], 2026, "simulated")
    newest = {each.series: each.value for each in yields if each.day == curve.day.isoformat()}
    assert newest == {
        "us3m": curve.yields[3],
        "us2y": curve.yields[7],
        "us10y": curve.yields[11],
    }
    assert decode_sofr(bodies["sofr"], "simulated")[-1].value == sofr.rate
    rates = {each.series: each.value for each in decode_effr(bodies["effr"], "simulated")[-3:]}
    assert rates == {"effr": effr.rate, "effr-low": effr.low, "effr-high": effr.high}
    held = {each.series: each.value for each in decode_holdings(bodies["etf"], "IBIT", "simulated")}
    assert held["etf-ibit-shares"] == fund.shares
    assert held["etf-ibit-btc"] == fund.coins
    assert held["etf-ibit-aum"] == fund.net_assets
    assert held["etf-ibit-nav"] == pytest.approx(fund.nav, abs=1e-4)


def test_every_reading_asks_each_publisher_once() -> None:
    readings = 3

    async def scenario(client: Client) -> dict[str, int]:
        url = client.address.url
        settings = Settings(rates_url=url, etf_url=url + FUND_PATH)
        files = FileClient(seconds=PATIENCE, clock=lambda: NOW)
        for source in macro_sources(settings, files, clock=lambda: NOW):
            for _ in range(readings):
                assert await source.read()
        await files.close()
        counted: dict[str, int] = (await client.command(count=True))["requests"]
        return counted

    assert during(scenario) == dict.fromkeys(ADDRESSES, readings)


def test_incomplete_files_are_invalid_to_the_adapters() -> None:
    async def scenario(client: Client) -> dict[str, bytes]:
        await client.fault("missing-columns")
        return await client.bodies()

    bodies = during(scenario)
    with pytest.raises(InvalidReply):
        decode_yields(bodies["treasury"], 2026, "simulated")
    with pytest.raises(InvalidReply):
        decode_sofr(bodies["sofr"], "simulated")
    with pytest.raises(InvalidReply):
        decode_effr(bodies["effr"], "simulated")
    with pytest.raises(InvalidReply):
        decode_holdings(bodies["etf"], "IBIT", "simulated")


@pytest.mark.parametrize("days", [None, 3])
def test_late_files_are_some_days_old(days: int | None) -> None:
    async def scenario(client: Client) -> tuple[list[str], dict[str, bytes]]:
        return await client.fault("late", days=days), await client.bodies()

    labels, bodies = during(scenario)
    assert labels == [f"late by {days or 7} days"]
    assert bodies == at(NOW - (days or 7) * DAY)
    assert bodies != at(NOW)


def test_a_fault_can_be_limited_to_one_file() -> None:
    async def scenario(client: Client) -> tuple[list[str], dict[str, bytes], dict[str, bytes]]:
        labels = await client.fault("late", path="sofr", days=5)
        limited = await client.bodies()
        await client.fault("late", on=False)
        return labels, limited, await client.bodies()

    labels, limited, mended = during(scenario)
    assert labels == ["late by 5 days on sofr"]
    assert limited == at(NOW) | {"sofr": at(NOW - 5 * DAY)["sofr"]}
    assert mended == at(NOW)


def test_revised_values_differ_from_what_was_published() -> None:
    async def scenario(client: Client) -> tuple[dict[str, bytes], dict[str, bytes]]:
        await client.fault("revised")
        revised = await client.bodies()
        await client.command(off="all")
        return revised, await client.bodies()

    revised, mended = during(scenario)
    assert mended == at(NOW)
    assert all(revised[file] != mended[file] for file in ADDRESSES)
    before, after = (decode_sofr(each["sofr"], "simulated") for each in (mended, revised))
    assert [reading.day for reading in before] == [reading.day for reading in after]
    assert after[-1].value - before[-1].value == pytest.approx(0.02)
    assert before[:-1] == after[:-1]
    shares = decode_holdings(revised["etf"], "IBIT", "simulated")[0].value
    assert shares == MACRO.fund(NOW)[-1].shares + 1_000_000


def test_the_html_fault_serves_a_page_in_place_of_data() -> None:
    async def scenario(client: Client) -> httpx2.Response:
        await client.fault("html")
        return await client.get("etf")

    response = during(scenario)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    with pytest.raises(InvalidReply):
        decode_holdings(response.content, "IBIT", "simulated")


def test_an_outage_answers_503_and_ends() -> None:
    async def scenario(client: Client) -> tuple[int, int]:
        await client.fault("outage")
        broken = (await client.get("treasury")).status_code
        await client.fault("outage", on=False)
        return broken, (await client.get("treasury")).status_code

    assert during(scenario) == (503, 200)


def test_a_reset_ends_the_connection() -> None:
    async def scenario(client: Client) -> None:
        await client.fault("reset")
        with pytest.raises(httpx2.TransportError):
            await client.get("effr")

    during(scenario)


def test_a_hanging_request_is_answered_when_the_fault_ends() -> None:
    async def scenario(client: Client) -> tuple[bool, int]:
        await client.fault("hang")
        request = asyncio.ensure_future(client.get("sofr"))
        await client.until_asked("sofr")
        hung = not request.done()
        await client.fault("hang", on=False)
        return hung, (await request).status_code

    assert during(scenario) == (True, 200)


def test_a_server_ends_although_a_request_hangs() -> None:
    async def run() -> None:
        faults = MacroFaults()
        faults.turn_on("hang", NOW)
        async with server(faults) as client:
            request = asyncio.ensure_future(client.get("sofr"))
            await client.until_asked("sofr")
        with pytest.raises(httpx2.HTTPError):
            await request

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ({"fault": "flood", "on": True}, ", ".join(MacroFault)),
        ({"fault": "late", "on": True, "path": "cpi"}, "treasury, sofr, effr, etf"),
        ({"fault": "html", "on": True, "days": 3}, "late takes one or more"),
        ({"fault": "late", "on": True, "days": 0}, "late takes one or more"),
        ({"fault": "late", "on": "yes"}, "a command is"),
        ({}, "a command is"),
    ],
)
def test_an_unknown_command_lists_the_known_ones(
    command: dict[str, object], complaint: str
) -> None:
    reply = during(lambda client: client.command(**command))
    assert reply["ok"] is False
    assert complaint in reply["error"]


def test_another_process_can_command_by_host_and_port() -> None:
    async def scenario(client: Client) -> dict[str, object]:
        place = f"{client.address.host}:{client.address.port}"
        return await asyncio.to_thread(send_command, place, {"fault": "late", "on": True})

    assert during(scenario) == {"ok": True, "active": ["late by 7 days"]}


def test_the_strongest_fault_wins_and_each_is_known_by_name() -> None:
    faults = MacroFaults()
    for name in MacroFault:
        faults.turn_on(name, NOW)
    assert faults.replacing("sofr") == "hang"
    assert len(faults.labels) == len(MacroFault)
    faults.clear()
    assert faults.replacing("sofr") is None


def test_a_path_that_is_no_file_is_not_found() -> None:
    async def scenario(client: Client) -> tuple[int, dict[str, Any]]:
        status = (await client.http.get("/robots.txt")).status_code
        return status, (await client.command(count=True))["requests"]

    assert during(scenario) == (404, {"other": 1})
