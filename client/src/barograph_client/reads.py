"""Plan requests and check responses, without any I/O.

A read is a generator. It yields `Get` and receives the response, yields `Pause` and receives
nothing, and returns the answer. The clients carry out its steps, with or without `await`.
"""

import re
from collections.abc import Callable, Generator, Mapping
from email.utils import parsedate_to_datetime
from time import time_ns
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit

import httpx2

from barograph_client.calls import Call
from barograph_client.decode import Record, decode_json
from barograph_client.errors import (
    BY_STATUS,
    InvalidAnswer,
    NoPair,
    RateLimited,
    Refused,
    Unavailable,
    Unreachable,
)

Clock = Callable[[], int]
"""Returns the current time in milliseconds since the Unix epoch."""

TOO_MANY_REQUESTS = 429

_DIGITS = re.compile("[0-9]{1,9}")
_LEFT = re.compile("; *r=([0-9]{1,9})(?![0-9])")
_RESETS = re.compile("; *t=([0-9]{1,9})(?![0-9])")


def system_clock() -> int:
    """The machine's wall clock."""
    return time_ns() // 1_000_000


def seconds_asked_for(status: int, headers: Mapping[str, str], now: int) -> float | None:
    """The wait in seconds by `Retry-After`, or by `RateLimit` of a 429; None without either."""
    asked = headers.get("retry-after", "").strip()
    if _DIGITS.fullmatch(asked):
        return float(asked)
    if asked:
        return _until(asked, now)
    return _until_reset(headers.get("ratelimit", "")) if status == TOO_MANY_REQUESTS else None


def _until(date: str, now: int) -> float | None:
    try:
        then = parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, then - now / 1_000)


def _until_reset(field: str) -> float | None:
    """The longest reset among the limits that are used up."""
    resets = [
        float(found.group(1))
        for item in field.split(",")
        if (left := _LEFT.search(item)) and int(left.group(1)) == 0
        if (found := _RESETS.search(item))
    ]
    return max(resets, default=None)


T = TypeVar("T")

NO_PAIR = "comparison_reference_unavailable"
MOST_KEPT = 64
"""The most answers that the client caches for 304; it drops the least recently read."""

OK = 200
NOT_MODIFIED = 304
FIRST_ERROR = 400


class Get(NamedTuple):
    """Send a request, usually a GET."""

    url: str
    headers: Mapping[str, str]
    method: str = "GET"
    body: bytes = b""


class Pause(NamedTuple):
    """Wait."""

    seconds: float


class HttpReply(NamedTuple):
    """A response; the names of header fields are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Step = Get | Pause
Steps: TypeAlias = Generator[Step, HttpReply | Unreachable | None, T]

Secret = str | Callable[[], str]
"""A credential, or a function that returns the current one."""


class Credentials(NamedTuple):
    """The caller's credentials; each goes only where it is needed."""

    api_key: Secret | None = None
    bearer: Secret | None = None
    proof: Secret | None = None


class Patience(NamedTuple):
    """How often a free read is tried at most, and how long it waits in total."""

    tries: int = 3
    seconds: float = 60.0


PATIENCE = Patience()


class _Kept(NamedTuple):
    etag: str
    answer: Any


class _ErrorBody(Record):
    error: str
    message: str | None = None


class Reader:
    """Plans the requests to one service and checks its responses."""

    def __init__(
        self, base_url: str, credentials: Credentials, patience: Patience, clock: Clock
    ) -> None:
        parts = urlsplit(base_url)
        try:
            httpx2.URL(base_url)
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise ValueError("the base address is not a valid URL") from error
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("the base address must start with http:// or https:// and name a host")
        self.base_url = base_url.rstrip("/")
        self._credentials = credentials
        self._patience = patience
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def read(self, call: Call[T]) -> Steps[T]:
        """Read, with retries as `Patience` allows; a private read, or a change, is sent once.

        Raises:
            ClientError: there is no usable answer. A cached one is never a substitute.
        """
        tries, waited = 1, 0.0
        while True:
            kept = self._kept.get(call.target) if call.is_read else None
            headers = self._headers(call, kept)
            reply = yield Get(self.base_url + call.target, headers, call.method, call.body)
            try:
                return self._judge(call, kept, reply)
            except (RateLimited, Unavailable) as refusal:
                pause = _pause(self._patience, refusal, tries, waited)
                if pause is None or call.is_private or not call.is_read:
                    raise
            yield Pause(pause)
            tries, waited = tries + 1, waited + pause

    def refusal(self, reply: HttpReply) -> Refused:
        """The error that a response stands for."""
        return _refusal(reply, self._clock())

    def _headers(self, call: Call[Any], kept: _Kept | None) -> dict[str, str]:
        headers = {"Accept": "application/json", **_shown(self._credentials, call)}
        if call.body:
            headers["Content-Type"] = "application/json"
        return headers if kept is None else {**headers, "If-None-Match": kept.etag}

    def _judge(self, call: Call[T], kept: _Kept | None, reply: HttpReply | Unreachable | None) -> T:
        if isinstance(reply, Unreachable):
            raise reply
        assert reply is not None
        if reply.status == NOT_MODIFIED and kept is not None and _confirms(reply, kept):
            self._keep(call.target, kept)
            answer: T = kept.answer
            return answer
        if reply.status >= FIRST_ERROR:
            raise self.refusal(reply)
        if reply.status != OK and call.is_read:
            raise InvalidAnswer(f"unexpected status {reply.status}")
        return self._accept(call, reply)

    def _accept(self, call: Call[T], reply: HttpReply) -> T:
        if call.answer is bytes:
            if reply.headers.get("content-type", "").startswith("text/html"):
                raise InvalidAnswer(f"{call.target} returned a web page")
            return reply.body  # type: ignore[return-value]  # T is bytes
        try:
            answer = decode_json(call.answer, reply.body)
        except ValueError as error:
            raise InvalidAnswer(f"{call.target} returned unexpected JSON: {error}") from error
        etag = reply.headers.get("etag")
        is_lasting = "no-store" not in reply.headers.get("cache-control", "")
        if etag is not None and is_lasting and not call.is_private and not call.is_page:
            self._keep(call.target, _Kept(etag, answer))
        return answer

    def _keep(self, target: str, kept: _Kept) -> None:
        self._kept.pop(target, None)
        self._kept[target] = kept
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]


def _shown(credentials: Credentials, call: Call[Any]) -> dict[str, str]:
    """The credential of a call. With a token, no payment proof is sent."""
    api_key, bearer, proof = credentials
    if call.credential == "key" and api_key is not None:
        return {"X-API-Key": _text(api_key)}
    if call.is_private and bearer is not None:
        return {"Authorization": f"Bearer {_text(bearer)}"}
    if call.credential == "feed" and proof is not None:
        return {"PAYMENT-SIGNATURE": _text(proof)}
    return {}


def _text(secret: Secret) -> str:
    text = (secret if isinstance(secret, str) else secret()).strip()
    if not text or not text.isascii() or not text.isprintable():
        raise ValueError("a credential is empty or has characters that a header can't carry")
    return text


def _confirms(reply: HttpReply, kept: _Kept) -> bool:
    etag = reply.headers.get("etag", kept.etag)
    return etag.removeprefix("W/") == kept.etag.removeprefix("W/")


def _refusal(reply: HttpReply, now: int) -> Refused:
    """The error for a response; the page of a proxy has only a status."""
    try:
        said = decode_json(_ErrorBody, reply.body)
    except ValueError:
        said = _ErrorBody(f"status {reply.status}")
    code = "" if said.message is None else said.error
    kind = BY_STATUS.get(reply.status, Refused)
    return (NoPair if code == NO_PAIR else kind)(
        reply.status,
        said.error if said.message is None else said.message,
        code=code,
        retry_after=seconds_asked_for(reply.status, reply.headers, now),
    )


def _pause(patience: Patience, refusal: Refused, tries: int, waited: float) -> float | None:
    """How long to wait before the next try; None to give up."""
    asked = refusal.retry_after
    pause = float(2 ** (tries - 1)) if asked is None else asked
    is_bearable = tries < patience.tries and waited + pause <= patience.seconds
    return pause if is_bearable else None
