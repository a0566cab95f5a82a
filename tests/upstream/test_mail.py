"""The mail server's adapter against a real server on loopback, and against broken ones."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default as mail_rules
from ipaddress import ip_address
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509

from barograph.errors import (
    ConfigurationError,
    Forbidden,
    InvalidReply,
    Throttled,
    Unreachable,
    UpstreamError,
)
from barograph.keys.outbox import Deferred, Mail, RecipientRefused, Undeliverable
from barograph.kit.timestamps import MINUTE
from barograph.settings import Settings
from barograph.upstream.mail import MailServer, SmtpSender, parse_smtp_url
from support.clock import START, HandClock
from support.tls import Authority

HOST = "127.0.0.1"
STAGES = ("rcpt_answers", "data_answers")
RECIPIENT = "somebody@example.com"
MAIL = Mail(
    "0123abcd", RECIPIENT, "A subject", "A line.\n.\n..dots\nhttps://x.example/keys/y\n", 0, 0
)


class Handler:
    """Takes mails; answers RCPT and DATA as it is told first."""

    def __init__(self) -> None:
        self.taken: list[Envelope] = []
        self.rcpt_answers: list[str] = []
        self.data_answers: list[str] = []

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.rcpt_answers:
            return self.rcpt_answers.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.data_answers:
            return self.data_answers.pop(0)
        self.taken.append(envelope)
        return "250 OK"

    def message(self) -> EmailMessage:
        (envelope,) = self.taken
        assert isinstance(envelope.content, bytes)
        return message_from_bytes(envelope.content, policy=mail_rules)


def sender(port: int, scheme: str = "smtp://", **options: Any) -> SmtpSender:
    settings = Settings.model_validate(
        {"smtp_url": f"{scheme}{HOST}:{port}", "mail_from": "barograph@Station.example"}
    )
    return SmtpSender(settings, clock=HandClock(), **options)


@asynccontextmanager
async def aiosmtpd_server(handler: Handler, **options: Any) -> AsyncIterator[int]:
    tls = options.pop("wrapped_in", None)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(handler, hostname="mail.example", loop=loop, **options), HOST, 0, ssl=tls
    )
    async with server:
        yield server.sockets[0].getsockname()[1]


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_server(talk: Talk) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def send(handler: Handler, mail: Mail = MAIL, **options: Any) -> None:
    async with aiosmtpd_server(handler, **options) as port:
        await sender(port).send(mail)


async def send_raw(talk: Talk, seconds: float = 5.0) -> None:
    async with raw_server(talk) as port:
        await sender(port, seconds=seconds).send(MAIL)


async def test_a_mail_arrives_as_it_was_written_with_the_same_id_in_each_attempt() -> None:
    handler, again = Handler(), Handler()
    await send(handler)
    await send(again, MAIL._replace(attempts=3))

    (envelope,) = handler.taken
    assert (envelope.mail_from, envelope.rcpt_tos) == ("barograph@station.example", [RECIPIENT])
    message = handler.message()
    assert message["From"] == "Barograph <barograph@station.example>"
    assert message["To"] == RECIPIENT
    assert message["Subject"] == "A subject"
    assert message["Date"] == "Fri, 06 Nov 2026 21:20:00 +0000"
    assert message["Message-ID"] == again.message()["Message-ID"] == "<0123abcd@station.example>"
    assert message.get_content_type() == "text/plain"
    assert message.get_content().replace("\r\n", "\n") == MAIL.body


async def test_long_links_and_letters_of_every_language_arrive_whole() -> None:
    handler = Handler()
    body = f"https://{'long' * 40}.example/keys/{'x' * 43}\nžluťoučký кінь 🐎\n"
    await send(handler, MAIL._replace(body=body, subject="ž" * 100))
    assert handler.message().get_content().replace("\r\n", "\n") == body
    assert handler.message()["Subject"] == "ž" * 100


@pytest.mark.parametrize(
    "change",
    [
        {"recipient": "a@example.com\r\nBcc: b@example.com"},
        {"recipient": "a@example.com, b@example.com"},
        {"recipient": "a@example.com>\r\nDATA\r\n"},
        {"recipient": ""},
        {"subject": "hello\r\nBcc: b@example.com"},
        {"subject": "hello\nBcc: b@example.com"},
    ],
)
async def test_nothing_can_be_smuggled_into_the_headers_or_the_envelope(
    change: dict[str, Any],
) -> None:
    handler = Handler()
    with pytest.raises(Undeliverable) as refusal:
        await send(handler, MAIL._replace(**change))
    assert not isinstance(refusal.value, RecipientRefused)
    assert handler.taken == []


@pytest.mark.parametrize(
    ("stage", "answer", "kind", "said"),
    [
        *(
            ("rcpt_answers", f"{code} no such mailbox", RecipientRefused, "refuses the recipient")
            for code in (550, 551, 553)
        ),
        ("data_answers", "554 it is disliked by", Undeliverable, "refuses the mail"),
        *((stage, "451 try again later,", Deferred, "") for stage in STAGES),
        *((stage, "421 too many from you,", Throttled, "slow down") for stage in STAGES),
    ],
)
async def test_refused_mail_is_undeliverable_deferred_or_throttled(
    stage: str, answer: str, kind: type[UpstreamError], said: str
) -> None:
    handler = Handler()
    setattr(handler, stage, [f"{answer} {RECIPIENT}"])
    with pytest.raises(kind, match=rf"{said} ?\({answer[:3]}\)") as refusal:
        await send(handler)
    assert type(refusal.value) is kind
    assert RECIPIENT not in str(refusal.value)
    assert "somebody" not in repr(refusal.value)
    await send(handler)
    assert len(handler.taken) == 1


async def test_a_server_without_starttls_is_refused_before_anything_is_sent() -> None:
    handler = Handler()
    async with aiosmtpd_server(handler) as port:
        with pytest.raises(Forbidden, match="STARTTLS") as refusal:
            await sender(port, "smtp+starttls://").send(MAIL)
    assert not isinstance(refusal.value, Undeliverable)
    assert handler.taken == []


async def _wait(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _greet_and_wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example\r\n")
    await asyncio.Event().wait()


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220-")
    while True:
        writer.write(b"x")
        await asyncio.sleep(0.01)


@pytest.mark.outcome(
    "The mail server hangs",
    "The collector retries after 10 s, then at growing intervals of up to 15 min.",
)
@pytest.mark.parametrize("talk", [_wait, _greet_and_wait, _drip])
async def test_hanging_mail_server_times_out(talk: Talk) -> None:
    with pytest.raises(Unreachable, match="does not answer"):
        await send_raw(talk, seconds=0.2)


async def _hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example\r\n")


def _saying(answer: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await reader.readline()

    return talk


@pytest.mark.parametrize(
    ("talk", "kind"),
    [
        (_hang_up, Unreachable),
        (_saying(b"554 go away\r\n"), Forbidden),
        (_saying(b"421 too busy\r\n"), Throttled),
        (_saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"), InvalidReply),
        (_saying(b"\x00\xff\r\n"), InvalidReply),
    ],
)
async def test_what_a_server_does_wrong_is_named_by_kind(
    talk: Talk, kind: type[UpstreamError]
) -> None:
    with pytest.raises(kind) as failure:
        await send_raw(talk)
    assert type(failure.value) is kind


async def test_nobody_listening_is_unreachable() -> None:
    async with raw_server(_wait) as port:
        pass
    with pytest.raises(Unreachable, match="does not answer"):
        await sender(port).send(MAIL)


@pytest.mark.parametrize("host", ["mail..example", "a" * 64 + ".example", "a\0b.example"])
async def test_a_host_that_cannot_be_looked_up_is_a_failure_with_a_name(host: str) -> None:
    unchecked = sender(25)
    unchecked._server = unchecked._server._replace(host=host)
    for attempt in (unchecked.send(MAIL), unchecked.greet()):
        with pytest.raises(Forbidden, match="cannot be sent") as failure:
            await attempt
        assert not isinstance(failure.value, Undeliverable)
        assert "example" not in str(failure.value)


async def test_a_server_that_hangs_after_it_took_the_mail_does_not_make_it_go_out_again() -> None:
    heard: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example\r\n")
        while (line := await reader.readline()) and not line.upper().startswith(b"QUIT"):
            if line.upper().startswith(b"DATA"):
                writer.write(b"354 go on\r\n")
                heard.append(await reader.readuntil(b"\r\n.\r\n"))
            writer.write(b"250 fine\r\n")
        writer.close()

    await send_raw(talk)
    assert len(heard) == 1


class Login:
    """Knows one password, and what was tried."""

    def __init__(self) -> None:
        self.tried: list[LoginPassword] = []

    def __call__(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        self.tried.append(data)
        known = data == LoginPassword(b"user@x", b"p@ss/w#rd")
        return AuthResult(success=known, handled=False)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), x509.IPAddress(ip_address(HOST)))


def secured(scheme: str, authority: Authority, login: Login) -> dict[str, Any]:
    if scheme == "smtps":
        options = {"wrapped_in": authority.server, "auth_require_tls": False}
    else:
        options = {"tls_context": authority.server, "require_starttls": True}
    return {**options, "authenticator": login}


@pytest.mark.parametrize("scheme", ["smtp+starttls", "smtps"])
async def test_mail_goes_with_user_and_password_over_tls_to_who_has_a_trusted_certificate(
    scheme: str, authority: Authority
) -> None:
    handler, login = Handler(), Login()

    async with aiosmtpd_server(handler, **secured(scheme, authority, login)) as port:
        url = f"{scheme}://user%40x:p%40ss%2Fw%23rd@"
        with pytest.raises(Unreachable):
            await sender(port, url).send(MAIL)
        assert (handler.taken, login.tried) == ([], [])
        await sender(port, url, tls=authority.client).send(MAIL)
    assert len(handler.taken) == len(login.tried) == 1


async def test_a_wrong_password_is_no_fault_of_the_mail(authority: Authority) -> None:
    async with aiosmtpd_server(Handler(), **secured("smtps", authority, Login())) as port:
        with pytest.raises(Forbidden, match=r"refuses us \(535\)") as refusal:
            await sender(port, "smtps://user:wrong@", tls=authority.client).send(MAIL)
    assert not isinstance(refusal.value, Undeliverable)
    assert "wrong" not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.example", MailServer("mail.example", 25, "none", None, None)),
        ("smtp://mail.example.:25", MailServer("mail.example.", 25, "none", None, None)),
        ("smtp://[::1]:1025/", MailServer("::1", 1025, "none", None, None)),
        (
            "smtp+starttls://me:p%40ss@mail.example",
            MailServer("mail.example", 587, "starttls", "me", "p@ss"),
        ),
        ("smtps://me:x@mail.example", MailServer("mail.example", 465, "tls", "me", "x")),
        ("SMTPS://mail.example:2465", MailServer("mail.example", 2465, "tls", None, None)),
    ],
)
def test_the_address_of_a_mail_server_is_read(url: str, server: MailServer) -> None:
    assert parse_smtp_url(url) == server


@pytest.mark.parametrize(
    "url",
    [
        "mail.example:25",
        "http://mail.example",
        "smtp://",
        "smtp://:25",
        "smtp://mail.example:many",
        "smtp://mail.example:99999",
        "smtp://[::1",
        "smtp+tls://mail.example",
        "smtp://me:secret@mail.example",
        "smtps://me:sec#ret@mail.example",
        "smtps://me:sec/ret@mail.example",
        "smtps://me:sec?ret@mail.example",
        "smtps://me:secret@mail.example/path",
        "smtp://mail..example",
        "smtp://.mail.example",
        "smtp://" + "a" * 64 + ".example",
        "smtps://me:secret@mail example",
        "smtps://me:secret@ma\0il.example",
    ],
)
def test_an_address_that_cannot_work_is_refused_without_showing_a_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="BAROGRAPH_SMTP_URL") as refusal:
        parse_smtp_url(url)
    assert "sec" not in str(refusal.value)
    assert "it needs" in str(refusal.value)


@pytest.mark.parametrize("mail_from", ["Barograph <b@example.com>", "barograph", "a@b.example\r\n"])
def test_a_sender_that_is_no_plain_address_is_refused(mail_from: str) -> None:
    settings = Settings.model_validate({"smtp_url": "smtp://x.example", "mail_from": mail_from})
    with pytest.raises(ConfigurationError, match="BAROGRAPH_MAIL_FROM"):
        SmtpSender(settings, clock=HandClock())


async def test_mail_of_an_alert_is_stopped_with_one_click_and_has_its_picture() -> None:
    handler = Handler()
    stop, picture = "https://b.example/alerts/stop/a", b"\x89PNG\r\n\x1a\n\0"
    alert = MAIL._replace(stop_url=stop, created_at=START - 5 * MINUTE, picture=picture)
    await send(handler, alert)
    message = handler.message()
    assert message["List-Unsubscribe"] == f"<{stop}>"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    [attached] = message.iter_attachments()
    assert (attached.get_content_type(), attached.get_content()) == ("image/png", picture)
    body = message.get_body(("plain",))
    assert body is not None
    assert "This mail was delayed by 5 minutes." in body.get_content()


async def test_other_mails_have_no_link_to_stop_them() -> None:
    handler = Handler()
    await send(handler)
    assert "List-Unsubscribe" not in handler.message()
