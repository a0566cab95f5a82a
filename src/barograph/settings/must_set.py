"""What the operator of a public instance has to set or decide."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from barograph import __version__
from barograph.settings.values import Contact, Group, HttpAddress, IpAddress, reachable
from barograph.venue_names import VENUE_NAMES

MIN_PEPPER = 32
SQLITE_FILE = "sqlite:///"

_SQLITE_ADDRESS = re.compile(r"sqlite:///(?!:memory:$)[^?#\0]*[^?#/\0]")
_SERVER_USER = r"([A-Za-z0-9._~!$&'()*+,;=:%-]*@)?"
_SERVER = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
_POSTGRESQL_ADDRESS = re.compile(
    rf"postgres(ql)?://{_SERVER_USER}(?P<hosts>({_SERVER}(,{_SERVER})*)?)/(?P<name>[^@/?#\s]+)"
    r"(\?[^#\s]*)?"
)
_VALKEY_ADDRESS = re.compile(
    rf"(redis|valkey)s?://{_SERVER_USER}{_SERVER}(/[0-9]{{0,4}})?"
    r"(\?(&?(socket_timeout=[0-9]*\.?[0-9]+|ssl_ca_certs=[^&#\s]+))+)?"
)
_SERVER_ADDRESSES = {
    "database_url": (
        _POSTGRESQL_ADDRESS,
        "postgresql://USER:PASSWORD@HOST/DATABASE is needed; for SQLite set BAROGRAPH_DATA",
    ),
    "history_url": (
        re.compile(f"{_POSTGRESQL_ADDRESS.pattern}|{_SQLITE_ADDRESS.pattern}"),
        "postgresql://USER:PASSWORD@HOST/DATABASE or sqlite:/// and the path of a file is needed",
    ),
    "limits_url": (
        _VALKEY_ADDRESS,
        "redis://USER:PASSWORD@HOST:PORT/0[?socket_timeout=0.2&ssl_ca_certs=FILE] is needed",
    ),
}


WORLD_FILE = "world.json"
"""Only a demo stores a world in its data folder."""

PHONE_FILE = "phone.url"


class MustSet(Group):
    """Set these for a public instance, or decide to leave them empty."""

    base_url: HttpAddress = Field(
        "",
        description="Public address of this instance, without a trailing slash. Every link in a "
        "response starts with it. If empty, `http://<host>:<port>`.",
    )
    venues: str = Field(
        "bybit",
        description="Exchanges to read, separated by commas, such as `bybit,hyperliquid`. The "
        "first one is the primary, and the next one takes over if it fails: [venues](venues.md). "
        "Confirm the terms of each.",
    )
    accept_terms: str = Field(
        "",
        description="Data sources whose terms you have read and confirm, separated by commas: "
        "venues (such as `bybit`), `treasury`, `nyfed`, `ishares`, and `selling` if you sell by "
        "x402. The service doesn't use the others. See [the first day live](live.md).",
    )
    contact: Contact = Field(
        "",
        description="How the publishers of rates and ETF files can reach you, such as "
        "`mailto:ops@example.com` or an https address: the collector's `User-Agent`. "
        "If empty, it sends `BAROGRAPH_BASE_URL`.",
    )
    security_contact: Contact = Field(
        "",
        description="Where to report vulnerabilities, such as `mailto:security@example.com` or an "
        "https address; published in `/.well-known/security.txt`.",
    )
    data: Path = Field(
        Path("data"),
        description="Folder for `barograph.sqlite3` (with the e-mail addresses of key owners and "
        "the secrets that sign webhooks), `history.sqlite3` (stances), "
        "`limits.sqlite3` (rate limits), and the secrets that the settings don't "
        "name. The service refuses to start if every user of the machine can read or "
        "write such a secret.",
    )
    host: IpAddress = Field("127.0.0.1", description="IP address that the web server binds.")
    port: int = Field(8080, ge=1, le=65535, description="Port that the web server binds.")
    workers: int = Field(1, ge=1, le=64, description="Number of web worker processes.")
    trusted_proxies: str = Field(
        "",
        description="Proxies whose `X-Forwarded-For` the service trusts: addresses and networks "
        "separated by commas, such as `127.0.0.1, 10.0.0.0/8`.",
    )
    database_url: SecretStr = Field(
        SecretStr(""),
        description="Database of the service: a PostgreSQL URL such as "
        "`postgresql://barograph:PASSWORD@db.example.com/barograph`. If empty, "
        "`barograph.sqlite3` in the data folder. See "
        "[PostgreSQL and Valkey](operating.md#postgresql-and-valkey).",
    )
    history_url: SecretStr = Field(
        SecretStr(""),
        description="Database of stances: a PostgreSQL URL, with another database than "
        "`BAROGRAPH_DATABASE_URL`; or `sqlite:///` and a file path, so an absolute path has four "
        "slashes. If empty, `history.sqlite3` in the data folder.",
    )
    limits_url: SecretStr = Field(
        SecretStr(""),
        description="Valkey or Redis server that counts rate limits for all hosts, such as "
        "`redis://barograph:PASSWORD@valkey.example.com:6379/0`; `rediss://` uses "
        "TLS. It has 250 ms to reply; `?socket_timeout=0.5` allows 500 ms. If empty, "
        "a single worker without a proxy counts in memory, and all others in a file "
        "of the data folder. See [rate limits](operating.md#rate-limits).",
    )
    key_pepper: SecretStr = Field(
        SecretStr(""),
        description="Secret for hashing API keys, 32 characters or more. If empty, the service "
        "creates one in the data folder.",
    )
    history_key: SecretStr = Field(
        SecretStr(""),
        description="Ed25519 key that signs checkpoints of the history: base64 of 32 random "
        "bytes. If empty, the service creates one in the data folder.",
    )
    webhook_key: SecretStr = Field(
        SecretStr(""),
        description="Ed25519 key that signs webhook messages: base64 of 32 random bytes. During "
        "[a rotation](webhooks.md#for-the-operator), the new key, a comma and the old "
        "key. If empty, the service creates one in the data folder.",
    )
    smtp_url: SecretStr = Field(
        SecretStr(""),
        description="Mail server: `smtp://host:port`, `smtp+starttls://user:password@host:587` "
        "or `smtps://user:password@host:465`. If empty, nobody can register a key by e-mail.",
    )
    mail_from: str = Field(
        "", description="From address of outgoing e-mail, such as `barograph@example.com`."
    )

    @field_validator("venues")
    @classmethod
    def _known_venues(cls, value: str) -> str:
        names = [name.strip() for name in value.split(",")]
        if not set(names) <= set(VENUE_NAMES) or len(set(names)) < len(names):
            known = ", ".join(VENUE_NAMES)
            raise ValueError(f"name each venue once, separated by commas; the venues are {known}")
        return ",".join(names)

    @field_validator("database_url", "history_url", "limits_url")
    @classmethod
    def _server_address(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        form, needed = _SERVER_ADDRESSES[str(info.field_name)]
        if value.get_secret_value() and form.fullmatch(value.get_secret_value()) is None:
            raise ValueError(f"{needed}. Percent-encode special characters of the password.")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: str) -> str:
        _parse_networks(value)
        return value

    @field_validator("key_pepper")
    @classmethod
    def _long_enough(cls, value: SecretStr) -> SecretStr:
        if 0 < len(value.get_secret_value()) < MIN_PEPPER:
            raise ValueError(f"{MIN_PEPPER} characters or more are needed")
        return value

    @field_validator("data", mode="before")
    @classmethod
    def _named_folder(cls, value: object) -> object:
        if value == "":
            raise ValueError("a folder is needed")
        return value

    @model_validator(mode="after")
    def _default_base_url(self) -> Self:
        if not self.base_url:
            object.__setattr__(self, "base_url", f"http://{reachable(self.host)}:{self.port}")
        return self

    @model_validator(mode="after")
    def _mail_has_a_sender(self) -> Self:
        if self.sends_mail and not self.mail_from:
            raise ValueError("BAROGRAPH_MAIL_FROM is needed together with BAROGRAPH_SMTP_URL")
        return self

    @model_validator(mode="after")
    def _history_has_its_own_place(self) -> Self:
        history, others = self.history_address, (self.database_path, self.limits_path)
        if isinstance(history, Path):
            taken = history.resolve() in {other.resolve() for other in others}
        else:
            taken = is_same_database(self.database_url.get_secret_value(), history)
        if taken:
            raise ValueError("BAROGRAPH_HISTORY_URL must name a database of its own")
        return self

    @property
    def venue_names(self) -> tuple[str, ...]:
        """The exchanges to read, the primary first."""
        return tuple(self.venues.split(","))

    @property
    def demo_phone_url(self) -> str:
        """The page that shows the mails and messages of a demo; empty for others."""
        file = self.data / PHONE_FILE
        return file.read_text() if self.is_demo and file.exists() else ""

    @property
    def is_demo(self) -> bool:
        """Whether the data folder belongs to a demo, which sends webhooks to this machine too."""
        return (self.data / WORLD_FILE).exists()

    @property
    def database_path(self) -> Path:
        """The service's database, if it is a SQLite file."""
        return self.data / "barograph.sqlite3"

    @property
    def database_address(self) -> Path | str:
        """The service's database: a SQLite file or a PostgreSQL URL."""
        return self.database_url.get_secret_value() or self.database_path

    @property
    def history_path(self) -> Path:
        """The history of stances, a separate database, if it is a SQLite file."""
        url = self.history_url.get_secret_value()
        if url.startswith(SQLITE_FILE):
            return Path(url.removeprefix(SQLITE_FILE))
        return self.data / "history.sqlite3"

    @property
    def history_address(self) -> Path | str:
        """The history of stances: a SQLite file or a PostgreSQL URL."""
        url = self.history_url.get_secret_value()
        return self.history_path if url.startswith(SQLITE_FILE) else url or self.history_path

    @property
    def limits_path(self) -> Path:
        """The rate-limit file that the workers of one host share."""
        return self.data / "limits.sqlite3"

    @property
    def limits_use_file(self) -> bool:
        """Whether rate limits are counted in that file rather than in memory or on a server."""
        # A proxy may spread requests over several servers of this host.
        is_shared = self.workers > 1 or bool(self.trusted_proxies)
        return is_shared and not self.limits_url.get_secret_value()

    @property
    def user_agent(self) -> str:
        """How the collector identifies itself to publishers."""
        contact = self.contact.removeprefix("mailto:") or self.base_url
        return f"barograph/{__version__} (+{contact})"

    @property
    def sends_mail(self) -> bool:
        """Whether a mail server is configured."""
        return bool(self.smtp_url.get_secret_value())

    @property
    def proxy_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks whose `X-Forwarded-For` is trusted."""
        return _parse_networks(self.trusted_proxies)


def is_same_database(first: str, second: str) -> bool:
    """Whether two URLs name one database; users and options don't matter."""
    return _database_place(first) == _database_place(second)


def _database_place(url: str) -> tuple[str, str]:
    match = _POSTGRESQL_ADDRESS.fullmatch(url)
    if match is None:
        return "", url
    return re.sub(r":5432(?=,|$)", "", match["hosts"].lower()), match["name"]


def _parse_networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
