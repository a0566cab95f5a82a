"""Briefs that an operator writes: Markdown with a front matter (pure).

---
headline: Maintenance on Sunday
summary: One or two sentences for lists.
category: note
coins: [BTC, ETH]
---
The text, in Markdown.
"""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

import yaml

from barograph.briefs.records import CATEGORIES, OPERATOR, Brief
from barograph.errors import BarographError
from barograph.kit.json import canonical, digest
from barograph.kit.timestamps import MINUTE, SECOND

SOURCE = "operator of this instance"
MAX_FILE = 30_000
"""Longer texts would take long to render, and other requests wait meanwhile."""

MAX_HEADLINE = 200
MAX_SUMMARY = 1_000
MAX_SLUG = 100
MAX_COINS = 20
MEMBERS = ("headline", "summary", "category", "coins", "slug", "publishedAt")

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?\n)?---[ \t]*(?:\n(.*))?", re.DOTALL)
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_COIN = re.compile(r"[A-Z0-9]{1,15}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


class InvalidBrief(BarographError):
    """A file that cannot be published; `problems` lists everything that is wrong with it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def parse_brief(text: str, now: int) -> Brief:
    """Read an operator's brief.

    Raises:
        InvalidBrief: it cannot be published.
    """
    if len(text) > MAX_FILE:
        raise InvalidBrief([f"the file is longer than {MAX_FILE:,} characters"])
    parts = _FRONT_MATTER.fullmatch(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    if parts is None:
        raise InvalidBrief(["the file must begin with a front matter between two lines of ---"])
    members = _members(parts[1] or "")
    body = (parts[2] or "").strip()
    form = _Form(members, body)
    headline = form.text("headline", MAX_HEADLINE)
    summary = form.text("summary", MAX_SUMMARY)
    category = form.category()
    coins = form.coins()
    published_at = form.published_at(now)
    slug = form.slug(headline, published_at)
    form.finish()
    inputs = canonical({"headline": headline, "summary": summary, "body": body})
    return Brief(
        slug=slug,
        published_at=published_at,
        category=category,
        headline=headline,
        coins=coins,
        summary=summary,
        body=body or summary,
        source=SOURCE,
        rule=OPERATOR,
        window_start=published_at,
        window_end=published_at,
        inputs=inputs,
        inputs_digest=digest(inputs),
        cooldown_key=f"{OPERATOR}:{slug}",
    )


class _Form:
    """Reads members one by one and collects every problem."""

    def __init__(self, members: Mapping[str, Any], body: str) -> None:
        self._members = members
        self._problems = [_unknown(name) for name in members if name not in MEMBERS]
        if _CONTROL.search(body):
            self._problems.append("the text contains control characters")

    def text(self, name: str, longest: int) -> str:
        value = self._members.get(name)
        if not isinstance(value, str) or not value.strip():
            self._problems.append(f"{name} is missing: add `{name}: …` to the front matter")
            return ""
        line = " ".join(value.split())
        if len(line) > longest:
            self._problems.append(f"{name} is longer than {longest:,} characters")
        if _CONTROL.search(line):
            self._problems.append(f"{name} contains control characters")
        return line

    def category(self) -> str:
        value = self._members.get("category", "note")
        if value not in CATEGORIES:
            self._problems.append(f"category must be one of {', '.join(CATEGORIES)}")
            return ""
        return str(value)

    def coins(self) -> tuple[str, ...]:
        value = self._members.get("coins", [])
        listed = value.split(",") if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            self._problems.append("coins must be a list such as [BTC, ETH]")
            return ()
        coins = [each.strip().upper() for each in listed if each.strip()]
        if any(_COIN.fullmatch(coin) is None for coin in coins) or len(set(coins)) < len(coins):
            self._problems.append("coins must be different symbols of 1 to 15 letters and digits")
        if len(coins) > MAX_COINS:
            self._problems.append(f"coins lists more than {MAX_COINS} symbols")
        return tuple(coins)

    def published_at(self, now: int) -> int:
        value = self._members.get("publishedAt")
        if value is None:
            return now
        at = _instant(value)
        if at is None:
            self._problems.append("publishedAt must be a UTC time such as 2026-01-31T09:00:00Z")
        elif at > now + MINUTE:
            self._problems.append("publishedAt is in the future")
            return now
        return now if at is None else at

    def slug(self, headline: str, published_at: int) -> str:
        value = self._members.get("slug")
        if value is None:
            day = f"{datetime.fromtimestamp(published_at // SECOND, UTC):%Y-%m-%d}"
            words = re.findall(r"[a-z0-9]+", headline.lower(), re.ASCII)
            return "-".join([day, *words])[:MAX_SLUG].strip("-")
        if not isinstance(value, str) or _SLUG.fullmatch(value) is None or len(value) > MAX_SLUG:
            self._problems.append(
                f"slug must be lower-case words with hyphens, {MAX_SLUG} characters at most"
            )
            return ""
        return value

    def finish(self) -> None:
        """Raise `InvalidBrief` if there were problems."""
        if self._problems:
            raise InvalidBrief(self._problems)


class _Texts(yaml.BaseLoader):
    """YAML in which every value is a string, and no name may repeat."""


def _mapping(loader: _Texts, node: yaml.MappingNode) -> dict[str, Any]:
    names = [loader.construct_object(name) for name, _ in node.value]
    if not all(isinstance(name, str) for name in names):
        raise InvalidBrief(["the names in the front matter must be words"])
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidBrief([f"{name} appears twice in the front matter"])
    values = [loader.construct_object(value, deep=True) for _, value in node.value]
    return dict(zip(names, values, strict=True))


_Texts.add_constructor("tag:yaml.org,2002:map", _mapping)


def _members(front_matter: str) -> dict[str, Any]:
    try:
        members = yaml.load(front_matter, Loader=_Texts)  # noqa: S506 - texts only
    # The last three: an invalid character escape, and nesting that is too deep.
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 2}"
        raise InvalidBrief([f"the front matter cannot be read{where}"]) from error
    if not isinstance(members, dict):
        raise InvalidBrief(["the front matter needs lines such as `headline: …`"])
    return members


def _unknown(name: str) -> str:
    near = get_close_matches(name, MEMBERS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(MEMBERS)}"
    return f"{name} is not a member of the front matter; {hint}"


def _instant(value: object) -> int | None:
    if not isinstance(value, str) or not value.isascii():
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    at = round(moment.timestamp() * SECOND)
    return at if at >= 0 else None
