"""What a process counts for Prometheus, in plain dictionaries and lists.

Counting costs well under a microsecond, because hot reads pay for it. `kit.metrics_export` adds up
the numbers of all processes and serves them. No label has unbounded values, and none is secret.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from time import perf_counter
from typing import Literal, NamedTuple

from barograph.errors import BarographError, Throttled, Unreachable
from barograph.kit.database import Database, DatabaseUnavailable, Row, T, Value, Work

BOUNDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5)
"""The upper bounds of the histogram buckets in seconds; one more bucket has no bound."""

_FIRST_BOUND = BOUNDS[0]

Key = tuple[str, ...]
"""The name of a metric and its label values."""

Gauges = dict[Key, float]
Numbers = list[float]
"""A counter, or a histogram: the sum in seconds, then the count of each bucket."""


class Family(NamedTuple):
    """A metric. An `age` is stored as a timestamp and becomes seconds at each scrape."""

    name: str
    kind: Literal["counter", "histogram", "gauge", "age"]
    labels: str
    help: str
    combine: Callable[[Iterable[float]], float] = max
    """Combines the values of all processes into one."""

    @property
    def size(self) -> int:
        """How many numbers a series has in a process."""
        return len(BOUNDS) + 2 if self.kind == "histogram" else 1


REQUEST_SECONDS = Family(
    "barograph_request_seconds",
    "histogram",
    "route status",
    "Time from a request to the start of its response.",
)
FEED_AGE = Family(
    "barograph_feed_age_seconds",
    "age",
    "feed",
    "Age of the newest data, in the web worker that is furthest behind.",
)
CALLS = Family("barograph_upstream_calls_total", "counter", "upstream", "Calls to upstreams.")
FAILURES = Family(
    "barograph_upstream_failures_total", "counter", "upstream kind", "Calls that failed."
)
LEADER = Family("barograph_leader", "gauge", "", "Collectors on this host that lead.", sum)
OUTBOX = Family("barograph_outbox_mails", "gauge", "", "E-mails waiting to be sent.")
LIMITS_FAILING = Family(
    "barograph_limits_store_failing",
    "gauge",
    "store",
    "1 while a web worker can't use the rate-limit store, otherwise 0.",
)
PAYMENTS_OPEN = Family("barograph_payments_open", "gauge", "state", "Unfinished payments.")
PAYMENTS_AGE = Family(
    "barograph_payments_oldest_open_age_seconds",
    "age",
    "state",
    "Time since the last step of the payment that has waited longest.",
)
PAYMENT_STEPS = Family(
    "barograph_payment_steps_total", "counter", "state", "How often a payment reached a state."
)
DATABASE_SECONDS = Family(
    "barograph_database_seconds",
    "histogram",
    "database operation",
    "Duration of transactions, including waits for locks and connections.",
)
DATABASE_FAILURES = Family(
    "barograph_database_failures_total",
    "counter",
    "database operation",
    "Transactions that failed because the database was unavailable.",
)
DATABASE_UP = Family(
    "barograph_database_up",
    "gauge",
    "database",
    "0 if a process couldn't use the database last time, otherwise 1.",
    min,
)
PROCESSES = Family("barograph_processes", "gauge", "role", "Running processes.", sum)
FAMILIES = [value for value in tuple(vars().values()) if isinstance(value, Family)]


def add(times: Numbers, seconds: float) -> None:
    """Add one duration to the numbers of a histogram."""
    times[0] += seconds
    times[1 if seconds <= _FIRST_BOUND else bisect_left(BOUNDS, seconds) + 1] += 1


class Metrics:
    """The numbers of one process."""

    def __init__(self) -> None:
        self.totals: dict[Key, Numbers] = {}
        self.gauges: Gauges = {}
        self.databases: list[MeasuredDatabase] = []

    def numbers(self, family: Family, *labels: str) -> Numbers:
        """The numbers of a counter or histogram."""
        return self.totals.setdefault((family.name, *labels), [0.0] * family.size)

    def count(self, family: Family, *labels: str) -> None:
        """Add one to a counter."""
        self.numbers(family, *labels)[0] += 1

    def observe(self, seconds: float, family: Family, *labels: str) -> None:
        """Add one duration to a histogram."""
        add(self.numbers(family, *labels), seconds)

    @contextmanager
    def call(self, upstream: str) -> Iterator[None]:
        """Count a call to an upstream, and its failure by kind."""
        self.count(CALLS, upstream)
        try:
            yield
        except BarographError as error:
            # The kind of the class, because that of an instance can contain anything.
            self.count(FAILURES, upstream, getattr(type(error), "kind", Unreachable.kind))
            raise

    def replied(self, upstream: str, status: int) -> None:
        """Count an HTTP status that is the upstream's own failure."""
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            self.count(FAILURES, upstream, Throttled.kind)
        elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self.count(FAILURES, upstream, Unreachable.kind)

    def measured(self, database: Database, name: str) -> Database:
        """The database, with its transactions measured."""
        self.databases.append(MeasuredDatabase(database, name, self))
        return self.databases[-1]


MAX_PATHS = 4_096
LONGEST_PATH = 255
"""Longer paths are not remembered, because callers choose paths."""


class RequestTimes:
    """The durations of requests by route and status; `route_of` finds the route of a path."""

    def __init__(self, metrics: Metrics, route_of: Callable[[str], str]) -> None:
        self._metrics = metrics
        self._route_of = route_of
        self._known: dict[tuple[str, int], Numbers] = {}

    def of(self, path: str, status: int) -> Numbers:
        """Where to add the durations of these requests, with `add`."""
        times = self._known.get((path, status))
        if times is None:
            times = self._metrics.numbers(REQUEST_SECONDS, self._route_of(path), str(status))
            if len(self._known) >= MAX_PATHS:
                self._known.clear()
            if len(path) <= LONGEST_PATH:
                self._known[path, status] = times
        return times


class _NoMetrics(Metrics):
    def count(self, family: Family, *labels: str) -> None:
        """Count nothing."""

    def measured(self, database: Database, _: str) -> Database:
        return database


NO_METRICS = _NoMetrics()


class MeasuredDatabase:
    """A database whose transactions are measured."""

    def __init__(self, database: Database, name: str, metrics: Metrics) -> None:
        self._database = database
        self._name = name
        self._metrics = metrics
        self.engine = database.engine
        self.close = database.close

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        """Run one reading statement."""
        with self._measured("read"):
            return await self._database.fetch(sql, *values)

    async def read(self, work: Work[T]) -> T:
        """Run `work` on one consistent snapshot."""
        with self._measured("read"):
            return await self._database.read(work)

    async def write(self, work: Work[T]) -> T:
        """Run `work` as one transaction."""
        with self._measured("write"):
            return await self._database.write(work)

    async def ask_again(self) -> None:
        """Try to read if the last transaction failed, because the next may be an hour away."""
        if self._metrics.gauges.get((DATABASE_UP.name, self._name)) == 0:
            with suppress(DatabaseUnavailable):
                await self.fetch("SELECT count(*) FROM schema_migrations")

    @contextmanager
    def _measured(self, operation: str) -> Iterator[None]:
        metrics, up, started = self._metrics, (DATABASE_UP.name, self._name), perf_counter()
        try:
            yield
        except DatabaseUnavailable:
            metrics.gauges[up] = 0.0
            metrics.count(DATABASE_FAILURES, self._name, operation)
            raise
        else:  # a cancelled transaction says nothing about the database
            metrics.gauges[up] = 1.0
        finally:
            seconds = perf_counter() - started
            metrics.observe(seconds, DATABASE_SECONDS, self._name, operation)
