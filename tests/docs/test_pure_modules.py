"""What calls itself pure is checked to be."""

import ast
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2]
SOURCES = PROJECT / "src"


def checked_modules() -> set[str]:
    """The modules that the import linter keeps away from databases, networks, clocks, settings."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = [each for each in contracts if each["name"].startswith("Pure modules")]
    return set(contract["source_modules"])


def claims_to_be_pure(file: Path) -> bool:
    said = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return "(pure)" in said.partition("\n\n")[0]


def test_every_module_that_says_so_is_listed_in_the_contract_of_pure_modules() -> None:
    checked = checked_modules()
    claiming = {
        ".".join(file.relative_to(SOURCES).with_suffix("").parts)
        for file in SOURCES.rglob("*.py")
        if claims_to_be_pure(file)
    }
    # A package is checked with all that is in it.
    unchecked = {
        name
        for name in claiming
        if not any(name == each or name.startswith(f"{each}.") for each in checked)
    }

    assert len(claiming) > 60
    assert unchecked == set(), "list them in pyproject.toml, or do not call them pure"
