"""`make test` leaves out slow tests, but no folder and no requirement."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent
SLOW = {"thorough", "long"}


def test_every_tested_requirement_has_a_test_that_is_not_slow() -> None:
    manifest = tomllib.loads((HERE / "manifest.toml").read_text("utf-8"))
    tested = {name for name, entry in manifest.items() if entry["state"] == "tested"}
    shown: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        source = path.read_text("utf-8")
        if "mark.contract" in source:
            shown.update(quick_ids(source))

    assert sorted(tested - shown) == [], "mark a test without `thorough` and `long` with these ids"


def test_every_folder_of_tests_is_a_part_of_make_test() -> None:
    makefile = (TESTS.parent / "Makefile").read_text("utf-8")
    listed = re.search(r"^PARTS := (.+)$", makefile, re.MULTILINE)
    assert listed is not None
    parts = set(re.findall(r"\w+", listed[1]))

    assert {path.parent.name for path in TESTS.rglob("test_*.py")} == parts


def quick_ids(source: str) -> Iterator[str]:
    """The ids of the contract that a file's tests name, without those that only slow tests name."""
    statements = ast.parse(source).body
    if any(_sets_marks(each) and _slow_marks(each) for each in statements):
        return
    for statement in statements:
        decorators = getattr(statement, "decorator_list", [])
        if any(isinstance(each, ast.Attribute) and each.attr in SLOW for each in decorators):
            continue
        for node in ast.walk(statement):
            match node:
                case ast.Call(func=ast.Attribute(attr="contract"), args=given):
                    yield from (str(each.value) for each in given if isinstance(each, ast.Constant))


def _sets_marks(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"


def _slow_marks(statement: ast.stmt) -> bool:
    nodes = ast.walk(statement)
    return any(isinstance(each, ast.Attribute) and each.attr in SLOW for each in nodes)


SAMPLE = """
import pytest

CASES = [pytest.param(1, marks=pytest.mark.contract("of.case"))]

@pytest.mark.contract("of.quick", "second.id")
def test_quick(): ...

@pytest.mark.thorough
@pytest.mark.contract("of.thorough")
def test_thorough(): ...

@pytest.mark.contract("of.long")
@pytest.mark.long
def test_long(): ...
"""


def test_ids_of_slow_tests_and_files_are_not_counted() -> None:
    slow = "pytestmark = [pytest.mark.e2e, pytest.mark.thorough]"

    assert set(quick_ids(SAMPLE)) == {"of.case", "of.quick", "second.id"}
    assert set(quick_ids(SAMPLE + slow)) == set()
