"""`/search`: coins by any of their names, pages, signals and sections of the documentation."""

import pytest

from support.markets import reading, shares
from support.pages import SiteService


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("bitcoin", ["/markets/BTC"]),
        ("btcu", ["/markets/BTC"]),
        ("how to v", ["/record/details"]),
        ("get a k", ["/developers#get-a-key"]),
        ("volat", ["/signals/btc-realised-volatility"]),
        ("bitcoin volat", ["/markets/BTC", "/signals/btc-realised-volatility"]),
        ("<nothing>", []),
    ],
)
def test_things_are_found_by_their_names(site: SiteService, search: str, found: list[str]) -> None:
    site.service.publish(reading(), shares())
    page = site.ask(f"/search?q={search}")
    listed = page.text.partition('class="plain finds"')[2].partition("</ul>")[0]

    assert [part.partition('"')[0] for part in listed.split('href="')[1:]] == found
    assert ("Nothing matches" in page.text) is (found == [])
    assert "<nothing>" not in page.text


def test_every_entry_leads_to_a_page(site: SiteService) -> None:
    site.service.publish(reading(), shares())
    page = site.look("/search")

    assert {"/markets/BTC", "/developers/methods#regime"} <= set(page.targets)
    for target in page.targets:
        if not target.startswith(("#", "http")):
            assert site.service.ask(target.partition("#")[0]).status == 200, target
