"""The query of a sortable table (pure): its order and search, to and from an address."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from barograph.markets.symbols import MAX_LENGTH

Row = TypeVar("Row")
Order = Literal["asc", "desc"]
SYMBOL = "symbol"
"""The only sort key that is text."""

_SEPARATORS = re.compile(r"[\s/_-]")


class Column(NamedTuple):
    """A column of a table; it can't be sorted if `sort` is empty."""

    sort: str
    heading: str
    title: str = ""


class TableQuery(Struct, frozen=True):
    """Which rows to list, and in which order."""

    sort: str = SYMBOL
    order: Order = "desc"
    search: str = ""

    sorts: ClassVar[tuple[str, ...]] = ()
    """What can be sorted by."""

    longest: ClassVar[int] = MAX_LENGTH
    """How long a search may be."""

    limits: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The values of each filter, which is a field of the same name."""

    @classmethod
    def parse(cls, given: Mapping[str, str], more: Iterable[str] = ()) -> Self:
        """Read a query string; unknown values count as absent. `more` can be sorted by too."""
        asked, order = given.get("sort", ""), given.get("order")
        sort = asked if asked in {*cls.sorts, *more} else cls().sort
        is_up = order == "asc" or (order != "desc" and sort == SYMBOL)
        text = "".join(each for each in given.get("q", "") if each.isprintable())
        query = cls(sort, "asc" if is_up else "desc", text.strip()[: cls.longest].rstrip())
        return query.limited(
            **{name: given[name] for name, known in cls.limits.items() if given.get(name) in known}
        )

    @property
    def usual(self) -> Self:
        """The query of an address without one."""
        return type(self)()

    @property
    def fields(self) -> dict[str, str]:
        """What differs from the usual query, without the search."""
        is_usual = (self.sort, self.order) == (self.usual.sort, self.usual.order)
        fields = {} if is_usual else {"sort": self.sort, "order": self.order}
        return fields | {name: getattr(self, name) for name in self.limits if getattr(self, name)}

    @property
    def text(self) -> str:
        """The canonical query string."""
        return urlencode(self.fields | ({"q": self.search} if self.search else {}))

    def limited(self, **limits: Any) -> Self:  # noqa: ANN401 - the fields of a subclass
        """The same with other filters."""
        return replace(self, **limits)

    def sorted_by(self, sort: str) -> Self:
        """What a column heading links to: sort by it, or reverse the order if it is sorted."""
        is_up = self.order == "desc" if sort == self.sort else sort == SYMBOL
        return replace(self, sort=sort, order="asc" if is_up else "desc")

    def finds(self, name: str, full_names: Iterable[str]) -> bool:
        """Whether the search is a part of the name, or the start of a full name.

        `BTC/USDT` and `bitcoin cash` mean names without separators. Only the start of a full name
        counts, because all end in the same quote currency.
        """
        wanted = _SEPARATORS.sub("", self.search).upper()
        return wanted in name.upper() or any(each.startswith(wanted) for each in full_names)

    def arrange(
        self,
        rows: Iterable[Row],
        name: Callable[[Row], object],
        number: Callable[[Row], float | None],
    ) -> list[Row]:
        """Rows in order; unknown numbers come last in either order."""
        sign = -1 if self.order == "desc" else 1
        key: Callable[[Row], Any] = name
        if self.sort == SYMBOL:
            return sorted(rows, key=key, reverse=sign < 0)

        def place(row: Row) -> tuple[bool, float]:
            value = number(row)
            return value is None, sign * (value or 0.0)

        return sorted(sorted(rows, key=key), key=place)
