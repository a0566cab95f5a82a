"""What the pages of guides show (pure)."""

from barograph.guides.catalog import Catalog, Guide
from barograph.guides.documents import GUIDES_PATH, PAGES_PATH
from barograph.site.frame.writer import Pages


def guide_paths(catalog: Catalog) -> dict[str, Guide]:
    """The page of every guide, by its path."""
    return {f"{PAGES_PATH}/{guide.slug}": guide for guide in catalog.guides}


def write_guides(pages: Pages, catalog: Catalog) -> bytes:
    """The catalog, with every price."""
    return pages.fill("guides.html", here=PAGES_PATH, catalog=catalog, api_path=GUIDES_PATH)


def write_guide(pages: Pages, guide: Guide, source: str) -> bytes:
    """One guide of the catalog of that source."""
    return pages.fill(
        "guide.html", here=PAGES_PATH, guide=guide, source=source, api_path=GUIDES_PATH
    )
