"""Where pages are written (pure): templates, filled and encoded."""

from collections.abc import Sequence
from decimal import Decimal
from hashlib import sha256
from importlib.resources import files
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from barograph.access.allowances import PERSONAL
from barograph.access.feed_entry import (
    FEED_PATH,
    PRICING_PATH,
    RESERVE_PRICE_USD,
)
from barograph.access.mailboxes import MAX_LENGTH
from barograph.access.refusals import KEYS_PATH
from barograph.access.registration import LINK_HOURS
from barograph.briefs.documents import BRIEFS_PATH
from barograph.briefs.records import OPERATOR, Brief, ListedBrief
from barograph.discovery.paths import INDEX_PATH, OPENAPI_PATH
from barograph.guides.catalog import Catalog, Guide
from barograph.kit.timestamps import iso_timestamp
from barograph.markets.documents import DERIVATIVES_PATH, MARKET_STATE_PATH
from barograph.markets.regime import HYSTERESIS_PCT
from barograph.notice import NOTICE
from barograph.signals.catalog import METHODS, Method
from barograph.signals.documents import DOCS_PATH, SIGNALS_PATH
from barograph.signals.records import NOT_KNOWN, Signal, Signals
from barograph.site import reference
from barograph.site.markdown import render_markdown

SITE_NAME = "Barograph"
STYLESHEET = (files("barograph.site") / "site.css").read_bytes()
STYLESHEET_PATH = "/static/site.css"
DEVELOPERS_PATH = DOCS_PATH

NAVIGATION = [
    ("/signals", "Signals"),
    ("/briefs", "Briefs"),
    ("/guides", "Guides"),
    (DEVELOPERS_PATH, "Developers"),
    (PRICING_PATH, "Pricing"),
]


class Pages:
    """Writes every page of the instance at `base_url`.

    Links go by path, so that the pages work under whatever name they are reached; what is meant
    to be copied carries the whole address.
    """

    def __init__(self, base_url: str, data_source: str = "") -> None:
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
            "thousands": "{:,}".format,
            "usd": usd,
        }
        self.root = urlsplit(base_url).path
        version = sha256(STYLESHEET).hexdigest()[:12]
        self._templates.globals |= {
            "base_url": base_url,
            "data_source": data_source,
            "root": self.root,
            "stylesheet": f"{self.root}{STYLESHEET_PATH}?v={version}",
            "site_name": SITE_NAME,
            "navigation": NAVIGATION,
            "notice": NOTICE,
            "signals_path": SIGNALS_PATH,
        }

    def home(self) -> bytes:
        """What the service is, and everything that can be read."""
        return self._fill("home.html", endpoints=reference.ENDPOINTS.items())

    def guides(self, catalog: Catalog) -> bytes:
        """The catalog, with every price."""
        return self._fill("guides.html", catalog=catalog)

    def guide(self, guide: Guide, source: str) -> bytes:
        """One guide of the catalog of that source."""
        return self._fill("guide.html", guide=guide, source=source)

    def briefs(self, briefs: Sequence[ListedBrief]) -> bytes:
        """The newest briefs."""
        return self._fill("briefs.html", briefs=briefs)

    def brief(self, brief: Brief) -> bytes:
        """One brief and where it comes from."""
        return self._fill("brief.html", brief=brief, operator=OPERATOR)

    def signals(self, judged: Signals | None) -> bytes:
        """Every signal; without a fresh judgement each of them is unknown."""
        shown = [_shown(method, judged) for method in METHODS]
        return self._fill("signals.html", signals=shown, **_origin(judged))

    def signal(self, method: Method, judged: Signals | None) -> bytes:
        """One signal and how it is judged."""
        return self._fill(
            "signal.html",
            signal=_shown(method, judged),
            explanation=method.explanation.split("\n\n"),
            **_origin(judged),
        )

    def pricing(self, *, takes_payments: bool, feed_price: Decimal) -> bytes:
        """What is free, what is not, and how to get it."""
        return self._fill(
            "pricing.html",
            takes_payments=takes_payments,
            feed_path=FEED_PATH,
            feed_price=int(feed_price) if feed_price % 1 == 0 else float(feed_price),
            reserve_price=RESERVE_PRICE_USD,
            developers_path=DEVELOPERS_PATH,
        )

    def developers(self, *, can_register: bool) -> bytes:
        """How to use the service by program."""
        return self._fill(
            "developers.html",
            can_register=can_register,
            endpoints=reference.ENDPOINTS.items(),
            limits=reference.limits(),
            fields=reference.fields(),
            errors=reference.ERRORS,
            badges=reference.badges(),
            bands=reference.bands(),
            hysteresis=reference.percent(HYSTERESIS_PCT).lstrip("+"),
            methods=METHODS,
            openapi_path=OPENAPI_PATH,
            index_path=INDEX_PATH,
            market_state_path=MARKET_STATE_PATH,
            derivatives_path=DERIVATIVES_PATH,
            briefs_path=BRIEFS_PATH,
            keys_path=KEYS_PATH,
            link_hours=LINK_HOURS,
            max_email=MAX_LENGTH,
        )

    def link(self, token: str) -> bytes:
        """The button behind a mailed link."""
        return self._fill("link.html", token=token)

    def key(self, key: str) -> bytes:
        """A key, shown once."""
        return self._fill("key.html", key=key, personal=PERSONAL)

    def message(self, title: str, text: str) -> bytes:
        """What became of a request about keys."""
        return self._fill("message.html", title=title, text=text)

    def not_found(self) -> bytes:
        """There is no such page."""
        return self._fill("not_found.html")

    def unavailable(self) -> bytes:
        """There is such a page, but not now."""
        return self._fill("unavailable.html")

    def _fill(self, template: str, **values: object) -> bytes:
        return self._templates.get_template(template).render(values).encode()


def usd(price: float) -> str:
    """A price in words: `29 USD`, `44.50 USD`."""
    return f"{price:,} USD" if isinstance(price, int) else f"{price:,.2f} USD"


def moment(at: int) -> Markup:
    """An instant that people and programs can read."""
    exact = iso_timestamp(at)
    return Markup('<time datetime="{}">{} {} UTC</time>').format(exact, exact[:10], exact[11:16])


def _shown(method: Method, judged: Signals | None) -> Signal:
    for signal in () if judged is None else judged.signals:
        if signal.key == method.key:
            return signal
    return Signal(method.key, method.name, NOT_KNOWN.label, NOT_KNOWN.value, 0)


def _origin(judged: Signals | None) -> dict[str, object]:
    if judged is None:
        return {"source": None, "as_of": None}
    return {"source": judged.source, "as_of": judged.as_of}
