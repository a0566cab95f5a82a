"""The demo's mail server, with the clients that others use."""

import asyncio
import smtplib
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Self

import aiosmtplib
import pytest

from barograph.errors import ConfigurationError
from barograph_demo.servers.mailbox import (
    FILE_NAME,
    MAX_MAIL_BYTES,
    CapturedMail,
    read_mailbox,
    running_mailbox,
)

HOST = "127.0.0.1"
LINK = "https://barograph.example/keys/abc-_123"


class Mailbox:
    """A server on a loop of its own, because smtplib blocks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.port = 0

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        async with running_mailbox(self.folder) as self.port:
            self._started.set()
            await self._stopped.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def read(self) -> list[CapturedMail]:
        return read_mailbox(self.folder)

    @contextmanager
    def talk(self) -> Iterator["Talk"]:
        with socket.create_connection((HOST, self.port), timeout=10) as connection:
            talk = Talk(connection)
            assert talk.answer().startswith("220 ")
            yield talk


class Talk:
    """A client that says exactly what it is told to say."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")

    def say(self, line: str | bytes) -> int:
        raw = line if isinstance(line, bytes) else line.encode() + b"\r\n"
        self._connection.sendall(raw)
        return int(self.answer()[:3])

    def answer(self) -> str:
        while (line := self._file.readline()) and line[3:4] == b"-":
            pass
        return line.decode()

    def close(self) -> None:
        self._file.close()


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[Mailbox]:
    with Mailbox(tmp_path) as running:
        yield running


def message(text: str = f"Open\n{LINK}\n") -> EmailMessage:
    written = EmailMessage()
    written["From"] = "Barograph <barograph@demo.example>"
    written["To"] = "name@example.com"
    written["Subject"] = "Your key, žluťoučký"
    written["Date"] = "Fri, 06 Nov 2026 21:20:00 +0000"
    written.set_content(text)
    return written


CAPTURED = CapturedMail(
    sender="barograph@demo.example",
    to=["name@example.com"],
    subject="Your key, žluťoučký",
    date="Fri, 06 Nov 2026 21:20:00 +0000",
    text=f"Open\n{LINK}\n",
    links=[LINK],
)


def test_a_mail_from_smtplib_is_captured(mailbox: Mailbox) -> None:
    assert mailbox.read() == []
    with smtplib.SMTP(HOST, mailbox.port, timeout=10) as client:
        client.send_message(message())
        client.send_message(message())

    assert mailbox.read() == [CAPTURED, CAPTURED]


def test_a_mail_from_aiosmtplib_is_captured(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_mailbox(tmp_path) as port:
            await aiosmtplib.send(message(), hostname=HOST, port=port)

    asyncio.run(scenario())
    assert read_mailbox(tmp_path) == [CAPTURED]


def test_only_the_owner_can_read_what_was_captured(mailbox: Mailbox) -> None:
    with smtplib.SMTP(HOST, mailbox.port, timeout=10) as client:
        client.send_message(message())
    assert stat.S_IMODE((mailbox.folder / FILE_NAME).stat().st_mode) == 0o600


def test_lines_that_begin_with_dots_arrive_as_they_were(mailbox: Mailbox) -> None:
    text = ".\n..\n...x\n. y\nend\n"
    with smtplib.SMTP(HOST, mailbox.port, timeout=10) as client:
        client.send_message(message(text))
    assert mailbox.read()[0].text == text


def test_mails_survive_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        with Mailbox(tmp_path) as mailbox, smtplib.SMTP(HOST, mailbox.port, timeout=10) as client:
            client.send_message(message())
    assert read_mailbox(tmp_path) == [CAPTURED, CAPTURED]


def test_a_mail_that_is_too_large_is_refused_and_the_next_is_taken(mailbox: Mailbox) -> None:
    with mailbox.talk() as talk:
        talk.say("EHLO client")
        line = b"x" * 998 + b"\r\n"
        for lines, code in ((MAX_MAIL_BYTES // len(line) + 1, 552), (3, 250)):
            talk.say("MAIL FROM:<a@b.example>")
            talk.say("RCPT TO:<c@d.example>")
            talk.say("DATA")
            assert talk.say(b"\r\n" + line * lines + b".\r\n") == code
        talk.close()
    assert len(mailbox.read()) == 1


def test_an_incomplete_mail_is_not_captured(mailbox: Mailbox) -> None:
    with mailbox.talk() as talk:
        talk.say("EHLO client")
        talk.say("MAIL FROM:<a@b.example>")
        talk.say("RCPT TO:<c@d.example>")
        assert talk.say("DATA") == 354
        talk._connection.sendall(b"Subject: half\r\n\r\nnot yet\r\n")
        talk.close()
    with mailbox.talk() as talk:
        assert talk.say("NOOP") == 250
        talk.close()
    assert mailbox.read() == []


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\x00",
        b"Subject: \xff\xfe\r\n\r\n\xff\xfe",
        b"Subject: =?utf-8?q?=ff?=\r\nDate: nonsense\r\nTo: <<<>>>,,;\r\n\r\nx",
        b"Content-Type: text/plain; charset=nobody-knows\r\n\r\n\xff",
        b"Content-Type: multipart/mixed\r\n\r\nno parts",
        b"Content-Type: application/octet-stream\r\n\r\nx",
        b"Content-Transfer-Encoding: base64\r\n\r\n!!!",
        b"Content-Type: text/plain; charset=utf-16-le\r\n\r\n\x00\xd8",
    ],
)
def test_a_malformed_mail_is_captured_too(mailbox: Mailbox, data: bytes) -> None:
    with mailbox.talk() as talk:
        talk.say("EHLO client")
        talk.say("MAIL FROM:<a@b.example>")
        talk.say("RCPT TO:<c@d.example>")
        talk.say("DATA")
        assert talk.say(data + b"\r\n.\r\n") == 250
        talk.close()
    assert [mail.to for mail in mailbox.read()] == [["c@d.example"]]


def test_a_line_that_is_still_being_written_is_not_read(tmp_path: Path) -> None:
    with Mailbox(tmp_path) as mailbox, smtplib.SMTP(HOST, mailbox.port, timeout=10) as client:
        client.send_message(message())
    with (tmp_path / FILE_NAME).open("ab") as file:
        file.write(b'{"from":"a@b.exam')
    assert read_mailbox(tmp_path) == [CAPTURED]


def test_a_damaged_mailbox_is_reported_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("nonsense\n")
    with pytest.raises(ConfigurationError, match="delete it to start a new one"):
        read_mailbox(tmp_path)


def test_the_server_stops_while_clients_are_connected(tmp_path: Path) -> None:
    with Mailbox(tmp_path) as mailbox:
        connection = socket.create_connection((HOST, mailbox.port), timeout=10)
        assert connection.recv(3) == b"220"
    connection.close()
