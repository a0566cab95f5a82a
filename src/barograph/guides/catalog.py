"""The catalog of guides: its validation, and the operator's file or the packaged sample."""

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from barograph.errors import ConfigurationError

CATALOG_SIZE = 27
MAX_SOURCE = 200
MAX_SLUG = 80
MAX_TITLE = 120
MAX_DESCRIPTION = 1_000
MAX_TAG = 40
MAX_TAGS = 12
MAX_PAGES = 10_000
MAX_PRICE = 100_000
MAX_URL = 2_000

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_URL = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+", re.ASCII)

Format = Literal["toml", "json"]
Check = Callable[[object], str | None]
"""Returns the problem with a member's value, or None."""


class Guide(NamedTuple):
    """One guide that is for sale."""

    slug: str
    title: str
    description: str
    tags: tuple[str, ...]
    pages: int
    price: float
    """In USD; a whole price is an `int`, so that it is shown without decimals."""

    url: str | None = None
    """Where to buy it; None for the guide's page on this site."""


class Catalog(NamedTuple):
    """All guides, in the order in which they are shown."""

    source: str
    """Whose catalog it is, in the words of the published `source`."""

    guides: tuple[Guide, ...]

    is_sample: bool = False
    """Whether it is the packaged example, whose guides are not for sale."""


class InvalidCatalog(ConfigurationError):
    """A catalog that cannot be used; each problem names its guide and member."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def parse_catalog(text: str, form: Format) -> Catalog:
    """Read a catalog.

    Raises:
        InvalidCatalog: it cannot be used; lists every problem, not only the first.
    """
    document = _decode(text, form)
    if not isinstance(document, dict):
        raise InvalidCatalog(["the catalog must be an object with `source` and `guides`"])
    problems = list(_catalog_problems(document))
    if problems:
        raise InvalidCatalog(problems)
    return Catalog(document["source"], tuple(_guide(guide) for guide in document["guides"]))


def _decode(text: str, form: Format) -> object:
    try:
        if form == "toml":
            return tomllib.loads(text)
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise InvalidCatalog([f"not valid {form.upper()}: nested too deeply"]) from error
    except ValueError as error:
        raise InvalidCatalog([f"not valid {form.upper()}: {error}"]) from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse a repeated name, as TOML does."""
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise ValueError(f"{', '.join(map(ascii, twice))} given more than once in one object")
    return dict(pairs)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _catalog_problems(document: Mapping[str, object]) -> Iterator[str]:
    yield from _member_problems(document, _CATALOG_CHECKS)
    guides = document.get("guides")
    if not isinstance(guides, list):
        return
    if len(guides) != CATALOG_SIZE:
        yield f"guides: a catalog holds exactly {CATALOG_SIZE} guides, this one has {len(guides)}"
    for number, guide in enumerate(guides, 1):
        problems = (
            _member_problems(guide, _GUIDE_CHECKS, optional={"url"})
            if isinstance(guide, dict)
            else ["must be an object"]
        )
        yield from (f"{_name(number, guide)}: {problem}" for problem in problems)
    yield from _duplicate_slugs(guides)


def _list_problem(value: object) -> str | None:
    return None if isinstance(value, list) else "must be a list of guides"


def _name(number: int, guide: object) -> str:
    """How a problem names its guide; an invalid slug is not repeated."""
    slug = guide.get("slug") if isinstance(guide, dict) else None
    return f"guide {number}" if _slug_problem(slug) is not None else f"guide {number} ({slug})"


def _member_problems(
    given: Mapping[str, object], checks: Mapping[str, Check], optional: set[str] | None = None
) -> Iterator[str]:
    for name, check in checks.items():
        if name in given:
            problem = check(given[name])
            if problem is not None:
                yield f"{name} {problem}"
        elif not optional or name not in optional:
            yield f"{name} is missing"
    for name in given:
        if name not in checks:
            yield f"{name!a} is not a member; known are {', '.join(checks)}"


def _duplicate_slugs(guides: list[object]) -> Iterator[str]:
    places: dict[str, list[int]] = {}
    for number, guide in enumerate(guides, 1):
        slug = guide.get("slug") if isinstance(guide, dict) else None
        if isinstance(slug, str) and _slug_problem(slug) is None:
            places.setdefault(slug, []).append(number)
    for slug, numbers in places.items():
        if len(numbers) > 1:
            yield f"guides {', '.join(map(str, numbers))}: all have the slug {slug}"


def _guide(given: Mapping[str, Any]) -> Guide:
    price = given["price"]
    whole = math.floor(price)
    return Guide(
        slug=given["slug"],
        title=given["title"],
        description=given["description"],
        tags=tuple(given["tags"]),
        pages=given["pages"],
        price=whole if whole == price else price,
        url=given.get("url"),
    )


def _slug_problem(value: object) -> str | None:
    if isinstance(value, str) and len(value) <= MAX_SLUG and _SLUG.fullmatch(value):
        return None
    return f"must be lower-case letters and digits with single hyphens between, up to {MAX_SLUG}"


def _tags_problem(value: object) -> str | None:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_TAGS:
        return f"must be a list of 1 to {MAX_TAGS} strings"
    for number, tag in enumerate(value, 1):
        problem = _text_problem(tag, MAX_TAG)
        if problem is not None:
            return f"{number} {problem}"
    if len({tag.casefold() for tag in value}) < len(value):
        return "must not repeat a string"
    return None


def _pages_problem(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_PAGES:
        return None
    return f"must be a whole number from 1 to {MAX_PAGES}"


def _price_problem(value: object) -> str | None:
    """Guides are paid, so zero is refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number in USD"
    if not 0 < value <= MAX_PRICE:  # NaN fails too
        return f"must be more than 0 and at most {MAX_PRICE}: guides are paid"
    if value != round(value, 2):
        return "must not have fractions of a cent"
    return None


def _url_problem(value: object) -> str | None:
    if not isinstance(value, str) or len(value) > MAX_URL or not _URL.fullmatch(value):
        return f"must be an absolute http:// or https:// address of up to {MAX_URL} characters"
    try:
        parts = urlsplit(value)
        _ = parts.port  # raises if it is invalid
    except ValueError:
        return "must be an absolute http:// or https:// address with a valid host and port"
    if not parts.hostname or parts.username is not None:
        return "must name a host and no user"
    return None


def _text_problem(value: object, longest: int) -> str | None:
    if not isinstance(value, str):
        return "must be a string"
    if not value.strip():
        return "must not be empty"
    if value != value.strip():
        return "must not begin or end with white space"
    if len(value) > longest:
        return f"must have at most {longest} characters, this has {len(value)}"
    if not value.isprintable():
        return "must be one line without control or invisible characters"
    return None


_CATALOG_CHECKS: dict[str, Check] = {
    "source": partial(_text_problem, longest=MAX_SOURCE),
    "guides": _list_problem,
}
_GUIDE_CHECKS: dict[str, Check] = {
    "slug": _slug_problem,
    "title": partial(_text_problem, longest=MAX_TITLE),
    "description": partial(_text_problem, longest=MAX_DESCRIPTION),
    "tags": _tags_problem,
    "pages": _pages_problem,
    "price": _price_problem,
    "url": _url_problem,
}


MAX_BYTES = 1 << 20

_FORMATS: dict[str, Format] = {".toml": "toml", ".json": "json"}


def load_catalog(path: Path | None) -> Catalog:
    """Load the catalog of an instance; None loads the packaged sample.

    Raises:
        ConfigurationError: the file cannot be used; the message lists every problem and the remedy.
    """
    if path is None:
        return _packaged_sample()
    try:
        return read_catalog(path)
    except InvalidCatalog as error:
        raise ConfigurationError(
            f"BAROGRAPH_GUIDES_FILE: {path} cannot be used: {error}. Correct it "
            f"(`barograph guides check {path}` lists the problems), or unset the variable to show "
            "the packaged sample"
        ) from error


def read_catalog(path: Path) -> Catalog:
    """Read an operator's file.

    Raises:
        InvalidCatalog: it cannot be read or used.
    """
    form = _FORMATS.get(path.suffix.lower())
    if form is None:
        raise InvalidCatalog(["the file's name must end in .toml or .json"])
    return parse_catalog(_text(path), form)


@cache
def _packaged_sample() -> Catalog:
    sample = files("barograph.guides") / "sample.toml"
    return parse_catalog(sample.read_text("utf-8"), "toml")._replace(is_sample=True)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidCatalog([f"the file cannot be read: {error.strerror}"]) from error
    if len(content) > MAX_BYTES:
        raise InvalidCatalog([f"the file is larger than {MAX_BYTES} bytes"])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidCatalog(["the file is not UTF-8 text"]) from error
