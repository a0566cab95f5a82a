"""Operators, with a record and without, and a database server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.operator import Operator, make_databases
from support.postgresql import PostgreSQL, running_postgresql


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with databases."""
    make_databases(tmp_path)
    return tmp_path


@pytest.fixture
def newcomer(tmp_path: Path) -> Operator:
    """Who has no record yet."""
    return Operator(tmp_path)


@pytest.fixture
def operator(newcomer: Operator) -> Operator:
    newcomer.make_record()
    return newcomer


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with running_postgresql() as server:
        yield server
