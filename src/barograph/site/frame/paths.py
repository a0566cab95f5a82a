"""The addresses of pages; what documents link to is named where they are written."""

from barograph.access.feed_entry import PRICING_PATH
from barograph.briefs.documents import PAGE_FOLDER as BRIEFS_FOLDER
from barograph.guides.documents import PAGES_PATH as GUIDES_PAGE
from barograph.signals.documents import DOCS_PATH as DEVELOPERS_PATH
from barograph.signals.documents import PAGE_FOLDER as SIGNALS_FOLDER

__all__ = [
    "BRIEFS_FOLDER",
    "BRIEFS_PAGE",
    "DATA_FOLDER",
    "DEVELOPERS_PATH",
    "GUIDES_PAGE",
    "HOME_PATH",
    "MARKETS_PATH",
    "NAVIGATION",
    "PAGES",
    "PRICING_PATH",
    "RECORD_PATH",
    "REFERENCE_PATH",
    "SIGNALS_FOLDER",
    "SIGNALS_PAGE",
    "STATIC_FOLDER",
    "STATUS_PAGE",
]

HOME_PATH = "/"
MARKETS_PATH = "/markets"
SIGNALS_PAGE = SIGNALS_FOLDER.rstrip("/")
BRIEFS_PAGE = BRIEFS_FOLDER.rstrip("/")
RECORD_PATH = "/record"
REFERENCE_PATH = "/docs"
STATUS_PAGE = "/status"
DATA_FOLDER = "/data/"
STATIC_FOLDER = "/static/"

PAGES = (
    HOME_PATH,
    MARKETS_PATH,
    SIGNALS_PAGE,
    BRIEFS_PAGE,
    GUIDES_PAGE,
    RECORD_PATH,
    DEVELOPERS_PATH,
    REFERENCE_PATH,
    PRICING_PATH,
    STATUS_PAGE,
)
"""Those that always stand, from the first that a reader wants to the last."""

NAVIGATION = (
    (MARKETS_PATH, "Markets"),
    (SIGNALS_PAGE, "Signals"),
    (BRIEFS_PAGE, "Briefs"),
    (RECORD_PATH, "Record"),
    (DEVELOPERS_PATH, "Developers"),
    (PRICING_PATH, "Pricing"),
    (STATUS_PAGE, "Status"),
)
