"""`barograph guides check`: what it prints and with what it ends."""

import json
from importlib.resources import files
from pathlib import Path

from click.testing import CliRunner, Result

from barograph.cli.guides import guides

SAMPLE = (files("barograph.guides") / "sample.toml").read_text("utf-8")
PRICE_RULE = "price must be more than 0 and at most 100000: guides are paid"
SOURCE = "Barograph's packaged sample catalog (sample, not for sale)"


def check(folder: Path, text: str, *options: str) -> Result:
    file = folder / "guides.toml"
    file.write_text(text, "utf-8")
    return CliRunner().invoke(guides, ["check", str(file), *options])


def test_a_catalog_that_can_be_used_is_counted_and_summed(tmp_path: Path) -> None:
    result = check(tmp_path, SAMPLE)

    assert result.exit_code == 0
    assert result.stdout == f"27 guides, 1014.00 USD in total; source: {SOURCE}\n"
    counted = {"ok": True, "count": 27, "total_usd": 1014, "source": SOURCE}
    assert json.loads(check(tmp_path, SAMPLE, "--json").stdout) == counted


def test_every_problem_is_a_line_and_the_exit_code_is_1(tmp_path: Path) -> None:
    wrong = SAMPLE.replace("pages = 46", "pages = 0").replace("= 65", "= -65")
    problems = [
        "guide 1 (funding-mechanics): pages must be a whole number from 1 to 10000",
        f"guide 26 (backtests-that-can-fail): {PRICE_RULE}",
    ]
    plain, told = check(tmp_path, wrong), check(tmp_path, wrong, "--json")

    assert (plain.exit_code, told.exit_code) == (1, 1)
    assert plain.stdout.splitlines() == problems
    assert json.loads(told.stdout) == {"ok": False, "problems": problems}


def test_a_file_that_cannot_be_read_is_a_problem_and_not_a_trace(tmp_path: Path) -> None:
    result = CliRunner().invoke(guides, ["check", str(tmp_path / "absent.toml")])

    assert result.exit_code == 1
    assert result.stdout.startswith("the file")
