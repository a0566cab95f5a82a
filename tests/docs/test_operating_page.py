"""docs/operating.md: every command on the page, run in order on both engines."""

import re
from contextlib import ExitStack
from os import environ
from pathlib import Path

import pytest

from support.operating_page import PAGE, read_blocks, rehearsal
from support.postgresql import HOST, PROGRAMS, running_postgresql
from support.valkey import running_valkey

TEXT = PAGE.read_text("utf-8")
BLOCKS = read_blocks(TEXT)
ENGINES = ("SQLite", "PostgreSQL")
LABELS = (
    "Ctrl+C",
    "every host",
    "other hosts",
    "with SQLite",
    "with PostgreSQL",
    "an interrupted restore",
)
"""What the first line of a block may say; a misspelt one would run in the wrong place."""

ONCE = [each for each in BLOCKS if "interrupted" not in each.label]
AGAIN = [each for each in BLOCKS if each.section == "Restore"]
"""The second restore also completes what an interrupted one would leave."""


def test_every_block_of_the_page_is_run_or_is_output() -> None:
    fences = re.findall(r"^ *```(\w*)$", TEXT, re.MULTILINE)
    assert fences.count("sh") == len(BLOCKS)
    assert {*fences} <= {"sh", "text", ""}
    for block in BLOCKS:
        assert any(block.runs_with(engine) for engine in ENGINES)
        assert not block.label or any(each in block.label for each in LABELS), block.label


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_every_command_of_the_page_works_as_written(engine: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = {}
        if engine == "PostgreSQL":
            postgresql = stack.enter_context(running_postgresql())
            valkey = stack.enter_context(running_valkey())
            programs = f"{postgresql.folder / PROGRAMS}:{environ['PATH']}"
            servers = {"PATH": programs, "DB": f"{HOST}:{postgresql.port}"}
            servers["VALKEY"] = f"{HOST}:{valkey.port}"
        stack.enter_context(rehearsal(tmp_path, **servers)).run_all([*ONCE, *AGAIN], engine)
