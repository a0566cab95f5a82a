"""The page about prices: both tiers, what Feed opens, and nothing that the service does not do."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from barograph.macro.records import NYFED_NOTICE
from barograph.site.pricing import sample_stance
from support.descriptions import shop
from support.pages import Checked, SiteService
from support.service import Service
from support.subscribers import ENTITLED_PATHS

WORDS = "Do not pay again automatically"


@pytest.mark.contract("tiers.feed-price", "tiers.reserve-price")
def test_pricing_names_both_tiers_with_their_price(site: SiteService) -> None:
    page = site.ask("/pricing").text

    assert re.search(r"<h2>Feed</h2>.*?<strong>25 USD</strong>", page, re.DOTALL)
    assert re.search(r"<strong>Reserve</strong>, 149 USD: ", page)
    assert "does not include Feed" in page


@pytest.mark.parametrize(
    ("settings", "is_shown"),
    [
        ({}, True),
        ({"rates_url": "https://rates.example,"}, False),
        ({"exchange_source": "simulated"}, False),
    ],
)
def test_pages_about_the_rates_stance_show_the_new_york_feds_notice_if_its_rates_are_used(
    tmp_path: Path, settings: dict[str, Any], is_shown: bool
) -> None:
    service = Service(tmp_path, **settings)

    for path in ("/pricing", "/developers/feed"):
        assert (NYFED_NOTICE in service.get(path).text) is is_shown
    service.close()


@pytest.mark.parametrize(
    ("given", "shown"), [("29.50", "29.50 USD"), ("1000", "1,000 USD"), ("12.345", "12.345 USD")]
)
def test_pricing_says_what_is_really_asked_for(tmp_path: Path, given: str, shown: str) -> None:
    service = Service(tmp_path, feed_price_usd=given)

    assert f"<strong>{shown}</strong>" in service.get("/pricing").text
    service.close()


@pytest.mark.contract("tiers.billing-period")
def test_where_payments_are_taken_the_page_tells_how(tmp_path: Path) -> None:
    service = shop(tmp_path)
    text = Checked(service.get("/pricing")).text
    service.close()

    for words in (
        *(WORDS, "25 USD for 30 days", "0.25 USD per read, by x402", "PAYMENT-SIGNATURE"),
        *("https://barograph.example/api/x402/feed", *ENTITLED_PATHS),
    ):
        assert words in text


def test_without_payments_and_a_contact_nobody_is_told_to_pay_or_to_write(
    site: SiteService,
) -> None:
    text = site.look("/pricing").text

    for words in ("PAYMENT-SIGNATURE", "for 30 days", "Contact"):
        assert words not in text
    for words in (
        *(WORDS, "does not accept x402 payments", "refused; Reserve is not enough"),
        "No sales contact is configured for this instance.",
        "an agreement with the operator, who grants it on request.",
        "It opens no endpoint of this API and does not include Feed.",
        "It is not a probability, and we never score it.",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("contact", "shown"),
    [
        ("mailto:operator@example.com", "operator@example.com"),
        ("https://example.com/contact", "https://example.com/contact"),
    ],
)
def test_who_is_to_write_to_the_operator_is_told_where(
    tmp_path: Path, contact: str, shown: str
) -> None:
    service = Service(
        tmp_path, sales_contact=contact, security_contact="mailto:security@example.com"
    )
    page = Checked(service.get("/pricing"))
    service.close()

    assert f"Contact {shown}." in page.text
    assert contact in page.targets
    assert "security@example.com" not in page.text


def test_the_sample_stance_has_the_form_of_a_real_one_and_is_shown_in_full(
    site: SiteService,
) -> None:
    given = json.loads(sample_stance().text)
    text = site.look("/pricing").text.replace("\xa0", " ")

    assert sample_stance().version.model_dump(mode="json", by_alias=True) == given
    assert given["leg"]["evidence"]["source"].startswith("simulated ")
    assert "Simulated sample, not a real stance" in text
    assert given["leg"]["decision"]["rationale"] in text
    assert " ".join(sample_stance().text.split()) in text
