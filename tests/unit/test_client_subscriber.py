"""The subscriber's routine against answers made by hand."""

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from barograph_client import AsyncBarograph, AsyncSubscriber, Barograph, ReferenceFile, Subscriber
from barograph_client.errors import PaymentRequired, ReferencesUnusable, Refused
from barograph_client.records import Reference
from barograph_client.references import PreparedFile
from barograph_client.subscriber import Compared, Kept, Later, Skipped, Stopped

BASE = "https://barograph.example"
RATES, FUNDING = "rates-desk", "funding-regime-stance"


class HandService(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Answers the feed with what it was told to, and comparisons of any pair."""

    def __init__(self) -> None:
        self.tape: list[dict[str, Any]] = []
        self.pairs: list[dict[str, str]] = []
        self.feed_fails: httpx2.Response | httpx2.RequestError | None = None
        self.comparison_fails: dict[str, httpx2.Response | httpx2.RequestError] = {}
        self.changes: dict[str, Any] = {}
        self.asked = 0
        self.meanwhile: Callable[[], object] = int
        self.hosts: set[str] = set()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked += 1
        self.meanwhile()
        self.hosts.add(request.url.host)
        if request.url.path == "/api/feed/now":
            return self._answer(self.feed_fails, self._feed())
        query = {
            name: value[0] for name, value in parse_qs(urlsplit(str(request.url)).query).items()
        }
        self.pairs.append(query)
        return self._answer(self.comparison_fails.get(query["kind"]), self._comparison(query))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return self.handle_request(request)

    def _answer(
        self, fails: httpx2.Response | httpx2.RequestError | None, body: dict[str, Any]
    ) -> httpx2.Response:
        if isinstance(fails, httpx2.RequestError):
            raise fails
        return fails or httpx2.Response(200, content=json.dumps(body))

    def _feed(self) -> dict[str, Any]:
        return {"as_of": "2026", "tape": {"stance_tape": self.tape}, "notice": "Information only."}

    def _comparison(self, query: dict[str, str]) -> dict[str, Any]:
        sides = {
            side: {
                "leg_id": query[f"{side}_leg"],
                "revision": int(query[f"{side}_revision"]),
                "history_digest": query[f"{side}_digest"],
                "issued_at": "2026",
            }
            for side in ("before", "after")
        }
        assessment: dict[str, Any] = {
            "status": "abstained",
            "reasons": [],
            "change": None,
            "same_source_evidence": None,
            "numeric_changes": [],
            "conditions": [],
            "recorded_decisions": None,
            "ready_for_paid_delivery": False,
        }
        schema = {"schema": "feed-material-change-v1", "kind": query["kind"], "notice": "i"}
        return {**schema, **sides, "compared_at": "t", "assessment": assessment, **self.changes}


def entry(kind: str, revision: int, **changes: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "href": f"https://elsewhere.example/{kind}",
        "leg_id": f"{kind}:leg",
        "revision": revision,
        "history_digest": f"{revision:064x}",
        "issued_at": "2026",
        "history_durable": True,
        "state": "active",
        **changes,
    }


def reference(kind: str, revision: int) -> Reference:
    return Reference(f"{kind}:leg", revision, f"{revision:064x}", "2026")


def refusal(status: int, code: str = "code", **headers: str) -> httpx2.Response:
    return httpx2.Response(status, json={"error": code, "message": "a sentence"}, headers=headers)


class Follower:
    """A subscriber of a service made by hand, with its file."""

    def __init__(self, folder: Path) -> None:
        self.service = HandService()
        self.store = ReferenceFile(folder / "references.json")
        self.subscriber = self.subscribe()

    def subscribe(self, *kinds: str) -> Subscriber:
        client = Barograph(BASE, bearer="token", transport=self.service)
        return Subscriber(client, self.store, kinds) if kinds else Subscriber(client, self.store)

    def look(self, *tape: dict[str, Any]) -> tuple[Any, ...]:
        self.service.tape = list(tape)
        return self.subscriber.look()


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    return Follower(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"history_durable": False},
        {"history_durable": False, "history_digest": None},
        {"history_digest": None},
        {"history_digest": "A" * 64},
    ],
)
def test_what_is_not_on_record_is_skipped(follower: Follower, changes: dict[str, Any]) -> None:
    follower.look(entry(RATES, 1))
    skipped = follower.look(entry(RATES, 2, **changes))
    assert skipped == (Skipped(RATES, "rates-desk:leg", 2),)
    assert follower.store.read() == {RATES: reference(RATES, 1)}
    assert follower.service.pairs == []
    follower.look(entry(RATES, 3))
    (pair,) = follower.service.pairs
    assert (pair["before_revision"], pair["after_revision"]) == ("1", "3")


@pytest.mark.parametrize(
    ("failure", "retry_after"),
    [
        (refusal(503, "comparison_unavailable"), None),
        (refusal(503, "comparison_unavailable", **{"retry-after": "15"}), 15.0),
        (refusal(429, "too_many_requests", **{"retry-after": "9"}), 9.0),
        (httpx2.Response(502, content=b"<html>"), None),
        (httpx2.Response(200, content=b"<html>"), None),
        (httpx2.Response(302, headers={"location": "https://other.example"}), None),
        (httpx2.ConnectTimeout("secret text"), None),
    ],
)
def test_what_cannot_be_told_now_is_asked_again_later_with_the_same_reference(
    follower: Follower, failure: httpx2.Response | httpx2.RequestError, retry_after: float | None
) -> None:
    follower.look(entry(RATES, 1), entry(FUNDING, 1))
    follower.service.comparison_fails[RATES] = failure
    later, compared = follower.look(entry(RATES, 2), entry(FUNDING, 2))
    assert isinstance(later, Later)
    assert (later.kind, later.retry_after) == (RATES, retry_after)
    assert "secret" not in later.message
    assert isinstance(compared, Compared)
    assert follower.store.read() == {RATES: reference(RATES, 1), FUNDING: reference(FUNDING, 2)}
    follower.service.comparison_fails.clear()
    (again,) = follower.look(entry(RATES, 2), entry(FUNDING, 2))
    assert isinstance(again, Compared)
    assert again.comparison.before == reference(RATES, 1)


@pytest.mark.parametrize(
    ("status", "code"), [(400, "why"), (401, "why"), (402, "why"), (404, "not_found")]
)
def test_a_refused_credential_ends_it_for_good(follower: Follower, status: int, code: str) -> None:
    follower.service.feed_fails = refusal(status, code)
    assert follower.look() == (Stopped(status, code, "a sentence"),)
    for _ in range(2):
        with pytest.raises(Refused, match="a sentence"):
            follower.look()
    assert follower.service.asked == 1


@pytest.mark.parametrize("status", [403, 404, 405, 408])
def test_refusal_by_an_intermediary_is_temporary(follower: Follower, status: int) -> None:
    follower.service.feed_fails = refusal(status, "")
    assert [follower.look() for _ in range(2)] == [(Later("a sentence", status=status),)] * 2
    assert follower.service.asked == 2


def test_what_was_found_before_it_ended_is_told_and_kept(follower: Follower) -> None:
    kinds = ("btc-etf-stance", RATES, FUNDING)
    follower.look(*(entry(kind, 1) for kind in kinds))
    payment = httpx2.Response(402, json={"x402Version": 2, "error": "Feed"})
    follower.service.comparison_fails[RATES] = payment
    compared, stopped = follower.look(*(entry(kind, 2) for kind in kinds))
    assert isinstance(compared, Compared)
    assert stopped == Stopped(402, "", "Feed")
    assert [kept.revision for kept in follower.store.read().values()] == [2, 1, 1]
    assert [pair["kind"] for pair in follower.service.pairs] == ["btc-etf-stance", RATES]
    with pytest.raises(PaymentRequired):
        follower.look()


def test_a_comparison_of_other_versions_is_not_believed(follower: Follower) -> None:
    follower.look(entry(RATES, 1))
    other = {"leg_id": "x", "revision": 7, "history_digest": "0" * 64, "issued_at": "2026"}
    follower.service.changes = {"before": other}
    (later,) = follower.look(entry(RATES, 2))
    assert isinstance(later, Later)
    assert follower.store.read() == {RATES: reference(RATES, 1)}


def test_only_the_chosen_kinds_are_followed_and_the_others_stay(follower: Follower) -> None:
    follower.look(entry(RATES, 1), entry(FUNDING, 1))
    follower.subscriber = follower.subscribe(FUNDING)
    (compared,) = follower.look(entry(RATES, 2), entry(FUNDING, 2))
    assert isinstance(compared, Compared)
    assert [stance.kind for stance in follower.subscriber.tape] == [FUNDING]
    assert follower.store.read() == {RATES: reference(RATES, 1), FUNDING: reference(FUNDING, 2)}


def test_what_another_subscriber_kept_meanwhile_stays(follower: Follower) -> None:
    follower.look(entry(RATES, 1))
    other = {FUNDING: reference(FUNDING, 1)}
    follower.service.meanwhile = lambda: follower.store.write(other)
    follower.look(entry(RATES, 2))
    assert follower.store.read() == {RATES: reference(RATES, 2), **other}


def test_what_could_not_be_kept_is_found_again(follower: Follower) -> None:
    follower.look(entry(RATES, 1))
    usual = follower.store.path
    follower.store.path = usual.parent / "absent" / "references.json"
    with pytest.raises(ReferencesUnusable):
        follower.look(entry(RATES, 2))
    follower.store.path = usual
    (again,) = follower.look(entry(RATES, 2))
    assert isinstance(again, Compared)


def test_the_links_of_the_tape_lead_the_token_nowhere(follower: Follower) -> None:
    follower.look(entry(RATES, 1))
    follower.look(entry(RATES, 2))
    assert follower.service.asked == 3
    assert follower.service.hosts == {"barograph.example"}


class SlowFile(ReferenceFile):
    """A file on a disk that answers when it is told to, and that knows who asks."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_written = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.threads: list[int] = []

    def read(self) -> dict[str, Reference]:
        self.threads.append(threading.get_ident())
        return super().read()

    def prepare(self, references: Mapping[str, Reference]) -> PreparedFile:
        self.threads.append(threading.get_ident())
        prepared = super().prepare(references)
        self.is_written.set()
        assert self.may_go_on.wait(30)
        return prepared


def shown(folder: Path) -> list[Path]:
    """What lies in a folder, besides the file by which one writer waits for another."""
    return sorted(each for each in folder.iterdir() if each.suffix != ".lock")


def subscribed(store: ReferenceFile) -> AsyncSubscriber:
    service = HandService()
    service.tape = [entry(RATES, 1)]
    return AsyncSubscriber(AsyncBarograph(BASE, bearer="token", transport=service), store)


async def test_other_work_goes_on_while_threads_read_and_write_the_file(tmp_path: Path) -> None:
    store = SlowFile(tmp_path / "references.json")
    store.may_go_on.clear()
    looking = asyncio.create_task(subscribed(store).look())
    await asyncio.to_thread(store.is_written.wait, 30)
    assert not store.path.exists()
    store.may_go_on.set()
    assert await looking == (Kept(RATES, reference(RATES, 1)),)
    assert len(store.threads) == 3  # read, write, and read again under its lock
    assert threading.get_ident() not in store.threads
    assert store.read() == {RATES: reference(RATES, 1)}
    assert shown(tmp_path) == [store.path]


async def test_a_look_cut_off_while_it_writes_keeps_nothing_and_is_repeated(tmp_path: Path) -> None:
    store = SlowFile(tmp_path / "references.json")
    store.may_go_on.clear()
    looking = asyncio.create_task(subscribed(store).look())
    await asyncio.to_thread(store.is_written.wait, 30)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    store.may_go_on.set()
    assert await subscribed(store).look() == (Kept(RATES, reference(RATES, 1)),)
    assert shown(tmp_path) == [store.path]


async def test_without_blocking_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    store = ReferenceFile(tmp_path / "absent" / "references.json")
    with pytest.raises(ReferencesUnusable, match="can't be written"):
        await subscribed(store).look()
