"""The demo's mail server captures every mail in a file."""

import stat
from email.message import EmailMessage
from pathlib import Path

import aiosmtplib
import pytest

from barograph.errors import ConfigurationError
from barograph_demo.servers.mailbox import FILE_NAME, CapturedMail, read_mailbox, running_mailbox

HOST = "127.0.0.1"
LINK = "https://barograph.example/keys/abc-_123"
CAPTURED = CapturedMail(
    sender="barograph@demo.example",
    to=["name@example.com"],
    subject="Your key, žluťoučký",
    date="Fri, 06 Nov 2026 21:20:00 +0000",
    text=f"Open\n{LINK}\n.\n..dots\n",
    links=[LINK],
)


def message() -> EmailMessage:
    written = EmailMessage()
    written["From"] = f"Barograph <{CAPTURED.sender}>"
    written["To"] = CAPTURED.to[0]
    written["Subject"] = CAPTURED.subject
    written["Date"] = CAPTURED.date
    written.set_content(CAPTURED.text)
    return written


async def test_mails_are_captured_across_restarts_for_their_owner_alone(tmp_path: Path) -> None:
    assert read_mailbox(tmp_path) == []
    for _ in range(2):
        async with running_mailbox(tmp_path) as port:
            await aiosmtplib.send(message(), hostname=HOST, port=port)

    file = tmp_path / FILE_NAME
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with file.open("ab") as still_written:
        still_written.write(b'{"from":"a@b.exam')
    assert read_mailbox(tmp_path) == [CAPTURED, CAPTURED]


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
async def test_a_malformed_mail_is_captured_too(tmp_path: Path, data: bytes) -> None:
    async with (
        running_mailbox(tmp_path) as port,
        aiosmtplib.SMTP(hostname=HOST, port=port) as client,
    ):
        await client.sendmail("a@b.example", "c@d.example", data)

    assert [mail.to for mail in read_mailbox(tmp_path)] == [["c@d.example"]]


def test_a_damaged_mailbox_is_reported_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("nonsense\n")
    with pytest.raises(ConfigurationError, match="delete it to start a new one"):
        read_mailbox(tmp_path)
