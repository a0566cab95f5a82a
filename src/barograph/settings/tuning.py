"""Settings with good defaults: logs, metrics, data sources, limits and retention."""

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from barograph.settings.values import HTTP_ADDRESS, Group, HttpAddress, IpAddress, matching

IBIT = "IBIT"
IBIT_URL = (
    "https://www.ishares.com/us/products/333011/ishares-bitcoin-trust-etf/latest-holdings.csv"
)

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
FileAddress = Annotated[
    str,
    matching(
        re.compile(r"(?!.*(asOfDate|[{}]))https?://[!-~]+"),
        "the http:// or https:// address of the newest file is needed, without asOfDate and "
        f"without a placeholder, because the file names its own day; for IBIT: {IBIT_URL}",
    ),
]
RateAddresses = Annotated[
    str,
    matching(
        re.compile(rf"({HTTP_ADDRESS.pattern})?(,({HTTP_ADDRESS.pattern})?)?", re.ASCII),
        "one or two http:// or https:// addresses without a trailing slash are needed, separated "
        "by a comma",
    ),
]

VenueAddresses = Annotated[
    str,
    matching(
        re.compile(rf"[a-z]+={HTTP_ADDRESS.pattern}(,[a-z]+={HTTP_ADDRESS.pattern})*", re.ASCII),
        "names and addresses such as gate=https://api.gateio.ws,aster=https://fapi.asterdex.com "
        "are needed",
    ),
]

REQUEST_SECONDS = 4.0
"""Timeout of one reading from an exchange, including retries."""


VENUE_SETTINGS: Final[Mapping[str, str]] = {
    "bybit": "exchange_rest_url",
    "hyperliquid": "hyperliquid_url",
    "binance": "binance_rest_url",
}
"""The settings of venues whose address has one of its own; `venue_urls` has the others."""


class Tuning(Group):
    """Settings whose defaults suit most instances."""

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Log level: `debug`, `info`, `warning` or `error`."
    )
    log_format: Literal["text", "json"] = Field(
        "text",
        description="Format of log lines: `text` for people, or `json`, one object per line "
        "with `time`, `level`, `logger`, `message` and the event's own fields.",
    )
    metrics_host: IpAddress = Field(
        "127.0.0.1",
        description="IP address that Prometheus metrics are served on. They hold no secrets, but "
        "keep them from the internet.",
    )
    metrics_names: Annotated[
        str, matching(re.compile(r"[a-z0-9.-]+(,[a-z0-9.-]+)*"), "names such as web-1,web-2")
    ] = Field(
        "",
        description="Host names by which Prometheus addresses that port, in lower case, separated "
        "by commas.",
    )
    metrics_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Port of the [metrics](metrics.md). All processes with the same data folder "
        "share it. 0 turns metrics off.",
    )
    repository_url: HttpAddress = Field(
        "",
        description="Address of the source code that this instance runs, such as "
        "`https://github.com/NAME/barograph`; published as `repository` in "
        "`/api/mcp/server.json`.",
    )
    exchange_rest_url: HttpAddress = Field(
        "https://api.bybit.com",
        min_length=1,
        description="Base URL of Bybit's REST API. Set it to use a regional host; the websocket "
        "follows it.",
    )
    hyperliquid_url: HttpAddress = Field(
        "https://api.hyperliquid.xyz",
        min_length=1,
        description="Base URL of Hyperliquid's API.",
    )
    binance_rest_url: HttpAddress = Field(
        "https://fapi.binance.com",
        min_length=1,
        description="Base URL of Binance's REST API for USDⓈ-M futures.",
    )
    venue_urls: VenueAddresses = Field(
        "",
        description="REST base URLs of venues without their own setting, such as "
        "`gate=https://api.gateio.ws,aster=https://fapi.asterdex.com`; the websockets follow them. "
        "Venues that you don't name keep their usual address.",
    )
    exchange_source: str = Field(
        "Bybit v5 public market data (USDT perpetuals)",
        min_length=1,
        description="Text of every published `source` from Bybit. If it starts with `simulated`, "
        "every page says so at the top, and so does the `source` of every other venue.",
    )
    poll_seconds: float = Field(
        5.0,
        gt=0,
        le=60,
        description="Seconds between two readings of all perpetuals; at least 2 with Hyperliquid "
        "or Binance, because of their rate limits.",
    )
    feed_max_age_seconds: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="Freshness limit of the market feed. Older data returns 502 and is never "
        "shown.",
    )
    guides_file: Path | None = Field(
        None,
        description="Guide catalog (`.toml` or `.json`) that replaces the packaged sample. "
        "Check it with `barograph guides check FILE`.",
    )
    record_since: str = Field(
        "",
        description="Start date of the paper-trading record whose age `/badge/record.svg` shows, "
        "such as `2025-01-31`.",
    )
    liquidations_min_coverage_pct: float = Field(
        95.0,
        ge=0,
        le=100,
        description="Share of the last 24 hours, in percent, that must be covered for `liq24h` "
        "to be available.",
    )
    stance_grace_hours: float = Field(
        6.0,
        ge=0,
        le=72,
        description="Hours that a stance stays active after the next expected publication of "
        "its evidence.",
    )
    rates_url: RateAddresses = Field(
        "https://home.treasury.gov,https://markets.newyorkfed.org",
        description="Sources of rates: the address of the US Treasury's daily par yields, a comma, "
        "and the address of SOFR and EFFR. A single address without a comma serves both. Rates "
        "whose address is empty are not read.",
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
    witness_policy: Path | None = Field(
        None,
        description="File with the [witnesses](history.md#witnesses) of the public log, as a C2SP "
        "tlog-policy. If empty, only our key signs.",
    )
    reveal_after_days: int = Field(
        0,
        ge=0,
        le=3650,
        description="Days after which a recorded stance [becomes "
        "public](history.md#publish-stances-after-a-while) and counts on `/accuracy`. "
        "0 turns it off.",
    )

    def venue_url(self, name: str) -> str:
        """The base address of a venue's REST API; empty for its usual one."""
        given = dict(part.split("=", 1) for part in self.venue_urls.split(",") if part)
        own = VENUE_SETTINGS.get(name)
        return given.get(name, "") if own is None else str(getattr(self, own))

    @property
    def treasury_url(self) -> str:
        """Where the US Treasury's daily par yields are; empty if they are not read."""
        return self.rates_url.partition(",")[0]

    @property
    def nyfed_url(self) -> str:
        """Where SOFR and EFFR are; empty if they are not read."""
        return self.rates_url.rpartition(",")[2]

    @property
    def macro_source(self) -> str:
        """What simulated rates and ETF series have as `source` instead of a publisher's name."""
        is_simulated = self.exchange_source.startswith("simulated")
        return "simulated daily figures (demo data)" if is_simulated else ""

    @field_validator("guides_file", "etf_file", "witness_policy", mode="before")
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

    @model_validator(mode="after")
    def _readings_stay_fresh(self) -> Self:
        if self.poll_seconds >= self.feed_max_age_seconds - REQUEST_SECONDS:
            raise ValueError(
                f"BAROGRAPH_FEED_MAX_AGE_SECONDS must be more than {REQUEST_SECONDS:g} s longer "
                "than BAROGRAPH_POLL_SECONDS, or the data is stale between two readings"
            )
        return self

    @model_validator(mode="after")
    def _fund_has_its_own_file(self) -> Self:
        if self.etf_fund != IBIT and self.etf_url == IBIT_URL and self.etf_file is None:
            raise ValueError(
                f"BAROGRAPH_ETF_URL is the file of {IBIT}: set it to the holdings file of "
                f"{self.etf_fund}"
            )
        return self
