"""Every request that the clients can send, as data.

Both clients have a method for each function here and send the request that it describes.
"""

import json
from collections.abc import Callable, Collection
from datetime import date, datetime
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from barograph_client import records
from barograph_client.errors import InvalidAnswer

T = TypeVar("T")
E = TypeVar("E")
PageT = TypeVar("PageT", bound=records.ListPage)

Words = Collection[str]
Time = str | int | date | None
"""A time as the service takes it, Unix milliseconds, a date, or a datetime with a zone."""

Credential = Literal["none", "key", "feed", "token"]
"""Which credential a request carries: none, the API key, token or proof, or the token only."""

LONGEST_QUERY = 8_000
STANCE_PATHS = {
    "btc-etf-stance": "/api/x402/btc-etf-stance",
    "rates-desk": "/api/x402/rates-desk",
    "funding-regime-stance": "/api/x402/funding-regime",
}


class Call(NamedTuple, Generic[T]):
    """One request: its address, the type of the answer and the credential."""

    target: str
    """Path and query."""

    answer: type[T]
    credential: Credential = "none"
    is_page: bool = False
    """Whether it is one page of many: the client doesn't cache it."""

    method: str = "GET"
    body: bytes = b""
    """JSON, or nothing."""

    @property
    def is_private(self) -> bool:
        """Whether the answer is private: the client then neither caches nor retries it."""
        return self.credential in {"feed", "token"}

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing, so that the client may repeat it."""
        return self.method == "GET"

    def at(self, address: str | None) -> "Call[T] | None":
        """The same read at the address of the next page; None if there is none.

        Only the query of the address counts, so the client never asks another host.

        Raises:
            InvalidAnswer: it has no usable query, or that of the same page again.
        """
        if address is None:
            return None
        query = address.partition("?")[2]
        target = f"{self.target.partition('?')[0]}?{query}"
        is_usable = query and query.isprintable() and len(query) <= LONGEST_QUERY
        if not is_usable or target == self.target:
            raise InvalidAnswer("the address of the next page is not usable")
        return self._replace(target=target)


class ListCall(NamedTuple, Generic[PageT, E]):
    """A list that the service sends by pages."""

    first: Call[PageT]
    entries: Callable[[PageT], tuple[E, ...]]


def index() -> Call[records.Index]:
    """The list of free endpoints."""
    return Call("/api/agent", records.Index)


def briefs(limit: int | None = None) -> Call[records.Briefs]:
    """The newest briefs, newest first: 1 to 50, by default 15."""
    return Call(_target("/api/agent/briefs", limit=limit), records.Briefs)


def derivatives(symbol: str = "BTC") -> Call[records.Derivatives]:
    """Price, funding, open interest and positioning of one perpetual."""
    return Call(_target("/api/agent/derivatives", symbol=symbol), records.Derivatives)


def market() -> Call[records.Market]:
    """The funding and price snapshot of BTC, ETH and SOL."""
    return Call("/api/agent/market", records.Market)


def market_state() -> Call[records.MarketState]:
    """Assets, 24-hour liquidations and the regime."""
    return Call("/api/agent/market-state", records.MarketState)


def guides() -> Call[records.Guides]:
    """The catalog of paid guides."""
    return Call("/api/agent/guides", records.Guides)


def signals() -> Call[records.Signals]:
    """The regime signals. Each read counts against the rate limit, even a 304."""
    return Call("/api/v1/signals", records.Signals, "key")


def status() -> Call[records.Status]:
    """The state of the market feed and the API."""
    return Call("/api/status", records.Status)


def perpetuals(*, venue: str | None = None) -> Call[records.Perpetuals]:
    """Every perpetual with price, funding, open interest and 24-hour changes."""
    return Call(_target("/api/v1/perpetuals", venue=venue), records.Perpetuals)


def perpetual(symbol: str, *, venue: str | None = None) -> Call[records.Perpetual]:
    """One perpetual; `PEPE` and `bitcoin` find `1000PEPE` and `BTC`."""
    path = f"/api/v1/perpetuals/{quote(symbol, safe='')}"
    return Call(_target(path, venue=venue), records.Perpetual)


def venues() -> Call[records.Venues]:
    """The venues: what each publishes, its age and health, and which one is in use."""
    return Call("/api/v1/venues", records.Venues)


def cross() -> Call[records.Cross]:
    """Every coin at all venues, with totals where no venue is missing."""
    return Call("/api/v1/cross", records.Cross)


def cross_coin(coin: str) -> Call[records.CrossCoin]:
    """One coin at all venues; `PEPE` and `bitcoin` work too."""
    return Call(f"/api/v1/cross/{quote(coin, safe='')}", records.CrossCoin)


def carry(*, window: str | None = None, coin: str | None = None) -> Call[records.Carry]:
    """What positions earned or paid in settled funding over `8h`, `24h`, `7d` or `30d`."""
    return Call(_target("/api/v1/carry", window=window, coin=coin), records.Carry)


def series(
    measure: str,
    *,
    symbol: str | None = None,
    key: str | None = None,
    venue: str | None = None,
    start: Time = None,
    end: Time = None,
    interval: str | None = None,
    as_of: Time = None,
    limit: int | None = None,
) -> ListCall[records.SeriesPage, records.Point]:
    """The points of a measure, oldest first, `limit` per request; by default 7 days or more."""
    words = {"symbol": symbol, "key": key, "venue": venue, "interval": interval}
    given = {**words, "as_of": as_of, "limit": limit, "from_": start, "to": end}
    target = _target(f"/api/v1/series/{quote(measure, safe='')}", **given)
    return ListCall(Call(target, records.SeriesPage, is_page=True), lambda page: page.points)


def listings(
    *, coin: str | None = None, venue: str | None = None, at: Time = None, limit: int | None = None
) -> ListCall[records.ListingPage, records.Listing]:
    """When contracts were listed; with `at`, only those that were listed then."""
    target = _target("/api/v1/listings", coin=coin, venue=venue, at=at, limit=limit)
    return ListCall(Call(target, records.ListingPage, is_page=True), lambda page: page.listings)


def liquidations(
    *,
    symbol: str | None = None,
    side: str | None = None,
    venue: str | None = None,
    start: Time = None,
    end: Time = None,
    limit: int | None = None,
) -> ListCall[records.LiquidationPage, records.Liquidation]:
    """Every recorded liquidation, oldest first, by default of the last 24 hours."""
    given = {"symbol": symbol, "side": side, "venue": venue, "limit": limit}
    target = _target("/api/v1/liquidations", from_=start, to=end, **given)
    return ListCall(
        Call(target, records.LiquidationPage, is_page=True), lambda page: page.liquidations
    )


def liquidation_files(venue: str) -> Call[records.LiquidationFiles]:
    """The files of liquidations of a venue, one per UTC day."""
    path = f"/data/liquidations/{quote(venue, safe='')}/manifest.json"
    return Call(path, records.LiquidationFiles)


def liquidation_file(venue: str, day: str | date) -> Call[bytes]:
    """The file of a day, such as `2026-11-14`: CSV, compressed by gzip."""
    path = f"/data/liquidations/{quote(venue, safe='')}/{quote(str(day), safe='')}.csv.gz"
    return Call(path, bytes)


def events(
    after: int | None = None,
    *,
    since: Time = None,
    types: Words = (),
    symbols: Words = (),
    venue: str | None = None,
) -> ListCall[records.EventPage, records.LogEvent]:
    """What changed, oldest first: after the event with this id, or since a time."""
    given = {"type": _listed(types), "symbol": _listed(symbols), "venue": venue}
    target = _target("/api/v1/events", after=after, since=since, **given)
    return ListCall(Call(target, records.EventPage, is_page=True), lambda page: page.events)


def incidents(
    *, check: str | None = None, venue: str | None = None, start: Time = None, end: Time = None
) -> ListCall[records.IncidentPage, records.Incident]:
    """When a part of the service was not ok, newest first, by default in the last 7 days."""
    target = _target("/api/v1/incidents", check=check, venue=venue, from_=start, to=end)
    return ListCall(Call(target, records.IncidentPage, is_page=True), lambda page: page.incidents)


def accuracy() -> Call[dict[str, Any]]:
    """What followed the revealed stances, one label beside the others, as the service sends it."""
    return Call("/api/v1/accuracy", dict[str, Any])


ALERTS = "/api/v1/alerts"


def alerts() -> Call[dict[str, Any]]:
    """Your alerts, as the service sends them. This and the other calls for alerts need a key."""
    return Call(ALERTS, dict[str, Any], "key")


def alert_messages(after: int = 0) -> Call[dict[str, Any]]:
    """What your alerts have told you since a message."""
    return Call(_target(f"{ALERTS}/messages", after=after), dict[str, Any], "key")


def create_alert(measure: str, **members: Any) -> Call[dict[str, Any]]:  # noqa: ANN401
    """Write an alert with the members that docs/alerts.md describes."""
    return _sending("POST", ALERTS, {"measure": measure, **members})


def preview_alert(measure: str, **members: Any) -> Call[dict[str, Any]]:  # noqa: ANN401
    """When an alert with these members would have fired in the past 30 days."""
    return _sending("POST", f"{ALERTS}/preview", {"measure": measure, **members})


def change_alert(alert: str, state: str) -> Call[dict[str, Any]]:
    """Pause an alert (`paused`) or resume it (`active`)."""
    return _sending("PATCH", f"{ALERTS}/{quote(alert, safe='')}", {"state": state})


def delete_alert(alert: str) -> Call[bytes]:
    """Delete an alert with its messages."""
    return Call(f"{ALERTS}/{quote(alert, safe='')}", bytes, "key", method="DELETE")


def _sending(method: str, target: str, body: dict[str, Any]) -> Call[dict[str, Any]]:
    text = json.dumps(body).encode()
    return Call(target, dict[str, Any], "key", method=method, body=text)


def revealed(kind: str) -> ListCall[records.RevealedPage, records.RevealedStance]:
    """The stances of a kind that have become public, oldest first."""
    target = f"/api/v1/stances/{quote(kind, safe='')}"
    return ListCall(Call(target, records.RevealedPage, is_page=True), lambda page: page.stances)


def feed_now() -> Call[records.FeedNow]:
    """The stance tape, the market state and the newest briefs, with Feed."""
    return Call("/api/feed/now", records.FeedNow, "feed")


def stance(kind: str) -> Call[records.Stance]:
    """The newest stance of a kind, with a Feed token.

    The client never sends a payment proof here, because the service could charge it.

    Raises:
        ValueError: there is no such kind.
    """
    if kind not in STANCE_PATHS:
        raise ValueError(f"unknown kind {kind!r}: choose one of {', '.join(STANCE_PATHS)}")
    return Call(STANCE_PATHS[kind], records.Stance, "token")


def material_change(
    kind: str, before: records.Reference, after: records.Reference
) -> Call[records.Comparison]:
    """The comparison of the latest two recorded versions of a kind, with Feed."""
    target = _target(
        "/api/agents/material-change",
        kind=kind,
        before_leg=before.leg_id,
        before_revision=before.revision,
        before_digest=before.history_digest,
        after_leg=after.leg_id,
        after_revision=after.revision,
        after_digest=after.history_digest,
    )
    return Call(target, records.Comparison, "feed")


def _listed(words: Words) -> str | None:
    return (words if isinstance(words, str) else ",".join(words)) or None


def _text(value: str | int | date) -> str | int:
    if isinstance(value, datetime) and value.utcoffset() is None:
        raise ValueError(
            f"{value.isoformat()} has no time zone: write datetime(…, tzinfo=UTC), or call "
            ".astimezone() if it is your local time"
        )
    return value.isoformat() if isinstance(value, date) else value


def _target(path: str, **query: Time) -> str:
    given = {name.rstrip("_"): _text(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, quote_via=quote, safe='')}" if given else path
