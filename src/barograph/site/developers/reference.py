"""Tables, example programs and releases on the developer page (pure)."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from barograph.alerts.records import MAX_ALERTS
from barograph.badges.documents import BADGE_FOLDER, GAUGE_PATH
from barograph.badges.svg import GAUGE_SIZE
from barograph.discovery.mcp_description import MCP_PATH
from barograph.entitlements.refusals import FEED_PATH
from barograph.events.records import MAX_PER_CALLER
from barograph.kit.timestamps import MINUTE
from barograph.limits.rate_limits import (
    ALERTS,
    ANONYMOUS,
    BAD_KEYS,
    MAILBOX,
    MCP_POSTS,
    PERSONAL,
    PROOFS,
    REGISTRATIONS,
    RENDERS,
    TOOL_CALLS,
    WEBHOOKS,
    Usage,
    rate_limit_fields,
)
from barograph.macro.evidence import (
    DEAD_ZONE,
    ENTER_PCT,
    LEAVE_PCT,
    LOOK_BACK,
    STREAK_DAYS,
    USUAL_DAYS,
)
from barograph.markets.documents import DERIVATIVES_PATH
from barograph.markets.regime import EDGES_PCT, LABELS
from barograph.signals.documents import SIGNALS_PATH
from barograph.signals.methods import METHODS
from barograph.site.paths import (
    ACCURACY_PAGE,
    DEVELOPERS_PATH,
    ENDPOINTS_PAGE,
    HOME_PATH,
    MARKETS_FOLDER,
    METHODS_PAGE,
    SIGNALS_FOLDER,
    STATUS_PAGE,
)
from barograph.site.record_pages import TITLES
from barograph.site.templating import Terms, per
from barograph.stances import etf, funding, rates
from barograph.stances.documents import STANCE_PATHS
from barograph.webhooks.records import MAX_WEBHOOKS


class DeveloperPage(NamedTuple):
    """One page for developers."""

    title: str
    parts: tuple[str, ...]
    """The templates of its sections."""

    sections: Mapping[str, str]
    """The titles of its sections by their anchors."""

    description: str


DEVELOPER_PAGES = {
    DEVELOPERS_PATH: DeveloperPage(
        "Developers",
        ("lists", "limits"),
        {
            "base-address": "At a glance",
            "first-call": "First call",
            "everything": "Get everything in one call",
            "next": "Follow next",
            "push": "Get notified",
            "alerts": "Alerts",
            "limits": "Limits",
            "get-a-key": "Get a key",
            "send-a-key": "Send a key",
        },
        "Base URL, first call, lists, limits and keys of the API.",
    ),
    f"{DEVELOPERS_PATH}/errors": DeveloperPage(
        "Errors",
        ("errors",),
        {"errors": "Errors"},
        "Every error of the API, with its status, its cause and what to do.",
    ),
    ENDPOINTS_PAGE: DeveloperPage(
        "Endpoints",
        ("reference",),
        {"endpoints": "Endpoints"},
        "Every endpoint of the API with its parameters, responses and an example call.",
    ),
    f"{DEVELOPERS_PATH}/agents": DeveloperPage(
        "Agents and badges",
        ("agents", "badges"),
        {
            "mcp": "Model Context Protocol",
            "gpt": "GPT actions",
            "agents": "Documentation for agents",
            "badges": "Badges",
        },
        "MCP, GPT actions, documents for agents, and badges.",
    ),
    f"{DEVELOPERS_PATH}/feed": DeveloperPage(
        "For Feed subscribers",
        ("feed",),
        {
            "feed": "For Feed subscribers",
            "x402": "Paying by x402",
            "client": "Client and terminal",
        },
        "How to use Feed from a program, pay by x402, and use the Python client.",
    ),
    METHODS_PAGE: DeveloperPage(
        "Methods",
        ("methods", "versions"),
        {
            "regime": "Regime bands",
            "signals": "Signals",
            "versioning": "Versions and deprecation",
            "changelog": "Changelog",
        },
        "How the regime and the signals are computed, and how the API changes.",
    ),
}
"""The pages by their paths."""

SECTIONS = {anchor: path for path, page in DEVELOPER_PAGES.items() for anchor in page.sections}
"""The page of each section."""

_EXAMPLE_NOW = 1_794_000_000_000
_EXAMPLE = Usage(ANONYMOUS, accepted=False, remaining=0, resets_in=2 * MINUTE)


class Sale(NamedTuple):
    """Something sold by x402, with its endpoint and its price in USD."""

    what: str
    path: str
    price: Decimal


class BadgeEntry(NamedTuple):
    """A badge of the gallery; `page` is where it links to."""

    name: str
    path: str
    text: str
    page: str
    height: int = 20


def sales(terms: Terms) -> list[Sale]:
    """Everything that this instance sells by x402."""
    if not terms.takes_payments:
        return []
    stances = [
        Sale(f"One read of {TITLES[kind]}, without Feed", path, terms.stance_price)
        for kind, path in STANCE_PATHS.items()
    ]
    return [Sale(f"Feed for {terms.feed_period_days} days", FEED_PATH, terms.feed_price), *stances]


def limits() -> list[tuple[str, str, str]]:
    """Every rate limit: what it is for, the limit, and what it is counted per."""
    return [
        (f"{SIGNALS_PATH} without a key", per(ANONYMOUS), _ADDRESS),
        (f"{SIGNALS_PATH} with a personal key", per(PERSONAL), "key"),
        (f"{SIGNALS_PATH} with an invalid key", per(BAD_KEYS), _ADDRESS),
        ("Requests for a key", per(REGISTRATIONS), _ADDRESS),
        ("E-mails with a key link", per(MAILBOX), "e-mail address"),
        ("MCP tool calls", per(TOOL_CALLS), _ADDRESS),
        ("Requests to the MCP server", per(MCP_POSTS), _ADDRESS),
        ("Payment proofs", per(PROOFS), _ADDRESS),
        (_UNCACHED, per(RENDERS), _ADDRESS),
        ("Open event streams", f"{MAX_PER_CALLER} at a time", _ADDRESS),
        ("Webhooks", f"{MAX_WEBHOOKS} at a time", "e-mail address"),
        ("New webhooks", per(WEBHOOKS), "e-mail address"),
        ("Alerts", f"{MAX_ALERTS} at a time", "e-mail address"),
        ("New and changed alerts, previews", per(ALERTS), "e-mail address"),
        ("All other free endpoints", "none", "not counted"),
    ]


def fields() -> list[tuple[str, str, str]]:
    """The rate-limit fields: name, an example from a refused request, and meaning."""
    examples = {
        name.decode(): value.decode() for name, value in rate_limit_fields(_EXAMPLE, _EXAMPLE_NOW)
    }
    return [(name, examples[name.lower()], meaning) for name, meaning in _FIELDS.items()]


def bands() -> dict[str, str]:
    """The funding rates of each regime label; the outer labels include their edges."""
    low, *between, high = LABELS
    lowest, *_, highest = EDGES_PCT
    edges = zip(between, EDGES_PCT, EDGES_PCT[1:], strict=False)
    return {
        low: f"{percent(lowest)} or less",
        **{label: f"{percent(start)} to {percent(end)}" for label, start, end in edges},
        high: f"{percent(highest)} or more",
        "unknown": "the rate is unknown or stale",
    }


def percent(value: float) -> str:
    """A signed rate without trailing zeros: `+0.015 %`."""
    return f"{value:+g} %"


_ADDRESS = "IP address"
_UNCACHED = (
    "Uncached reads of series, liquidations, incidents and events (one more per 256 KiB); "
    "uncached pages and downloads; history lists, checkpoints and proofs"
)
_FIELDS = {
    "RateLimit-Policy": "the limit's name, and q requests in any w seconds",
    "RateLimit": "r requests are left; one more becomes available in t seconds",
    "X-RateLimit-Limit": "same as q",
    "X-RateLimit-Remaining": "same as r",
    "X-RateLimit-Reset": "the end of the t seconds, as Unix time",
    "Retry-After": "only with 429: seconds until a request is accepted again",
}
BADGES = [
    BadgeEntry(
        "regime gauge",
        GAUGE_PATH,
        "The regime and the funding rate of BTC on a scale from shorts pay to longs pay. It has "
        "one size and follows the light or dark mode of the page.",
        HOME_PATH,
        GAUGE_SIZE[1],
    ),
    BadgeEntry(
        "regime",
        f"{BADGE_FOLDER}regime.svg",
        "The market regime, based on the funding rate of the BTC perpetual.",
        HOME_PATH,
    ),
    BadgeEntry(
        "BTC funding",
        f"{BADGE_FOLDER}funding/BTC.svg",
        "The funding rate of a perpetual and its interval. Replace BTC with any other symbol.",
        f"{MARKETS_FOLDER}BTC",
    ),
    BadgeEntry(
        "status",
        f"{BADGE_FOLDER}status.svg",
        "The health of the market feed and of the API.",
        STATUS_PAGE,
    ),
    *(
        BadgeEntry(
            method.name,
            f"{BADGE_FOLDER}signal/{method.key}.svg",
            f"The label of the signal “{method.name}”.",
            f"{SIGNALS_FOLDER}{method.key}",
        )
        for method in METHODS
    ),
    BadgeEntry(
        "accuracy",
        f"{BADGE_FOLDER}accuracy/funding-regime-stance.svg",
        "What followed the public stances of a kind: a finding, “could not tell”, or the number of "
        "cases or episodes if they are too few. Replace the kind with btc-etf-stance or "
        "rates-desk. The badge is not evidence of results with real money.",
        ACCURACY_PAGE,
    ),
    BadgeEntry(
        "paper record",
        f"{BADGE_FOLDER}record.svg",
        "Number of days since a legacy paper-trading record began (sinceDate), or “not started” if "
        "the operator configured no start. The badge counts elapsed time: days without "
        "observations count too, and the record was not checked for gaps. The badge is not "
        "evidence of results with real money or of the outcomes of paid stances.",
        f"{SECTIONS['badges']}#badges",
    ),
]
"""One badge of each kind, and those of all signals."""


FIRST_SYMBOL = "BTC"
FIRST_TARGET = f"{DERIVATIVES_PATH}?symbol={FIRST_SYMBOL}"


def programs(base_url: str) -> dict[str, str]:
    """The texts to copy, by their names in templates: the first calls, and a configuration."""
    server = {"type": "http", "url": f"{base_url}{MCP_PATH}"}
    return {
        "first_curl": f"curl '{base_url}{FIRST_TARGET}'",
        "first_python": f"""\
import json
from urllib.request import urlopen

with urlopen("{base_url}{FIRST_TARGET}", timeout=10) as answer:
    btc = json.load(answer)
print(btc["lastPrice"], btc["fundingRatePct"], btc["source"])""",
        "first_javascript": f"""\
const answer = await fetch("{base_url}{FIRST_TARGET}");
const btc = await answer.json();
if (!answer.ok) throw new Error(btc.error);
console.log(btc.lastPrice, btc.fundingRatePct, btc.source);""",
        "client_python": f"""\
from barograph_client import Barograph

with Barograph("{base_url}") as client:
    btc = client.derivatives("BTC")
    print(btc.lastPrice, btc.fundingRatePct, btc.source)
    print(client.market_state().regime.label)""",
        **_lists(base_url),
        "mcp_file": json.dumps({"mcpServers": {"barograph": server}}, indent=2),
    }


def _lists(base_url: str) -> dict[str, str]:
    """How to read lists, and how to get notified of changes."""
    events = f"{base_url}/api/v1/events"
    return {
        "all_curl": f"curl --compressed '{base_url}/api/v1/perpetuals'",
        "next_python": f"""\
import json
from urllib.request import urlopen

points, address = [], "{base_url}/api/v1/series/funding?symbol={FIRST_SYMBOL}"
while address:
    with urlopen(address, timeout=30) as answer:
        page = json.load(answer)
    points += page["points"]
    address = page["next"]
print(len(points), points[-1]["at"], points[-1]["value"])""",
        "stream_curl": f"curl -N '{events}/stream'",
        "stream_javascript": f"""\
const events = new EventSource("{events}/stream?type=regime.changed");
events.addEventListener("regime.changed", (message) => console.log(JSON.parse(message.data)));""",
        "webhook_curl": f"""\
curl -H 'X-API-Key: <KEY>' -H 'Content-Type: application/json' \\
  -d '{{"url": "https://example.com/hook", "types": ["regime.changed"]}}' \\
  '{base_url}/api/v1/webhooks'""",
        "alert_curl": f"""\
curl -H 'X-API-Key: <KEY>' -H 'Content-Type: application/json' \\
  -d '{{"measure": "funding", "symbols": ["BTC"], "when": "above", "value": 0.05}}' \\
  '{base_url}/api/v1/alerts/preview'""",
    }


class Release(NamedTuple):
    """One heading of CHANGELOG.md that has changes."""

    version: str
    date: str
    """ISO; empty if unreleased."""

    changes: tuple[str, ...]


RELEASES = (
    Release(
        "1.0.0",
        "2026-11-19",
        (
            "Free, without a key: market data of every perpetual, briefs, guides, signals, badges",
            "Personal keys by e-mail; rate limits use an exact sliding window",
            "The record of stances: append-only, hash-chained, with signed checkpoints and proofs",
            "Feed for subscribers, by token or wallet, and the comparison of two versions",
            "Payments by x402 v2, each settled once",
            "The site: markets, charts with downloads, the record and the recorded status",
            "MCP, OpenAPI, GPT actions, documentation for agents and a Python client",
            "Every perpetual in one call, series of every measure, liquidations, the log of events",
            "Events by server-sent events, by webhooks and as feeds; alerts by mail and chat",
            "Five venues side by side, totals of all of them, settled funding and carry",
        ),
    ),
)


STANCE_RULES = {
    funding.KIND: f"By the BTC funding that the primary venue settled, never another venue's. "
    f"Cautious if every rate of the last {funding.CROWD_HOURS} hours is at or above "
    f"{percent(funding.LONG_CROWDED_PCT)} per 8 h, stand-aside if every one is at or below "
    f"{percent(funding.SHORT_CROWDED_PCT)}. Otherwise constructive if the newest is at or below "
    f"{percent(funding.SHORT_PCT)}, else neutral. While the primary venue is unavailable, no "
    "version is issued, and the last one expires.",
    rates.KIND: f"By the change of the 10-year yield over {LOOK_BACK} data days: cautious if it "
    "rose by its usual move or more, constructive if it fell by as much, else neutral. The usual "
    f"move is one standard deviation over {LOOK_BACK} days, from the mean size of the last "
    f"{USUAL_DAYS} daily changes. While the curve counts as inverted, neutral becomes cautious and "
    f"constructive neutral: the 10-year yield was {DEAD_ZONE} points or more below the 3-month "
    f"yield, and has not been {DEAD_ZONE} above it since.",
    etf.KIND: f"Constructive if the net inflow of five data days reaches {ENTER_PCT} % of assets "
    f"and {STREAK_DAYS} of the days have inflows; it stays so while the five days are at or above "
    f"{LEAVE_PCT} %. Cautious for outflows in the same way, else neutral.",
}
"""By kind, how its rule decides."""
