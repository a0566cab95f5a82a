"""The demo's phone shows what arrives for ntfy, and raises funding."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
from click.testing import CliRunner
from pydantic import SecretStr

from barograph.keys.outbox import Mail
from barograph.kit.operating_system import free_port
from barograph.kit.timestamps import HOUR
from barograph.settings import Settings
from barograph.upstream.mail import SmtpSender
from barograph_demo.commands import demo
from barograph_demo.servers.control import HOST, send_command
from barograph_demo.servers.mailbox import running_mailbox
from barograph_demo.servers.phone import running_phone
from barograph_demo.servers.registry import VENUE_SERVERS
from barograph_demo.world.world import World
from support.clock import START, HandClock

ON = {"fault": "outage", "on": False}
"""Changes nothing; the reply says which faults are on."""

NTFY = {
    "topic": "alerts",
    "title": "<script>",
    "message": "a line",
    "actions": [{"action": "view", "label": "Stop", "url": "http://b.example/alerts/stop/b"}],
    "attach": "http://b.example/p.png",
}


async def test_phone_shows_messages_newest_first_without_their_markup(tmp_path: Path) -> None:
    port = free_port(HOST)
    async with running_phone(tmp_path, [], port) as phone, httpx2.AsyncClient() as client:
        sent = [
            await client.post(phone.url, json={**NTFY, "topic": "first"}),
            await client.post(phone.url, json=NTFY),
            await client.post(phone.url, content=json.dumps({"topic": "no message"})),
        ]
        page = (await client.get(phone.url)).text

    assert [each.status_code for each in sent] == [200, 200, 400]
    assert page.index("ntfy alerts") < page.index("ntfy first")
    assert 'Stop: <a href="http://b.example/alerts/stop/b">' in page
    assert '<img src="http://b.example/p.png"' in page
    assert "<script>" not in page


async def test_phone_shows_mails_with_their_picture(tmp_path: Path) -> None:
    mail = Mail("1", "a@b.example", "BTC up", "A line.\n", 0, 0, picture=b"\x89PNG")
    async with running_mailbox(tmp_path) as mail_port, httpx2.AsyncClient() as client:
        settings = Settings(
            smtp_url=SecretStr(f"smtp://{HOST}:{mail_port}"), mail_from="barograph@b.example"
        )
        await SmtpSender(settings, clock=HandClock()).send(mail)
        async with running_phone(tmp_path, [], free_port(HOST)) as phone:
            page = (await client.get(phone.url)).text
    assert "BTC up\n\nA line." in page
    assert '<img src="data:image/png;base64,iVBORw=="' in page


async def test_phone_that_is_down_takes_nothing(tmp_path: Path) -> None:
    port = free_port(HOST)
    async with running_phone(tmp_path, [], port) as phone, httpx2.AsyncClient() as client:
        command = {"fault": "outage", "on": True}
        await asyncio.to_thread(send_command, phone.url, command)
        assert (await client.post(phone.url, json=NTFY)).status_code == 503
        assert "ntfy alerts" not in (await client.get(phone.url)).text


async def test_squeeze_raises_btc_funding_at_every_exchange_by_button_and_by_command(
    tmp_path: Path,
) -> None:
    world, clock = World(1, START // HOUR * HOUR), HandClock()
    async with AsyncExitStack() as stack:
        servers = {
            "exchange" if name == "bybit" else name: await stack.enter_async_context(
                venue.running(world, clock)
            )
            for name, venue in VENUE_SERVERS.items()
        }
        places = {name: f"{each.host}:{each.port}" for name, each in servers.items()}
        (tmp_path / "demo.json").write_text(json.dumps(places))
        running = running_phone(tmp_path, list(places.values()), free_port(HOST))
        phone = await stack.enter_async_context(running)
        client = await stack.enter_async_context(httpx2.AsyncClient())

        async def squeezed() -> list[bool]:
            replies = await asyncio.gather(
                *(asyncio.to_thread(send_command, each, ON) for each in places.values())
            )
            return ["squeeze" in str(each["active"]) for each in replies]

        async def rate() -> float:
            query = {"category": "linear", "symbol": "BTCUSDT"}
            url = f"{servers['exchange'].url}/v5/market/tickers"
            [row] = (await client.get(url, params=query)).json()["result"]["list"]
            return float(row["fundingRate"])

        usual = await rate()
        await client.post(f"{phone.url}/squeeze/on")
        assert (await rate(), await squeezed()) == (0.0008, [True] * 5)
        command = ["fault", "squeeze", "off", "--data", str(tmp_path)]
        ended = await asyncio.to_thread(CliRunner().invoke, demo, command)
        assert (ended.output, await squeezed()) == ("squeeze: off\n", [False] * 5)
        assert await rate() == usual
