"""The demo's phone: a page with every captured mail, and with what arrived for ntfy.

Register `http://HOST:PORT/TOPIC` with the format `ntfy`.
"""

import asyncio
import re
from asyncio import StreamReader
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from websockets.http11 import Response

from barograph.kit.clock import Clock, system_clock
from barograph.kit.timestamps import SECOND
from barograph_demo.servers.control import (
    HOST,
    HTML,
    ServerAddress,
    reply,
    send_command,
    unavailable,
)
from barograph_demo.servers.faults import SQUEEZE, Faults
from barograph_demo.servers.http import BodyRequest, BodyServer
from barograph_demo.servers.mailbox import read_mailbox

_KEPT: Final = 50
_LINK: Final = re.compile(r"https?://[^\s<>&\"]+")
_PAGE: Final = """<!doctype html><html lang=en><meta charset=utf-8><title>Demo phone</title>
<meta name=viewport content="width=device-width"><meta http-equiv=refresh content="2;url=/">
<style>body{{font:16px/1.4 sans-serif;max-width:40rem;margin:2rem auto;padding:0 1rem}}
article{{border-top:1px solid #bbb;padding:.5rem 0;white-space:pre-wrap;overflow-wrap:anywhere}}
img{{max-width:100%}}form{{display:inline}}</style>
<h1>Demo phone</h1><p>Everything here is simulated. The page refreshes itself.
<p><form method=post action=/squeeze/on><button>Squeeze: raise BTC funding</button></form>
<form method=post action=/squeeze/off><button>End the squeeze</button></form>
<p>A target for alerts, with the format ntfy: <code>{base}/alerts</code>{shown}</html>
"""


class PhoneFaults(Faults):
    """The active faults of the phone."""

    names = ("outage",)
    last_replacing = "outage"


class _Action(msgspec.Struct):
    label: str
    url: str


class _Ntfy(msgspec.Struct):
    """https://docs.ntfy.sh/publish/#publish-as-json."""

    topic: str
    message: str
    title: str = ""
    click: str = ""
    attach: str = ""
    actions: list[_Action] = []


class Arrived(NamedTuple):
    """A message, as the phone shows it."""

    at: datetime
    way: str
    text: str
    picture: str = ""


class PhoneServer(BodyServer[PhoneFaults]):
    """Stands in for ntfy; `venues` are the places of the simulated exchanges."""

    def __init__(self, mailbox: Path, venues: Sequence[str], base_url: str, clock: Clock) -> None:
        super().__init__(clock, PhoneFaults())
        self._mailbox = mailbox
        self._venues = venues
        self._base_url = base_url
        self._arrived: deque[Arrived] = deque(maxlen=_KEPT)

    async def respond(self, request: BodyRequest, _client: StreamReader) -> Response | None:
        """Show the page, switch the squeeze, or take a message."""
        self.requests[request.method] += 1
        if request.method == "GET":
            return reply(HTTPStatus.OK, self._page().encode(), HTML)
        if request.path.startswith("/squeeze/"):
            command = {"fault": SQUEEZE, "on": request.path.endswith("on")}
            for venue in self._venues:
                await asyncio.to_thread(send_command, venue, command)
            return reply(HTTPStatus.SEE_OTHER, b"", HTML, Location="/")
        if self._faults.replacing():
            return unavailable()
        try:
            self._arrived.append(_read(request, datetime.fromtimestamp(self._now, UTC)))
        except msgspec.MsgspecError as error:
            return reply(HTTPStatus.BAD_REQUEST, msgspec.json.encode({"description": str(error)}))
        return reply(HTTPStatus.OK, b'{"ok": true}')

    @property
    def _now(self) -> float:
        return self._clock() / SECOND

    def _page(self) -> str:
        mails = [
            Arrived(
                *(parsedate_to_datetime(mail.date), "mail", f"{mail.subject}\n\n{mail.text}"),
                f"data:image/png;base64,{mail.picture}" if mail.picture else "",
            )
            for mail in read_mailbox(self._mailbox)[-_KEPT:]
        ]
        newest = sorted([*mails, *self._arrived], key=lambda each: each.at, reverse=True)
        shown = "".join(map(_shown, newest)) or "<p>Nothing has arrived yet."
        return _PAGE.format(base=self._base_url, shown=shown)


def _read(request: BodyRequest, now: datetime) -> Arrived:
    note = msgspec.json.decode(request.body, type=_Ntfy)
    links = [f"{each.label}: {each.url}" for each in note.actions]
    text = "\n".join([note.title, note.message, note.click, *links])
    return Arrived(now, f"ntfy {note.topic}", text, note.attach)


def _shown(each: Arrived) -> str:
    text = _LINK.sub(r'<a href="\g<0>">\g<0></a>', escape(each.text))
    picture = f'\n<img src="{escape(each.picture)}" alt="chart">' if each.picture else ""
    return f"<article><b>{escape(each.way)}</b> {each.at:%H:%M:%S}\n{text}{picture}</article>"


@asynccontextmanager
async def running_phone(
    mailbox: Path, venues: Sequence[str], port: int, clock: Clock = system_clock
) -> AsyncIterator[ServerAddress]:
    """Run a phone until the context ends."""
    address = ServerAddress(HOST, port)
    async with PhoneServer(mailbox, venues, address.url, clock).running(HOST, port):
        yield address
