"""`/api/v1/accuracy`: what it says, and that readers can recompute it and catch lies."""

import asyncio
from collections.abc import Callable, Iterator
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
from barograph.markets.store import ReadingRow, record_rows, record_settlement_reports
from barograph.stances.announce import announce_reveals
from barograph.stances.issue import StanceIssuer
from barograph.stances.log_entries import LogEntries
from barograph.venues.records import SettledRate
from support.clock import START
from support.recompute import load_recompute
from support.service import BASE_URL, Answer, Service
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
        self.answers: dict[str, Answer] = {}
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
        answer = self.answers.get(url) or self.service.ask(url.removeprefix(BASE_URL))
        self.answers[url] = answer  # nothing changes any more
        if answer.status != 200:
            raise HTTPError(url, answer.status, "", Message(), None)
        is_json = "json" in answer.headers["content-type"]
        return answer.json() if is_json else answer.body

    def read_mirror(self, url: str) -> Any:
        return self.read(url.replace("https://mirror", BASE_URL))

    def changed(self, change: Change) -> Callable[[str], Any]:
        """Read from an instance that lies in this way."""

        def read(url: str) -> Any:
            body = self.read(url)
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
        SettledRate("BTCUSDT", at, at // HOUR % 5 / 100) for at in hours if at % (8 * HOUR) == 0
    ]
    await record_rows(tx, "bybit", readings=prices)
    await record_settlement_reports(tx, "bybit", settled, END)
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
    assert sum(row["comparison"] is not None for row in rows) >= 2
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


STANCES, LISTED, EVENTS = f"/stances/{FUNDING}", f"/history/{FUNDING}?", "/v1/events?"
FIGURES = "/api/v1/accuracy"
NEWEST = {"kind": FUNDING, "sequence": 115}
FROM = f"from={iso_timestamp(START - 19 * DAY)}"


def at(part: str, edit: Callable[[Any], object]) -> Change:
    """Change the answers of the addresses that have this part."""

    def change(url: str, body: Any) -> None:
        if part in url:
            edit(body)

    return change


def place(body: Any, value: object, *path: str | int) -> None:
    *parents, name = path
    for parent in parents:
        body = body[parent]
    body[name] = value


def put(part: str, value: object, *path: str | int) -> Change:
    """Answer with another value at this place."""
    return at(part, lambda body: place(body, value, *path))


def in_event(wanted: dict[str, object], edit: Callable[[Any], object]) -> Change:
    """Change the events with these members."""

    def change(body: Any) -> None:
        for event in body["events"]:
            if wanted.items() <= event.items():
                edit(event)

    return at(EVENTS, change)


def shown_as_removed(wanted: dict[str, object], **members: object) -> Change:
    """Show an event as one of another type, whose text was removed."""

    def edit(event: Any) -> None:
        head = {name: event[name] for name in ("id", "at", "notice")}
        event.clear()
        event.update({**head, "type": "feed.down", "removed": "the law", **members})

    return in_event(wanted, edit)


def drop_version(body: Any) -> None:
    body["stances"] = [stance for stance in body["stances"] if stance["sequence"] != 7]


def hide_withdrawals(body: Any) -> None:
    for stance in body["stances"]:
        stance["withdrawal"] = None


def hide_figures(body: Any, **boast: str) -> None:
    nothing = ("as_of", "venue", "defined_at", "definition_digest", "definition_url")
    body |= {"kinds": [], "series": {}, "definitions": 0, "note": "Everything agrees."}
    body |= {**dict.fromkeys(nothing), **boast}


def add_terms(body: Any) -> None:
    """Announce afterwards, with an earlier time, that some versions stay private."""
    if body["next"] is None:
        old = next(event for event in body["events"] if event["type"] == "reveal.announced")
        at = iso_timestamp(START + 9 * DAY)
        body["events"].append({**old, "id": body["last_id"] + 1, "after_days": 0, "at": at})


def rewrite_log(body: Any) -> None:
    note = body["checkpoint"].split("\n")
    note[2] = "A" * 43 + "="
    body["checkpoint"] = "\n".join(note)


def look_ahead(body: Any) -> None:
    """Publish what the price of an hour earlier would give."""
    for point in body["points"]:
        point["at"] = iso_timestamp(recompute.milliseconds(point["at"]) + HOUR)


def move(body: Any) -> None:
    """Publish everything below another path, where other series could be."""
    body["definition_url"] = body["definition_url"].replace("/api", "/other/api")
    body["series"] = {n: at.replace("/api", "/other/api") for n, at in body["series"].items()}


def rewrite_time(body: Any) -> None:
    """Write the same time in another way, everywhere."""
    old, new = body["as_of"], body["as_of"].replace(".000", "")
    body["series"] = {n: at.replace(old, new) for n, at in body["series"].items()}
    body["as_of"] = new


def readdressed(metric: str, old: str, new: str) -> Change:
    def edit(body: Any) -> None:
        assert old in body["series"][metric]
        body["series"][metric] = body["series"][metric].replace(old, new)

    return at(FIGURES, edit)


def continue_with_another_coin(url: str, body: Any) -> None:
    if "/series/price" in url:
        body["next"] = url.replace("BTC", "ETH")


DROPPED = at(STANCES, drop_version)
OTHER_METRIC = in_event(
    {"type": "accuracy.defined"},
    lambda event: place(event, "The best price.", "definition", "metrics", "btc_return", "rule"),
)
HIDDEN = at(FIGURES, hide_figures)
AHEAD = at("/series/price", look_ahead)
FIRST_ROW = ("kinds", 2, "measured", 0)


@pytest.mark.parametrize(
    ("lie", "found"),
    [
        (DROPPED, "version 7 is not revealed, but has to be"),
        (
            put(STANCES, "constructive", "stances", 1, "leg", "decision", "label"),
            "version 2 is not the one that was recorded",
        ),
        (
            put(LISTED, iso_timestamp(START), "entries", 9, "issued_at"),
            "a time of issue goes backwards",
        ),
        (
            in_event({"type": "accuracy.defined"}, lambda event: event.update(id=10_000)),
            "the list of events lacks some of the log",
        ),
        (OTHER_METRIC, "event . was changed"),
        (at(EVENTS, lambda body: body["events"].pop(2)), "the list of events lacks some of the"),
        (at("/checkpoint", rewrite_log), "the log of events has another root"),
        (HIDDEN, "stances become public, but no figures are shown"),
        (at(f"/stances/{RATES}", hide_withdrawals), "the withdrawal of version 38 is another one"),
        (readdressed("btc_return", "from=2026", "from=2025"), "series btc_return: published"),
        (readdressed("btc_return", FROM, f"from={iso_timestamp(START)}"), "prices were left out"),
        (readdressed("funding", FROM, f"from={iso_timestamp(START)}"), "series funding: publi"),
        (readdressed("holdings", "-btc?", "-aum?"), "series holdings: published"),
        (at(FIGURES, move), "series btc_return: published"),
        (continue_with_another_coin, "a page links to another list"),
        (shown_as_removed({"kind": FUNDING, "sequence": 1}), "each version once and in order"),
        (shown_as_removed({"kind": FUNDING, "sequence": 7}), "each version once and in order"),
        (shown_as_removed(NEWEST, feed="a name"), "event ... was changed"),
        (shown_as_removed(NEWEST, type="stance.recorded"), "event ... was changed"),
        (shown_as_removed({"type": "reveal.announced"}), "the log of events has no announcement"),
        (
            put(LISTED, iso_timestamp(END), "entries", -1, "issued_at"),
            "version 115 differs in the list and the log",
        ),
        (
            at(LISTED, lambda body: body["entries"].pop()),
            "version 115 differs in the list and the log",
        ),
        (
            at(FIGURES, lambda body: body["kinds"].append(body["kinds"][0])),
            "kinds: published 4 entries, calculated 3",
        ),
        (
            at(FIGURES, lambda body: body["kinds"][2]["measured"].append({})),
            "measured: published 25 entries, calculated 24",
        ),
        (
            at(FIGURES, lambda body: body["kinds"][2]["measured"].pop(0)),
            "measured: published 23 entries, calculated 24",
        ),
        (put(FIGURES, iso_timestamp(END), "as_of"), "which is no full hour"),
        (at(FIGURES, rewrite_time), "accuracy as_of: published"),
        (put(FIGURES, "bybit&symbol=ETH", "venue"), "invalid venue"),
        (put(FIGURES, {"won": 9}, "source"), "source: published"),
        (put(FIGURES, False, "kinds", 2, "late"), "late: published False"),
        (put(FIGURES, None, *FIRST_ROW, "followed"), "followed: published None"),
        (put(FIGURES, 9, "won"), "accuracy: members .*: .'won'"),
        (
            put(FIGURES, 9, "kinds", 2, "won"),
            "accuracy kinds funding-regime-stance: members .*: .'won'",
        ),
        (
            put(FIGURES, 9, *FIRST_ROW, "won"),
            "measured btc_return 8h constructive: members .*: .'won'",
        ),
        (
            put(FIGURES, 9, *FIRST_ROW, "followed", "won"),
            "constructive followed: members .*: .'won'",
        ),
        (AHEAD, "published"),
    ],
)
def test_a_lie_is_caught(instance: Instance, lie: Change, found: str) -> None:
    with pytest.raises(recompute.Contradiction, match=found):
        recompute.recompute(BASE_URL, instance.changed(lie), END / 1000)


def test_terms_that_the_log_does_not_have_change_nothing(instance: Instance) -> None:
    honest = recompute.recompute(BASE_URL, instance.read, END / 1000)
    assert (
        recompute.recompute(BASE_URL, instance.changed(at(EVENTS, add_terms)), END / 1000) == honest
    )


def test_no_figures_are_needed_in_the_first_hours(instance: Instance) -> None:
    published = recompute.recompute(BASE_URL, instance.changed(HIDDEN), START / 1000)
    assert published["note"] == "There are no figures yet."
    for name in ("caution", "after_days", "announced_at"):
        boast = at(FIGURES, partial(hide_figures, **{name: "x"}))
        with pytest.raises(recompute.Contradiction, match=f"{name}: published x"):
            recompute.recompute(BASE_URL, instance.changed(boast), START / 1000)


def test_a_version_may_be_hidden_among_removed_events(instance: Instance) -> None:
    lie = instance.changed(shown_as_removed(NEWEST))
    with pytest.raises(recompute.NotComparable, match="a version has no event, and event"):
        recompute.recompute(BASE_URL, lie, END / 1000)


def test_figures_of_yesterday_are_not_accepted(instance: Instance) -> None:
    for now in (END + 4 * HOUR, END - 2 * HOUR):
        with pytest.raises(recompute.NotComparable, match="the last three hours, or your clock"):
            recompute.recompute(BASE_URL, instance.read, now / 1000)


def recorded(instance: Instance) -> tuple[list[Any], dict[int, Any], list[Any]]:
    """The revealed, the listed and the logged versions of funding."""
    stances = recompute.pages(instance.read, f"{BASE_URL}/api/v1/stances/{FUNDING}", "stances")
    logged = instance.read("/api/v1/events?type=accuracy.defined,stance.recorded,reveal.announced")
    listed = recompute.listed_entries(instance.read, BASE_URL, FUNDING)
    return list(stances), listed, logged["events"]


def test_a_version_in_place_of_another_is_caught(instance: Instance) -> None:
    revealed, listed, events = recorded(instance)
    last = next(event for event in reversed(events) if event.get("kind") == FUNDING)
    twice = [*events, {**last, "history_digest": "0" * 64}]
    with pytest.raises(recompute.Contradiction, match="each version once and in order"):
        recompute.measured_versions(FUNDING, revealed, listed, twice, END)

    version = revealed[1]
    version["previous_digest"] = "0" * 64
    digest = recompute.sha256({name: version[name] for name in recompute.HASHED})
    listed[version["sequence"]]["history_digest"] = digest
    with pytest.raises(recompute.Contradiction, match="does not follow version"):
        recompute.measured_versions(FUNDING, revealed, listed, events, END)


def test_a_definition_that_is_later_than_what_it_measures_is_caught(instance: Instance) -> None:
    revealed, listed, events = recorded(instance)
    next(event for event in events if event["type"] == "accuracy.defined")["id"] = 10**6

    with pytest.raises(recompute.Contradiction, match="is later than what it governs"):
        recompute.measured_versions(FUNDING, revealed, listed, events, END)


def leaves(value: Any, *path: str | int) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """All texts, numbers and nulls with their places."""
    for name, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(each, dict | list):
            yield from leaves(each, *path, name)
        else:
            yield (*path, name), each


def other(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("20"):
        return iso_timestamp(recompute.milliseconds(value) - HOUR)
    return "x" if value is None else value + ("x" if isinstance(value, str) else 1)


def test_every_value_is_checked_except_two_texts(instance: Instance) -> None:
    honest = instance.read("/api/v1/accuracy")
    events = recompute.logged_events(instance.read, BASE_URL)
    calculated = recompute.calculate(instance.read, BASE_URL, honest, events)
    unnoticed = []
    for path, value in list(leaves(honest)):
        try:
            if path[0] == "kinds":  # we calculate the rest from other members
                place(honest, other(value), *path)
                recompute.same("accuracy", honest, calculated)
            else:
                lie = put(FIGURES, other(value), *path)
                recompute.recompute(BASE_URL, instance.changed(lie), END / 1000)
            unnoticed.append(path)
        except (recompute.Contradiction, recompute.NotComparable):
            place(honest, value, *path)

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


HINT = "Late data or an old cache"


@pytest.mark.parametrize(
    ("lie", "said", "is_hinted"),
    [
        (AHEAD, "calculated", True),
        (put(FIGURES, 1, "kinds", 2, "versions"), "versions: published", True),
        (DROPPED, "Contradiction: funding-regime-stance: version 7 is not revealed", False),
        (OTHER_METRIC, "was changed.\n", False),
        (put(FIGURES, "x.", "note"), "published x., calculated None.\n", False),
        (put(FIGURES, "x", "caution"), "say nothing about the future.\n", False),
    ],
)
def test_only_a_figure_can_differ_for_an_hour(
    instance: Instance, capsys: pytest.CaptureFixture[str], lie: Change, said: str, is_hinted: bool
) -> None:
    assert recompute.main([BASE_URL], instance.changed(lie), END / 1000) == 1

    shown = capsys.readouterr().err
    assert (said in shown, HINT in shown, ".." in shown) == (True, is_hinted, False)


def test_the_program_says_what_it_used_and_why_it_ends(
    instance: Instance, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recompute.main([BASE_URL], instance.read, END / 1000) == 0
    used = (
        "The operator's primary venue: bybit. Series: price, settled-funding, us10y, etf-ibit-btc."
    )
    assert capsys.readouterr().out.splitlines()[1] == used

    lost = at(f"/history/{RATES}?", lambda body: body["entries"][0].pop("issued_at"))
    assert recompute.main([BASE_URL], instance.changed(lost), END / 1000) == 2
    assert "Not finished: an answer lacks 'issued_at'. This says" in capsys.readouterr().err

    for wrong in ([BASE_URL, "--jsn"], [BASE_URL, "-j"], []):
        assert recompute.main(wrong, instance.read, END / 1000) == 2
        assert capsys.readouterr().out.startswith("Recompute the accuracy")
