"""Sends mails by SMTP.

No error contains an e-mail address, or the server's reply, which often repeats one.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP as SMTP_RULES
from typing import Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from aiosmtplib import (
    SMTP,
    SMTPDataError,
    SMTPException,
    SMTPRecipientsRefused,
    SMTPResponseException,
)

from barograph.errors import (
    ConfigurationError,
    Forbidden,
    InvalidReply,
    InvalidRequest,
    Throttled,
    Unreachable,
    UpstreamError,
)
from barograph.keys.email_address import Address, parse_address
from barograph.keys.outbox import Deferred, Mail, RecipientRefused, Undeliverable
from barograph.kit.clock import Clock
from barograph.kit.metrics import NO_METRICS, Metrics
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.settings import Settings

SEND_SECONDS = 20.0
"""The time limit of one mail, from connecting until the server accepted it."""

GOODBYE_SECONDS = 2.0
LATE_MINUTES = 2
"""An alert that waited longer for the mail server says so."""

_CLOSING = 421
_TEMPORARY = range(400, 500)
_PERMANENT = range(500, 600)

Security = Literal["none", "starttls", "tls"]
_SCHEMES: dict[str, tuple[Security, int]] = {
    "smtp": ("none", 25),
    "smtp+starttls": ("starttls", 587),
    "smtps": ("tls", 465),
}


class MailServer(NamedTuple):
    """A mail server, and how to connect to it."""

    host: str
    port: int
    security: Security
    username: str | None
    password: str | None


class SmtpSender:
    """Sends mails to the configured server, one connection each."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock,
        seconds: float = SEND_SECONDS,
        tls: ssl.SSLContext | None = None,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        """Read the settings; `tls` trusts other authorities than the machine does.

        Raises:
            ConfigurationError: they can't work.
        """
        self._server = parse_smtp_url(settings.smtp_url.get_secret_value())
        self._sender = _sender(settings.mail_from)
        self._clock = clock
        self._seconds = seconds
        self._tls = tls
        self._metrics = metrics

    async def send(self, mail: Mail) -> None:
        """See `MailSender.send`."""
        with self._metrics.call("mail"):
            message = self._message(mail)
            async with self._session() as client:
                await client.send_message(
                    message, sender=self._sender.email, recipients=[mail.recipient]
                )

    async def greet(self) -> None:
        """Connect, log in if configured, and quit; raises `UpstreamError`."""
        async with self._session():
            pass

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[SMTP]:
        client = self._client()
        try:
            async with asyncio.timeout(self._seconds):
                await client.connect()
                yield client
            # The mail was accepted, so an error while quitting must not send it again.
            with suppress(SMTPException, OSError):
                await client.quit(timeout=GOODBYE_SECONDS)
        except (SMTPException, OSError, ValueError) as error:
            raise _named(error) from error
        finally:
            client.close()

    def _message(self, mail: Mail) -> EmailMessage:
        message = EmailMessage(SMTP_RULES)
        try:
            message["From"] = f"Barograph <{self._sender.email}>"
            message["To"] = parse_address(mail.recipient).email
            message["Subject"] = mail.subject
        except (InvalidRequest, ValueError) as error:
            raise Undeliverable("the mail has invalid header fields") from error
        message["Date"] = datetime.fromtimestamp(self._clock() // SECOND, UTC)
        message["Message-ID"] = f"<{mail.id}@{self._domain}>"
        message["Auto-Submitted"] = "auto-generated"
        late = (self._clock() - mail.created_at) // MINUTE
        is_late = mail.stop_url is not None and late > LATE_MINUTES
        message.set_content(
            mail.body + (f"\nThis mail was delayed by {late} minutes.\n" if is_late else "")
        )
        if mail.stop_url is not None:
            message["List-Unsubscribe"] = f"<{mail.stop_url}>"
            message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"  # RFC 8058
        if mail.picture is not None:
            message.add_attachment(mail.picture, "image", "png", filename="chart.png")
        return message

    def _client(self) -> SMTP:
        host, port, security, username, password = self._server
        return SMTP(
            hostname=host,
            port=port,
            username=username,
            password=password,
            local_hostname=self._domain,
            timeout=self._seconds,
            use_tls=security == "tls",
            start_tls=security == "starttls",
            tls_context=self._tls,
        )

    @property
    def _domain(self) -> str:
        return self._sender.email.rpartition("@")[2]


def parse_smtp_url(text: str) -> MailServer:
    """Parse the URL of a mail server.

    Raises:
        ConfigurationError: it is invalid; the message does not repeat it or its password.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:  # an invalid port, or half an IPv6 address
        raise _unusable("smtp://host:port") from error
    if parts.scheme not in _SCHEMES or not parts.hostname or not _can_be_looked_up(parts.hostname):
        raise _unusable("smtp://host:port, smtp+starttls://user:password@host:587 or smtps://…")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise _unusable("nothing after the port; write @, / and # in a password as %40, %2F, %23")
    security, usual_port = _SCHEMES[parts.scheme]
    if parts.username and security == "none":
        raise _unusable(
            "smtp+starttls:// or smtps://, because smtp:// sends the password in the clear"
        )
    return MailServer(
        parts.hostname,
        usual_port if port is None else port,
        security,
        unquote(parts.username) if parts.username else None,
        unquote(parts.password) if parts.password else None,
    )


def _can_be_looked_up(host: str) -> bool:
    try:
        host.encode("idna")
    except UnicodeError:  # a label that is empty, or longer than 63 characters
        return False
    return host.isprintable() and " " not in host


def _unusable(needed: str) -> ConfigurationError:
    return ConfigurationError(f"BAROGRAPH_SMTP_URL cannot be used: it needs {needed}")


def _sender(mail_from: str) -> Address:
    try:
        return parse_address(mail_from)
    except InvalidRequest as error:
        raise ConfigurationError(
            "BAROGRAPH_MAIL_FROM must be one plain address such as barograph@example.com"
        ) from error


def _named(error: SMTPException | OSError | ValueError) -> UpstreamError:
    if isinstance(error, SMTPRecipientsRefused):
        return _about_this_mail(error.recipients[0].code, "the recipient", RecipientRefused)
    if isinstance(error, SMTPDataError):
        return _about_this_mail(error.code, "the mail", Undeliverable)
    if isinstance(error, SMTPResponseException):
        return _about_us(error.code)
    if isinstance(error, OSError):
        return Unreachable(f"the mail server does not answer ({type(error).__name__})")
    if isinstance(error, ValueError):
        name = type(error).__name__
        return Forbidden(f"the mail server's address, user or password cannot be sent ({name})")
    return Forbidden("the mail server does not offer the STARTTLS or login that its URL asks for")


def _about_this_mail(code: int, what: str, permanent: type[Undeliverable]) -> UpstreamError:
    if code in _PERMANENT:
        return permanent(f"the mail server refuses {what} ({code})")
    if code in _TEMPORARY and code != _CLOSING:
        return Deferred(f"the mail server defers {what} ({code})")
    return _about_us(code)


def _about_us(code: int) -> UpstreamError:
    if code in _PERMANENT:
        return Forbidden(f"the mail server refuses us ({code})")
    if code in _TEMPORARY:
        # SMTP has no retry time; the outbox has pauses of its own.
        return Throttled(f"the mail server asks us to slow down ({code})", retry_after=0.0)
    return InvalidReply("the mail server's reply is malformed")
