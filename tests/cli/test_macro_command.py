"""`barograph macro import`: earlier days of a fund, all of a file or nothing."""

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from barograph.cli import cli
from barograph.kit.business_days import trading_days
from barograph.kit.database import Row, Transaction
from barograph.macro.records import Figure
from barograph.macro.store import etf_series, latest_figures, record_figures
from barograph.settings import Settings
from support.clock import START
from support.operator import Operator, on_database

DAYS = [each.isoformat() for each in trading_days(date(2024, 2, 1), date(2024, 3, 1))]
HEADER = "date,shares_outstanding,holdings_btc,nav_usd\n"
ROWS = [f"{day},{1000 + 10 * number},{10 + number / 10},50\n" for number, day in enumerate(DAYS)]
HISTORY = HEADER + "".join(ROWS)
FLOWS = "date,net_flow_usd,aum_usd,holdings_btc\n"


class Importer:
    """An operator with a database and a file."""

    def __init__(self, operator: Operator, file: Path) -> None:
        self.operator = operator
        self.file = file

    def run(self, text: str, *options: str) -> Result:
        self.file.write_text(text)
        arguments = ["macro", "import", str(self.file), "--data", str(self.operator.data)]
        return CliRunner().invoke(cli, [*arguments, *options])

    def read_json(self, text: str, *options: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run(text, "--json", *options).stdout)
        return found

    def flows(self) -> tuple[str, list[float | None]]:
        """What the rules see: the covered fund, and the flow of each day."""

        async def work(tx: Transaction) -> tuple[str, list[float | None]]:
            series = await etf_series(Settings(), lambda name: latest_figures(tx, name, 60))
            return series.coverage, [each.net_flow_usd for each in series.days]

        return on_database(self.operator.database, lambda database: database.read(work))

    def publish(self, *figures: Figure) -> None:
        on_database(
            self.operator.database,
            lambda database: database.write(lambda tx: record_figures(tx, figures, START)),
        )

    def rows(self, day: str) -> Sequence[Row]:
        sql = "SELECT series, revision, value, source FROM observations WHERE day=$1 ORDER BY 1, 2"
        return on_database(
            self.operator.database, lambda database: database.read(lambda tx: tx.fetch(sql, day))
        )


@pytest.fixture
def importer(operator: Operator, tmp_path: Path) -> Importer:
    return Importer(operator, tmp_path / "ibit.csv")


def test_imported_days_give_the_flows_that_a_stance_needs(importer: Importer) -> None:
    result = importer.run(HISTORY, "--source", "fund data")

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "ibit.csv: 21 days of IBIT from 2024-02-01 to 2024-03-01; 21 are new or corrected",
        "known: 21 days (IBIT only); source: fund data, imported by the operator",
    ]
    assert importer.flows() == ("IBIT only", [None, *[500.0] * 20])


def test_a_file_can_be_imported_again_and_corrected(importer: Importer) -> None:
    importer.run(HISTORY)
    rows = importer.rows(DAYS[3])

    assert importer.read_json("\ufeff" + HISTORY.replace("\n", "\r\n"))["new_days"] == 0
    assert importer.rows(DAYS[3]) == rows
    assert importer.read_json(HISTORY.replace(",50\n", ",51\n", 1))["new_days"] == 1
    nav = [tuple(row)[1:3] for row in importer.rows(DAYS[0]) if row[0] == "etf-ibit-nav"]
    assert nav == [(1, 50.0), (2, 51.0)]


def test_the_newest_import_of_a_day_replaces_the_day_as_a_whole(importer: Importer) -> None:
    importer.run(HISTORY, "--source", "shares")
    stated = "".join(f"{day},7,50000,10\n" for day in DAYS[1:])

    assert importer.read_json(FLOWS + stated, "--source", "flows")["new_days"] == 20
    assert importer.flows()[1] == [None, *[7.0] * 20]
    assert importer.read_json(FLOWS + stated, "--source", "flows")["new_days"] == 0
    importer.run(FLOWS + f"{DAYS[9]},,50000,10\n")  # a flow that is no longer known
    assert importer.flows()[1] == [None, *[7.0] * 19]
    assert importer.read_json(HISTORY, "--source", "shares")["new_days"] == 20
    assert importer.flows()[1] == [None, *[500.0] * 20]
    assert importer.read_json(HISTORY, "--source", "others")["new_days"] == 21
    assert {row[3] for row in importer.rows(DAYS[0]) if row[1] == 2} == {
        "others, imported by the operator"
    }


def test_a_day_that_the_issuer_published_stays_as_it_is(importer: Importer) -> None:
    importer.publish(Figure("etf-ibit-shares", DAYS[0], 999.0, "the issuer"))

    assert importer.read_json(HISTORY)["new_days"] == 20
    assert [tuple(row)[1:] for row in importer.rows(DAYS[0])] == [(1, 999.0, "the issuer")]
    importer.publish(Figure("etf-ibit-shares", DAYS[1], 1010.0, "the issuer"))  # as imported
    assert importer.read_json(HISTORY, "--source", "others")["new_days"] == 19


def test_a_dry_run_says_the_same_and_stores_nothing(importer: Importer) -> None:
    said = importer.run(HISTORY, "--dry-run").stdout
    assert "21 would be new or corrected\nknown now: 0 days" in said
    assert importer.read_json(HISTORY, "--dry-run") == {
        "ok": True,
        "days": 21,
        "first": "2024-02-01",
        "last": "2024-03-01",
        "new_days": 21,
        "known_days": 0,
        "coverage": "IBIT only",
        "source": "IBIT history file, imported by the operator",
        "dry_run": True,
    }
    assert importer.flows() == ("IBIT only", [])


@pytest.mark.outcome(
    "A line of a file of daily figures for `barograph macro import` is invalid",
    "The file is rejected, and the invalid line is named.",
)
def test_invalid_lines_are_all_named_and_nothing_is_stored(importer: Importer) -> None:
    days = ("2024-03-02", "2024-03-29", "2023-12-29", "2199-01-02")
    text = HISTORY + "".join(f"{day},1,1,1\n" for day in days)
    text += "2024-03-04,many,1,1\n" + ROWS[0]
    result = importer.run(text)

    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "ibit.csv: line 23: date 2024-03-02 is on a weekend, when no fund is traded",
        "ibit.csv: line 24: date 2024-03-29 is a holiday of the New York Stock Exchange",
        "ibit.csv: line 25: date 2023-12-29 is before 2024, when US bitcoin ETFs began to trade",
        "ibit.csv: line 26: date 2199-01-02 is in the future",
        "ibit.csv: line 27: shares_outstanding 'many' is not a number",
        "ibit.csv: line 28: 2024-02-01 was given in line 2 already",
        "nothing was stored",
    ]
    assert len(importer.read_json(text)["problems"]) == 6
    assert importer.flows() == ("IBIT only", [])


def test_a_wrong_header_or_source_is_explained(importer: Importer) -> None:
    for header in (HEADER.title(), HEADER.replace(",", ";")):
        said = importer.run(header + ROWS[0]).stderr
        assert "write line 1 as date,shares_outstanding,holdings_btc,nav_usd, with commas" in said
    for source in ("one\ntwo", "one; two"):
        assert importer.run(HISTORY, "--source", source).exit_code == 2


def test_help_names_the_columns_and_has_examples() -> None:
    text = CliRunner().invoke(cli, ["macro", "import", "--help"]).stdout

    assert "date,net_flow_usd,aum_usd,holdings_btc" in text
    assert "barograph macro import ibit.csv --dry-run" in text
    assert "1 MiB" in text
