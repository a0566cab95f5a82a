"""The catalog of guides and everything that can be wrong with one (pure)."""

import json
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from barograph.errors import ConfigurationError
from barograph.guides import members

CATALOG_SIZE = 27

Format = Literal["toml", "json"]


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
    """Where to buy it; None: the guide's page on this site."""


class Catalog(NamedTuple):
    """All the guides, in the order in which they are shown."""

    source: str
    """Whose catalog it is, in the words that the published `source` uses."""

    guides: tuple[Guide, ...]

    is_sample: bool = False
    """Whether it only shows what a catalog looks like, and nothing of it is sold."""


class InvalidCatalog(ConfigurationError):
    """A catalog that cannot be used; each problem names its guide and member."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def parse_catalog(text: str, form: Format) -> Catalog:
    """Read a catalog.

    Raises:
        InvalidCatalog: it cannot be used; every problem is named, not only the first.
    """
    document = _decode(text, form)
    if not isinstance(document, dict):
        raise InvalidCatalog(["the catalog must be an object with `source` and `guides`"])
    problems = list(_catalog_problems(document))
    if problems:
        raise InvalidCatalog(problems)
    return Catalog(document["source"], tuple(_guide(each) for each in document["guides"]))


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
    """Refuse what TOML refuses too: one name twice."""
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise ValueError(f"{', '.join(map(ascii, twice))} given more than once in one object")
    return dict(pairs)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _catalog_problems(document: Mapping[str, object]) -> Iterator[str]:
    yield from _member_problems(document, {"source": members.source, "guides": _list})
    guides = document.get("guides")
    if not isinstance(guides, list):
        return
    if len(guides) != CATALOG_SIZE:
        yield f"guides: a catalog holds exactly {CATALOG_SIZE} guides, this one has {len(guides)}"
    for number, guide in enumerate(guides, 1):
        yield from (f"{_name(number, guide)}: {problem}" for problem in _guide_problems(guide))
    yield from _duplicate_slugs(guides)


def _list(value: object) -> str | None:
    return None if isinstance(value, list) else "must be a list of guides"


def _name(number: int, guide: object) -> str:
    """How a guide is called in a problem; a slug that is no slug is not repeated."""
    slug = guide.get("slug") if isinstance(guide, dict) else None
    return f"guide {number}" if members.slug(slug) is not None else f"guide {number} ({slug})"


def _guide_problems(guide: object) -> Iterator[str]:
    if not isinstance(guide, dict):
        yield "must be an object"
        return
    yield from _member_problems(guide, _GUIDE, optional={"url"})


def _member_problems(
    given: Mapping[str, object],
    checks: Mapping[str, Callable[[object], str | None]],
    optional: set[str] | None = None,
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
        if isinstance(slug, str) and members.slug(slug) is None:
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


_GUIDE = {
    "slug": members.slug,
    "title": members.title,
    "description": members.description,
    "tags": members.tags,
    "pages": members.pages,
    "price": members.price,
    "url": members.url,
}
