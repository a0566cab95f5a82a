"""Turn JSON into frozen records and back, strictly by the type of each member."""

import datetime as dt
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")


class Timestamp(str):
    """A time as the service writes it."""

    __slots__ = ()

    @property
    def datetime(self) -> dt.datetime:
        """The time in UTC; of a day, its beginning."""
        found = dt.datetime.fromisoformat(self)
        return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


class Milliseconds(int):
    """A time in Unix milliseconds."""

    @property
    def datetime(self) -> dt.datetime:
        """The time in UTC."""
        return dt.datetime.fromtimestamp(self / 1000, dt.UTC)


class Constraint(NamedTuple):
    """A condition that a value must meet beyond its type."""

    holds: Callable[[Any], bool]


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make a class a frozen record."""
    return dataclass(frozen=True, slots=True)(cls)


def decode_json(answer: type[T], body: bytes) -> T:
    """Read a body as a record.

    Raises:
        ValueError: the body is not JSON, or not of this type.
    """
    try:
        found: T = _decode(answer, load_json(body), "")
    except (RecursionError, OverflowError) as error:
        raise ValueError("nested too deeply, or a number is too large") from error
    return found


def load_json(body: bytes) -> Any:
    """Read JSON that every reader reads alike; raises ValueError for anything else."""
    return json.loads(body, parse_constant=_refuse_constant, object_pairs_hook=_members)


def convert(answer: type[T], value: Mapping[str, Any]) -> T:
    """Read a mapping as a record.

    Raises:
        ValueError: it is not of this type.
    """
    found: T = _decode(answer, dict(value), "")
    return found


def to_builtins(value: Any) -> Any:
    """A record as dictionaries and lists."""
    if is_dataclass(value) and not isinstance(value, type):
        members = {each.name: getattr(value, each.name) for each in fields(value)}
        event = getattr(value, "event", None)
        tag = {} if event is None else {"event": event}
        return tag | {name.rstrip("_"): to_builtins(each) for name, each in members.items()}
    if isinstance(value, Mapping):
        return {name: to_builtins(each) for name, each in value.items()}
    return [to_builtins(each) for each in value] if isinstance(value, tuple) else value


def to_frame(entries: Iterable[Any]) -> Any:
    """Records as a table with a column per member; times are datetimes.

    It is a DataFrame of pandas or, if that isn't installed, of polars.

    Raises:
        ImportError: neither is installed.
    """
    rows = [to_builtins(each) for each in entries]
    columns = {
        name: [getattr(row[name], "datetime", row[name]) for row in rows]
        for name in (rows[0] if rows else ())
    }
    for library in ("pandas", "polars"):
        with suppress(ModuleNotFoundError):
            return import_module(library).DataFrame(columns)
    raise ImportError("a table needs pandas or polars: install one of them")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object. Of two with one name, another reader may take the other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a member is repeated")
    return found


@cache
def _hints(answer: Any) -> dict[str, Any]:
    return get_type_hints(answer, include_extras=True)


def _decode(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    if isinstance(kind, type) and is_dataclass(kind):
        return _decode_record(kind, value, where)
    arguments = get_args(kind)
    match get_origin(kind):
        case origin if origin is UnionType:
            found = _decode_union(arguments, value, where)
        case origin if origin is Annotated:
            found = _decode(arguments[0], value, where)
            _require(where, holds=arguments[1].holds(found))
        case origin if origin is Literal:
            _require(where, holds=value in arguments)
            found = value
        case origin if origin is tuple:
            _require(where, holds=isinstance(value, list))
            found = tuple(_decode(arguments[0], each, where) for each in value)
        case origin if origin in {Mapping, dict}:
            _require(where, holds=isinstance(value, dict))
            found = {name: _decode(arguments[1], each, where) for name, each in value.items()}
        case _:
            found = _decode_scalar(kind, value, where)
    return found


def _decode_scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if kind in {Timestamp, Milliseconds}:
        return kind(_decode_scalar(kind.__base__, value, where))
    _require(where, holds=kind in {bool, float, int, str, NoneType} and type(value) is kind)
    if kind is str:
        value.encode()  # refuses half of a surrogate pair, which no output could carry
    return value


def _decode_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    problem = None
    for kind in kinds:
        try:
            return _decode(kind, value, where)
        except ValueError as error:
            problem = problem or error
    assert problem is not None
    raise problem


def _decode_record(answer: type[Any], value: Any, where: str) -> Any:
    _require(where or answer.__name__, holds=isinstance(value, dict))
    hints: dict[str, Any] = _hints(answer)  # type: ignore[arg-type]  # a class is hashable
    found = {}
    for field in fields(answer):
        name = field.name.rstrip("_")  # a Python keyword, such as `from_`
        place = f"{where}.{name}" if where else name
        if name in value:
            found[field.name] = _decode(hints[field.name], value[name], place)
        elif field.default is MISSING:
            raise ValueError(f"{place} is missing")
    return answer(**found)


def _require(where: str, *, holds: bool) -> None:
    if not holds:
        raise ValueError(f"{where} has an unexpected value")
