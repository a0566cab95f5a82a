"""What a catalog of guides may be, and how each problem is named."""

import json
import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.errors import ConfigurationError
from barograph.guides.catalog import (
    MAX_BYTES,
    InvalidCatalog,
    load_catalog,
    parse_catalog,
    read_catalog,
)

SLUG_RULE = "must be lower-case letters and digits with single hyphens between, up to 80"
URL_RULE = "must be an absolute http:// or https:// address of up to 2000 characters"
KNOWN = "slug, title, description, tags, pages, price, url"
PRICE_RULE = "must be more than 0 and at most 100000: guides are paid"


def catalog(count: int = 27, **third: Any) -> dict[str, Any]:
    """A catalog that can be used; `third` changes its third guide."""
    guides: list[dict[str, Any]] = [
        {
            "slug": f"guide-{number}",
            "title": f"Guide {number}",
            "description": "What the reader learns.",
            "tags": ["risk"],
            "pages": 10,
            "price": 9.5,
        }
        for number in range(1, count + 1)
    ]
    if third:
        guides[2].update(third)
    return {"source": "A publisher", "guides": guides}


def problems(document: object) -> list[str]:
    with pytest.raises(InvalidCatalog) as raised:
        parse_catalog(json.dumps(document), "json")
    return raised.value.problems


def test_the_packaged_sample_can_be_used_and_says_that_it_is_a_sample() -> None:
    sample = load_catalog(None)

    assert len(sample.guides) == 27
    assert "sample, not for sale" in sample.source
    assert len({guide.title for guide in sample.guides}) == 27
    assert len({guide.description for guide in sample.guides}) == 27
    assert all(guide.price > 0 and guide.url is None for guide in sample.guides)


def test_the_packaged_sample_promises_nothing() -> None:
    text = (files("barograph.guides") / "sample.toml").read_text("utf-8").lower()

    assert not re.search(r"profit|guarantee|proven|secret|beat the market|you should", text)


def test_toml_and_json_of_the_same_catalog_are_read_alike() -> None:
    text = (files("barograph.guides") / "sample.toml").read_text("utf-8")

    assert parse_catalog(json.dumps(tomllib.loads(text)), "json") == parse_catalog(text, "toml")


@pytest.mark.parametrize(
    ("given", "kept"), [(10, "10"), (10.0, "10"), (9.5, "9.5"), (0.01, "0.01")]
)
def test_a_price_keeps_its_cents_and_a_whole_price_is_whole(given: float, kept: str) -> None:
    guide = parse_catalog(json.dumps(catalog(price=given)), "json").guides[2]

    assert json.dumps(guide.price) == kept


def test_a_purchase_link_is_optional() -> None:
    link = "https://shop.example:8443/buy?id=3#now"
    guides = parse_catalog(json.dumps(catalog(url=link)), "json").guides

    assert guides[2].url == link
    assert guides[1].url is None


@pytest.mark.contract("limits.guides")
@pytest.mark.parametrize("count", [0, 1, 26, 28])
def test_another_count_than_27_is_refused(count: int) -> None:
    expected = f"guides: a catalog holds exactly 27 guides, this one has {count}"

    assert problems(catalog(count)) == [expected]


ONE_LINE = "must be one line without control or invisible characters"
WRONG: dict[tuple[str, str], list[Any]] = {
    ("slug", SLUG_RULE): [
        *("Guide-3", "guide--3", "-guide", "guide-3\n", "guide/3", "gu\u0131de", "a" * 81, "", 3)
    ],
    ("title", "must not be empty"): ["", " \t"],
    ("title", "must not begin or end with white space"): [" Guide"],
    ("title", "must have at most 120 characters, this has 121"): ["a" * 121],
    ("title", ONE_LINE): ["a\x00b", "a\u202eb", "a\ud800b"],
    ("title", "must be a string"): [None],
    ("description", ONE_LINE): ["a\nb"],
    ("description", "must have at most 1000 characters, this has 1001"): ["a" * 1001],
    ("tags", "must be a list of 1 to 12 strings"): [[], "risk", [str(n) for n in range(13)]],
    ("tags", "must not repeat a string"): [["risk", "Risk"]],
    ("tags", "2 must not be empty"): [["risk", ""]],
    ("tags", "1 must be a string"): [[1]],
    ("pages", "must be a whole number from 1 to 10000"): [0, 1.0, True, "10"],
    ("price", PRICE_RULE): [0, -1, 100_001],
    ("price", "must be a number in USD"): [True, "9.50", None],
    ("price", "must not have fractions of a cent"): [9.999, 1e-9],
    ("url", URL_RULE): [
        *("/guides/3", "javascript:alert(1)", "ftp://shop.example/3", "https://shop.example/a b"),
        *("https://shop.example/3\n", "https://" + "a" * 2000, None),
    ],
    ("url", "must be an absolute http:// or https:// address with a valid host and port"): [
        *("https://[", "https://shop.example:99999/")
    ],
    ("url", "must name a host and no user"): [
        *("https://:443/3", "https://shop.example@evil.example/")
    ],
}


@pytest.mark.parametrize(("member", "problem"), WRONG)
def test_each_wrong_value_is_named_with_its_guide_and_member(member: str, problem: str) -> None:
    name = "guide 3" if member == "slug" else "guide 3 (guide-3)"
    for value in WRONG[member, problem]:
        assert problems(catalog(**{member: value})) == [f"{name}: {member} {problem}"], value


def test_every_problem_is_named_at_once() -> None:
    document = catalog(26, pages=0, price="free", colour="red")
    del document["source"]
    del document["guides"][0]["title"]
    document["guides"][4] = "guide"
    document["guides"][8]["slug"] = "guide-8"
    document["version"] = 1

    assert problems(document) == [
        "source is missing",
        "'version' is not a member; known are source, guides",
        "guides: a catalog holds exactly 27 guides, this one has 26",
        "guide 1 (guide-1): title is missing",
        "guide 3 (guide-3): pages must be a whole number from 1 to 10000",
        "guide 3 (guide-3): price must be a number in USD",
        f"guide 3 (guide-3): 'colour' is not a member; known are {KNOWN}",
        "guide 5: must be an object",
        "guides 8, 9: all have the slug guide-8",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "the catalog must be an object with `source` and `guides`"),
        ('{"source": "A", "source": "B"}', "'source' given more than once"),
        ('{"source": NaN}', "NaN is not a number"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"pages": ' + "1" * 5_000 + "}", "not valid JSON"),
        ('{"source": "A", "guides": {}}', "guides must be a list of guides"),
    ],
)
def test_json_that_is_no_catalog_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidCatalog) as raised:
        parse_catalog(text, "json")

    assert problem in raised.value.problems[0]


@pytest.mark.parametrize("price", ["inf", "nan", "2026-01-01", "true"])
def test_toml_values_that_json_lacks_are_no_prices(price: str) -> None:
    text = (files("barograph.guides") / "sample.toml").read_text("utf-8")

    with pytest.raises(InvalidCatalog) as raised:
        parse_catalog(text.replace("price = 29\n", f"price = {price}\n", 1), "toml")

    (problem,) = raised.value.problems
    assert problem.startswith("guide 1 (funding-mechanics): price must be")


def test_broken_toml_is_named_with_its_place() -> None:
    with pytest.raises(InvalidCatalog, match=r"not valid TOML: .*line 1"):
        parse_catalog("source = =", "toml")


@given(st.text())
def test_no_text_makes_the_reader_fail_in_another_way(text: str) -> None:
    for form in ("toml", "json"):
        with pytest.raises(InvalidCatalog):
            parse_catalog(text, form)


def test_an_operators_file_replaces_the_sample(tmp_path: Path) -> None:
    file = tmp_path / "guides.JSON"
    file.write_text("\ufeff" + json.dumps(catalog()), "utf-8")

    loaded = load_catalog(file)

    assert loaded.source == "A publisher"
    assert [guide.slug for guide in loaded.guides][:2] == ["guide-1", "guide-2"]


@pytest.mark.outcome(
    "The operator's guide catalog is invalid",
    "`serve` refuses to start, and `doctor` fails. Every problem is named with its fix.",
)
def test_invalid_catalog_error_names_every_problem_and_its_fix(tmp_path: Path) -> None:
    file = tmp_path / "guides.json"
    file.write_text(json.dumps(catalog(pages=0, price=0)), "utf-8")

    with pytest.raises(ConfigurationError) as raised:
        load_catalog(file)

    message = str(raised.value)
    assert message.startswith(f"BAROGRAPH_GUIDES_FILE: {file} cannot be used: guide 3 (guide-3): ")
    assert "pages must be" in message
    assert PRICE_RULE in message
    assert f"`barograph guides check {file}`" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("guides.yaml", b"", "the file's name must end in .toml or .json"),
        ("guides.json", b"\xff{}", "the file is not UTF-8 text"),
        ("guides.json", b" " * (MAX_BYTES + 1), f"the file is larger than {MAX_BYTES} bytes"),
        ("guides.toml", None, "the file cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_problem(
    tmp_path: Path, name: str, content: bytes | None, problem: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)

    with pytest.raises(InvalidCatalog) as raised:
        read_catalog(tmp_path / name)

    assert raised.value.problems == [problem]
