"""The paths of pages. Paths that API documents link to are defined with those documents."""

from barograph.briefs.documents import BRIEF_PAGES
from barograph.entitlements.refusals import PRICING_PATH
from barograph.guides.documents import GUIDE_PAGES
from barograph.markets.symbols import has_page
from barograph.signals.documents import DOCS_PATH, ENDPOINT_DOCS, SIGNAL_PAGES

HOME_PATH = "/"
MARKETS_PATH = "/markets"
MARKETS_CSV = f"{MARKETS_PATH}.csv"
MARKETS_FOLDER = f"{MARKETS_PATH}/"
CROSS_PAGE = "/cross"
CROSS_FOLDER = f"{CROSS_PAGE}/"
VENUES_PAGE = "/venues"
HEATMAP_PAGE = "/heatmap"
FUNDING_PAGE = "/funding"
OPEN_INTEREST_PAGE = "/open-interest"
CARRY_PAGE = "/carry"
LIQUIDATIONS_PAGE = "/liquidations"
SIGNALS_FOLDER = SIGNAL_PAGES
SIGNALS_PAGE = SIGNALS_FOLDER.rstrip("/")
BRIEFS_FOLDER = BRIEF_PAGES
BRIEFS_PAGE = BRIEFS_FOLDER.rstrip("/")
GUIDES_PAGE = GUIDE_PAGES
GUIDES_FOLDER = f"{GUIDES_PAGE}/"
RECORD_PATH = "/record"
RECORD_FOLDER = f"{RECORD_PATH}/"
RECORD_DETAILS = f"{RECORD_FOLDER}details"
ACCURACY_PAGE = "/accuracy"
DEVELOPERS_PATH = DOCS_PATH
ENDPOINTS_PAGE = ENDPOINT_DOCS
METHODS_PAGE = f"{DEVELOPERS_PATH}/methods"
REFERENCE_PATH = "/docs"
REFERENCE_FOLDER = f"{REFERENCE_PATH}/"
STATUS_PAGE = "/status"
SEARCH_PAGE = "/search"
ALERTS_PAGE = "/alerts"
"""Not in `PAGES`: it is about its owner, so it is never cached or read by other origins."""

DATA_FOLDER = "/data/"
CHART_FOLDER = "/chart/"
STATIC_FOLDER = "/static/"

PLACES = {
    "home": HOME_PATH,
    "markets": MARKETS_PATH,
    "venues": VENUES_PAGE,
    "heatmap": HEATMAP_PAGE,
    "funding": FUNDING_PAGE,
    "open_interest": OPEN_INTEREST_PAGE,
    "liquidations": LIQUIDATIONS_PAGE,
    "signals": SIGNALS_PAGE,
    "briefs": BRIEFS_PAGE,
    "guides": GUIDES_PAGE,
    "record": RECORD_PATH,
    "record_details": RECORD_DETAILS,
    "accuracy": ACCURACY_PAGE,
    "developers": DEVELOPERS_PATH,
    "endpoints": ENDPOINTS_PAGE,
    "errors": f"{DEVELOPERS_PATH}/errors",
    "agents": f"{DEVELOPERS_PATH}/agents",
    "feed": f"{DEVELOPERS_PATH}/feed",
    "methods": METHODS_PAGE,
    "docs": REFERENCE_PATH,
    "pricing": PRICING_PATH,
    "status": STATUS_PAGE,
    "search": SEARCH_PAGE,
}
"""The pages that always exist, by their names in templates."""

PAGES = tuple(PLACES.values())
MOVED = (CROSS_PAGE, CARRY_PAGE)
"""Former pages, which redirect."""


def _links(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((PLACES[name], name.replace("_", " ").capitalize()) for name in names)


NAVIGATION = _links(
    *("markets", "funding", "open_interest", "liquidations", "heatmap", "signals", "briefs")
)
"""The links to the market, in the header of every page."""

SECOND_ROW = ((ALERTS_PAGE, "Alerts"), *_links("developers", "pricing"))
"""The links to the service itself, in the header and in the footer."""

FOOT = _links("venues", "record", "status", "accuracy")
"""The links that only the footer has."""


def coin_page(asset: str, venue: str = "") -> str | None:
    """The page of a coin at all venues, or at one; None if no address can have its name."""
    if not has_page(asset):
        return None
    return f"{MARKETS_FOLDER}{asset}{f'?venue={venue}' if venue else ''}"
