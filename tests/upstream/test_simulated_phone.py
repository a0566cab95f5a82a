"""The demo's phone shows what arrives for ntfy and Telegram, and raises funding."""

import asyncio
import json
from pathlib import Path

import httpx2

from barograph.kit.operating_system import free_port
from barograph_demo.servers.control import HOST, send_command
from barograph_demo.servers.phone import running_phone

TELEGRAM = {
    "chat_id": "1",
    "text": '<b>BTC &lt;up&gt;</b>\n<a href="http://b.example/alerts/stop/a">Stop this alert</a>',
    "parse_mode": "HTML",
}
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
            await client.post(f"{phone.url}/bot1:demo/sendMessage", json=TELEGRAM),
            await client.post(phone.url, json=NTFY),
            await client.post(phone.url, content=json.dumps({"topic": "no message"})),
        ]
        page = (await client.get(phone.url)).text

    assert [each.status_code for each in sent] == [200, 200, 400]
    assert page.index("ntfy alerts") < page.index("Telegram 1")
    assert "BTC &lt;up&gt;\nStop this alert: <a href=" in page
    assert '<a href="http://b.example/alerts/stop/a">' in page
    assert '<img src="http://b.example/p.png"' in page
    assert "<script>" not in page


async def test_phone_that_is_down_takes_nothing(tmp_path: Path) -> None:
    port = free_port(HOST)
    async with running_phone(tmp_path, [], port) as phone, httpx2.AsyncClient() as client:
        command = {"fault": "outage", "on": True}
        await asyncio.to_thread(send_command, phone.url, command)
        assert (await client.post(phone.url, json=NTFY)).status_code == 503
        assert "ntfy alerts" not in (await client.get(phone.url)).text
