"""Downloads public files over HTTP, and reads their rows, numbers and days."""

import asyncio
import csv
import io
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from random import Random

import httpx2

from barograph.errors import Forbidden, InvalidReply, Throttled, UnknownToUpstream, Unreachable
from barograph.kit.clock import Clock
from barograph.kit.http_client import (
    HttpReply,
    Retries,
    Sleep,
    TimeBudget,
    Transport,
    check_status,
    fetch,
    http_client,
    retry_after,
)
from barograph.kit.timestamps import SECOND
from barograph.macro.records import Figure

MAX_FILE_BYTES = 4 * 1024 * 1024
"""A year of daily rates takes about 30 kB."""

PERCENT = (-10.0, 50.0)
"""A yield or rate outside this range must be a price or in basis points, not a percentage."""

LIMITS = {
    "shares": (0.0, 1e11),  # of one fund: IBIT has about 1e9
    "nav": (0.0, 1e6),  # USD per share: funds split their shares long before
    "btc": (0.0, 21e6),  # there will never be more bitcoin
    "aum": (0.0, 1e13),  # USD: several times the value of all bitcoin
    "flow": (-1e12, 1e12),  # USD per day
}
"""The plausible range by the last word of a series' name; every other series is in percent."""

PAUSE_SECONDS = 300.0
"""How long to pause when a publisher throttles us without saying for how long."""

MAX_PAUSE_SECONDS = 86_400.0

_RETRIES = Retries(attempts=3, first_backoff=0.5, failures=(Unreachable,))

# Python's own float() also takes "nan", "1_000", " 1 " and digits of other scripts.
_NUMBER = re.compile(r"-?([0-9]{1,3}(,[0-9]{3}){1,6}|[0-9]{1,20})(\.[0-9]{1,20})?")


class FileClient:
    """Downloads public files; every failure is an `UpstreamError`. It follows no redirects."""

    def __init__(
        self,
        *,
        seconds: float,
        clock: Clock,
        user_agent: str = "barograph",
        transport: Transport | None = None,
        sleep: Sleep = asyncio.sleep,
        random: Random | None = None,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._sleep = sleep
        self._random = Random() if random is None else random
        headers = {"User-Agent": user_agent, "Accept-Encoding": "gzip"}
        self._http = http_client(transport, headers)

    async def get(
        self,
        address: str,
        params: Mapping[str, str] | None = None,
        *,
        only_attempt: float | None = None,
    ) -> bytes:
        """Download one file, with a timeout per attempt and retries while the time budget lasts.

        With `only_attempt`, there is one attempt, which may take that many seconds.

        Raises:
            UnknownToUpstream: there is no such file.
            InvalidReply: the reply is an HTML page, a redirect or far too large.
            Unreachable: a timeout, a broken connection, or the publisher's own failure.
            Throttled: the publisher asked us to slow down.
            Forbidden: the publisher doesn't serve us.
        """
        fetch = partial(self._fetch, address, params)
        if only_attempt is not None:
            return await fetch(only_attempt)
        budget = TimeBudget(self._seconds, self._clock)
        return await _RETRIES.run(fetch, budget, self._sleep, self._random)

    async def close(self) -> None:
        """Release every connection."""
        await self._http.aclose()

    async def _fetch(self, address: str, params: Mapping[str, str] | None, seconds: float) -> bytes:
        try:
            request = self._http.build_request("GET", address, params=params, timeout=seconds)
            reply = await fetch(self._http, request, seconds, MAX_FILE_BYTES)
        except TimeoutError as error:
            raise Unreachable(f"no answer within {seconds:.1f} s") from error
        except (httpx2.RequestError, httpx2.InvalidURL, OSError) as error:
            # Only the name: the text of some of these holds the address.
            name = type(error).__name__
            raise Unreachable(f"the publisher cannot be reached ({name})") from error
        _check_status(reply)
        label = reply.headers.get("content-type", "nothing")
        start = reply.body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if "html" in label.lower() or start == b"<":
            raise InvalidReply(f"got an HTML page, labelled {label:.40}, instead of the file")
        return reply.body


def csv_rows(body: bytes) -> list[list[str]]:
    """Read the rows of a CSV file; raises as `numbered_rows` does."""
    return [row for _, row in numbered_rows(body)]


def numbered_rows(body: bytes) -> list[tuple[int, list[str]]]:
    """Read the rows of a CSV file with their line numbers; cells are stripped.

    Raises:
        InvalidReply: it is not text, or its quotes do not match.
    """
    try:
        text = body.decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        return [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidReply(f"the file cannot be read as CSV: {error}") from error


def column(header: Sequence[str], *names: str) -> int:
    """The position of the one column with any of these names; raises `InvalidReply` otherwise."""
    places = [place for place, cell in enumerate(header) if cell in names]
    if len(places) != 1:
        raise InvalidReply(f"the file has {len(places)} columns named '{names[0]}' and needs one")
    return places[0]


def number(cell: str) -> float:
    """Read a decimal, also one with thousands separators; raises ValueError."""
    if _NUMBER.fullmatch(cell) is None:
        raise ValueError(f"{cell!r:.40} is not a number")
    return float(cell.replace(",", "")) + 0.0


def today(clock: Clock) -> date:
    """The current day in UTC. An American day is over there before it ends at home."""
    return datetime.fromtimestamp(clock() / SECOND, UTC).date()


def refuse_days_ahead(figures: Sequence[Figure], present: date) -> None:
    """Raise `InvalidReply` if a figure is about a day in the future."""
    limit = (present + timedelta(days=1)).isoformat()
    for figure in figures:
        if figure.day > limit:
            raise InvalidReply(
                f"{figure.series} has a figure of {figure.day}, which is in the future"
            )


class OutOfRange(InvalidReply):
    """A figure is implausible; `/api/status` names its series."""

    def __init__(self, figure: Figure) -> None:
        super().__init__(f"{figure.series} of {figure.day} is {figure.value:g}: out of range")
        self.kind = f"{figure.series} out of range"


def plausible(figures: list[Figure]) -> list[Figure]:
    """Return the figures, or raise `OutOfRange`: one implausible figure rejects the whole file."""
    for figure in figures:
        least, most = LIMITS.get(figure.series.rsplit("-", 1)[-1], PERCENT)
        if not least <= figure.value <= most:
            raise OutOfRange(figure)
    return figures


def _check_status(reply: HttpReply) -> None:
    detail = f"HTTP {reply.status}"
    match reply.status:
        case 401 | 403 | 451:
            why = "the publisher refuses this IP address, or clients that don't say who they are"
            raise Forbidden(f"{detail}: {why} (set BAROGRAPH_CONTACT)")
        case 404 | 410:
            raise UnknownToUpstream(detail)
        case 429:
            raise Throttled(detail, retry_after(reply.headers, PAUSE_SECONDS, MAX_PAUSE_SECONDS))
        case status:
            check_status(status)
