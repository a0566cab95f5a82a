"""What the pages of guides show (pure)."""

from barograph.guides.catalog import Catalog, Guide
from barograph.guides.documents import GUIDES_PATH
from barograph.site.frame.paths import GUIDES_FOLDER, GUIDES_PAGE
from barograph.site.frame.writer import Pages


def guide_paths(catalog: Catalog) -> dict[str, Guide]:
    """The page of every guide, by its path."""
    return {f"{GUIDES_FOLDER}{guide.slug}": guide for guide in catalog.guides}


def write_guides(pages: Pages, catalog: Catalog) -> bytes:
    """The catalog, with every price."""
    return pages.fill("guides.html", here=GUIDES_PAGE, catalog=catalog, api_path=GUIDES_PATH)


def write_guide(pages: Pages, guide: Guide, catalog: Catalog) -> bytes:
    """One guide of a catalog."""
    return pages.fill(
        "guide.html", here=GUIDES_PAGE, guide=guide, catalog=catalog, api_path=GUIDES_PATH
    )
