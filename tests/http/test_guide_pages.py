"""The catalog on the site: every price disclosed, the sample said to be one."""

import json
from pathlib import Path
from typing import Any

import pytest

from barograph.guides.catalog import load_catalog
from barograph.site.templating import price_usd
from support.pages import SiteService


@pytest.mark.contract("guides.paid")
def test_every_guide_is_listed_with_its_price_and_the_sample_is_labelled(site: SiteService) -> None:
    text = site.look("/guides").text

    header, footer = site.ask("/guides").text.split("<main")
    assert ">Guides</a>" not in header
    assert '<a href="/guides">Guides</a>' in footer
    assert "27 paid trading guides" in text
    assert "sample, not for sale" in text
    assert "You cannot buy these guides" in text
    for guide in load_catalog(None).guides:
        assert guide.title in text
        page = site.look(f"/guides/{guide.slug}")
        assert f"Price {price_usd(guide.price)}" in page.text
        assert f"{guide.pages} pages" in page.text
        topics = ", ".join(guide.tags).replace("-", " ").replace("etf", "ETF")
        assert topics in page.text
        assert "sample, not for sale" in page.text
        assert "part of a sample catalog and cannot be bought" in page.text
        assert "paid once" not in page.text
        assert page.relations["alternate"] == "/api/agent/guides"


def test_an_operators_guide_links_to_the_shop(tmp_path: Path) -> None:
    guide: dict[str, Any] = {"description": "About & so on.", "tags": ["a"], "pages": 1}
    guide |= {"title": "One <1>", "price": 9.5, "url": "https://shop.example/?a=1&b"}
    guides = [{"slug": slug, **guide} for slug in ("one", *(f"other-{n}" for n in range(26)))]
    file = tmp_path / "guides.json"
    file.write_text(json.dumps({"source": 'A "publisher"', "guides": guides}))
    site = SiteService(tmp_path, guides_file=file)

    page = site.look("/guides/one")
    header = site.ask("/guides").text.partition("<main")[0]
    site.close()

    assert '<a href="/guides" aria-current="page">Guides</a>' in header
    assert "https://shop.example/?a=1&b" in page.targets
    assert "One <1>" in page.text
    assert "1 page " in page.text
    assert "Buy this guide for 9.50 USD" in page.text
    assert 'Source: A "publisher"' in page.text
    assert "cannot be bought" not in page.text
    assert "paid once" in page.text
    assert "sample" not in page.text
