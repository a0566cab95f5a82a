"""An operator's Markdown: what is wrong is said, all of it, and nothing in it is believed."""

import re
from contextlib import suppress
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.briefs.operator import MAX_FILE, MAX_SLUG, InvalidBrief, parse_brief
from barograph.briefs.records import CATEGORIES, Brief
from barograph.kit.timestamps import MINUTE
from support.clock import START

NEEDED = "headline: Maintenance on Sunday\nsummary: The feed pauses."
FUTURE = "publishedAt is in the future"
NO_TIME = "publishedAt must be a UTC time such as 2026-01-31T09:00:00Z"
NO_COINS = "coins must be a list such as [BTC, ETH]"
BAD_COINS = "coins must be different symbols of 1 to 15 letters and digits"
BAD_SLUG = "slug must be lower-case words with hyphens, 100 characters at most"
BAD_CATEGORY = f"category must be one of {', '.join(CATEGORIES)}"
MEMBERS = "headline, summary, category, coins, slug, publishedAt"
TWENTY = tuple(f"C{number}" for number in range(20))
UNREADABLE = "the front matter cannot be read"


def parse(*lines: str, needed: str = NEEDED, body: str = "The text.") -> Brief:
    return parse_brief("\n".join(["---", needed, *lines, "---", body]), START)


def problems(*lines: str, needed: str = NEEDED, body: str = "The text.") -> list[str]:
    with pytest.raises(InvalidBrief) as raised:
        parse(*lines, needed=needed, body=body)
    assert str(raised.value) == "; ".join(raised.value.problems)
    return raised.value.problems


def test_the_least_is_a_headline_and_a_summary() -> None:
    brief = parse(body="")

    assert brief == Brief(
        slug="2026-11-06-maintenance-on-sunday",
        published_at=START,
        category="note",
        headline="Maintenance on Sunday",
        coins=(),
        summary="The feed pauses.",
        body="The feed pauses.",
        source="operator of this instance",
        rule="operator",
        window_start=START,
        window_end=START,
        inputs='{"body":"","headline":"Maintenance on Sunday","summary":"The feed pauses."}',
        inputs_digest=brief.inputs_digest,
        cooldown_key="operator:2026-11-06-maintenance-on-sunday",
    )
    assert brief.inputs_digest == sha256(brief.inputs.encode()).hexdigest()


def test_everything_that_is_given_is_taken() -> None:
    brief = parse(
        "category: funding",
        "coins: [btc, ETH]",
        "slug: my-own",
        "publishedAt: 2026-01-31T10:00:00.123+01:00",
        body="\n# Title\n\n---\n\nMore.\n",
    )

    assert (brief.category, brief.coins, brief.slug) == ("funding", ("BTC", "ETH"), "my-own")
    assert brief.published_at == 1_769_850_000_123
    assert brief.body == "# Title\n\n---\n\nMore."


def test_line_ends_a_byte_order_mark_and_white_space_make_no_difference() -> None:
    text = f"---\n{NEEDED}\n---  \nOne.\n\nTwo.\n"
    for whole in (text, text.replace("\n", "\r\n")):
        for mark in ("", "\ufeff"):
            assert parse_brief(mark + whole, START) == parse(body="One.\n\nTwo.")
    brief = parse(needed='headline: "  one\\n\\ttwo  "\nsummary: >\n  three\n\n  four\n')
    assert (brief.headline, brief.summary) == ("one two", "three four")


@pytest.mark.parametrize("word", ["yes", "no", "null", "~", "1.50", "2026-01-31", "0x10", "!x y"])
def test_a_headline_is_a_text_whatever_yaml_would_make_of_it(word: str) -> None:
    brief = parse(needed=f"headline: {word}\nsummary: s")

    assert brief.headline == word.removeprefix("!x ")


@pytest.mark.parametrize(
    "text",
    [
        *("", "text", "---", NEEDED, f" ---\n{NEEDED}\n---\n", f"---\n{NEEDED}\n"),
        *(f"---\n{NEEDED}\n----\n", f"---\r{NEEDED}\r---\r", f"\n---\n{NEEDED}\n---\n"),
    ],
)
def test_a_file_without_a_front_matter_is_refused(text: str) -> None:
    with pytest.raises(InvalidBrief, match="must begin with a front matter between two lines"):
        parse_brief(text, START)


@pytest.mark.parametrize("front_matter", ["", "# only a comment", "- a\n- b", "a text", "[a]"])
def test_a_front_matter_that_holds_no_members_is_refused(front_matter: str) -> None:
    assert problems(needed=front_matter) == ["the front matter needs lines such as `headline: …`"]


MISTAKES = {
    BAD_CATEGORY: ["gossip", "Funding", "", "[note]", "{note: x}"],
    NO_COINS: ["{BTC: 1}", "[[BTC]]"],
    BAD_COINS: ["[BTC, BTC]", "btc,BTC", "[B-TC]", "[ABCDEFGHIJKLMNOP]", "[\u0663]"],
    "coins lists more than 20 symbols": [f"{[f'C{number}' for number in range(21)]}"],
    BAD_SLUG: [
        *("Not-lower", "-a", "a--b", "../etc/passwd", "é", '"a\\n"', "[a]", ""),
        "a" * (MAX_SLUG + 1),
    ],
    NO_TIME: [
        *("tomorrow", "", "1769850000000", "\u0662\u0660\u0662\u0666-01-31", "[2026-01-31]"),
        *("2026-02-30T00:00:00Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00"),
    ],
    FUTURE: ["2027-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"],
}


@pytest.mark.parametrize("said", MISTAKES)
def test_a_value_that_cannot_be_taken_is_refused_with_what_is_right(said: str) -> None:
    for value in MISTAKES[said]:
        assert problems(f"{said.split(maxsplit=1)[0]}: {value}") == [said], value


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("headlin: x", "headlin is not a member of the front matter; did you mean headline?"),
        ("author: x", f"author is not a member of the front matter; known are {MEMBERS}"),
        ("slug: a\nslug: b", "slug appears twice in the front matter"),
        ("headline: again", "headline appears twice in the front matter"),
        ("slug: {a: 1, a: 2}", "a appears twice in the front matter"),
        ("? [a, b]\n: x", "the names in the front matter must be words"),
        ("? {a: b}\n: x", "the names in the front matter must be words"),
        ('slug: "\\UFFFFFFFF"', UNREADABLE),
        ('slug: "\\U00110000"', UNREADABLE),
        ("coins: [BTC", f"{UNREADABLE} in line 5"),
        ("\tx: y", f"{UNREADABLE} in line 4"),
        ("a: b: c", f"{UNREADABLE} in line 4"),
    ],
)
def test_a_front_matter_of_another_form_is_refused_with_the_place(line: str, said: str) -> None:
    assert problems(line) == [said]


@pytest.mark.parametrize("name", ["headline", "summary"])
@pytest.mark.parametrize("given_as", ["", ": ", ": ''", ": '  '", ": [a]", ": {a: b}"])
def test_a_text_that_is_missing_empty_or_no_text_is_asked_for(name: str, given_as: str) -> None:
    other = "summary" if name == "headline" else "headline"
    line = f"{name}{given_as}" if given_as else "# nothing"

    assert problems(line, needed=f"{other}: x") == [
        f"{name} is missing: add `{name}: …` to the front matter"
    ]


@pytest.mark.parametrize(("name", "longest"), [("headline", 200), ("summary", 1_000)])
def test_a_text_may_be_as_long_as_is_said_and_not_longer(name: str, longest: int) -> None:
    other = "summary: s" if name == "headline" else "headline: h"

    parse(f"{name}: {'é' * longest}", needed=other)
    assert problems(f"{name}: {'é' * (longest + 1)}", needed=other) == [
        f"{name} is longer than {longest:,} characters"
    ]


def test_control_characters_and_halves_of_characters_are_refused() -> None:
    for bad in ("\\0", "\\x1b", "\\x7f", "\\ud800"):
        front_matter = f'headline: "a{bad}b"\nsummary: s'
        assert problems(needed=front_matter) == ["headline contains control characters"]
    for bad in ("\0", "\x1b[31m", "a\rb", "\ud800"):
        assert problems(body=bad) == ["the text contains control characters"]


def test_every_mistake_is_named_at_once() -> None:
    named = problems("category: x", "coins: 1-2", "slug: A", "publishedAt: x", needed="other: x")

    assert len(named) == 7
    assert named[0].startswith("other is not a member")


def test_a_file_that_is_too_long_is_refused_before_it_is_read() -> None:
    assert MAX_FILE == 30_000
    with pytest.raises(InvalidBrief, match="the file is longer than 30,000 characters"):
        parse_brief("x" * (MAX_FILE + 1), START)
    front = f"---\n{NEEDED}\n---\n"
    longest = parse_brief(front.ljust(MAX_FILE, "x"), START)
    assert longest.body == "x" * (MAX_FILE - len(front))


@pytest.mark.parametrize(
    "line",
    ["category: *l29", "slug: *l29", "coins: *l29", "headline: *l29", "x: *l29", "? *l29\n: x"],
)
def test_a_small_text_that_unfolds_into_a_huge_one_is_refused_at_once(line: str) -> None:
    # Written out it would be some 10^29 words.
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 30)]

    named = problems("l0: &l0 [word, word]", *levels, line, needed="summary: s")

    assert all(len(each) < 300 for each in named)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "line", ["coins: " + "[" * 5_000, "coins: " + "{a: " * 5_000, "a: &a [*a]", "slug: *nobody"]
)
def test_nesting_without_end_and_references_to_nothing_are_refused(line: str) -> None:
    (said,) = problems(line)

    assert said.startswith(UNREADABLE)


def test_many_members_are_refused_quickly() -> None:
    assert len(problems(*(f"m{number}: x" for number in range(3_000)))) == 3_000


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system", "!!python/name:os.system", "!!binary", "!own"]
)
def test_a_tag_makes_nothing_but_texts_and_lists(tag: str) -> None:
    assert problems(f"coins: {tag} {{a: b}}") == [NO_COINS]
    assert parse(f"coins: {tag} [BTC]").coins == ("BTC",)
    assert parse(f"slug: {tag} word").slug == "word"


def test_coins_are_symbols_in_upper_case_in_a_list_or_a_line() -> None:
    assert parse("coins: BTC").coins == ("BTC",)
    assert parse("coins: btc, eth ,").coins == ("BTC", "ETH")
    assert parse("coins: [1INCH, 1000PEPE]").coins == ("1INCH", "1000PEPE")
    assert parse(f"coins: {', '.join(TWENTY)}").coins == TWENTY
    assert parse("coins: []").coins == parse("coins:").coins == ()


def test_a_time_without_a_zone_is_utc_and_kept_to_the_millisecond() -> None:
    def published(time: str) -> int:
        return parse(f"publishedAt: {time}").published_at

    assert published("2026-01-31T09:00:00Z") == published("2026-01-31 09:00") == 1_769_850_000_000
    assert published("2026-01-31") == 1_769_817_600_000
    assert published("2026-01-31T09:00:00.123Z") == 1_769_850_000_123
    assert published("1970-01-01T00:00:01.001Z") == 1_001
    assert published("1970-01-01T00:00:00Z") == 0


def test_a_clock_that_is_a_minute_behind_is_not_the_future() -> None:
    text = "---\nheadline: h\nsummary: s\npublishedAt: 2026-11-06T21:20:00Z\n---\n"

    assert parse_brief(text, START - MINUTE).published_at == START
    with pytest.raises(InvalidBrief, match=FUTURE):
        parse_brief(text, START - MINUTE - 1)


@pytest.mark.parametrize(
    ("headline", "slug"),
    [
        ("Öl & Gas — 5 %!", "2026-11-06-l-gas-5"),
        ("新年", "2026-11-06"),
        ("word " * 40, "2026-11-06-" + "-".join(["word"] * 18)[:89].strip("-")),
    ],
)
def test_an_address_is_made_from_the_day_and_the_words(headline: str, slug: str) -> None:
    assert parse(needed=f"headline: {headline}\nsummary: s").slug == slug


@given(st.text(max_size=200))
def test_whatever_is_in_the_file_it_is_a_brief_or_a_complaint(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\n{text}", f"---\n{NEEDED}\nslug: {text}\n---\n{text}"):
        with suppress(InvalidBrief):
            brief = parse_brief(whole, START)
            assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", brief.slug, re.ASCII)
            assert sha256(brief.inputs.encode()).hexdigest() == brief.inputs_digest
