"""The developer page says what the code does."""

import re

import pytest

from barograph.access.allowances import ANONYMOUS, PERSONAL
from barograph.markets.regime import judge
from barograph.site import reference
from barograph.site.pages import Pages, usd


def test_the_allowances_of_the_contract_are_in_the_table() -> None:
    rows = {row.what: row.allowance for row in reference.limits()}

    assert rows["/api/v1/signals without a key"] == "120 per hour"
    assert rows["/api/v1/signals with a personal key"] == "1,000 per hour"
    assert (ANONYMOUS.requests, PERSONAL.requests) == (120, 1_000)


def test_the_examples_of_fields_are_those_of_a_refusal() -> None:
    examples = {row.name: row.example for row in reference.fields()}

    assert examples["RateLimit-Policy"] == '"anon";q=120;w=3600'
    assert examples["RateLimit"] == '"anon";r=0;t=120'
    assert examples["Retry-After"] == "120"
    assert examples["X-RateLimit-Remaining"] == "0"


def test_each_band_holds_the_rates_that_the_regime_calls_so() -> None:
    shown = {row.label: row.range for row in reference.bands()}

    assert list(shown) == [
        *("short-crowded", "short-leaning", "neutral", "long-leaning", "long-crowded", "unknown")
    ]
    for label, text in shown.items():
        edges = [float(found) for found in re.findall(r"[+-][\d.]+", text)]
        if edges:
            middle = sum(edges) / len(edges)
            assert judge(None, middle, 0, 0).label == label


def test_every_error_says_whether_to_try_again() -> None:
    retries = {row.status: row.retry.split()[0].rstrip(",:") for row in reference.ERRORS}

    assert retries == {
        **dict.fromkeys((400, 401, 404, 405, 410), "no"),
        **dict.fromkeys((429, 500, 502, 503), "yes"),
    }


@pytest.mark.parametrize(
    ("price", "shown"), [(29, "29 USD"), (44.5, "44.50 USD"), (1200, "1,200 USD")]
)
def test_a_price_is_shown_in_dollars(price: float, shown: str) -> None:
    assert usd(price) == shown


def test_an_instance_below_a_path_links_below_it() -> None:
    page = Pages("https://example.com/barograph").developers(can_register=True).decode()

    links = re.findall(r'(?:href|src|action)="([^"#][^"]*)"', page)
    assert links
    assert all(link.startswith("/barograph/") for link in links)
    assert "https://example.com/barograph/api/v1/signals" in page
