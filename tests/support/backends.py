"""Stores of either engine, as tests hand them to themselves and to other processes."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from barograph.kit.database import POSTGRESQL, SQLITE, Database, Engine
from barograph.kit.opening import Address, open_database

TESTS = str(Path(__file__).parents[1])
"""Where another process finds this package."""

on_sqlite = pytest.mark.parametrize("engine", [SQLITE], indirect=True)
"""For tests of what only SQLite has, such as its oldest migrations and its query plans."""

StartPython = Callable[[str], "subprocess.Popen[str]"]

INTEGRITY = {
    SQLITE: "PRAGMA integrity_check",
    # Each index against its table; it raises at the first difference.
    POSTGRESQL: "SELECT CASE WHEN count(bt_index_check(indexrelid, true)) >= 0 THEN 'ok' END "
    "FROM pg_index JOIN pg_class ON oid = indexrelid WHERE relnamespace = 'public'::regnamespace",
}


class Backend(NamedTuple):
    """One store that any number of processes can open."""

    engine: Engine
    address: Address

    def open(self) -> Database:
        return open_database(self.address)

    @property
    def source(self) -> str:
        """Python text that opens it in another process and names it `database`."""
        return (
            "from pathlib import *\n"
            "from barograph.kit.opening import open_database\n"
            f"database = open_database({self.address!r})\n"
        )

    @property
    def integrity_sql(self) -> str:
        """A statement that answers a single `ok` when the store is sound."""
        return INTEGRITY[self.engine]


def on_engines(*statements: str) -> list[tuple[Engine, str]]:
    """Each statement with the engines that know it."""
    foreign = {SQLITE: "TRUNCATE", POSTGRESQL: "REPLACE"}
    return [(engine, sql) for engine in foreign for sql in statements if foreign[engine] not in sql]


def drop_trigger(engine: Engine, table: str, what: str) -> str:
    """The statement that drops one of a table's triggers."""
    return f"DROP TRIGGER {table}_{what}" + ("" if engine == SQLITE else f" ON {table}")


def start_python(text: str, *arguments: object) -> "subprocess.Popen[str]":
    """Start a process that runs a text; a test talks with it over stdin and stdout."""
    command = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run_together(processes: Iterable["subprocess.Popen[str]"]) -> list[str]:
    """Let processes that print "ready" go on at the same moment; what each then prints."""
    started = list(processes)
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        printed = [process.communicate(timeout=60)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * len(started)
    return printed


def killed_after(process: "subprocess.Popen[str]", lines: int) -> list[str]:
    """Kill a process once it has printed so many lines; all the whole lines that it printed."""
    assert process.stdout is not None
    printed = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    printed += process.stdout.readlines()
    assert process.wait(60) == -signal.SIGKILL
    return [line for line in printed if line.endswith("\n")]
