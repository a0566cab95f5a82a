"""Where pages are written (pure): templates, filled and encoded."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from barograph.access.feed_entry import PRICING_PATH
from barograph.kit.timestamps import SECOND, iso_timestamp
from barograph.markets.words import price, usd
from barograph.notice import NOTICE
from barograph.signals.documents import DOCS_PATH, SIGNALS_PATH
from barograph.site.frame.markdown import render_markdown

SITE_NAME = "Barograph"
DEVELOPERS_PATH = DOCS_PATH
STATIC_FOLDER = "/static/"

NAVIGATION = [
    ("/markets", "Markets"),
    ("/signals", "Signals"),
    ("/briefs", "Briefs"),
    ("/record", "Record"),
    (DEVELOPERS_PATH, "Developers"),
    (PRICING_PATH, "Pricing"),
    ("/status", "Status"),
]
NOT_KNOWN = Markup('<span class="unknown" title="not known">—</span>')
"""What stands where a number is not known: never a zero."""


def static_file(name: str) -> bytes:
    """A file that pages are made of."""
    return (files("barograph.site") / "static" / name).read_bytes()


@cache
def static_version(name: str) -> str:
    """What stands for the content of a file in its address."""
    return sha256(static_file(name)).hexdigest()[:12]


class Pages:
    """Writes every page of the instance at `base_url`.

    Links go by path, so that the pages work under whatever name they are reached; what is meant
    to be copied carries the whole address.
    """

    def __init__(self, base_url: str, data_source: str = "") -> None:
        self.base_url = base_url
        self.root = urlsplit(base_url).path
        self._templates = Environment(
            loader=PackageLoader("barograph.site"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "markdown": render_markdown,
            "moment": moment,
            "day": day,
            "thousands": "{:,}".format,
            "price_usd": price_usd,
            "usd": _known(usd),
            "price": _known(grouped),
            "rate": _known(rate),
            "percent": _known("{:.1f} %".format),
        }
        self._templates.globals |= {
            "base_url": base_url,
            "data_source": data_source,
            "root": self.root,
            "static": self.static,
            "site_name": SITE_NAME,
            "navigation": NAVIGATION,
            "here": "",
            "notice": NOTICE,
            "signals_path": SIGNALS_PATH,
        }

    def static(self, name: str) -> str:
        """The path of a static file, which changes when the file does."""
        return f"{self.root}{STATIC_FOLDER}{name}?v={static_version(name)}"

    def fill(self, template: str, **values: object) -> bytes:
        """Write one page. `here` is its place in the navigation."""
        return self._templates.get_template(template).render(values).encode()

    def not_found(self) -> bytes:
        """There is no such page."""
        return self.fill("not_found.html")

    def unavailable(self) -> bytes:
        """There is such a page, but not now."""
        return self.fill("unavailable.html")


def price_usd(amount: float) -> str:
    """A price in words: `29 USD`, `44.50 USD`."""
    return f"{amount:,} USD" if isinstance(amount, int) else f"{amount:,.2f} USD"


def grouped(amount: float) -> str:
    """A price with every digit it has, and its thousands apart: `92,784.5`."""
    whole, point, decimals = price(amount).partition(".")
    return f"{int(whole):,}{point}{decimals}"


def rate(percent: float) -> str:
    """A funding rate: always signed, because the sign says who pays whom."""
    return f"{percent:+.4f} %"


def moment(at: int) -> Markup:
    """An instant that people and programs can read."""
    exact = iso_timestamp(at)
    return Markup('<time datetime="{}">{} {} UTC</time>').format(exact, exact[:10], exact[11:16])


def day(at: int) -> Markup:
    """The day of an instant, as people write it."""
    when = datetime.fromtimestamp(at / SECOND, UTC)
    text = f"{when.day} {when:%B %Y}"
    return Markup('<time datetime="{}">{}</time>').format(iso_timestamp(at), text)


def _known(write: Callable[[float], str]) -> Callable[[float | None], str]:
    def show(value: float | None) -> str:
        return NOT_KNOWN if value is None else write(value)

    return show
