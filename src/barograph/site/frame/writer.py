"""Where pages are written (pure): templates, filled and encoded."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from barograph import NOTICE
from barograph.discovery.files import LLMS_PATH, OPENAPI_PATH
from barograph.kit.text import price, usd
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND, iso_timestamp
from barograph.limits.rate_limits import RateLimit
from barograph.signals.documents import SIGNALS_PATH
from barograph.site.frame.paths import NAVIGATION, PLACES, STATIC_FOLDER
from barograph.site.frame.static_files import packaged_files


class _Careful(MarkdownIt):
    """Knows no link but to the web; what is not one stays text."""

    def validateLink(self, url: str) -> bool:  # noqa: N802 - the library's own name
        return url.lower().startswith(("http://", "https://"))


def render_markdown(text: str) -> Markup:
    """Render a text for a page that has its own first heading, so that `#` is a second one."""
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        if token.tag == "h1":
            token.tag = "h2"
    # Safe by construction: every text is escaped by the renderer and no HTML passes through.
    return Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))  # noqa: S704


_MARKDOWN = _Careful("commonmark", {"html": False}).enable("table").disable("image")


class Terms(NamedTuple):
    """What this instance asks for, and whether it takes it by x402."""

    feed_price: Decimal
    feed_period_days: int
    stance_price: Decimal
    takes_payments: bool
    contact: str = ""
    """Where people ask for Feed or Reserve, as `mailto:` or https; empty: not configured."""


SITE_NAME = "Barograph"
SIMULATED = "simulated "
"""A source that is called so is told on every page."""

CENTS = 2
NOT_KNOWN = Markup('<span class="unknown" title="not known">—</span>')
"""What stands where a number is not known: never a zero."""


class Pages:
    """Writes every page of the instance at `base_url`.

    Links go by path, so that the pages work under whatever name they are reached; what is meant
    to be copied carries the whole address.
    """

    def __init__(self, base_url: str, data_source: str = "") -> None:
        self.base_url = base_url
        self.root = urlsplit(base_url).path
        self.files = packaged_files()
        self._templates = Environment(
            loader=PackageLoader("barograph.site"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= _FILTERS
        self._templates.globals |= {
            "base_url": base_url,
            "data_source": data_source,
            "is_simulated": data_source.startswith(SIMULATED),
            "root": self.root,
            "static": self.static,
            "site_name": SITE_NAME,
            "navigation": NAVIGATION,
            "places": PLACES,
            "here": "",
            "notice": NOTICE,
            "signals_path": SIGNALS_PATH,
            "openapi_path": OPENAPI_PATH,
            "llms_path": LLMS_PATH,
        }

    def static(self, name: str) -> str:
        """The path of a static file, which changes when the file does."""
        return f"{self.root}{STATIC_FOLDER}{name}?v={self.files.version(name)}"

    def fill(self, template: str, **values: object) -> bytes:
        """Write one page. `here` is its place in the navigation."""
        return self._templates.get_template(template).render(values).encode()

    def not_found(self) -> bytes:
        """There is no such page."""
        return self.fill("not_found.html")

    def unavailable(self) -> bytes:
        """There is such a page, but not now."""
        return self.fill("unavailable.html")


def price_usd(amount: float | Decimal) -> str:
    """What something costs, with every digit it has: `29 USD`, `44.50 USD`, `0.001 USD`."""
    whole, _, parts = f"{Decimal(str(amount)).normalize():,f}".partition(".")
    return f"{whole}.{parts:0<{CENTS}} USD" if parts else f"{whole} USD"


def per(allowance: RateLimit) -> str:
    """An allowance in words: `120 per hour`."""
    unit = {MINUTE: "minute", HOUR: "hour", DAY: "day"}[allowance.window]
    return f"{allowance.requests:,} per {unit}"


def rate(percent: float) -> str:
    """A funding rate: always signed, because the sign says who pays whom."""
    return f"{percent:+.4f} %"


def moment(at: int) -> Markup:
    """An instant that people and programs can read."""
    exact = iso_timestamp(at)
    return Markup('<time datetime="{}">{} {} UTC</time>').format(exact, exact[:10], exact[11:16])


def clock_time(at: int, *, with_day: bool = False) -> Markup:
    """A time to the second: `16:39:05 UTC`."""
    exact = iso_timestamp(at)
    text = exact[:19].replace("T", " ") if with_day else exact[11:19]
    return Markup('<time datetime="{}">{} UTC</time>').format(exact, text)


def hour(at: int) -> Markup:
    """The time of an instant that is a whole hour: `16:00 UTC`."""
    exact = iso_timestamp(at)
    return Markup('<time datetime="{}">{} UTC</time>').format(exact, exact[11:16])


def day(at: int) -> Markup:
    """The day of an instant, as people write it."""
    when = datetime.fromtimestamp(at / SECOND, UTC)
    text = f"{when.day} {when:%B %Y}"
    return Markup('<time datetime="{}">{}</time>').format(iso_timestamp(at), text)


def _known(write: Callable[[float], str]) -> Callable[[float | None], str]:
    def show(value: float | None) -> str:
        return NOT_KNOWN if value is None else write(value)

    return show


_FILTERS: dict[str, Callable[..., str]] = {
    "markdown": render_markdown,
    "moment": moment,
    "clock_time": clock_time,
    "hour": hour,
    "day": day,
    "thousands": "{:,}".format,
    "price_usd": price_usd,
    "per": per,
    "usd": _known(usd),
    "price": _known(price),
    "rate": _known(rate),
    "percent": _known("{:.1f} %".format),
}
