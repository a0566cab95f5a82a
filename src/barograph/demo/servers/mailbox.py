"""The demo's mail server: takes every mail and delivers none; each becomes a line of a file."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default as mail_rules
from pathlib import Path
from typing import Final

import msgspec

from barograph.errors import ConfigurationError

FILE_NAME: Final = "mailbox.jsonl"
MAX_MAIL_BYTES: Final = 1 << 20
MAX_RECIPIENTS: Final = 100

_NAME: Final = "mailbox.demo"
_MAX_COMMAND_BYTES: Final = 512
_MAX_ERRORS: Final = 10
_IDLE_SECONDS: Final = 60.0
_GOODBYE: Final = 221
_FIRST_ERROR: Final = 400
_TOO_MANY: Final = b"421 too many errors\r\n"

_FROM: Final = re.compile(r"FROM: ?<([^<>\s]*)>((?: \S+)*)", re.IGNORECASE | re.ASCII)
_TO: Final = re.compile(r"TO: ?<([^<>\s]+@[^<>\s]+)>(?: \S+)*", re.IGNORECASE | re.ASCII)
_SIZE: Final = re.compile(r" SIZE=(\d{1,20})(?: |$)", re.IGNORECASE | re.ASCII)
_LINK: Final = re.compile(r"https?://[^\s<>\"]+", re.ASCII)
_NOT_OFFERED: Final = frozenset({"AUTH", "EXPN", "HELP", "STARTTLS", "BDAT", "TURN", "ETRN"})


class CapturedMail(msgspec.Struct, frozen=True):
    """A mail that was taken; `sender` and `to` are the envelope's."""

    sender: str = msgspec.field(name="from")
    to: list[str]
    subject: str
    date: str
    text: str
    links: list[str]


def read_mailbox(folder: Path) -> list[CapturedMail]:
    """Every mail that was taken, the oldest first.

    Raises:
        ConfigurationError: the file is not a mailbox.
    """
    file = folder / FILE_NAME
    try:
        # The last line may still be being written; what comes after the last newline is no mail.
        lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
        return [msgspec.json.decode(line, type=CapturedMail) for line in lines]
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(
            f"{file} cannot be read as a mailbox ({error}); delete it to begin a new one"
        ) from error


@asynccontextmanager
async def running_mailbox(
    folder: Path, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[int]:
    """A mail server for as long as the context lasts; gives its port, any free one for 0.

    Raises:
        OSError: the port is taken.
    """
    sessions: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = asyncio.ensure_future(_Session(reader, writer, keep).run())
        sessions.add(session)
        session.add_done_callback(sessions.discard)
        await asyncio.wait([session])

    def keep(mail: CapturedMail) -> None:
        _append(folder / FILE_NAME, msgspec.json.encode(mail) + b"\n")

    server = await asyncio.start_server(serve, host, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for session in sessions:
            session.cancel()
        await asyncio.gather(*sessions, return_exceptions=True)


class _Session:
    """One connection: a command, an answer, and so on (RFC 5321, without TLS and login)."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        keep: Callable[[CapturedMail], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._keep = keep
        self._greeted = False
        self._sender: str | None = None
        self._recipients: list[str] = []
        self._commands: dict[str, Callable[[str], str]] = {
            "EHLO": self._ehlo,
            "HELO": self._helo,
            "MAIL": self._mail,
            "RCPT": self._rcpt,
            "RSET": self._rset,
            "NOOP": lambda _: "250 fine",
            "VRFY": lambda _: "252 perhaps",
            "QUIT": lambda _: f"{_GOODBYE} goodbye",
        }

    async def run(self) -> None:
        """Talk until the client leaves, errs too often or falls silent."""
        with suppress(ConnectionError, TimeoutError):
            try:
                await self._talk()
            finally:
                self._writer.close()

    async def _talk(self) -> None:
        self._writer.write(f"220 {_NAME} takes every mail and delivers none\r\n".encode())
        errors = 0
        while errors < _MAX_ERRORS:
            line = await self._line()
            if not line.endswith(b"\n"):
                return
            answer = await self._answer(line)
            self._writer.write(answer.encode() + b"\r\n")
            await self._writer.drain()
            code = int(answer[:3])
            if code == _GOODBYE:
                return
            errors += code >= _FIRST_ERROR
        self._writer.write(_TOO_MANY)

    async def _line(self) -> bytes:
        try:
            async with asyncio.timeout(_IDLE_SECONDS):
                return await self._reader.readline()
        except ValueError as error:
            raise ConnectionError("a line that does not end") from error

    async def _answer(self, line: bytes) -> str:
        if len(line) > _MAX_COMMAND_BYTES or not line.isascii():
            return "500 what?"
        verb, _, rest = line.decode().rstrip("\r\n").partition(" ")
        verb = verb.upper()
        if verb == "DATA":
            return await self._data()
        if verb in self._commands:
            return self._commands[verb](rest)
        return "502 not offered" if verb in _NOT_OFFERED else "500 what?"

    def _ehlo(self, name: str) -> str:
        return self._greet(name, f"250-{_NAME}\r\n250-SIZE {MAX_MAIL_BYTES}\r\n250 8BITMIME")

    def _helo(self, name: str) -> str:
        return self._greet(name, f"250 {_NAME}")

    def _greet(self, name: str, answer: str) -> str:
        if not name.strip():
            return "501 who are you?"
        self._forget()
        self._greeted = True
        return answer

    def _mail(self, rest: str) -> str:
        found = _FROM.fullmatch(rest)
        if not self._greeted or self._sender is not None:
            return "503 not now"
        if found is None:
            return "501 MAIL FROM:<address> is needed"
        size = _SIZE.search(found[2])
        if size is not None and int(size[1]) > MAX_MAIL_BYTES:
            return "552 too large"
        self._sender = found[1]
        return "250 fine"

    def _rcpt(self, rest: str) -> str:
        found = _TO.fullmatch(rest)
        if self._sender is None:
            return "503 MAIL comes first"
        if found is None:
            return "501 RCPT TO:<address> is needed"
        if len(self._recipients) == MAX_RECIPIENTS:
            return "452 too many recipients"
        self._recipients.append(found[1])
        return "250 fine"

    def _rset(self, _: str) -> str:
        self._forget()
        return "250 fine"

    async def _data(self) -> str:
        sender, recipients = self._sender, self._recipients
        if sender is None or not recipients:
            return "503 MAIL and RCPT come first"
        self._writer.write(b"354 end with a dot on a line of its own\r\n")
        await self._writer.drain()
        data = await self._until_dot()
        self._forget()
        if data is None:
            return "552 too large"
        self._keep(_read_mail(sender, recipients, data))
        return "250 taken"

    async def _until_dot(self) -> bytes | None:
        """The mail, or None when it is too large; it is heard out in either case.

        Raises:
            ConnectionError: the client left in the middle.
        """
        data = bytearray()
        size = 0
        while (line := await self._line()) != b".\r\n":
            if not line.endswith(b"\n"):
                raise ConnectionError
            line = line.removeprefix(b".")
            size += len(line)
            if size <= MAX_MAIL_BYTES:
                data += line
        return bytes(data) if size <= MAX_MAIL_BYTES else None

    def _forget(self) -> None:
        self._sender = None
        self._recipients = []


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
    )


def _text(message: EmailMessage) -> str:
    part = message.get_body(("plain",))
    if part is None:
        return ""
    try:
        return _clean(part.get_content())
    except (LookupError, ValueError):  # an encoding that nobody knows
        return _clean(part.get_payload())


def _clean(content: object) -> str:
    """Text as it can be written into the file: half a character cannot."""
    return str(content).encode(errors="replace").decode().replace("\r\n", "\n")


def _append(file: Path, line: bytes) -> None:
    """Add a line in one go, in a file that only its owner can read."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
