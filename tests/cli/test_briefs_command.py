"""`barograph briefs`: what it publishes, lists and refuses, and with what it ends."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from barograph.cli.briefs import briefs

TEXT = """---
headline: Maintenance on Sunday
summary: The feed pauses for an hour.
coins: [BTC]
publishedAt: 2026-01-31T09:00:00Z
---
The **text**.
"""
SLUG = "2026-01-31-maintenance-on-sunday"


class Operator:
    """Who runs the command in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.data = folder

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(briefs, [*arguments, "--data", str(self.data)])

    def publish(self, text: str | bytes, *options: str) -> Result:
        file = self.data / "brief.md"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return self.run("publish", str(file), *options)

    def listed(self, *options: str) -> Any:
        result = self.run("list", "--json", *options)
        assert result.exit_code == 0
        return json.loads(result.stdout)


@pytest.fixture
def operator(folder: Path) -> Operator:
    return Operator(folder)


def test_a_brief_is_published_and_listed(operator: Operator) -> None:
    assert (operator.run("list").stdout, operator.listed()) == ("", [])
    result = operator.publish(TEXT)

    assert (result.exit_code, result.stdout) == (0, f"published: /briefs/{SLUG}\n")
    (listed,) = operator.listed()
    assert listed == {
        "slug": SLUG,
        "headline": "Maintenance on Sunday",
        "category": "note",
        "coins": ["BTC"],
        "summary": "The feed pauses for an hour.",
        "publishedAt": "2026-01-31T09:00:00.000Z",
        "source": "operator of this instance",
        "rule": "operator",
        "window": ["2026-01-31T09:00:00.000Z"] * 2,
        "inputs_digest": listed["inputs_digest"],
        "cooldown_key": f"operator:{SLUG}",
    }
    assert len(listed["inputs_digest"]) == 64
    another = operator.publish(TEXT.replace("2026-01-31", "2026-02-01"), "--json")
    assert json.loads(another.stdout) == operator.listed()[0]


@pytest.mark.parametrize("text", [TEXT.replace("\n", "\r\n"), "\ufeff" + TEXT])
def test_a_file_from_another_system_is_published_all_the_same(
    operator: Operator, text: str
) -> None:
    assert operator.publish(text).exit_code == 0


def test_an_address_that_is_taken_is_refused_and_the_first_brief_stays(operator: Operator) -> None:
    operator.publish(TEXT)

    result = operator.publish(TEXT.replace("pauses", "stops"))

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == f"brief.md: {SLUG} exists already: choose another slug\n"
    assert [each["summary"] for each in operator.listed()] == ["The feed pauses for an hour."]


def test_every_problem_is_a_line_and_nothing_is_published(operator: Operator) -> None:
    result = operator.publish(TEXT.replace("summary", "sumary").replace("[BTC]", "[B/C]"))

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "brief.md: sumary is not a member of the front matter; did you mean summary?",
        "brief.md: summary is missing: add `summary: …` to the front matter",
        "brief.md: coins must be different symbols of 1 to 15 letters and digits",
    ]
    assert operator.listed() == []


def test_a_file_that_is_not_text_is_a_problem_and_not_a_trace(operator: Operator) -> None:
    result = operator.publish(b"---\n\xff\xfe\n---\n")

    assert result.exit_code == 1
    assert result.stderr == "brief.md: the file is not UTF-8 text\n"


def test_the_newest_come_first_and_only_as_many_as_asked_for(operator: Operator) -> None:
    for day in (1, 3, 2):
        operator.publish(TEXT.replace("2026-01-31", f"2026-01-0{day}"))

    result = operator.run("list", "--last", "2")

    assert result.stdout.splitlines() == [
        "2026-01-03T09:00:00.000Z  note           Maintenance on Sunday",
        "2026-01-02T09:00:00.000Z  note           Maintenance on Sunday",
    ]
    assert len(operator.listed()) == 3


@pytest.mark.parametrize("last", ["0", "-1", "1001", "x"])
def test_a_count_out_of_range_is_a_wrong_command_line(operator: Operator, last: str) -> None:
    assert operator.run("list", "--last", last).exit_code == 2
    assert operator.run("publish", "absent.md").exit_code == 2
