"""The addresses of pages; what documents link to is named where they are written."""

from barograph.briefs.documents import PAGE_FOLDER as BRIEFS_FOLDER
from barograph.entitlements.refusals import PRICING_PATH
from barograph.guides.documents import PAGES_PATH as GUIDES_PAGE
from barograph.signals.documents import DOCS_PATH as DEVELOPERS_PATH
from barograph.signals.documents import PAGE_FOLDER as SIGNALS_FOLDER

__all__ = [
    "BRIEFS_FOLDER",
    "BRIEFS_PAGE",
    "DATA_FOLDER",
    "DEVELOPERS_PATH",
    "GUIDES_FOLDER",
    "GUIDES_PAGE",
    "HOME_PATH",
    "MARKETS_FOLDER",
    "MARKETS_PATH",
    "NAVIGATION",
    "PAGES",
    "PLACES",
    "PRICING_PATH",
    "RECORD_FOLDER",
    "RECORD_PATH",
    "REFERENCE_FOLDER",
    "REFERENCE_PATH",
    "SIGNALS_FOLDER",
    "SIGNALS_PAGE",
    "STATIC_FOLDER",
    "STATUS_PAGE",
]

HOME_PATH = "/"
MARKETS_PATH = "/markets"
MARKETS_FOLDER = f"{MARKETS_PATH}/"
SIGNALS_PAGE = SIGNALS_FOLDER.rstrip("/")
BRIEFS_PAGE = BRIEFS_FOLDER.rstrip("/")
GUIDES_FOLDER = f"{GUIDES_PAGE}/"
RECORD_PATH = "/record"
RECORD_FOLDER = f"{RECORD_PATH}/"
REFERENCE_PATH = "/docs"
REFERENCE_FOLDER = f"{REFERENCE_PATH}/"
STATUS_PAGE = "/status"
DATA_FOLDER = "/data/"
STATIC_FOLDER = "/static/"

PLACES = {
    "home": HOME_PATH,
    "markets": MARKETS_PATH,
    "signals": SIGNALS_PAGE,
    "briefs": BRIEFS_PAGE,
    "guides": GUIDES_PAGE,
    "record": RECORD_PATH,
    "developers": DEVELOPERS_PATH,
    "docs": REFERENCE_PATH,
    "pricing": PRICING_PATH,
    "status": STATUS_PAGE,
}
"""The pages that always stand, as templates call them, from the first that a reader wants on."""

PAGES = tuple(PLACES.values())

NAVIGATION = (
    (MARKETS_PATH, "Markets"),
    (SIGNALS_PAGE, "Signals"),
    (BRIEFS_PAGE, "Briefs"),
    (GUIDES_PAGE, "Guides"),
    (RECORD_PATH, "Record"),
    (DEVELOPERS_PATH, "Developers"),
    (PRICING_PATH, "Pricing"),
    (STATUS_PAGE, "Status"),
)
