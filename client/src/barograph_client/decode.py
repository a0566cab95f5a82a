"""Turn JSON into frozen records and back, strictly by the type of each member."""

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from typing import Any, TypeVar, dataclass_transform

import msgspec

T = TypeVar("T")


class Timestamp(str):
    """A time as the service writes it."""

    __slots__ = ()

    @property
    def datetime(self) -> dt.datetime:
        """The time in UTC; of a day, its beginning."""
        time = dt.datetime.fromisoformat(self)
        return time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)


class Milliseconds(int):
    """A time in Unix milliseconds."""

    @property
    def datetime(self) -> dt.datetime:
        """The time in UTC."""
        return dt.datetime.fromtimestamp(self / 1000, dt.UTC)


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True):
    """Something that the service answers."""


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make a class a frozen record of an audited document."""
    return dataclass(frozen=True, slots=True)(cls)


def decode_json(answer: type[T], body: bytes) -> T:
    """Read a body as a record.

    An audited document may not repeat a member, which msgspec would take.

    Raises:
        ValueError: the body is not JSON, or not of this type.
    """
    try:
        if is_dataclass(answer):
            return convert(answer, load_json(body))
        return msgspec.json.decode(body, type=answer, dec_hook=_time)
    except (RecursionError, OverflowError) as error:
        raise ValueError("nested too deeply, or a number is too large") from error


def load_json(body: bytes) -> Any:
    """Read JSON that every reader reads alike; raises ValueError for anything else."""
    return json.loads(body, parse_constant=_refuse_constant, object_pairs_hook=_members)


def convert(answer: type[T], value: object) -> T:
    """Read parsed JSON as a record.

    Raises:
        ValueError: it is not of this type.
    """
    return msgspec.convert(value, answer, dec_hook=_time)


def to_builtins(value: object) -> Any:
    """A record as dictionaries and tuples."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def to_frame(entries: Iterable[Record]) -> Any:
    """Records as a table with a column per member; times are datetimes.

    It is a DataFrame of pandas or, if that isn't installed, of polars.

    Raises:
        ImportError: neither is installed.
    """
    rows = list(entries)
    columns = {
        field.encode_name: [_cell(getattr(row, field.name)) for row in rows]
        for field in (msgspec.structs.fields(rows[0]) if rows else ())
    }
    for library in ("pandas", "polars"):
        with suppress(ModuleNotFoundError):
            return import_module(library).DataFrame(columns)
    raise ImportError("a table needs pandas or polars: install one of them")


def _cell(value: object) -> Any:
    if isinstance(value, Timestamp | Milliseconds):
        return value.datetime
    return to_builtins(value) if isinstance(value, Record | tuple | Mapping) else value


def _time(kind: type[Any], value: object) -> Any:
    if type(value) is not kind.__base__:
        raise ValueError("it is not a time")
    return kind(value)


def _plain(time: Timestamp | Milliseconds) -> str | int:
    return str(time) if isinstance(time, Timestamp) else int(time)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object. Of two with one name, another reader may take the other."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member is repeated")
    return members
