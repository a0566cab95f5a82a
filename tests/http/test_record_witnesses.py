"""`/record`: the log of everything that changed, and who cosigns the logs."""

import asyncio
from pathlib import Path

from barograph.board.feeds import Publication
from barograph.events.records import NewEvent
from barograph.events.store import append_events
from barograph.history.witnesses import WITNESSES, WitnessState, WitnessStates
from support.clock import START
from support.history import PublicHistory
from support.service import ask
from support.witnesses import SimulatedWitness

PAGE = "/record"
ORIGIN = "barograph.example/history/events"
REFUSED = "A witness refuses this log."


def look(history: PublicHistory, folder: Path, *states: WitnessState) -> str:
    """The page of a worker with a policy, after the collector asked the witnesses."""
    file = folder / "policy"
    verifiers = [SimulatedWitness(name, ord(name), lambda: START).verifier.text for name in "ab"]
    lines = [f"witness {text[0]} {text} https://{text[0]}.example" for text in verifiers]
    file.write_text("\n".join([*lines, "group both all a b", "quorum both", ""]))
    history.service.put(Publication.of(WITNESSES, WitnessStates(states)))
    worker = history.service.new_worker(witness_policy=file)
    asyncio.run(worker.board.refresh())
    return ask(worker.app, PAGE).body.decode()


def test_without_witnesses_the_page_says_that_only_our_key_signs(history: PublicHistory) -> None:
    page = history.ask(PAGE).body.decode()

    assert "No witness is configured: only our own key signs." in page
    details = history.ask("/record/details").body.decode()
    assert "Without witnesses, only kept checkpoints that people compare can show it." in details
    assert REFUSED not in page


def test_the_page_says_who_cosigned_what_and_when(history: PublicHistory, tmp_path: Path) -> None:
    history.record(3)
    cosigned = WitnessState(ORIGIN, "a", 3, START, "", False, None)
    away = WitnessState(ORIGIN, "b", 0, None, "it did not answer", False, START)
    page = look(history, tmp_path, cosigned, away)

    assert "once enough witnesses have cosigned it: 2 of (a, b)." in page
    assert "<strong>a</strong> last cosigned at" in page
    assert "<strong>b</strong> has not cosigned the newest checkpoint: it did not answer" in page
    assert REFUSED not in page


def test_a_witness_that_refuses_a_log_is_the_first_thing_on_the_page(
    history: PublicHistory, tmp_path: Path
) -> None:
    refused = WitnessState(ORIGIN, "b", 3, START, "it has cosigned another tree", True, START)
    page = look(history, tmp_path, refused)

    assert page.index(REFUSED) < page.index('class="lead"')
    assert "<strong>b</strong> refuses" in page


def test_witnesses_of_an_earlier_policy_are_not_named(
    history: PublicHistory, tmp_path: Path
) -> None:
    look(history, tmp_path, WitnessState(ORIGIN, "b", 3, START, "another tree", True, START))
    history.service.refresh()
    assert REFUSED not in history.ask(PAGE).body.decode()

    page = look(history, tmp_path, WitnessState(ORIGIN, "c", 3, START, "another tree", True, START))
    assert REFUSED not in page
    assert "once enough witnesses have cosigned it: 2 of (a, b)." in page
    assert "No witness has cosigned yet." in page


def test_the_log_of_events_is_a_block_of_its_own(history: PublicHistory) -> None:
    event = NewEvent("reveal.announced", START, "1", {"after_days": 7})
    asyncio.run(history.service.database.write(lambda tx: append_events(tx, [event])))
    page = history.ask(PAGE).body.decode()
    digest = str(history.service.rows("SELECT digest FROM events")[0][0])

    assert '<a href="/api/v1/events">1 entry</a>' in page
    assert digest in page
    assert 'href="https://barograph.example/history/events/checkpoint"' in page
    assert history.ask("/history/events/checkpoint").body.decode().splitlines()[1] == "1"
    assert history.ask(f"/api/v1/events/{digest}").status == 200
