"""All settings in one frozen object, read from `BAROGRAPH_<NAME>` environment variables.

`make docs` writes the descriptions below to `docs/settings.md`.
"""

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from barograph import __version__
from barograph.errors import ConfigurationError

PREFIX = "BAROGRAPH_"
IPV4 = 4
MIN_PEPPER = 32
SQLITE_FILE = "sqlite:///"
IBIT = "IBIT"
IBIT_URL = (
    "https://www.ishares.com/us/products/333011/ishares-bitcoin-trust-etf/latest-holdings.csv"
)

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_WALLET = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
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
_CONTACT = re.compile(r"(mailto:[!-~]+@[!-~]+|https://[!-~]+)")
_HTTP_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~-]+)*", re.ASCII)


def _matching(pattern: re.Pattern[str], rule: str) -> AfterValidator:
    def check(value: str) -> str:
        if value and pattern.fullmatch(value) is None:
            raise ValueError(rule)
        return value

    return AfterValidator(check)


Wallet = Annotated[str, _matching(_WALLET, "0x and 40 hexadecimal digits are needed")]
Contact = Annotated[
    str,
    _matching(
        _CONTACT,
        "it must begin with mailto: or https:// and have no space, such as mailto:name@example.com",
    ),
]
HttpAddress = Annotated[
    str,
    _matching(_HTTP_ADDRESS, "an http:// or https:// address without a trailing slash is needed"),
]
FileAddress = Annotated[
    str,
    _matching(
        re.compile(r"(?!.*(asOfDate|[{}]))https?://[!-~]+"),
        "the http:// or https:// address of the newest file is needed, without asOfDate and "
        f"without a placeholder, because the file names its own day; for IBIT: {IBIT_URL}",
    ),
]
WebsocketAddress = Annotated[
    str, _matching(re.compile("wss?://.*", re.DOTALL), "a ws:// or wss:// address is needed")
]


class Settings(BaseModel):
    """How this instance runs."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    base_url: HttpAddress = Field(
        "",
        description="Public address of this instance, without a trailing slash. Every link in a "
        "response starts with it. If empty, `http://<host>:<port>`.",
    )
    host: str = Field("127.0.0.1", description="IP address that the web server binds.")
    port: int = Field(8080, ge=1, le=65535, description="Port that the web server binds.")
    workers: int = Field(1, ge=1, le=64, description="Number of web worker processes.")
    worker_memory_mb: int = Field(
        1024,
        ge=16,
        description="Memory limit of a web worker in MB. An idle worker uses about 100 MB. The "
        "server replaces a worker that exceeds the limit and cuts off its open requests if they "
        "don't end soon.",
    )
    request_body_seconds: float = Field(
        10,
        gt=0,
        description="Time limit in seconds for the body of a request to arrive. A slower "
        "request gets 408, and the server closes its connection.",
    )
    data: Path = Field(
        Path("data"),
        description="Folder for the databases: `barograph.sqlite3` (includes the e-mail "
        "addresses of key owners), `history.sqlite3` (stances) and `limits.sqlite3` (rate "
        "limits). It also holds the API-key pepper and the checkpoint key, unless "
        "`BAROGRAPH_KEY_PEPPER` and `BAROGRAPH_HISTORY_KEY` are set. The service creates these "
        "files readable by their owner only. It refuses to start if either secret is readable or "
        "writable by every user of the machine.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info",
        description="Log level: `debug`, `info`, `warning` or `error`.",
    )
    log_format: Literal["text", "json"] = Field(
        "text",
        description="Format of log lines: `text` for people, or `json`, one object per line.",
    )
    metrics_host: str = Field(
        "127.0.0.1",
        description="IP address that Prometheus metrics are served on. They hold no secrets, but "
        "keep them from the internet.",
    )
    metrics_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Port that Prometheus metrics are served on, at `/metrics`. All processes with "
        "the same data folder share it. 0 turns metrics off.",
    )

    accept_terms: str = Field(
        "",
        description="Data sources whose terms you have read and confirm, separated by commas: "
        "`bybit`, `treasury`, `nyfed`, `ishares`, and `selling` if you sell access by x402. The "
        "service stores each confirmation and doesn't read an unconfirmed source. `barograph "
        "terms accept` does the same. See [the first day live](live.md).",
    )
    exchange_rest_url: HttpAddress = Field(
        "https://api.bybit.com",
        min_length=1,
        description="Base URL of the exchange's REST API. Set it to use a regional host of the "
        "same exchange.",
    )
    exchange_stream_url: WebsocketAddress = Field(
        "wss://stream.bybit.com/v5/public/linear",
        min_length=1,
        description="URL of the exchange's public websocket for linear contracts.",
    )
    exchange_source: str = Field(
        "Bybit v5 public market data (USDT perpetuals)",
        min_length=1,
        description="Text of every published `source`. If it starts with `simulated`, every "
        "page says so at the top.",
    )

    poll_seconds: float = Field(
        5.0, gt=0, le=60, description="Seconds between two readings of all perpetuals."
    )
    feed_max_age_seconds: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="Freshness limit of the market feed. Older data returns 502 and is never "
        "shown.",
    )
    long_accounts_max_age_seconds: float = Field(
        1800.0,
        gt=0,
        description="Freshness limit of a long-account share. Past it, `longAccountPct` is null.",
    )
    long_accounts_calls_per_second: float = Field(
        4.0,
        gt=0,
        le=50,
        description="Calls per second that the collector spends on long-account shares. The "
        "exchange allows 120 calls per second in total.",
    )
    liquidations_max_age_seconds: float = Field(
        90.0,
        gt=0,
        description="Freshness limit of the 24-hour liquidation window. Past it, `liq24h` is "
        "unavailable.",
    )
    liquidations_min_coverage_pct: float = Field(
        95.0,
        ge=0,
        le=100,
        description="Share of the last 24 hours, in percent, that must be covered for `liq24h` "
        "to be available.",
    )
    request_seconds: float = Field(
        4.0,
        gt=0,
        le=30,
        description="Timeout of one reading from the exchange, including retries.",
    )
    breaker_seconds: float = Field(
        5.0,
        gt=0,
        description="First pause after repeated failures of the exchange. It doubles with each "
        "failure, up to six times this value.",
    )
    stream_ping_seconds: float = Field(
        20.0,
        gt=0,
        le=20,
        description="Seconds between two pings on a websocket connection. The collector closes "
        "a connection that is silent for 1.5 times this value.",
    )
    lease_seconds: float = Field(
        15.0,
        gt=0,
        le=300,
        description="Seconds without a heartbeat after which another collector takes over.",
    )
    minute_history_days: int = Field(
        30, ge=2, description="Days to keep per-minute readings of BTC, ETH and SOL."
    )
    hour_history_days: int = Field(
        730, ge=60, description="Days to keep hourly readings of all contracts."
    )
    liquidation_history_days: int = Field(
        90, ge=2, description="Days to keep individual liquidations."
    )

    signals_max_age_seconds: float = Field(
        150.0,
        gt=60,
        description="Freshness limit of signals, which are evaluated once per minute. Past it, "
        "every signal says `unknown`.",
    )
    briefs_max_age_seconds: float = Field(
        60.0,
        ge=1,
        description="How long a worker that can't read the database keeps serving its copy of "
        "the briefs. Past it, briefs return 500.",
    )
    guides_file: Path | None = Field(
        None,
        description="Guide catalog (`.toml` or `.json`) that replaces the packaged sample. "
        "Check it with `barograph guides check FILE`.",
    )
    record_since: str = Field(
        "",
        description="Start date of the paper-trading record whose age `/badge/record.svg` shows, "
        "such as `2025-01-31`. If empty, the badge says that it has not started.",
    )

    security_contact: Contact = Field(
        "",
        description="Where to report vulnerabilities, such as `mailto:security@example.com` or "
        "an https address; published in `/.well-known/security.txt`. If empty, there is no such "
        "file.",
    )
    sales_contact: Contact = Field(
        "",
        description="Contact for Feed and Reserve on `/pricing`, such as "
        "`mailto:sales@example.com` or an https address. If empty, `/pricing` says that none is "
        "configured.",
    )
    trusted_proxies: str = Field(
        "",
        description="Proxies whose `X-Forwarded-For` the service trusts: addresses and networks "
        "separated by commas, such as `127.0.0.1, 10.0.0.0/8`. If empty, it trusts none.",
    )
    limits: Literal["auto", "memory", "sqlite"] = Field(
        "auto",
        description="Where rate limits are counted: `memory` (one worker), `sqlite` (a file "
        "that all workers of one host share), or `auto`, which picks one by the number of "
        "workers. For several hosts, set `BAROGRAPH_LIMITS_URL` instead.",
    )
    limits_url: SecretStr = Field(
        SecretStr(""),
        description="Valkey or Redis server that counts rate limits for all hosts, such as "
        "`redis://barograph:PASSWORD@valkey.example.com:6379/0`; `rediss://` uses TLS. It has "
        "50 ms to reply; `?socket_timeout=0.2` allows 200 ms. If it doesn't, each worker counts "
        "for itself. If empty, `BAROGRAPH_LIMITS` applies. See "
        "[more than one machine](many-hosts.md#rate-limits).",
    )
    key_pepper: SecretStr = Field(
        SecretStr(""),
        description="Secret for hashing API keys, 32 characters or more. If empty, the service "
        "creates one and keeps it in the data folder.",
    )
    smtp_url: SecretStr = Field(
        SecretStr(""),
        description="Mail server: `smtp://host:port`, `smtp+starttls://user:password@host:587` "
        "or `smtps://user:password@host:465`. If empty, nobody can register a key by e-mail.",
    )
    mail_from: str = Field(
        "", description="From address of outgoing e-mail, such as `barograph@example.com`."
    )

    database_url: SecretStr = Field(
        SecretStr(""),
        description="Database of the service: a PostgreSQL URL such as "
        "`postgresql://barograph:PASSWORD@db.example.com/barograph`. If empty, "
        "`barograph.sqlite3` in the data folder. See [more than one machine](many-hosts.md).",
    )
    history_url: SecretStr = Field(
        SecretStr(""),
        description="Database of stances: a PostgreSQL URL, with another database than "
        "`BAROGRAPH_DATABASE_URL`; or `sqlite:///` and a file path, so an absolute path has four "
        "slashes. If empty, `history.sqlite3` in the data folder.",
    )
    history_key: SecretStr = Field(
        SecretStr(""),
        description="Ed25519 key that signs checkpoints of the history: base64 of 32 random "
        "bytes. If empty, the service creates one and keeps it in the data folder.",
    )
    stance_grace_hours: float = Field(
        6.0,
        ge=0,
        le=72,
        description="Hours that a stance stays active after the next expected publication of "
        "its evidence.",
    )
    treasury_url: HttpAddress = Field(
        "https://home.treasury.gov",
        description="Source of the US Treasury's daily par yields. If empty, they are not read.",
    )
    nyfed_url: HttpAddress = Field(
        "https://markets.newyorkfed.org",
        description="Source of SOFR and EFFR. If empty, they are not read.",
    )
    etf_url: FileAddress = Field(
        IBIT_URL,
        description="URL of the newest holdings file of a BTC ETF in iShares' layout. The "
        "collector takes the date from the file. If this and `BAROGRAPH_ETF_FILE` are empty, no "
        "ETF stance is issued.",
    )
    etf_fund: str = Field(
        IBIT,
        pattern="^[A-Z0-9]{1,10}$",
        description="Ticker of the fund in the holdings file. The ETF stance names it as the "
        "fund that it covers. If you change it, set `BAROGRAPH_ETF_URL` too.",
    )
    etf_file: Path | None = Field(
        None,
        description="Your own CSV of ETF flows (`date,net_flow_usd,aum_usd,holdings_btc`). It "
        "replaces the issuer's file.",
    )
    macro_source: str = Field(
        "",
        description="Text for the `source` of rates and ETF series, in place of each "
        "publisher's name. The demo uses it to say that its data is simulated. If you set it "
        "for real data, repeat the notice that the New York Fed requires.",
    )
    macro_seconds: float = Field(
        1800.0, gt=0, description="Seconds between two readings of rates and ETF files."
    )

    contact: Contact = Field(
        "",
        description="How the publishers of rates and ETF files can reach you, such as "
        "`mailto:ops@example.com` or an https address. The collector sends it in its "
        "`User-Agent`, because some publishers refuse clients that don't say who they are. If "
        "empty, it sends `BAROGRAPH_BASE_URL`.",
    )

    identity: Literal["none", "supabase", "oidc"] = Field(
        "none",
        description="Identity provider for bearer tokens: `supabase`, `oidc` (OpenID Connect) "
        "or `none`, which accepts no token.",
    )
    identity_url: str = Field(
        "",
        description="URL of the identity provider: the project for `supabase`, the issuer for "
        "`oidc`, exactly as its tokens name it. It must start with `https://` unless the provider "
        "runs on this machine. An issuer at a public address can't name private addresses for its "
        "keys or userinfo; one at a private address can.",
    )
    identity_audience: str = Field(
        "authenticated",
        min_length=1,
        description="Audience that a bearer token must name.",
    )
    identity_audience_claim: str = Field(
        "aud",
        min_length=1,
        description="Claim of a bearer token that must name that audience. Set it to `client_id` "
        "for a provider whose access tokens have no `aud`, such as AWS Cognito. That claim must "
        "be exactly the audience.",
    )
    identity_api_key: SecretStr = Field(
        SecretStr(""),
        description="Publishable key (or older anon key) of the `supabase` project. The service "
        "sends it with each request to the provider.",
    )
    identity_email_claim: str = Field(
        "email_verified",
        min_length=1,
        description="Claim of an `oidc` provider that is `true` for a confirmed e-mail address.",
    )
    identity_email_text: bool = Field(
        False,
        description='Whether that claim may also be the text `"true"`, as the userinfo of AWS '
        "Cognito sends it.",
    )
    identity_claims: Literal["token", "userinfo"] = Field(
        "token",
        description="Where an `oidc` provider puts that claim: in the access `token`, or at its "
        "`userinfo` endpoint.",
    )
    identity_cache_seconds: float = Field(
        60.0,
        ge=0,
        le=60,
        description="Seconds to cache a user record of the identity provider.",
    )
    identity_seconds: float = Field(
        3.0, gt=0, le=30, description="Timeout of one request to the identity provider."
    )
    comparison_seconds: float = Field(
        5.0,
        gt=0,
        le=60,
        description="Timeout of one subscriber request, including identity and all reads. Past "
        "it, the service returns 503.",
    )

    x402_facilitator_url: str = Field(
        "",
        description="URL of the x402 v2 facilitator that verifies and settles payments. If "
        "empty, nothing is for sale and the paid endpoints return `not_found`.",
    )
    x402_facilitator_token: SecretStr = Field(
        SecretStr(""), description="Bearer token for the facilitator, if it needs one."
    )
    x402_cdp_key_id: str = Field(
        "",
        description="Id of a secret API key of the Coinbase Developer Platform, if "
        "`BAROGRAPH_X402_FACILITATOR_URL` is Coinbase's facilitator "
        "(`https://api.cdp.coinbase.com/platform/v2/x402`). The service signs each request with "
        "the key instead of sending a bearer token.",
    )
    x402_cdp_key_secret: SecretStr = Field(
        SecretStr(""),
        description="Secret of the key in `BAROGRAPH_X402_CDP_KEY_ID`: the base64 text of an "
        "Ed25519 key, or the PEM text of an ECDSA key, whose line breaks may be written as `\\n`.",
    )
    x402_network: str = Field(
        "eip155:8453",
        pattern="^eip155:[1-9][0-9]{0,17}$",
        description="Chain for payments, as a CAIP-2 id.",
    )
    x402_asset: Wallet = Field(
        "", description="Token for payments: the address of its EIP-3009 contract."
    )
    x402_asset_name: str = Field(
        "USD Coin", min_length=1, description="Name of the token in its EIP-712 domain."
    )
    x402_asset_version: str = Field(
        "2", min_length=1, description="Version of the token in its EIP-712 domain."
    )
    x402_asset_decimals: int = Field(6, ge=0, le=18, description="Number of decimals of the token.")
    x402_pay_to: Wallet = Field(
        "",
        description="Address that receives payments. If you change it, earlier payments to the "
        "old address still count.",
    )
    x402_chain_url: str = Field(
        "",
        description="JSON-RPC URL of a node of the chain in `BAROGRAPH_X402_NETWORK`. The "
        "collector uses it to resolve payments whose result the facilitator didn't report. If "
        "empty, the operator must resolve them.",
    )
    feed_price_usd: Decimal = Field(
        Decimal(25), gt=0, le=100_000, description="Price of one period of Feed by x402, in USD."
    )
    feed_period_days: int = Field(
        30, ge=1, le=366, description="Length of one period of Feed, in days."
    )
    stance_price_usd: Decimal = Field(
        Decimal("0.25"),
        gt=0,
        le=100_000,
        description="Price of one stance read by x402 without Feed, in USD.",
    )

    @model_validator(mode="after")
    def _default_base_url(self) -> Self:
        if not self.base_url:
            object.__setattr__(self, "base_url", f"http://{reachable(self.host)}:{self.port}")
        return self

    @model_validator(mode="after")
    def _readings_stay_fresh(self) -> Self:
        if self.poll_seconds + self.request_seconds >= self.feed_max_age_seconds:
            raise ValueError(
                "BAROGRAPH_FEED_MAX_AGE_SECONDS must be more than BAROGRAPH_POLL_SECONDS and "
                "BAROGRAPH_REQUEST_SECONDS together, or the data is stale between two readings"
            )
        if 60 + self.poll_seconds + self.request_seconds >= self.signals_max_age_seconds:
            raise ValueError(
                "BAROGRAPH_SIGNALS_MAX_AGE_SECONDS must be more than a minute, "
                "BAROGRAPH_POLL_SECONDS and BAROGRAPH_REQUEST_SECONDS together, because signals "
                "are evaluated once per minute"
            )
        return self

    @model_validator(mode="after")
    def _limits_have_one_place(self) -> Self:
        if self.limits != "auto" and self.limits_url.get_secret_value():
            raise ValueError(
                f"BAROGRAPH_LIMITS={self.limits} and BAROGRAPH_LIMITS_URL contradict each other: "
                "unset BAROGRAPH_LIMITS to count rate limits on the server that "
                "BAROGRAPH_LIMITS_URL names"
            )
        if self.limits == "memory" and self.workers > 1:
            raise ValueError(
                "with BAROGRAPH_LIMITS=memory each worker counts separately, so several workers "
                "would multiply the rate limits: use BAROGRAPH_LIMITS=sqlite, a file that the "
                "workers of one host share, or BAROGRAPH_LIMITS_URL, a Valkey server that several "
                "hosts share"
            )
        return self

    @model_validator(mode="after")
    def _mail_has_a_sender(self) -> Self:
        if self.sends_mail and not self.mail_from:
            raise ValueError("BAROGRAPH_MAIL_FROM is needed together with BAROGRAPH_SMTP_URL")
        return self

    @model_validator(mode="after")
    def _fund_has_its_own_file(self) -> Self:
        if self.etf_fund != IBIT and self.etf_url == IBIT_URL and self.etf_file is None:
            raise ValueError(
                f"BAROGRAPH_ETF_URL is the file of {IBIT}: set it to the holdings file of "
                f"{self.etf_fund}"
            )
        return self

    @model_validator(mode="after")
    def _identity_has_an_address(self) -> Self:
        if (self.identity == "none") != (not self.identity_url):
            raise ValueError(
                "BAROGRAPH_IDENTITY (supabase or oidc) and BAROGRAPH_IDENTITY_URL go together"
            )
        if self.identity == "supabase" and not self.identity_api_key.get_secret_value():
            raise ValueError(
                "BAROGRAPH_IDENTITY=supabase needs BAROGRAPH_IDENTITY_API_KEY, the project's "
                "publishable or anon key: the provider answers no request without it"
            )
        return self

    @model_validator(mode="after")
    def _payments_are_complete(self) -> Self:
        needed = (self.x402_facilitator_url, self.x402_asset, self.x402_pay_to)
        if any(needed) and not all(needed):
            raise ValueError(
                "BAROGRAPH_X402_FACILITATOR_URL, BAROGRAPH_X402_ASSET and BAROGRAPH_X402_PAY_TO "
                "are needed together"
            )
        key = bool(self.x402_cdp_key_id), bool(self.x402_cdp_key_secret.get_secret_value())
        if any(key) and not all(key):
            raise ValueError(
                "BAROGRAPH_X402_CDP_KEY_ID and BAROGRAPH_X402_CDP_KEY_SECRET are needed together"
            )
        if any(key) and self.x402_facilitator_token.get_secret_value():
            raise ValueError(
                "BAROGRAPH_X402_FACILITATOR_TOKEN and BAROGRAPH_X402_CDP_KEY_ID can't both be set: "
                "a facilitator takes either a fixed token or signed requests"
            )
        for price in (self.feed_price_usd, self.stance_price_usd):
            if price.scaleb(self.x402_asset_decimals) % 1:
                raise ValueError("a price must be a whole number of the token's smallest unit")
        if self.feed_price_usd == self.stance_price_usd:
            raise ValueError("Feed and a stance must differ in price, or a proof would fit both")
        return self

    @field_validator("guides_file", "etf_file", mode="before")
    @classmethod
    def _optional_file(cls, value: object) -> object:
        return None if value == "" else value

    @field_validator("record_since")
    @classmethod
    def _day(cls, value: str) -> str:
        if value and _DAY.fullmatch(value) is None:
            raise ValueError("a day such as 2025-01-31 is needed")
        if value:
            date.fromisoformat(value)
        return value

    @field_validator("database_url", "history_url", "limits_url")
    @classmethod
    def _server_address(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        form, needed = _SERVER_ADDRESSES[str(info.field_name)]
        if value.get_secret_value() and form.fullmatch(value.get_secret_value()) is None:
            raise ValueError(f"{needed}. Percent-encode special characters of the password.")
        return value

    @model_validator(mode="after")
    def _history_has_its_own_place(self) -> Self:
        history, others = self.history_address, (self.database_path, self.limits_path)
        if isinstance(history, Path):
            taken = history.resolve() in {each.resolve() for each in others}
        else:
            taken = is_same_database(self.database_url.get_secret_value(), history)
        if taken:
            raise ValueError("BAROGRAPH_HISTORY_URL must name a database of its own")
        return self

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

    @field_validator("host", "metrics_host")
    @classmethod
    def _ip_address(cls, value: str) -> str:
        ip_address(value)
        return value

    @field_validator("x402_facilitator_url", "x402_chain_url")
    @classmethod
    def _money_address(cls, value: str) -> str:
        """Require TLS: an attacker who can change the replies decides who has paid."""
        if value and _HTTP_ADDRESS.fullmatch(value) is None:
            raise ValueError("an https:// address without a trailing slash is needed")
        return _safe(value, "its replies decide about money")

    @field_validator("identity_url")
    @classmethod
    def _issuer(cls, value: str) -> str:
        """Allow a trailing slash: with and without it are different issuers."""
        if value and _HTTP_ADDRESS.fullmatch(value.removesuffix("/")) is None:
            raise ValueError("an https:// address is needed")
        return _safe(value, "tokens are sent there")

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
        if self.limits_url.get_secret_value():
            return False
        return self.limits == "sqlite" or (self.limits == "auto" and self.workers > 1)

    @property
    def stop_seconds(self) -> int:
        """How long a web worker may take to stop.

        A worker that takes payments may finish a settlement first, or its payer would not know
        the result.
        """
        return 40 if self.takes_payments else 3

    @property
    def takes_payments(self) -> bool:
        """Whether Feed and single stances are sold by x402."""
        return bool(self.x402_facilitator_url)

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

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            ConfigurationError: a name is unknown, or a value is invalid.
        """
        values = {
            name.removeprefix(PREFIX).lower(): value
            for name, value in environment.items()
            if is_setting(name)
        }
        for name in values.keys() - cls.model_fields.keys():
            raise ConfigurationError(_unknown_setting(name, list(cls.model_fields)))
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigurationError(_explain(error)) from error

    def to_environment(self) -> dict[str, str]:
        """The variables from which `from_environment` reads the same settings."""
        return {PREFIX + name.upper(): _text(value) for name, value in self.model_dump().items()}


def _text(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return "" if value is None else str(value)


def is_same_database(first: str, second: str) -> bool:
    """Whether two URLs name one database; users and options don't matter."""
    return _database_place(first) == _database_place(second)


def _database_place(url: str) -> tuple[str, str]:
    found = _POSTGRESQL_ADDRESS.fullmatch(url)
    if found is None:
        return "", url
    return re.sub(r":5432(?=,|$)", "", found["hosts"].lower()), found["name"]


def _parse_networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def reachable(host: str) -> str:
    """The host for a link to a bound address: nothing can connect to 0.0.0.0."""
    address = ip_address(host)
    if address.is_unspecified:
        return "127.0.0.1" if address.version == IPV4 else "[::1]"
    return host if address.version == IPV4 else f"[{host}]"


def is_safe_address(address: str) -> bool:
    """Whether the connection uses TLS or stays on this machine.

    Raises:
        ValueError: it is not a URL.
    """
    parts = urlsplit(address)
    if parts.scheme != "http":
        return parts.scheme == "https"
    if parts.hostname == "localhost":
        return True
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _safe(address: str, reason: str) -> str:
    if address and not is_safe_address(address):
        raise ValueError(
            f"an https:// address is needed, because {reason}; http:// works only on this machine "
            "(127.0.0.1, [::1] or localhost)"
        )
    return address


def is_setting(name: str) -> bool:
    """Whether an environment variable is meant for Barograph."""
    return name.startswith(PREFIX)


def _unknown_setting(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {PREFIX}{near[0].upper()}?" if near else ""
    return f"{PREFIX}{name.upper()} is not a setting{hint} (docs/settings.md lists them all)"


def _explain(error: ValidationError) -> str:
    return "; ".join(
        "".join(f"{PREFIX}{str(name).upper()}: " for name in problem["loc"][:1])
        + problem["msg"].removeprefix("Value error, ")
        for problem in error.errors()
    )
