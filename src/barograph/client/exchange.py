"""One read as a conversation of steps without any I/O: it plans requests and judges answers.

A conversation is a generator. It yields `Ask` and is sent the reply, yields `Pause` and is sent
nothing, and returns the answer. Whoever drives it, with or without `await`, only does the steps.
"""

import re
from collections.abc import Callable, Generator, Mapping
from email.utils import parsedate_to_datetime
from time import time_ns
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from barograph.client.calls import Call
from barograph.client.errors import (
    BY_STATUS,
    InvalidAnswer,
    NoPair,
    RateLimited,
    Refused,
    Unavailable,
    Unreachable,
)

Clock = Callable[[], int]
"""Returns the present in whole milliseconds since the Unix epoch."""

TOO_MANY_REQUESTS = 429

_DIGITS = re.compile("[0-9]{1,9}")
_LEFT = re.compile("; *r=([0-9]{1,9})(?![0-9])")
_RESETS = re.compile("; *t=([0-9]{1,9})(?![0-9])")


def system_clock() -> int:
    """The machine's wall clock."""
    return time_ns() // 1_000_000


def seconds_asked_for(status: int, headers: Mapping[str, str], now: int) -> float | None:
    """The seconds to wait by `Retry-After`, else by `RateLimit` of a refusal; None if none."""
    told = headers.get("retry-after", "").strip()
    if _DIGITS.fullmatch(told):
        return float(told)
    if told:
        return _until(told, now)
    return _until_reset(headers.get("ratelimit", "")) if status == TOO_MANY_REQUESTS else None


def _until(date: str, now: int) -> float | None:
    try:
        then = parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, then - now / 1_000)


def _until_reset(field: str) -> float | None:
    """The longest reset among the allowances that are spent."""
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
"""So many answers are kept to be confirmed by a 304; the one that was read longest ago goes."""

OK = 200
NOT_MODIFIED = 304
FIRST_ERROR = 400


class Ask(NamedTuple):
    """Send a GET."""

    url: str
    headers: Mapping[str, str]


class Pause(NamedTuple):
    """Wait."""

    seconds: float


class Reply(NamedTuple):
    """What came back; the names of header fields are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Step = Ask | Pause
Steps: TypeAlias = Generator[Step, Reply | Unreachable | None, T]

Secret = str | Callable[[], str]
"""A credential, or a function that gives the present one."""


class Credentials(NamedTuple):
    """What the caller may show; each goes only where it is needed."""

    api_key: Secret | None = None
    bearer: Secret | None = None
    proof: Secret | None = None


class Patience(NamedTuple):
    """How often a free read is sent at most, and how long it waits in all, when told to wait."""

    tries: int = 3
    seconds: float = 60.0


PATIENCE = Patience()


class _Kept(NamedTuple):
    etag: str
    answer: Any


class _ErrorBody(msgspec.Struct):
    error: str
    message: str | None = None


class Exchange:
    """Plans what is sent to one service and judges what comes back."""

    def __init__(
        self, base_url: str, credentials: Credentials, patience: Patience, clock: Clock
    ) -> None:
        parts = urlsplit(base_url)
        try:
            httpx2.URL(base_url)
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise ValueError("the base address is none that can be asked") from error
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("the base address must begin with http:// or https:// and name a host")
        self._base_url = base_url.rstrip("/")
        self._credentials = credentials
        self._patience = patience
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def read(self, call: Call[T]) -> Steps[T]:
        """Read something, as patiently as is allowed; private things are asked for once.

        Raises:
            ClientError: there is no answer that can be used. What was kept is no substitute.
        """
        tries, waited = 1, 0.0
        while True:
            kept = self._kept.get(call.target)
            reply = yield Ask(self._base_url + call.target, self._headers(call, kept))
            try:
                return self._judge(call, kept, reply)
            except (RateLimited, Unavailable) as refusal:
                pause = None if call.is_private else _pause(self._patience, refusal, tries, waited)
                if pause is None:
                    raise
            yield Pause(pause)
            tries, waited = tries + 1, waited + pause

    def _headers(self, call: Call[Any], kept: _Kept | None) -> dict[str, str]:
        headers = {"Accept": "application/json", **_shown(self._credentials, call)}
        return headers if kept is None else {**headers, "If-None-Match": kept.etag}

    def _judge(self, call: Call[T], kept: _Kept | None, reply: Reply | Unreachable | None) -> T:
        if isinstance(reply, Unreachable):
            raise reply
        assert reply is not None
        if reply.status == NOT_MODIFIED and kept is not None and _confirms(reply, kept):
            self._keep(call.target, kept)
            answer: T = kept.answer
            return answer
        if reply.status >= FIRST_ERROR:
            raise _refusal(reply, self._clock())
        if reply.status != OK:
            raise InvalidAnswer(f"status {reply.status} is no answer")
        return self._accept(call, reply)

    def _accept(self, call: Call[T], reply: Reply) -> T:
        try:
            answer = msgspec.json.decode(reply.body, type=call.answer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidAnswer(f"not a {call.answer.__name__}: {error}") from error
        etag = reply.headers.get("etag")
        is_lasting = "no-store" not in reply.headers.get("cache-control", "")
        if etag is not None and is_lasting and not call.is_private:
            self._keep(call.target, _Kept(etag, answer))
        return answer

    def _keep(self, target: str, kept: _Kept) -> None:
        self._kept.pop(target, None)
        self._kept[target] = kept
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]


def _shown(credentials: Credentials, call: Call[Any]) -> dict[str, str]:
    """The credential of a call. A token decides alone, so no proof is shown beside it."""
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
        raise ValueError("a credential is empty or has a character that no header can carry")
    return text


def _confirms(reply: Reply, kept: _Kept) -> bool:
    etag = reply.headers.get("etag", kept.etag)
    return etag.removeprefix("W/") == kept.etag.removeprefix("W/")


def _refusal(reply: Reply, now: int) -> Refused:
    """What an answer other than success says; a proxy's page says nothing but its status."""
    try:
        said = msgspec.json.decode(reply.body, type=_ErrorBody)
    except (msgspec.DecodeError, UnicodeDecodeError):
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
    """How long to wait before the next try; None when it is not worth it."""
    told = refusal.retry_after
    pause = float(2 ** (tries - 1)) if told is None else told
    is_bearable = tries < patience.tries and waited + pause <= patience.seconds
    return pause if is_bearable else None
