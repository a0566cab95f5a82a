"""`/api/v1/accuracy`: what it says, and that readers can recompute it and catch lies."""

import asyncio
from collections.abc import Callable, Iterator
from copy import deepcopy
from email.message import Message
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from barograph.accuracy.assess import publish_accuracy, record_definition
from barograph.accuracy.definition import DEFINITION_DIGEST
from barograph.accuracy.records import ACCURACY, Accuracy
from barograph.board.board import latest_snapshot
from barograph.collector.jobs.stances import AccuracyJob
from barograph.errors import LeaseLost
from barograph.events.records import NewEvent
from barograph.events.store import append_events, events_of_type, remove_text
from barograph.history.ledger import Ledger
from barograph.kit.database import Transaction
from barograph.kit.json import canonical, digest
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.macro.records import US10Y, Figure
from barograph.macro.store import record_figures
from barograph.markets.evidence import FundingSettlement
from barograph.markets.store import ReadingRow, record_rows
from barograph.stances.announce import announce_reveals
from barograph.stances.issue import StanceIssuer
from barograph.stances.log_entries import LogEntries
from support.clock import START
from support.recompute import load_recompute
from support.service import BASE_URL, Service
from support.stances import FUNDING, RATES, proposal

FIRST_HOUR = START // HOUR * HOUR - 10 * DAY
END = START + 40 * DAY
LABELS = ("constructive", "neutral", "cautious", "constructive", "stand-aside")

recompute = load_recompute()
Change = Callable[[str, Any], None]
"""Changes the body that an address answers with."""


class Instance:
    """A service that has revealed forty days of stances, with prices, funding and yields."""

    def __init__(self, folder: Path) -> None:
        self.service = Service(folder, reveal_after_days=1)
        self.ledger = Ledger(self.service.history, self.service.clock)
        self.entries = LogEntries(self.service.database, self.ledger, BASE_URL, self.service.clock)
        asyncio.run(self._live())
        self.service.refresh()

    async def _live(self) -> None:
        service, clock = self.service, self.service.clock
        await service.database.write(_record_series)
        await announce_reveals(service.database, service.lease, 1, clock())
        await self.publish()
        for number in range(3 * 38):
            clock.now = START + number * 8 * HOUR
            label = LABELS[number % len(LABELS)]
            await self.ledger.append(proposal(number, label=label, by="rule"))
            if number % 3 == 0:
                await self.ledger.append(proposal(number, kind=RATES, label=label, by="a person"))
        head = (await self.ledger.newest_versions(RATES, 1))[0].history_digest
        await self.ledger.withdraw(RATES, why="a mistake", by="a person", expected_head=head)
        clock.now = END - DAY + HOUR
        await self.ledger.append(proposal(118, issued_at=clock(), by="rule"))  # not public yet
        clock.now = END
        await service.lease.acquire()
        await self.entries.append(service.lease)
        await service.database.write(_remove_an_event)
        await self.publish()

    async def publish(self) -> None:
        service = self.service
        await publish_accuracy(service.settings, service.database, self.ledger, service.clock)

    def read(self, url: str) -> Any:
        answer = self.service.ask(url.removeprefix(BASE_URL))
        if answer.status != 200:
            raise HTTPError(url, answer.status, "", Message(), None)
        is_json = "json" in answer.headers["content-type"]
        return answer.json() if is_json else answer.body

    def read_mirror(self, url: str) -> Any:
        return self.read(url.replace("https://mirror", BASE_URL))

    def changed(self, change: Change) -> Callable[[str], Any]:
        """Read from an instance that lies in this way."""

        def read(url: str) -> Any:
            body = deepcopy(self.read(url))
            change(url, body)
            return body

        return read


async def _remove_an_event(tx: Transaction) -> None:
    await append_events(tx, [NewEvent("feed.down", END, "a feed", {"feed": "a name"})])
    (event,) = await events_of_type(tx, "feed.down")
    assert await remove_text(tx, digest(event.body), "the law")


async def _record_series(tx: Transaction) -> None:
    hours = range(FIRST_HOUR, END, HOUR)
    prices = [
        ReadingRow("hour", "BTCUSDT", at, 100 + at // HOUR * 7 % 11, 0.01, 8, 1e9, None)
        for at in hours
    ]
    settled = [
        FundingSettlement("BTCUSDT", at, at // HOUR % 5 / 100, 8, at)
        for at in hours
        if at % (8 * HOUR) == 0
    ]
    await record_rows(tx, "bybit", readings=prices, settlements=settled)
    days = [iso_timestamp(at)[:10] for at in range(FIRST_HOUR, END, DAY)]
    yields = [Figure(US10Y, day, 4 + int(day[-2:]) / 100, "a curve") for day in days]
    await record_figures(tx, yields, START)


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    instance = Instance(tmp_path_factory.mktemp("accuracy"))
    yield instance
    instance.service.close()


def test_an_instance_that_reveals_nothing_says_so(service: Service) -> None:
    body = service.ask("/api/v1/accuracy").json()

    assert (body["as_of"], body["kinds"], body["after_days"]) == (None, [], 0)
    assert body["note"].startswith("This instance does not reveal its stances")
    assert service.ask("/api/v1/accuracy?x=1").status == 400


def test_the_definition_is_recorded_once_and_can_be_read(instance: Instance) -> None:
    body = instance.read("/api/v1/accuracy")
    event = instance.read(body["definition_url"])

    assert body["as_of"] == iso_timestamp(END // HOUR * HOUR)
    assert digest(canonical(event)) == body["definition_digest"]
    assert digest(canonical(event["definition"])) == DEFINITION_DIGEST == recompute.DEFINITION
    events = asyncio.run(events_of_type(instance.service.database, "accuracy.defined"))
    assert len(events) == 1


def test_every_revealed_version_counts_and_no_other(instance: Instance) -> None:
    kinds = {each["kind"]: each for each in instance.read("/api/v1/accuracy")["kinds"]}

    assert [kinds[FUNDING][name] for name in ("versions", "first", "last")] == [114, 1, 114]
    assert [kinds[RATES][name] for name in ("versions", "revised", "withdrawn")] == [38, 38, 1]
    assert kinds["btc-etf-stance"]["headline"].startswith("Nothing is measured yet")
    measured = {(each["label"], each["horizon"]) for each in kinds[FUNDING]["measured"]}
    assert len(measured) == 12
    assert not any("win" in name for each in kinds[FUNDING]["measured"] for name in each)


def test_a_reader_recomputes_every_figure(instance: Instance) -> None:
    published = recompute.recompute(BASE_URL, instance.read, END / 1000)
    assert recompute.recompute("https://mirror", instance.read_mirror, END / 1000) == published

    rows = [row for kind in published["kinds"] for row in kind["measured"]]
    assert sum(row["followed"]["quantiles"] is not None for row in rows) >= 2
    assert instance.service.ask("/static/recompute_accuracy.py").headers["content-type"] == (
        "text/plain; charset=utf-8"
    )


class Young:
    """A service at its start, with the job that publishes the accuracy."""

    def __init__(self, folder: Path) -> None:
        self.service = service = Service(folder)
        self.ledger = Ledger(service.history, service.clock)
        self.job = AccuracyJob(service.settings, service.database, self.ledger, clock=service.clock)

    def run(self) -> Accuracy | None:
        if not self.service.lease.is_held:
            asyncio.run(self.service.lease.acquire())
        asyncio.run(self.job.run_once(self.service.lease))
        return asyncio.run(latest_snapshot(self.service.database, ACCURACY))

    def announce(self, after_days: int = 1) -> None:
        service = self.service
        asyncio.run(announce_reveals(service.database, service.lease, after_days, service.clock()))

    def defined(self) -> int:
        return len(asyncio.run(events_of_type(self.service.database, "accuracy.defined")))


@pytest.fixture
def young(tmp_path: Path) -> Iterator[Young]:
    young = Young(tmp_path)
    yield young
    young.service.close()


def test_nothing_is_defined_or_published_before_an_announcement(young: Young) -> None:
    assert young.run() is None
    assert young.defined() == 0

    young.announce()

    found = young.run()
    assert found is not None
    assert (found.after_days, found.defined_at, young.defined()) == (1, START, 1)


def test_another_definition_is_recorded_and_starts_the_counts_again(young: Young) -> None:
    young.announce()
    young.run()
    asyncio.run(young.ledger.append(proposal(0, by="rule")))
    young.service.clock.now = START + 2 * DAY
    before = young.run()
    other = NewEvent("accuracy.defined", START + DAY, "other", {"definition": {"name": "other"}})

    asyncio.run(young.service.database.write(lambda tx: append_events(tx, [other])))
    after = young.run()

    assert before is not None
    assert after is not None
    assert [each.kinds[2].versions for each in (before, after)] == [1, 0]
    assert (after.defined_at, young.defined()) == (START + 2 * DAY, 3)


def test_new_terms_are_published_within_the_hour(young: Young) -> None:
    young.announce()
    young.run()
    young.service.clock.pass_seconds(60)
    young.announce(after_days=0)

    found = young.run()
    assert found is not None
    assert (found.after_days, found.announced_at) == (0, young.service.clock())


def test_the_definition_is_logged_with_the_announcement(young: Young) -> None:
    service = young.service
    if not service.lease.is_held:
        asyncio.run(service.lease.acquire())
    issuer = StanceIssuer(
        service.settings.model_copy(update={"reveal_after_days": 1}),
        service.database,
        young.ledger,
        service.clock,
        define=record_definition,
    )

    asyncio.run(issuer.issue(service.lease))
    service.refresh()

    logged = [each["type"] for each in service.ask("/api/v1/events?limit=2").json()["events"]]
    assert (logged, young.defined()) == (["reveal.announced", "accuracy.defined"], 1)


def test_only_the_leader_publishes(young: Young) -> None:
    young.announce()
    service = young.service
    service.execute("UPDATE leases SET token = token + 1")

    with pytest.raises(LeaseLost):
        asyncio.run(young.job.run_once(service.lease))
    assert young.defined() == 0


def dropped(url: str, body: Any) -> None:
    if f"/stances/{FUNDING}" in url:
        body["stances"] = [each for each in body["stances"] if each["sequence"] != 7]


def reworded(url: str, body: Any) -> None:
    if f"/stances/{FUNDING}" in url:
        body["stances"][1]["leg"]["decision"]["label"] = "constructive"


def back_dated(url: str, body: Any) -> None:
    if f"/history/{FUNDING}?" in url:
        body["entries"][9]["issued_at"] = body["entries"][2]["issued_at"]


def defined_later(url: str, body: Any) -> None:
    if "/events?" in url:
        for each in body["events"]:
            each["id"] += 10_000 * (each["type"] == "accuracy.defined")


def other_metric(url: str, body: Any) -> None:
    if "/events?" in url:
        for each in body["events"]:
            if each["type"] == "accuracy.defined":
                each["definition"]["metrics"]["btc_return"]["rule"] = "The best price of the week."


def other_asset(url: str, body: Any) -> None:
    if url.endswith("/accuracy"):
        body["series"]["btc_return"] = body["series"]["btc_return"].replace("BTC", "ETH")


def left_out(url: str, body: Any) -> None:
    if url.endswith("/accuracy"):
        del body["kinds"][2]["measured"][0]


def boasted(url: str, body: Any) -> None:
    if url.endswith("/accuracy"):
        body["kinds"][2]["headline"] += " Our clients disagree."


def hid_everything(url: str, body: Any) -> None:
    if url.endswith("/accuracy"):
        nothing = ("as_of", "venue", "defined_at", "definition_digest", "definition_url")
        body |= {"kinds": [], "series": {}, "definitions": 0, "note": "Everything agrees."}
        body |= dict.fromkeys(nothing)


def boasted_without_figures(name: str, url: str, body: Any) -> None:
    hid_everything(url, body)
    if url.endswith("/accuracy"):
        body[name] = "Always right."


def defined_twice(url: str, body: Any) -> None:
    if url.endswith("/accuracy"):
        body["definitions"] -= 1


def hid_a_withdrawal(url: str, body: Any) -> None:
    if f"/stances/{RATES}" in url:
        for each in body["stances"]:
            each["withdrawal"] = None


def hid_an_event(url: str, body: Any) -> None:
    if "/events?limit" in url:
        del body["events"][2]


def added_terms(url: str, body: Any) -> None:
    """Announce afterwards, with an earlier time, that some versions stay private."""
    if "/events?limit" in url and body["next"] is None:
        old = next(each for each in body["events"] if each["type"] == "reveal.announced")
        at = iso_timestamp(START + 9 * DAY)
        body["events"].append({**old, "id": body["last_id"] + 1, "after_days": 0, "at": at})


def rewrote_the_log(url: str, body: Any) -> None:
    if url.endswith("/checkpoint"):
        note = body["checkpoint"].split("\n")
        note[2] = "A" * 43 + "="
        body["checkpoint"] = "\n".join(note)


def looked_ahead(url: str, body: Any) -> None:
    """Publish what the price of an hour earlier would give."""
    if "/series/price" in url:
        for each in body["points"]:
            each["at"] = iso_timestamp(recompute.milliseconds(each["at"]) + HOUR)


def shown_as_removed(wanted: dict[str, object], **members: object) -> Change:
    """Show an event as one of another type, whose text was removed."""

    def change(url: str, body: Any) -> None:
        for each in body["events"] if "/events?limit" in url else ():
            if wanted.items() <= each.items():
                head = {name: each[name] for name in ("id", "at", "notice")}
                each.clear()
                each.update({**head, "type": "feed.down", "removed": "the law", **members})

    return change


def redated(url: str, body: Any) -> None:
    if f"/history/{FUNDING}?" in url:
        body["entries"][-1]["issued_at"] = iso_timestamp(END)


def shortened(url: str, body: Any) -> None:
    if f"/history/{FUNDING}?" in url:
        del body["entries"][-1]


def published(edit: Callable[[Any], object]) -> Change:
    """Change the document with the figures."""
    return lambda url, body: edit(body) if url.endswith("/accuracy") else None  # type: ignore[return-value]


def readdressed(metric: str, old: str, new: str) -> Change:
    def edit(body: Any) -> None:
        assert old in body["series"][metric]
        body["series"][metric] = body["series"][metric].replace(old, new)

    return published(edit)


def moved(body: Any) -> None:
    """Publish everything below another path, where other series could be."""
    body["definition_url"] = body["definition_url"].replace("/api", "/other/api")
    body["series"] = {n: at.replace("/api", "/other/api") for n, at in body["series"].items()}


def rewritten(body: Any) -> None:
    """Write the same time in another way, everywhere."""
    old, new = body["as_of"], body["as_of"].replace(".000", "")
    body["series"] = {n: at.replace(old, new) for n, at in body["series"].items()}
    body["as_of"] = new


def continued(url: str, body: Any) -> None:
    if "/series/price" in url:
        body["next"] = url.replace("BTC", "ETH")


NEWEST = {"kind": FUNDING, "sequence": 115}
FROM = f"from={iso_timestamp(START - 19 * DAY)}"


@pytest.mark.parametrize(
    ("lie", "found"),
    [
        (dropped, "version 7 is not revealed, but has to be"),
        (reworded, "version 2 is not the one that was recorded"),
        (back_dated, "a time of issue goes backwards"),
        (defined_later, "the list of events lacks some of the log"),
        (other_metric, "event . was changed"),
        (hid_an_event, "the list of events lacks some of the log"),
        (rewrote_the_log, "the log of events has another root"),
        (hid_everything, "stances become public, but no figures are shown"),
        (defined_twice, "definitions: published 0, calculated 1"),
        (hid_a_withdrawal, "the withdrawal of version 38 is another one"),
        (other_asset, "series btc_return: published"),
        (readdressed("btc_return", "hour", "day"), "series btc_return: published"),
        (readdressed("btc_return", "bybit", "okx"), "series btc_return: published"),
        (readdressed("btc_return", "from=2026", "from=2025"), "series btc_return: published"),
        (readdressed("btc_return", FROM, f"from={iso_timestamp(START)}"), "prices were left out"),
        (readdressed("funding", FROM, f"from={iso_timestamp(START)}"), "series funding: publi"),
        (readdressed("us10y_change", "us10y?", "us2y?"), "series us10y_change: published"),
        (readdressed("us10y_change", "&as_of=2026", "&as_of=2025"), "series us10y_change: publ"),
        (readdressed("holdings", "-btc?", "-aum?"), "series holdings: published"),
        (published(moved), "series btc_return: published"),
        (continued, "a page links to another list"),
        (shown_as_removed({"kind": FUNDING, "sequence": 1}), "each version once and in order"),
        (shown_as_removed({"kind": FUNDING, "sequence": 7}), "each version once and in order"),
        (shown_as_removed(NEWEST, feed="a name"), "event ... was changed"),
        (shown_as_removed(NEWEST, type="stance.recorded"), "event ... was changed"),
        (shown_as_removed({"type": "reveal.announced"}), "the log of events has no announcement"),
        (redated, "version 115 differs in the list and the log"),
        (shortened, "version 115 differs in the list and the log"),
        (
            published(lambda body: body["kinds"].append(body["kinds"][0])),
            "kinds: published 4 entries, calculated 3",
        ),
        (
            published(lambda body: body["kinds"][2]["measured"].append({})),
            "measured: published 25 entries, calculated 24",
        ),
        (published(lambda body: body.update(as_of=iso_timestamp(END))), "which is no full hour"),
        (published(rewritten), "accuracy as_of: published"),
        (published(lambda body: body.update(venue="bybit&symbol=ETH")), "invalid venue"),
        (published(lambda body: body.update(source={"won": 9})), "source: published"),
        (published(lambda body: body["kinds"][2].update(late=False)), "late: published False"),
        (
            published(lambda body: body["kinds"][2]["measured"][0].update(followed=None)),
            "followed: published None",
        ),
        (
            published(lambda body: body.update(won=9)),
            "accuracy: members .*: .'won'",
        ),
        (
            published(lambda body: body["kinds"][2].update(won=9)),
            "accuracy kinds funding-regime-stance: members .*: .'won'",
        ),
        (
            published(lambda body: body["kinds"][2]["measured"][0].update(won=9)),
            "measured btc_return 8h constructive: members .*: .'won'",
        ),
        (
            published(lambda body: body["kinds"][2]["measured"][0]["followed"].update(won=9)),
            "constructive followed: members .*: .'won'",
        ),
        (left_out, "measured: published 23 entries, calculated 24"),
        (boasted, "funding-regime-stance headline: published"),
        (looked_ahead, "published"),
    ],
)
def test_a_lie_is_caught(instance: Instance, lie: Change, found: str) -> None:
    with pytest.raises(recompute.Contradiction, match=found):
        recompute.recompute(BASE_URL, instance.changed(lie), END / 1000)


def test_terms_that_the_log_does_not_have_change_nothing(instance: Instance) -> None:
    honest = recompute.recompute(BASE_URL, instance.read, END / 1000)
    assert recompute.recompute(BASE_URL, instance.changed(added_terms), END / 1000) == honest


def test_no_figures_are_needed_in_the_first_hours(instance: Instance) -> None:
    published = recompute.recompute(BASE_URL, instance.changed(hid_everything), START / 1000)
    assert published["note"] == "There are no figures yet."
    for name in ("caution", "after_days", "announced_at"):
        lie = instance.changed(partial(boasted_without_figures, name))
        with pytest.raises(recompute.Contradiction, match=f"{name}: published Always right"):
            recompute.recompute(BASE_URL, lie, START / 1000)


def test_a_version_may_be_hidden_among_removed_events(instance: Instance) -> None:
    lie = instance.changed(shown_as_removed(NEWEST))
    with pytest.raises(recompute.NotComparable, match="a version has no event, and event"):
        recompute.recompute(BASE_URL, lie, END / 1000)


def test_figures_of_yesterday_are_not_accepted(instance: Instance) -> None:
    for now in (END + 4 * HOUR, END - 2 * HOUR):
        with pytest.raises(recompute.NotComparable, match="the last three hours, or your clock"):
            recompute.recompute(BASE_URL, instance.read, now / 1000)


def test_a_version_in_place_of_another_is_caught(instance: Instance) -> None:
    events = instance.read("/api/v1/events?type=accuracy.defined,stance.recorded,reveal.announced")
    listed = recompute.listed_entries(instance.read, BASE_URL, FUNDING)
    revealed = list(
        recompute.pages(instance.read, f"{BASE_URL}/api/v1/stances/{FUNDING}", "stances")
    )
    last = next(each for each in reversed(events["events"]) if each.get("kind") == FUNDING)
    twice = [*events["events"], {**last, "history_digest": "0" * 64}]
    with pytest.raises(recompute.Contradiction, match="each version once and in order"):
        recompute.measured_versions(FUNDING, revealed, listed, twice, END)

    version = revealed[1]
    version["previous_digest"] = "0" * 64
    digest = recompute.sha256({name: version[name] for name in recompute.HASHED})
    listed[version["sequence"]]["history_digest"] = digest
    with pytest.raises(recompute.Contradiction, match="does not follow version"):
        recompute.measured_versions(FUNDING, revealed, listed, events["events"], END)


def test_a_definition_that_is_later_than_what_it_measures_is_caught(instance: Instance) -> None:
    events = instance.read("/api/v1/events?type=accuracy.defined,stance.recorded,reveal.announced")
    changed = events["events"]
    defined = next(each for each in changed if each["type"] == "accuracy.defined")
    listed = recompute.listed_entries(instance.read, BASE_URL, FUNDING)
    revealed = recompute.pages(instance.read, f"{BASE_URL}/api/v1/stances/{FUNDING}", "stances")
    defined["id"] = 10**6

    with pytest.raises(recompute.Contradiction, match="is later than what it governs"):
        recompute.measured_versions(FUNDING, list(revealed), listed, changed, END)


def leaves(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """The places of all texts, numbers and nulls."""
    for name, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(each, dict | list):
            yield from leaves(each, *path, name)
        else:
            yield (*path, name)


def other(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("20"):
        return iso_timestamp(recompute.milliseconds(value) - HOUR)
    return "x" if value is None else value + ("x" if isinstance(value, str) else 1)


def test_every_value_is_checked_except_two_texts(instance: Instance) -> None:
    honest = instance.read("/api/v1/accuracy")
    events = recompute.logged_events(instance.read, BASE_URL)
    calculated = recompute.calculate(instance.read, BASE_URL, honest, events)
    unnoticed = []
    for *path, name in leaves(honest):
        body = place = deepcopy(honest)
        for each in path:
            place = place[each]
        place[name] = other(place[name])
        try:
            if path[:1] == ["kinds"]:  # we calculate the rest from other members
                recompute.same("accuracy", body, calculated)
            else:
                lie = published(lambda honest, body=body: honest.update(body))  # type: ignore[misc]
                recompute.recompute(BASE_URL, instance.changed(lie), END / 1000)
        except (recompute.Contradiction, recompute.NotComparable):
            continue
        unnoticed.append((*path, name))

    assert unnoticed == [("source",), ("notice",)]


def test_prices_past_the_retention_may_be_missing(instance: Instance) -> None:
    address = instance.read("/api/v1/accuracy")["series"]["btc_return"]
    check = partial(recompute.check_older_prices, instance.read, address, END - 900 * DAY)
    with pytest.raises(HTTPError):
        recompute.read_series(
            instance.read, "btc_return", address.replace("from=2026", "from=2024")
        )

    check(END - 728 * DAY)
    check(FIRST_HOUR + 75 * HOUR)
    for later in (76 * HOUR, 70 * DAY):
        with pytest.raises(recompute.Contradiction, match="prices were left out"):
            check(FIRST_HOUR + later)
    with pytest.raises(HTTPError):
        recompute.check_older_prices(instance.read, address.replace("BTC", "none"), START, END)


def test_the_next_page_of_a_list_is_the_same_list(instance: Instance) -> None:
    series = instance.read("/api/v1/accuracy")["series"]
    lists = {f"{series[name]}&": "points" for name in ("funding", "us10y_change", "btc_return")}
    for address, name in {**lists, f"{BASE_URL}/api/v1/events?": "events"}.items():
        whole = list(recompute.pages(instance.read, f"{address}limit=5000", name))
        parts = list(recompute.pages(instance.read, f"{address}limit=40", name))
        assert (parts, len(parts) > 40) == (whole, True)


HINT = "Late data or an old cache"


@pytest.mark.parametrize(
    ("lie", "said", "is_hinted"),
    [
        (looked_ahead, "calculated", True),
        (published(lambda body: body["kinds"][2].update(versions=1)), "versions: published", True),
        (dropped, "Contradiction: funding-regime-stance: version 7 is not revealed", False),
        (other_metric, "was changed.\n", False),
        (published(lambda body: body.update(note="x.")), "published x., calculated None.\n", False),
        (
            published(lambda body: body.update(caution="x")),
            "say nothing about the future.\n",
            False,
        ),
    ],
)
def test_only_a_figure_can_differ_for_an_hour(
    instance: Instance, capsys: pytest.CaptureFixture[str], lie: Change, said: str, is_hinted: bool
) -> None:
    assert recompute.main([BASE_URL], instance.changed(lie), END / 1000) == 1

    shown = capsys.readouterr().err
    assert (said in shown, HINT in shown, ".." in shown) == (True, is_hinted, False)


def lost_a_time(url: str, body: Any) -> None:
    if f"/history/{RATES}?" in url:
        del body["entries"][0]["issued_at"]


def test_the_program_says_what_it_used_and_why_it_ends(
    instance: Instance, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recompute.main([BASE_URL], instance.read, END / 1000) == 0
    used = (
        "The operator's primary venue: bybit. Series: price, settled-funding, us10y, etf-ibit-btc."
    )
    assert capsys.readouterr().out.splitlines()[1] == used

    assert recompute.main([BASE_URL], instance.changed(lost_a_time), END / 1000) == 2
    assert "Not finished: an answer lacks 'issued_at'. This says" in capsys.readouterr().err

    for wrong in ([BASE_URL, "--jsn"], [BASE_URL, "-j"], []):
        assert recompute.main(wrong, instance.read, END / 1000) == 2
        assert capsys.readouterr().out.startswith("Recompute the accuracy")
