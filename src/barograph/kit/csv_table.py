"""Tables as CSV by RFC 4180 (pure): a header, CRLF, an empty cell for no value.

Every row ends with the source and the notice, so that they stay with the data.
"""

import re
from collections.abc import Iterable
from typing import Any

from barograph import NOTICE

CSV = b"text/csv; charset=utf-8; header=present"

_SPECIAL = re.compile(r'[",\r\n]|^[\s\ufeff]*[=+@\t-]')
_FORMULA = re.compile(r"^(?=[\s\ufeff]*[=+@-]|[\t\r])")


def table(header: str, rows: Iterable[str], source: str) -> bytes:
    """A whole table; the header and the rows are without source and notice."""
    return table_header(header) + table_rows(rows, source)


def table_header(header: str) -> bytes:
    """The first line, for a table that is sent in parts."""
    return f"{header},source,notice\r\n".encode()


def table_rows(rows: Iterable[str], source: str) -> bytes:
    """Some rows, for a table that is sent in parts."""
    ending = f",{quoted(source)},{quoted(NOTICE)}\r\n"
    return "".join(f"{row}{ending}" for row in rows).encode()


Value = str | float | dict[str, Any] | list[Any] | None
"""Of a cell; what has parts becomes text such as `venue=binance last=7.1; venue=gate last=2.5`."""


def cells(values: Iterable[Value]) -> str:
    """A row without source and notice."""
    return ",".join(map(cell, values))


def cell(value: Value) -> str:
    """A number or text, quoted if necessary; empty for None."""
    if isinstance(value, str):
        return quoted(value) if _SPECIAL.search(value) else value
    if isinstance(value, dict | list):
        return cell(_text(value))
    return "" if value is None else repr(value)


def _text(value: Value) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={_text(part)}" for name, part in value.items())
    if isinstance(value, list):
        between = "; " if any(isinstance(part, dict) for part in value) else " "
        return between.join(map(_text, value))
    return "" if value is None else str(value)


def quoted(text: str) -> str:
    """Text as a cell, whatever it contains; a spreadsheet must not take it for a formula."""
    return '"' + _FORMULA.sub("'", text).replace('"', '""') + '"'
