"""Render page templates, with numbers, times, tints and structured data for them (pure)."""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache, partial
from typing import NamedTuple
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from barograph import NOTICE, SITE_NAME
from barograph.briefs.records import Brief, in_words
from barograph.discovery.files import FEEDS, LLMS_PATH, OPENAPI_PATH
from barograph.kit.text import NBSP, coverage, price, rate, usd
from barograph.kit.timestamps import DAY, HOUR, MINUTE, iso_timestamp
from barograph.limits.rate_limits import RateLimit
from barograph.macro.records import NYFED_NOTICE, NYFED_TERMS
from barograph.signals.documents import SIGNALS_PATH
from barograph.signals.methods import TREND
from barograph.site.paths import (
    BRIEFS_FOLDER,
    DEVELOPERS_PATH,
    FOOT,
    GUIDES_PAGE,
    NAVIGATION,
    PLACES,
    SECOND_ROW,
    STATIC_FOLDER,
    coin_page,
)
from barograph.site.static_files import client_wheel, packaged_files

Edges = tuple[tuple[float, ...], tuple[float, ...]]
"""Where the tints begin: above zero, and below it without the sign."""

FUNDING_EDGES: Edges = ((0.015, 0.03, 0.06, 0.12), (0.005, 0.03, 0.06, 0.12))
"""In percent per 8 hours, from the bands of the regime: the resting rate of 0.01 has no tint."""

CHANGE_EDGES: Edges = ((0.5, 2.0, 5.0, 10.0),) * 2
"""In percent."""

INTEREST_MOVES_PCT = TREND.edges[-1]
"""From this change in 24 hours on, open interest in coins counts as rising or falling."""

_INTEREST_EDGES: Edges = (tuple(INTEREST_MOVES_PCT * times for times in (1, 2, 4, 8)),) * 2

UNKNOWN_TINT = "tint-unknown"


def funding_tint(funding_8h_pct: float | None) -> str:
    """`tint-0` at rest, `tint-up-1` to `tint-up-4` if longs pay, `tint-down-…` if shorts do."""
    return _tint(funding_8h_pct, FUNDING_EDGES)


def change_tint(change_pct: float | None) -> str:
    """`tint-0` for hardly any change, `tint-up-1` to `tint-up-4` for a rise, `tint-down-…`."""
    return _tint(change_pct, CHANGE_EDGES)


def interest_tint(change_pct: float | None) -> str:
    """As `change_tint`, for the 24-hour change of open interest: `tint-0` while it is flat."""
    return _tint(change_pct, _INTEREST_EDGES)


def _tint(value: float | None, edges: Edges) -> str:
    if value is None:
        return UNKNOWN_TINT
    strength = bisect_right(edges[value < 0], abs(value))
    return f"tint-{'up' if value > 0 else 'down'}-{strength}" if strength else "tint-0"


def _thing(kind: str, base_url: str, path: str, **members: object) -> dict[str, object]:
    about = {"@context": "https://schema.org", "@type": kind, "url": base_url + path}
    owner = {"@type": "Organization", "name": SITE_NAME, "url": f"{base_url}/"}
    return {**about, **members, "isAccessibleForFree": True, "publisher": owner, "author": owner}


def website(base_url: str, description: str) -> dict[str, object]:
    """The whole site."""
    return _thing("WebSite", base_url, "/", name=SITE_NAME, description=description)


def dataset(
    base_url: str, path: str, name: str, description: str, files: Mapping[str, str]
) -> dict[str, object]:
    """The data of a page; `files` are media types by path."""
    downloads = [
        {"@type": "DataDownload", "encodingFormat": kind, "contentUrl": base_url + file}
        for file, kind in files.items()
    ]
    dataset = _thing("Dataset", base_url, path, name=name, description=description)
    licence = f"{base_url}{DEVELOPERS_PATH}#licence"
    return {**dataset, "creator": dataset["author"], "license": licence, "distribution": downloads}


def article(base_url: str, brief: Brief) -> dict[str, object]:
    """A brief."""
    return _thing(
        "Article",
        base_url,
        f"{BRIEFS_FOLDER}{brief.slug}",
        headline=brief.headline,
        description=brief.summary,
        image=f"{base_url}/static/social.png",
        datePublished=iso_timestamp(brief.first_at),
        dateModified=iso_timestamp(brief.published_at),
        articleSection=in_words(brief.category),
        keywords=list(brief.coins),
    )


class _WebLinksOnly(MarkdownIt):
    """Allows only http and https links; other links stay text."""

    def validateLink(self, url: str) -> bool:  # noqa: N802 - the library's own name
        return url.lower().startswith(("http://", "https://"))


# Cached, because rendering Markdown blocks the event loop.
@lru_cache(maxsize=256)
def render_markdown(text: str) -> Markup:
    """Render Markdown for a page that has its own `h1`: headings start at `h2`."""
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        if token.tag == "h1":
            token.tag = "h2"
    # Safe: the renderer escapes all text, and HTML input is disabled.
    return Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))  # noqa: S704


_MARKDOWN = _WebLinksOnly("commonmark", {"html": False}).enable("table").disable("image")


class Terms(NamedTuple):
    """The prices of this instance, and whether it accepts x402 payments."""

    feed_price: Decimal
    feed_period_days: int
    stance_price: Decimal
    takes_payments: bool
    contact: str = ""
    """Where to request Feed or Reserve, as `mailto:` or https; empty: not configured."""


SIMULATED = "simulated "
"""Every page of an instance whose data source starts with this shows the demo notice."""

CENTS = 2
UNKNOWN = Markup('<span class="unknown" title="unknown">—</span>')
"""Shown in place of an unknown number, which is never shown as zero."""


class Templates:
    """Renders the pages of the instance at `base_url`.

    Links are paths, so that pages work under any host name. Text to copy has absolute URLs.
    """

    def __init__(
        self,
        base_url: str,
        data_source: str = "",
        *,
        uses_nyfed_rates: bool = False,
        has_venues: bool = False,
        has_guides: bool = True,
        phone_url: str = "",
    ) -> None:
        self.base_url = base_url
        self.root = urlsplit(base_url).path
        self.client_url = f"{base_url}{STATIC_FOLDER}{client_wheel().name}"
        self.files = packaged_files()
        self._environment = Environment(
            loader=PackageLoader("barograph.site"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= _FILTERS
        self._environment.globals |= {
            "base_url": base_url,
            "client_url": self.client_url,
            "data_source": data_source,
            "is_simulated": data_source.startswith(SIMULATED),
            "root": self.root,
            "static": self.static,
            "site_name": SITE_NAME,
            "website": partial(website, base_url),
            "dataset": partial(dataset, base_url),
            "coin_page": coin_page,
            "foot": FOOT,
            "navigation": NAVIGATION,
            # A sample catalog isn't for sale, so nothing links to it.
            "second_row": (*SECOND_ROW, (GUIDES_PAGE, "Guides")) if has_guides else SECOND_ROW,
            "has_venues": has_venues,
            "has_guides": has_guides,
            "places": PLACES,
            "phone_url": phone_url,
            "here": "",
            "notice": NOTICE,
            "rates_notice": NYFED_NOTICE if uses_nyfed_rates else "",
            "rates_terms": NYFED_TERMS,
            "signals_path": SIGNALS_PATH,
            "openapi_path": OPENAPI_PATH,
            "llms_path": LLMS_PATH,
            "feeds": FEEDS,
        }

    def static(self, name: str) -> str:
        """The path of a static file, with a version that changes with its content."""
        return f"{self.root}{STATIC_FOLDER}{name}?v={self.files[name].version}"

    def render(self, template: str, **values: object) -> bytes:
        """Render one page. `here` is its path in the navigation."""
        return self._environment.get_template(template).render(values).encode()


def price_usd(amount: float | Decimal) -> str:
    """A price with all its digits: `29 USD`, `44.50 USD`, `0.001 USD`."""
    whole, _, parts = f"{Decimal(str(amount)).normalize():,f}".partition(".")
    return f"{whole}.{parts:0<{CENTS}} USD" if parts else f"{whole} USD"


def per(allowance: RateLimit) -> str:
    """A rate limit in words: `120 per hour`."""
    unit = {MINUTE: "minute", HOUR: "hour", DAY: "day"}[allowance.window]
    return f"{allowance.requests:,} per {unit}"


def unbroken(text: str) -> str:
    """The same text, in which no line ends between a number and its unit."""
    return type(text)(_BEFORE_UNIT.sub(NBSP, text))  # Markup stays Markup


_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|(?:h|min|s|d|hours?|days?|USD|UTC)\b)")


def utc_text(at: int) -> str:
    """A time to the second: `2026-11-06 16:39:05 UTC`."""
    return f"{iso_timestamp(at)[:19].replace('T', ' ')} UTC"


def moment(at: int) -> Markup:
    """A date and time: `2026-11-06 16:39 UTC`."""
    return _time(at, date_and_time(at))


def clock_time(at: int, *, with_day: bool = False) -> Markup:
    """A time to the second, with or without its date: `16:39:05 UTC`."""
    text = utc_text(at)
    return _time(at, text if with_day else text[11:])


def hour(at: int) -> Markup:
    """A time to the minute: `16:00 UTC`."""
    return _time(at, f"{utc_text(at)[11:16]} UTC")


def day(at: int) -> Markup:
    """A date: `2026-11-06`."""
    return _time(at, utc_text(at)[:10])


def date_and_time(at: int) -> str:
    """A date and time as plain text: `2026-11-06 16:39 UTC`."""
    return f"{utc_text(at)[:16]} UTC"


def stamp(text: str) -> Markup:
    """A timestamp of a document, to the minute."""
    return Markup('<time datetime="{}">{} UTC</time>').format(text, text[:16].replace("T", " "))


def soon(at: int, now: int) -> str:
    """An expected time, rounded up to the minute, with its date if that is not today."""
    minute = -(-at // MINUTE) * MINUTE
    return (
        f"{utc_text(minute)[11:16]} UTC" if minute // DAY == now // DAY else date_and_time(minute)
    )


def duration_text(milliseconds: int) -> str:
    """A duration: `12 min`, `3 h 12 min`, `41 d 3 h`."""
    minutes = milliseconds // MINUTE
    days, hours, rest = minutes // (24 * 60), minutes // 60 % 24, minutes % 60
    if days:
        return f"{days} d {hours} h" if hours else f"{days} d"
    if hours:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{rest} min"


def period(window: str) -> str:
    """A window or horizon in words: `8 h`, `7 days`."""
    return window.replace("h", f"{NBSP}h").replace("d", f"{NBSP}days")


def _time(at: int, text: str) -> Markup:
    return Markup('<time datetime="{}">{}</time>').format(iso_timestamp(at), text)


def shown(value: float | None, write: Callable[[float], str]) -> str:
    """A number in words, or the mark of an unknown one."""
    return UNKNOWN if value is None else write(value)


def mark(amount: float) -> str:
    """A mark price, which some venues send with more digits than a price has."""
    return price(float(f"{amount:.6g}"))


def _optional(write: Callable[[float], str]) -> Callable[[float | None], str]:
    return lambda value: shown(value, write)


_FILTERS: dict[str, Callable[..., str]] = {
    "markdown": render_markdown,
    "moment": moment,
    "stamp": stamp,
    "clock_time": clock_time,
    "hour": hour,
    "day": day,
    "thousands": "{:,}".format,
    "price_usd": price_usd,
    "per": per,
    "period": period,
    "unbroken": unbroken,
    "coverage": coverage,
    "usd": _optional(usd),
    "price": _optional(price),
    "mark": mark,
    "rate": _optional(rate),
    "percent": _optional("{:.1f} %".format),
}
