"""docs/operating.md: every command on the page, run in order on both engines."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.operating_page import PAGE, Block, Rehearsal, read_blocks, rehearsal
from support.postgresql import PROGRAMS, running_postgresql
from support.valkey import running_valkey

TEXT = PAGE.read_text("utf-8")
BLOCKS = read_blocks(TEXT)


def test_no_command_of_the_page_is_outside_of_a_block_that_the_test_runs() -> None:
    fences = re.findall(r"^ *```(\w*)$", TEXT, re.MULTILINE)
    assert len([each for each in fences if each == "sh"]) == len(BLOCKS)
    assert {each for each in fences if each} <= {"sh", "text"}


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["SQLite", "PostgreSQL"])
def test_every_command_of_the_page_works_as_written(engine: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        environment = {}
        if engine == "PostgreSQL":
            server = stack.enter_context(running_postgresql())
            valkey = stack.enter_context(running_valkey())
            ...
        it = stack.enter_context(rehearsal(tmp_path, **environment))
        section = ""
        for block in BLOCKS:
            if block.section != section or "Ctrl+C" in block.label:
                it.stop_foreground()
            section = block.section
            if block.runs_with(engine):
                it.run(block, engine)
