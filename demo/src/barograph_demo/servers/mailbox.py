"""The demo's mail server: accepts every mail, delivers none, and appends each to a file."""

import asyncio
import os
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default as mail_rules
from pathlib import Path
from typing import Final

import msgspec
from aiosmtpd.smtp import SMTP, Envelope, Session

from barograph.errors import ConfigurationError

FILE_NAME: Final = "mailbox.jsonl"
MAX_MAIL_BYTES: Final = 1 << 20

_NAME: Final = "mailbox.demo"
_IDLE_SECONDS: Final = 60.0
_LINK: Final = re.compile(r"https?://[^\s<>\"]+", re.ASCII)


class CapturedMail(msgspec.Struct, frozen=True, omit_defaults=True):
    """A captured mail; `sender` and `to` are the envelope's."""

    sender: str = msgspec.field(name="from")
    to: list[str]
    subject: str
    date: str
    text: str
    links: list[str]
    picture: str = ""
    """The attached PNG in base64."""


def read_mailbox(folder: Path) -> list[CapturedMail]:
    """Every captured mail, oldest first.

    Raises:
        ConfigurationError: the file is damaged.
    """
    file = folder / FILE_NAME
    try:
        # A line without a newline is still being written.
        lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
        return [msgspec.json.decode(line, type=CapturedMail) for line in lines]
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(
            f"can't read {file} as a mailbox ({error}); delete it to start a new one"
        ) from error


@asynccontextmanager
async def running_mailbox(
    folder: Path, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[int]:
    """Run a mail server until the context ends. Yields the port; 0 picks a free one.

    Raises:
        OSError: the port is taken.
    """
    loop = asyncio.get_running_loop()
    handler = _Handler(folder / FILE_NAME)

    def session() -> SMTP:
        return SMTP(
            handler,
            data_size_limit=MAX_MAIL_BYTES,
            hostname=_NAME,
            ident="accepts every mail and delivers none",
            timeout=_IDLE_SECONDS,
            loop=loop,
        )

    server = await loop.create_server(session, host, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


class _Handler:
    def __init__(self, file: Path) -> None:
        self._file = file

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self, _server: SMTP, _session: Session, envelope: Envelope
    ) -> str:
        assert isinstance(envelope.content, bytes)
        mail = _read_mail(envelope.mail_from or "", envelope.rcpt_tos, envelope.content)
        _append(self._file, msgspec.json.encode(mail) + b"\n")
        return "250 accepted"


def _read_mail(sender: str, recipients: list[str], data: bytes) -> CapturedMail:
    message = message_from_bytes(data, policy=mail_rules)
    text = _text(message)
    return CapturedMail(
        sender=sender,
        to=recipients,
        subject=_clean(message.get("Subject", "")),
        date=_clean(message.get("Date", "")),
        text=text,
        links=_LINK.findall(text),
        picture=next(map(_base64, _pictures(message)), ""),
    )


def _text(message: EmailMessage) -> str:
    part = message.get_body(("plain",))
    if part is None:
        return ""
    try:
        return _clean(part.get_content())
    except (LookupError, ValueError):  # an unknown encoding
        return _clean(part.get_payload())


def _pictures(message: EmailMessage) -> list[EmailMessage]:
    return [each for each in message.walk() if each.get_content_type() == "image/png"]


def _base64(part: EmailMessage) -> str:
    payload = part.get_payload(decode=True)
    return b64encode(payload if isinstance(payload, bytes) else b"").decode()


def _clean(content: object) -> str:
    """Text without lone surrogates, which can't be encoded."""
    return str(content).encode(errors="replace").decode().replace("\r\n", "\n")


def _append(file: Path, line: bytes) -> None:
    """Append a line in one write to a file that only its owner can read."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
